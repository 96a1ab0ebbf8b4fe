// The page: what it shows at first, and what changes when the reader asks something else.

const data = unpacked(JSON.parse(byId("data").textContent));
const main = data.estimates[0];
for (const evaluator of Object.values(data.evaluators)) withRadii(evaluator, data.radii);
const usedMethod = main.chosen ? main.chosen.method : main.method;

const view = { radius: data.radius, panel: null, shown: null };

function asEstimated() {
  return {
    point: main.certified_accuracy, lower: main.lower, upper: main.upper, name: main.target,
    method: usedMethod, guarantee: main.guarantee, own: true,
  };
}

function isAsEstimated(panel) {
  return panel.preset === 0 && panel.method === (data.evaluators[usedMethod] ? usedMethod : data.method);
}

function described(evaluated, panel) {
  const preset = panel.preset === null ? null : presets[panel.preset];
  return {
    ...evaluated, name: preset ? preset.said : "another class mix", method: panel.method,
    guarantee: data.evaluators[panel.method].guarantee, own: false,
  };
}

function sentenceFor(shown, index) {
  const radius = data.radii[index], point = 100 * shown.point[index];
  const sure = shown.lower && main.confidence ? ` (between ${(100 * shown.lower[index]).toFixed(1)} and ${(100 * shown.upper[index]).toFixed(1)}, confidence ${surely(main.confidence)})` : "";
  const change = radius === 0 ? "as they are" : `however they are changed within an ${data.smoothing.norm.toUpperCase()} distance of ${short(radius)}`;
  const whose = shown.own ? "of the target" : shown.name === "another class mix" ? "with this class mix" : `with ${shown.name}`;
  const about = `about ${point.toFixed(1)}${sure}`;
  if (data.votes) return `Of 100 examples ${whose}, ${votedBy(data.votes)} is proven to classify ${about} right on average, ${change}.`;
  return `Of 100 examples ${whose}, ${about} are certified to be classified right, ${change}.`;
}

function showAnswer() {
  const { shown } = view, index = view.radius, slide = byId("radius");
  byId("sentence").textContent = sentenceFor(shown, index);
  slide.value = index;
  slide.setAttribute("aria-valuetext", `radius ${short(data.radii[index])}`);
  byId("radius-value").textContent = short(data.radii[index]);
  const label = `Certified accuracy falls from ${percent(shown.point[0])} at radius ${short(data.radii[0])} to ${percent(shown.point[shown.point.length - 1])} at radius ${short(data.radii[data.radii.length - 1])}.`;
  const place = byId("curve");
  place.setAttribute("aria-busy", String(Boolean(shown.pending)));
  replaced(place, chart(place, {
    radii: data.radii, series: [{ values: shown.point }], band: shown.lower ? shown : null, before: shown.own ? null : main.certified_accuracy,
    cap: data.largest_radius, cursor: index, label, picked: (at) => { view.radius = at; show(); }, norm: data.smoothing.norm,
  }), element("figcaption", {}, ...captionFor(shown)));
  const rows = data.radii.map((radius, i) => [short(radius), exactly(shown.point[i]), exactly(shown.lower ? shown.lower[i] : null), exactly(shown.upper ? shown.upper[i] : null)]);
  const details = byId("curve-table");
  replaced(details, details.querySelector("summary"), table("Certified accuracy at each radius", ["radius", "certified accuracy", "lower end", "upper end"], rows));
}

function captionFor(shown) {
  const caption = [legend([{ name: `${shown.name}, by ${shown.method}`, look: "" }, ...(shown.own ? [] : [{ name: `as estimated: ${main.target}`, look: "before" }])])];
  const band = shown.lower ? `The band is the ${surely(main.confidence)} interval. ` : shown.pending ? "The interval is being computed. " : `There is no interval for this here, and the curve is not moved into it. ${shown.why ? `${shown.why} ` : ""}The command under “The same from the command line” gives both. `;
  const worst = shown.own ? main.worst_case : null;
  if (worst) {
    caption.push(element("p", {}, `If each of the ${counted(worst.clients)} missing clients held up to ${counted(worst.examples_each)} examples, of whatever kind: between ${percent(worst.lower[view.radius])} and ${percent(worst.upper[view.radius])} at this radius.`));
  }
  caption.push(element("p", {}, band, radiiInWords(data), "Click on the curve, or move the slider, to pick a radius."));
  return caption;
}

