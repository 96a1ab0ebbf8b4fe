// The page: what it shows at first, and what changes when the reader asks something else.

const data = unpacked(JSON.parse(byId("data").textContent));
const main = data.estimates[0];
for (const evaluator of Object.values(data.evaluators)) withRadii(evaluator, data.radii);
const usedMethod = main.chosen ? main.chosen.method : main.method;

const view = { radius: data.radius, panel: null, shown: null, verdict: null, listed: null, order: data.weights ? "weight" : "size" };

function titleOf(method) {
  return Object.hasOwn(data.methods, method) ? data.methods[method].title : method;
}

function asEstimated() {
  return {
    point: main.certified_accuracy, lower: main.lower, upper: main.upper, name: data.target_name || "target", said: "the target's class mix",
    method: usedMethod, guarantee: main.guarantee, own: true,
  };
}

function isAsEstimated(panel) {
  return panel.preset === 0 && panel.method === (data.evaluators[usedMethod] ? usedMethod : data.method);
}

function described(evaluated, panel) {
  const preset = panel.preset === null ? null : presets[panel.preset];
  return {
    ...evaluated, name: preset ? preset.name : "your class mix", said: preset ? preset.said : "this class mix", method: panel.method,
    guarantee: data.evaluators[panel.method].guarantee, own: false,
  };
}

function shownMix() {
  return view.panel ? view.panel.mix : main.mix;
}

function showAnswer() {
  const { shown } = view, index = view.radius, slide = byId("radius");
  const [number, interval, rest] = answerAt(data, shown, index);
  replaced(byId("sentence"), element("strong", { class: "number" }, number), element("span", { class: "interval" }, interval), element("span", { class: "rest" }, rest));
  replaced(byId("margin"), ...linked(marginAt(shown, index, main.confidence)));
  replaced(byId("mix-words"), ...linked(`Class mix${shown.own ? " of the target" : ""}: `), `${mixInWords(data.classes, shownMix())}.`);
  slide.value = index;
  slide.setAttribute("aria-valuetext", `radius ${short(data.radii[index])}`);
  byId("radius-value").textContent = short(data.radii[index]);
  const label = `${asTitle(data.measure)} falls from ${percent(shown.point[0])} at radius ${short(data.radii[0])} to ${percent(shown.point[shown.point.length - 1])} at radius ${short(data.radii[data.radii.length - 1])}.`;
  const place = byId("curve");
  place.setAttribute("aria-busy", String(Boolean(shown.pending)));
  replaced(place, chart(place, {
    radii: data.radii, series: [{ values: shown.point }], band: shown.lower ? shown : null, before: shown.own ? null : main.certified_accuracy,
    cap: data.largest_radius, cursor: index, label, picked: (at) => { view.radius = at; show(); }, norm: data.smoothing.norm, unit: data.unit,
  }), element("figcaption", {}, ...captionFor(shown)));
  const rows = data.radii.map((radius, i) => [short(radius), exactly(shown.point[i]), exactly(shown.lower ? shown.lower[i] : null), exactly(shown.upper ? shown.upper[i] : null)]);
  const details = byId("curve-table");
  replaced(details, details.querySelector("summary"), table(`${asTitle(data.measure)} at each radius`, ["radius", data.measure, "lower bound", "upper bound"], rows));
}

function captionFor(shown) {
  const caption = [legend([{ name: `${shown.name}, by ${titleOf(shown.method)}`, look: "" }, ...(shown.own ? [] : [{ name: `as estimated${data.target_name ? `: ${data.target_name}` : ""}`, look: "before" }])])];
  const band = shown.lower ? `The band is the ${surely(main.confidence)} confidence interval. ` : shown.pending ? "The interval is being computed. " : `No interval is available here, so the curve is not adjusted to it. ${shown.why ? `${shown.why} ` : ""}The command under “The same from the command line” gives both. `;
  const worst = shown.own ? main.worst_case : null;
  if (worst) {
    caption.push(element("p", {}, `If each of the ${counted(worst.clients)} missing clients held up to ${counted(worst.examples_each)} examples of any kind, the interval at this radius would be ${rangeOf100(worst.lower[view.radius], worst.upper[view.radius])} of 100.`));
  }
  caption.push(element("p", {}, band, radiiInWords(data), "Click the curve or move the slider to choose a radius."));
  return caption;
}

