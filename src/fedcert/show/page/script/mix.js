// The class mix that the reader asks about: presets, a slider for each class, all classes that a search finds together.

const SHOWN_AT_FIRST = 12;

function mixPanel(place, { classes, presets, evaluators, method, note, asked, changed }) {
  if (!Object.keys(evaluators).length) {
    place.append(element("p", { class: "soft" }, note || ""));
    return null;
  }
  const state = { mix: Float64Array.from(presets[0].mix), preset: 0, method, query: "", all: false, rows: [] };
  const status = element("p", { class: "out", "aria-live": "polite" });
  const buttons = element("div", { class: "buttons", role: "group", "aria-label": "Mixes to begin with" });
  const problem = element("p", { class: "refused", role: "alert" });
  const list = element("div", { id: "shares" });
  const more = element("button", { type: "button", onclick: () => { state.all = !state.all; listed(); } });
  const command = element("code", {});
  const exact = element("textarea", { id: "mix-json", readonly: true, rows: 2, "aria-label": "This mix as JSON" });

  function set(mix, preset) {
    state.mix = mix;
    state.preset = preset;
    problem.textContent = "";
    shown();
    changed(state);
  }

  function shares(indices, share) {
    // Those of some classes together; all others give or take in proportion.
    const mix = Float64Array.from(state.mix), inside = new Set(indices);
    let own = 0, others = 0;
    mix.forEach((value, j) => { if (inside.has(j)) own += value; else others += value; });
    const rest = classes.length - inside.size, wanted = rest ? clip(share, 0, 1) : 1;
    mix.forEach((value, j) => {
      if (inside.has(j)) mix[j] = own > 0 ? value / own * wanted : wanted / inside.size;
      else mix[j] = others > 0 ? value / others * (1 - wanted) : (1 - wanted) / rest;
    });
    set(mix, null);
  }

  presets.forEach((preset, i) => buttons.append(element("button", {
    type: "button", "data-preset": preset.id, onclick: () => set(Float64Array.from(preset.mix), i) }, preset.name)));
  const file = element("input", { type: "file", accept: ".json,application/json", class: "out", id: "mix-file", onchange: async () => {
    const given = file.files[0];
    if (!given) return;
    try {
      set(mixIn(await given.text(), classes), null);
      status.textContent = `Now showing the mix in ${given.name}.`;
    } catch (error) {
      problem.textContent = `${given.name}: ${error.message}`;
    }
    file.value = "";
  } });
  buttons.append(file, element("label", { class: "button", for: "mix-file" }, "From a file…"));

  function row(label, indices, kind) {
    const id = `share-${kind}-${indices[0]}`;
    const slide = element("input", { type: "range", id, min: 0, max: 100, step: 0.1, "aria-label": `Share of ${label}`, oninput: () => shares(indices, slide.value / 100) });
    const type = element("input", { type: "number", min: 0, max: 100, step: 0.1, "aria-label": `Share of ${label} in percent`, onchange: () => {
      const wanted = clip(Number(type.value) || 0, 0, 100);
      type.value = wanted;
      shares(indices, wanted / 100);
    } });
    state.rows.push({ indices, slide, type });
    return element("div", { class: kind === "all" ? "share together" : "share" }, element("span", { class: "name", title: label }, named(label)), slide, type);
  }

  function listed() {
    const query = state.query.trim().toLowerCase();
    const hits = classes.map((_, j) => j).filter((j) => !query || classes[j].toLowerCase().includes(query));
    const seen = state.all ? hits : hits.slice(0, SHOWN_AT_FIRST);
    state.rows = [];
    replaced(list);
    if (query && hits.length > 1 && hits.length < classes.length) list.append(row(`all ${hits.length} together`, hits, "all"));
    for (const j of seen) list.append(row(classes[j], [j], "one"));
    if (!hits.length) list.append(element("p", { class: "soft" }, "No class matches."));
    more.hidden = hits.length <= SHOWN_AT_FIRST;
    more.textContent = state.all ? "Show fewer" : `Show all ${hits.length}`;
    shown();
  }

  function shown() {
    for (const { indices, slide, type } of state.rows) {
      const share = indices.reduce((sum, j) => sum + state.mix[j], 0) * 100;
      if (document.activeElement !== slide || Math.abs(slide.value - share) > 0.06) slide.value = share;
      slide.setAttribute("aria-valuetext", `${share.toFixed(1)} percent`);
      if (document.activeElement !== type) type.value = share.toFixed(1);
    }
    buttons.querySelectorAll("button").forEach((button, i) => {
      button.classList.toggle("chosen", i === state.preset);
      button.setAttribute("aria-pressed", String(i === state.preset));
    });
    command.textContent = commandFor(classes, state.mix, evaluators[state.method], asked);
    exact.value = JSON.stringify(Object.fromEntries(classes.map((name, j) => [name, state.mix[j]]).filter(([, share]) => share > 0)));
  }

  const search = classes.length > SHOWN_AT_FIRST
    ? element("input", { type: "search", class: "search", placeholder: "Find classes", "aria-label": "Find classes", oninput: () => { state.query = search.value; listed(); } })
    : null;
  const names = Object.keys(evaluators);
  const choice = names.length < 2 ? null : element("p", {}, element("label", { for: "mix-method" }, "Method "), element("select", {
    id: "mix-method", onchange: (event) => { state.method = event.target.value; shown(); changed(state); } },
    ...names.map((name) => element("option", { value: name, selected: name === method }, titleOf(name)))));
  place.append(buttons, problem, status, ...[search, list, more, choice].filter(Boolean),
    element("details", {}, element("summary", {}, "The same from the command line"), element("p", {}, command),
      element("p", {}, "The exact mix, to save as mix.json:"), exact));
  listed();
  return state;
}