function showVerdict() {
  // The checks are about the target as it was estimated; of another mix the page knows which classes no client has, and
  // whether any accuracies explain the interval.
  const place = byId("verdict"), mix = view.panel ? view.panel.mix : main.mix;
  let [grade, words] = [data.verdict, data.verdict_words];
  if (!view.shown.own) {
    const unknown = data.labels ? data.classes.filter((_, j) => !data.labels[j] && mix[j] > 0) : [];
    const share = data.classes.reduce((sum, _, j) => sum + (data.labels && !data.labels[j] ? mix[j] : 0), 0);
    grade = unknown.length || view.shown.contradicted ? "wrong" : "look";
    words = unknown.length
      ? `Do not rely on it: no client has test examples of ${unknown.slice(0, 5).join(", ")}${unknown.length > 5 ? "…" : ""}, ${percent(share)} of this mix.`
      : view.shown.contradicted ? data.contradicted : "The checks below were made for the target as estimated, not for this mix.";
  }
  view.verdict = words;
  place.textContent = words;
  place.classList.toggle("look", grade === "look");
  place.classList.toggle("wrong", grade !== "look" && grade !== "ok");
}

function showChecks() {
  byId("checks").append(checkList(main.checks), element("h3", {}, "What is guaranteed"), element("p", {}, main.guarantee),
    element("p", { id: "kinds", class: "soft" }, `${aboutThis(data)} ${aboutOthers(data)}`));
}

function showClasses() {
  const place = byId("classes"), part = data.by_class, count = data.classes.length, radii = data.radii.length, index = view.radius;
  const heading = place.querySelector("h2");
  if (!part) {
    replaced(place, heading, element("p", { class: "soft" }, count > 200 ? "With more than 200 classes, their curves are left to fedcert what-if." : "This method knows no curves of single classes."));
    return;
  }
  const at = (name, j) => part[name][j * radii + index];
  const order = Array.from({ length: count }, (_, j) => j).sort((a, b) => at("certified_accuracy", a) - at("certified_accuracy", b) || a - b);
  const mix = view.panel ? view.panel.mix : main.mix;
  const heads = ["class", "certified", "interval", "", "share of the mix", "examples"];
  const cells = (i) => {
    const j = order[i], [point, lower, upper] = ["certified_accuracy", "lower", "upper"].map((name) => at(name, j));
    const known = !data.labels || data.labels[j] > 0;  // what a method assumes of a class that no client holds is not a result
    return [named(data.classes[j]), known ? exactly(point) : "unknown", `${percent(lower)} to ${percent(upper)}`, intervalBar(known ? point : null, lower, upper), percent(mix[j]), data.labels ? counted(data.labels[j]) : "–"];
  };
  const open = place.querySelector("input[type=search]"), query = open ? open.value : "";
  replaced(place, heading, element("p", { class: "soft" }, `At radius ${short(data.radii[index])}, the weakest class first. ${data.class_words}`),
    ...longTable("Certified accuracy of each class", heads, count, cells, (i) => data.classes[order[i]]));
  const field = place.querySelector("input[type=search]");
  if (field && query) { field.value = query; field.dispatchEvent(new Event("input")); }
}