function verdictOn(shown, mix) {
  // The checks are about the target as it was estimated. Of another mix the page knows which classes no client has, whether
  // any accuracies explain the interval, and what holds for every mix.
  if (shown.own) return data.verdict;
  const unknown = data.labels ? data.classes.filter((_, j) => !data.labels[j] && mix[j] > 0) : [];
  const share = data.classes.reduce((sum, _, j) => sum + (data.labels && !data.labels[j] ? mix[j] : 0), 0);
  const words = unknown.length ? `No client has test examples of ${unknown.slice(0, 5).join(", ")}${unknown.length > 5 ? "…" : ""} (${wholePercent(share)} of this mix).`
    : shown.contradicted ? data.contradicted : null;
  if (words) return { verdict: UNRELIABLE, title: data.titles[UNRELIABLE], words, more: "" };
  if (data.lasting.verdict === UNRELIABLE) return data.lasting;
  return { verdict: WARNING, title: data.titles[WARNING], words: "The checks below were made for the target as estimated, not for this mix.", more: "" };
}

function showVerdict() {
  view.verdict = verdictOn(view.shown, shownMix());
  const place = byId("verdict"), words = view.verdict.words + view.verdict.more;
  if (place.dataset.verdict !== view.verdict.verdict || place.lastElementChild.textContent !== words) {  // said once, not at each step
    replaced(place, element("strong", {}, `${view.verdict.title}:`), " ", element("span", {}, words));
  }
  place.dataset.verdict = byId("answer").dataset.verdict = view.verdict.verdict;
}

function showChecks() {
  byId("checks").append(...checkList(main.checks, data.titles), element("h3", {}, "What is guaranteed"), element("p", {}, ...linked(main.guarantee)),
    element("p", { id: "kinds", class: "soft" }, `${aboutThis(data)} ${aboutOthers(data)}`));
}

function showClasses() {
  const place = byId("classes"), part = data.by_class, count = data.classes.length, radii = data.radii.length, index = view.radius;
  if (!part) {
    const why = count > 200 ? "With more than 200 classes, use fedcert what-if for the curves of single classes." : "This method does not estimate single classes.";
    replaced(place, place.querySelector("h2"), element("p", { class: "soft" }, why));
    return;
  }
  const at = (name, j) => part[name][j * radii + index];
  const order = Array.from({ length: count }, (_, j) => j).sort((a, b) => at("certified_accuracy", a) - at("certified_accuracy", b) || a - b);
  const mix = shownMix(), heads = ["class", data.measure, "interval", "", "share of mix", "examples"];
  const cells = (i) => {
    const j = order[i], [point, lower, upper] = ["certified_accuracy", "lower", "upper"].map((name) => at(name, j));
    const known = !data.labels || data.labels[j] > 0;  // what a method assumes of a class that no client holds is not a result
    return [named(data.classes[j]), known ? exactly(point) : "unknown", `${percent(lower)} to ${percent(upper)}`, intervalBar(known ? point : null, lower, upper), percent(mix[j]), data.labels ? counted(data.labels[j]) : "–"];
  };
  redrawn(place, () => [element("p", { class: "soft" }, `At radius ${short(data.radii[index])}, the weakest class first. ${data.class_words}`),
    ...longTable(`${asTitle(data.measure)} of each class`, heads, count, cells, (i) => data.classes[order[i]])]);
}

