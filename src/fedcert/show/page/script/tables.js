// Tables and lists. Long ones are shown in parts, so that ten thousand rows open as fast as ten.

const ROWS_AT_ONCE = 50;

function exactly(value, digits = 1) {
  return element("data", { value: value === null ? "" : String(value) }, percent(value, digits));
}

function table(caption, heads, rows) {
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, element("table", {},
    element("caption", { class: "out" }, caption),
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))),
    element("tbody", {}, ...rows.map(rowOf))));
}

function rowOf(cells) {
  return element("tr", {}, ...cells.map((cell, i) => (i ? element("td", {}, cell) : element("th", { scope: "row" }, cell))));
}

function longTable(caption, heads, count, rowAt, textAt) {
  // rowAt gives a row's cells, textAt what a search looks into.
  const body = element("tbody"), more = element("button", { type: "button", onclick: () => grown() });
  let hits = Array.from({ length: count }, (_, i) => i), shown = 0;
  function grown() {
    const next = hits.slice(shown, shown + ROWS_AT_ONCE);
    body.append(...next.map((i) => rowOf(rowAt(i))));
    shown += next.length;
    more.hidden = shown >= hits.length;
    more.textContent = `Show more (${counted(hits.length - shown)} left)`;
  }
  function searched(query) {
    const words = query.trim().toLowerCase();
    hits = Array.from({ length: count }, (_, i) => i).filter((i) => !words || textAt(i).toLowerCase().includes(words));
    shown = 0;
    replaced(body);
    grown();
  }
  const field = count <= ROWS_AT_ONCE ? null : element("input", { type: "search", class: "search", placeholder: "Find", "aria-label": `Find in: ${caption}`, oninput: () => searched(field.value) });
  searched("");
  return [field, element("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": caption }, element("table", {},
    element("caption", { class: "out" }, caption),
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))), body)), more].filter(Boolean);
}

function checkList(checks) {
  const looks = { ok: ["ok", "OK"], look: ["looked", "Look"] };
  return element("ul", { class: "checks" }, ...checks.map((check) => {
    const [look, word] = Object.hasOwn(looks, check.verdict) ? looks[check.verdict] : ["refused", "Do not rely"];
    return element("li", {}, element("b", { class: look }, `${word}: `, check.name), element("span", {}, check.sentence));
  }));
}

function definitions(entries) {
  return element("dl", {}, ...entries.filter(([, value]) => value !== null && value !== undefined && value !== "").flatMap(
    ([name, value]) => [element("dt", {}, name), element("dd", {}, typeof value === "string" ? value : String(value))]));
}

function intervalBar(point, lower, upper) {
  const at = (value) => 2 + 116 * value;
  const svg = drawn("svg", { viewBox: "0 0 120 14", width: 120, height: 14, "aria-hidden": "true" },
    drawn("rect", { class: "track", x: 2, y: 6, width: 116, height: 2 }));
  if (lower !== null) svg.append(drawn("line", { class: "whisker", x1: at(lower), x2: at(upper), y1: 7, y2: 7 }));
  if (point !== null) svg.append(drawn("rect", { class: "bar", x: at(point) - 2, y: 1, width: 4, height: 12 }));
  return svg;
}
