// Tables and lists. Long ones are shown in parts, so that ten thousand rows open as fast as ten.

const ROWS_AT_ONCE = 50, LONGEST_LINE = 40;

function exactly(value, digits = 1) {
  return element("data", { value: value === null ? "" : String(value) }, percent(value, digits));
}

function table(caption, heads, rows) {
  return scrolling(caption, heads, element("tbody", {}, ...rows.map(rowOf)), "scroll");
}

function scrolling(caption, heads, body, look) {
  // A table that shows where it goes on: shadows at its sides, and a line of text, while columns are out of sight.
  const place = element("div", { class: look, tabindex: 0, role: "region", "aria-label": caption }, element("table", {},
    element("caption", { class: "out" }, caption),
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col", class: head === "" ? "bar-cell" : head === "why" ? "words" : null }, ...(head === "" ? [] : linked(head)))))), body));
  const box = element("div", { class: "scroll-box" }, place), hint = element("p", { class: "hint" }, "Scroll the table sideways for more columns →");
  const looked = () => {
    const hidden = place.scrollWidth - place.clientWidth;
    box.classList.toggle("more-left", hidden > 1 && place.scrollLeft > 1);
    box.classList.toggle("more-right", hidden > 1 && place.scrollLeft < hidden - 1);
    box.classList.toggle("more-below", place.scrollTop < place.scrollHeight - place.clientHeight - 1);
    hint.hidden = hidden <= 1;
  };
  hint.hidden = true;
  place.addEventListener("scroll", looked, { passive: true });
  new ResizeObserver(looked).observe(place);
  return element("div", {}, box, hint);
}

function rowOf(cells) {
  return element("tr", {}, ...cells.map((cell, i) => (i ? element("td", { class: cell instanceof SVGElement ? "bar-cell" : cell.length > LONGEST_LINE ? "words" : null }, cell) : element("th", { scope: "row" }, cell))));
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
  return [field, scrolling(caption, heads, body, "scroll tall"), more].filter(Boolean);
}

function checkList(checks, titles) {
  // Those that failed in full, the gravest first; those that passed folded.
  const failing = [UNRELIABLE, WARNING].flatMap((verdict) => checks.filter((check) => check.verdict === verdict));
  const passed = checks.filter((check) => check.verdict === OK);
  const list = (some) => element("ul", { class: "checks" }, ...some.map((check) => element("li", { "data-verdict": check.verdict },
    element("b", {}, check.verdict === OK ? "" : `${titles[check.verdict]}: `, check.name), element("span", {}, ...linked(check.sentence)))));
  return [failing.length ? list(failing) : null, passed.length ? element("details", { id: "passed" },
    element("summary", {}, `${passed.length} check${passed.length > 1 ? "s" : ""} passed`), list(passed)) : null].filter(Boolean);
}

function redrawn(place, build) {
  // New contents of a place, with what was searched for in it before.
  const query = place.querySelector("input[type=search]")?.value, focused = place.contains(document.activeElement) ? document.activeElement.id : "";
  replaced(place, place.querySelector("h2, summary"), ...build());
  const field = place.querySelector("input[type=search]");
  if (field && query) { field.value = query; field.dispatchEvent(new Event("input")); }
  if (focused) byId(focused)?.focus();
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