function showMethods() {
  const place = byId("methods"), index = view.radius, heading = place.querySelector("h2");
  const series = data.estimates.map((estimate, i) => ({ values: estimate.certified_accuracy, look: `k${i % 7}`, name: estimate.method }));
  const holder = element("figure");
  const rows = data.estimates.map((estimate) => [estimate.method, exactly(estimate.certified_accuracy[index]),
    estimate.lower ? `${percent(estimate.lower[index])} to ${percent(estimate.upper[index])}` : "–",
    estimate.mismatch ? estimate.mismatch.tv.toFixed(3) : "–", estimate.effective_examples ? counted(estimate.effective_examples) : "–"]);
  const missing = Object.entries(data.failed).map(([name, why]) => element("p", { class: "soft" }, `${name}: ${why}`));
  replaced(place, heading, element("p", { class: "soft" }, `For the target as estimated, at radius ${short(data.radii[index])}.`), holder,
    table("Methods at this radius", ["method", "certified", "interval", "mismatch", "effective examples"], rows), ...missing);
  if (data.estimates.length > 1) {
    holder.append(chart(holder, { radii: data.radii, series, band: null, before: null, cap: data.largest_radius, cursor: index, label: "The curves of all methods", picked: null, norm: data.smoothing.norm }), legend(series));
  }
}

function showClients() {
  const place = byId("clients"), known = data.contributors;
  place.append(element("p", {}, `${counted(data.clients)} clients with ${counted(data.examples)} test examples.`));
  const why = main.weights_note ? ` ${main.weights_note[0].toUpperCase()}${main.weights_note.slice(1)}.` : "";
  if (known) {
    const weights = data.weights ? known.names.map((name) => (Object.hasOwn(data.weights, name) ? data.weights[name] : 0)) : null;
    const order = known.names.map((_, i) => i);
    if (weights) order.sort((a, b) => Math.abs(weights[b]) - Math.abs(weights[a]) || known.sizes[b] - known.sizes[a]);
    if (known.count > known.names.length) place.append(element("p", { class: "soft" }, `The ${counted(known.names.length)} largest are listed.`));
    place.append(...longTable("Clients", ["client", "examples", ...(weights ? ["weight"] : []), "counts per class"], known.names.length, (i) => {
      const k = order[i];
      return [named(known.names[k]), counted(known.sizes[k]), ...(weights ? [weights[k].toFixed(4)] : []), known.has_class_counts[k] ? "yes" : "no"];
    }, (i) => known.names[order[i]]));
  } else {
    place.append(element("p", { class: "soft" }, "Single clients are not known: the estimate is from sums, or the page was made without the reports."));
  }
  if (why) place.append(element("p", { class: "soft" }, why.trim()));
  const out = Object.entries(data.excluded), less = Object.entries(main.screened || {});
  for (const [title, list, total] of [["Left out or missing", out, data.excluded_count], ["Count for less, after screening", less, less.length]]) {
    if (!list.length) continue;
    place.append(element("h3", {}, `${title} (${counted(total)})`), ...longTable(title, ["client", "why"], list.length, (i) => [named(list[i][0]), list[i][1]], (i) => list[i][0]));
  }
}

function showSettings() {
  const s = data.smoothing, given = Object.entries(main.settings).filter(([name]) => !["interval", "simultaneous", "votes"].includes(name))
    .map(([name, value]) => [name.replaceAll("_", " "), value === null || typeof value === "string" ? value : JSON.stringify(value)]);
  byId("settings").append(definitions([
    ["model", data.model], ["noise", `${s.noise}, sigma ${short(s.sigma)}`], ["norm of the radii", s.norm], ["procedure", s.procedure],
    ...samplesOf(data), ["precision", s.precision], ["method", main.method], ["chosen", main.chosen ? main.chosen.method : null], ["because", main.chosen ? main.chosen.because : null],
    ["interval", main.interval ? `${main.interval.kind}, for ${main.interval.scope}, of ${main.interval.estimand === "population" ? "the population" : main.interval.estimand}` : null],
    ["effective examples", main.effective_examples ? counted(main.effective_examples) : null],
    ["RMSE against the truth", main.comparison ? short(main.comparison.rmse) : null],
    ["mismatch (total variation)", main.mismatch ? main.mismatch.tv.toFixed(4) : null],
    ...given, ["estimated by", main.software], ["estimated at", main.created], ["page made by", data.written.software], ["page made at", data.written.created],
  ]));
}