function mixIn(text, classes) {
  let given;
  try { given = JSON.parse(text); } catch { throw new Error("not valid JSON; expected an object from class name to weight"); }
  if (given === null || typeof given !== "object" || Array.isArray(given)) throw new Error("expected an object from class name to weight");
  const mix = new Float64Array(classes.length);
  for (const [name, weight] of Object.entries(given)) {
    const j = classes.indexOf(name.normalize("NFC"));
    if (j < 0) throw new Error(`there is no class “${name.slice(0, 80)}”`);
    if (typeof weight !== "number" || !Number.isFinite(weight) || weight < 0) throw new Error(`the weight of “${name.slice(0, 80)}” must be a number of 0 or more`);
    mix[j] = weight;
  }
  const largest = mix.reduce((most, value) => Math.max(most, value), 0);
  if (!(largest > 0)) throw new Error("all weights are 0");
  const scaled = mix.map((value) => value / largest), total = scaled.reduce((sum, value) => sum + value, 0);  // no sum of large ones
  return scaled.map((value) => value / total);
}

function commandFor(classes, mix, evaluator, { screen, votes, radii }) {
  const { confidence, interval, simultaneous, target_examples: set } = evaluator.settings;
  const options = [`--method ${evaluator.method}`, confidence !== 0.95 && `--confidence ${confidence}`, interval !== "finite-sample" && `--interval ${interval}`,
    simultaneous && "--simultaneous", set && `--target-examples ${set}`, screen && "--screen",
    votes && `--votes ${votes}`, radii && `--radii ${radii.join(",")}`].filter(Boolean).join(" ");
  const plain = classes.every((name) => /^[\w.-]+$/.test(name)) && classes.length <= 20;
  if (!plain) return `fedcert estimate REPORTS ${options} --target mix.json`;
  const parts = classes.map((name, j) => `${name}=${Number(mix[j].toPrecision(6))}`).filter((_, j) => mix[j] > 0);
  return `fedcert estimate REPORTS ${options} --target ${parts.join(",")}`;
}