function showMethods() {
  const place = byId("methods"), index = view.radius;
  if (!place.open) return;
  const titles = data.estimates.map((estimate, i) => `${titleOf(estimate.chosen ? estimate.chosen.method : estimate.method)}${i === 0 ? " (this page)" : ""}`);
  const series = data.estimates.map((estimate, i) => ({ values: estimate.certified_accuracy, look: `k${i % 7}`, name: titles[i] }));
  const holder = element("figure");
  const rows = data.estimates.map((estimate, i) => [titles[i], exactly(estimate.certified_accuracy[index]),
    estimate.lower ? `${percent(estimate.lower[index])} to ${percent(estimate.upper[index])}` : "–",
    estimate.mismatch ? estimate.mismatch.tv.toFixed(3) : "–", estimate.effective_examples ? counted(estimate.effective_examples) : "–"]);
  const used = data.estimates.map((estimate) => (estimate.chosen ? estimate.chosen.method : estimate.method)), failed = Object.entries(data.failed);
  const explained = [...used, ...failed.map(([name]) => name)].filter((name) => Object.hasOwn(data.methods, name) && data.methods[name].description);
  redrawn(place, () => [element("p", { class: "soft" }, `For the target as estimated, at radius ${short(data.radii[index])}.`), holder,
    table("Methods at this radius", ["method", data.measure, "interval", "mismatch", "effective sample size"], rows),
    definitions(explained.map((name) => [titleOf(name), data.methods[name].description])),
    ...failed.map(([name, why]) => element("p", { class: "soft" }, `No estimate by ${titleOf(name)}: ${why}.`))]);
  if (data.estimates.length > 1) {
    holder.append(chart(holder, { radii: data.radii, series, band: null, before: null, cap: data.largest_radius, cursor: index, label: "The curves of all methods", picked: null, norm: data.smoothing.norm, unit: data.unit }), legend(series));
  }
}

function contributorRows() {
  // The contributors in the order that the reader chose, with each one's own accuracy.
  const known = data.contributors, place = Math.max(known.own_radii.indexOf(view.radius), 0), width = known.own_radii.length;
  const own = known.names.map((_, i) => known.own_accuracy[i * width + place] / 1000);
  const weights = data.weights ? known.names.map((name) => (Object.hasOwn(data.weights, name) ? data.weights[name] : 0)) : null;
  const order = known.names.map((_, i) => i);  // the largest first
  if (view.order === "weight" && weights) order.sort((a, b) => Math.abs(weights[b]) - Math.abs(weights[a]) || known.sizes[b] - known.sizes[a]);
  if (view.order === "accuracy") order.sort((a, b) => own[a] - own[b] || known.sizes[b] - known.sizes[a]);
  return { own, weights, order, radius: data.radii[known.own_radii[place]] };
}

function showClients() {
  view.listed = view.radius;
  const place = byId("clients"), known = data.contributors, parts = [element("p", {}, `${clientsOf(data.clients)} with ${counted(data.examples)} test examples.`)];
  if (known) {
    const { own, weights, order, radius } = contributorRows();
    if (known.count > known.names.length) parts.push(element("p", { class: "soft" }, `The ${counted(known.names.length)} largest are listed.`));
    const orders = [...(weights ? [["weight", "weight"]] : []), ["size", "examples"], ["accuracy", "own accuracy, lowest first"]];
    parts.push(element("p", { class: "soft" }, `“Own accuracy” is the ${data.measure} on the client's own test examples at radius ${short(radius)}, with its own class mix. A client far below the others may have wrong labels or inputs.`),
      element("p", { class: "sort" }, element("label", { for: "client-order" }, "Sort by "), element("select", { id: "client-order", onchange: (event) => { view.order = event.target.value; showClients(); } },
        ...orders.map(([value, words]) => element("option", { value, selected: value === view.order }, words)))),
      ...longTable("Clients", ["client", "own accuracy", "", "examples", ...(weights ? ["weight"] : []), "counts per class"], known.names.length, (i) => {
        const k = order[i];
        return [named(known.names[k]), percent(own[k]), intervalBar(own[k], null, null), counted(known.sizes[k]), ...(weights ? [weights[k].toFixed(4)] : []), known.has_class_counts[k] ? "yes" : "no"];
      }, (i) => known.names[order[i]]));
  } else {
    parts.push(element("p", { class: "soft" }, "Single clients are not known: the estimate is from sums, or the page was made without the reports."));
  }
  if (main.weights_note) parts.push(element("p", { class: "soft" }, `${main.weights_note[0].toUpperCase()}${main.weights_note.slice(1)}.`));
  const out = Object.entries(data.excluded), less = Object.entries(main.screened || {});
  for (const [title, list, total] of [["Left out or missing", out, data.excluded_count], ["Down-weighted by screening", less, less.length]]) {
    if (!list.length) continue;
    parts.push(element("h3", {}, `${title} (${counted(total)})`), ...longTable(title, ["client", "why"], list.length, (i) => [named(list[i][0]), list[i][1]], (i) => list[i][0]));
  }
  redrawn(place, () => parts);
}