function showCard() {
  const place = byId("card"), heading = place.querySelector("h2");
  const text = cardOf(data, view.shown, view.radius, view.panel ? view.panel.mix : main.mix, view.verdict);
  const field = element("textarea", { id: "card-text", readonly: true, rows: text.split("\n").length + 8, "aria-label": "Certification card in Markdown" });
  field.value = text;
  const status = element("span", { role: "status" });
  replaced(place, heading, element("p", { class: "soft" }, "For a model card or a README, in Markdown."), field,
    element("div", { class: "buttons" }, element("button", { type: "button", onclick: () => copied(field, status) }, "Copy"), status));
}

function show() {
  showAnswer();
  showVerdict();
  showClasses();
  showMethods();
  showCard();
}

const uniform = data.classes.map(() => 1 / data.classes.length), anyEvaluator = data.evaluators[data.method];
const presets = [
  { id: "target", name: `Target: ${main.target}`, said: "this mix", mix: main.mix },
  { id: "uniform", name: "All classes alike", said: "all classes alike", mix: uniform },
  ...(anyEvaluator ? [{ id: "pool", name: "As the clients have them", said: "the clients' own mix", mix: anyEvaluator.pooled_mix }] : []),
];
// Milliseconds: an interval that takes longer than the first is computed when the mix has rested for the second, with a
// pause for the browser after each part of about the third; the point is shown at once.
const MOST_AT_ONCE = 150, REST = 80, PART = 40;
const asked = { waiting: false, timer: null, slow: data.classes.length > 30 };

function mixChanged(panel) {
  clearTimeout(asked.timer);
  if (asked.waiting) return;
  asked.waiting = true;
  requestAnimationFrame(() => {
    asked.waiting = false;
    if (isAsEstimated(panel)) {
      showEvaluated(asEstimated());
    } else if (!asked.slow || data.evaluators[panel.method].no_interval) {
      const start = performance.now(), evaluated = evaluateAt(data.evaluators[panel.method], panel.mix);
      timed(performance.now() - start);
      showEvaluated(described(evaluated, panel));
    } else {
      showEvaluated({ ...described(pointAt(data.evaluators[panel.method], panel.mix), panel), pending: true });
      const evaluation = evaluationAt(data.evaluators[panel.method], panel.mix);
      asked.timer = setTimeout(() => evaluateInParts(evaluation, panel, 0), REST);
    }
  });
}

function evaluateInParts(evaluation, panel, before) {
  // A change of the mix stops the timer, and with it the evaluation.
  const start = performance.now();
  for (;;) {
    const { done, value } = evaluation.next(), taken = performance.now() - start;
    if (done) {
      timed(before + taken);
      showEvaluated(described(value, panel));
      return;
    }
    if (taken < PART) continue;
    asked.timer = setTimeout(() => evaluateInParts(evaluation, panel, before + taken), 0);
    return;
  }
}

function timed(duration) {
  asked.slow = duration > MOST_AT_ONCE;
  performance.clearMeasures("evaluated");
  performance.measure("evaluated", { start: 0, duration });  // for benchmarks/page.py
}

function showEvaluated(shown) {
  view.shown = shown;
  show();
}

function begin() {
  const slide = byId("radius"), dark = matchMedia("(prefers-color-scheme: dark)"), theme = byId("theme");
  slide.max = data.radii.length - 1;
  slide.addEventListener("input", () => { view.radius = Number(slide.value); show(); });
  const themed = (isDark) => {
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
    theme.textContent = isDark ? "Light" : "Dark";
    theme.setAttribute("aria-label", isDark ? "Light colours" : "Dark colours");
    theme.setAttribute("aria-pressed", String(isDark));
  };
  themed(dark.matches);
  dark.addEventListener("change", (event) => themed(event.matches));
  theme.addEventListener("click", () => themed(document.documentElement.dataset.theme !== "dark"));
  view.shown = asEstimated();
  view.panel = mixPanel(byId("mix"), {
    classes: data.classes, presets, evaluators: data.evaluators, method: data.method, note: data.no_evaluator, asked: main.settings,
    changed: mixChanged,
  });
  showChecks();
  showClients();
  showSettings();
  show();
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; showAnswer(); showMethods(); } });
  addEventListener("beforeprint", () => { byId("curve-table").open = true; });
  document.documentElement.dataset.ready = "yes";
}

begin();