function settingInWords(value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  return value === null || typeof value === "string" ? value : JSON.stringify(value);
}

function showSettings() {
  const s = data.smoothing, given = Object.entries(main.settings).filter(([name]) => !["interval", "simultaneous", "votes"].includes(name))
    .map(([name, value]) => [name === "screen" ? "screening" : name.replaceAll("_", " "), settingInWords(value)]);
  byId("settings").append(definitions([
    ["model", data.model], ["noise", `${s.noise}, sigma ${short(s.sigma)}`], ["norm of the radii", s.norm], ["procedure", s.procedure],
    ...samplesOf(data), ["precision", s.precision], ["method", `${titleOf(usedMethod)}${main.chosen ? `, chosen because ${main.chosen.because}` : ""}`],
    ["interval", main.interval ? `${main.interval.kind}, for ${main.interval.scope}, of ${main.interval.estimand === "population" ? "the population" : main.interval.estimand}` : null],
    ["effective sample size", main.effective_examples ? counted(main.effective_examples) : null],
    ["RMSE against the truth", main.comparison ? short(main.comparison.rmse) : null],
    ["mismatch (total variation)", main.mismatch ? main.mismatch.tv.toFixed(4) : null],
    ...given, ["estimated by", main.software], ["estimated at", main.created], ["page made by", data.written.software], ["page made at", data.written.created],
  ]));
}

function showCard() {
  const place = byId("card"), heading = place.querySelector("h2");
  const text = cardOf(data, view.shown, view.radius, shownMix(), view.verdict);
  const field = element("textarea", { id: "card-text", readonly: true, rows: 16, "aria-label": "Certification card in Markdown" });
  field.value = text;
  const status = element("span", { role: "status" });
  replaced(place, heading, element("p", { class: "soft" }, "For a model card or a README, in Markdown."), field,
    element("div", { class: "buttons" }, element("button", { type: "button", onclick: () => copied(field, status) }, "Copy"), status));
}

function show() {
  showAnswer();
  showVerdict();
  showClasses();
  if (view.listed !== view.radius) showClients();  // of what they have, only their own accuracy changes
  showMethods();
  showCard();
}

const uniform = data.classes.map(() => 1 / data.classes.length), anyEvaluator = data.evaluators[data.method];
const presets = [
  { id: "target", name: data.target_name ? `Target: ${data.target_name}` : "Target", said: "the target's class mix", mix: main.mix },
  { id: "uniform", name: "Uniform", said: "all classes equally frequent", mix: uniform },
  ...(anyEvaluator ? [{ id: "pool", name: "Clients' mix", said: "the clients' class mix", mix: anyEvaluator.pooled_mix }] : []),
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
  replaced(byId("promise"), ...linked(data.promise));
  showChecks();
  showSettings();
  show();
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; showAnswer(); showMethods(); } });
  byId("methods").addEventListener("toggle", showMethods);
  document.addEventListener("click", (event) => { if (event.target.closest?.("a.term")) byId("glossary").open = true; });
  addEventListener("beforeprint", () => { for (const id of ["curve-table", "passed"]) { if (byId(id)) byId(id).open = true; } });
  document.documentElement.dataset.ready = "yes";
}

begin();
