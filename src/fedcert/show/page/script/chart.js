// Certified accuracy against radius. Drawn at the width that it has, so that its text keeps its size.

function chart(place, { radii, series, band, before, cap, cursor, label, picked, norm, unit }) {
  const width = Math.max(place.clientWidth || 640, 280), height = Math.round(clip(0.56 * width, 220, 430));
  const left = 44, right = 12, top = 10, bottom = 40;
  const first = radii[0], last = radii.length > 1 ? radii[radii.length - 1] : Math.max(2 * radii[0], 1);
  const x = (radius) => left + (radius - first) / (last - first || 1) * (width - left - right);
  const y = (value) => top + (1 - value) * (height - top - bottom);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  if (cap > first && cap < last) {
    svg.append(drawn("rect", { class: "cap", x: x(cap), y: top, width: x(last) - x(cap), height: y(0) - top }));
    if (x(last) - x(cap) > 110) {
      svg.append(drawn("text", { x: x(cap) + 6, y: top + 14 }, "not certifiable"), drawn("text", { x: x(cap) + 6, y: top + 29 }, "with these samples"));
    }
  }
  for (let step = 0; step <= 5; step++) {
    const value = step / 5;
    svg.append(
      drawn("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      drawn("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, `${Math.round(100 * value)}%`),
    );
  }
  for (const tick of ticksOf(first, last, width > 500 ? 10 : 5)) {
    svg.append(drawn("text", { x: x(tick), y: y(0) + 18, "text-anchor": "middle" }, short(tick)));
  }
  svg.append(
    drawn("line", { class: "axis", x1: left, x2: width - right, y1: y(0), y2: y(0) }),
    drawn("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, `${norm.toUpperCase()} radius${unit && width > 500 ? ` (${unit})` : ""}`),
  );
  const path = (values) => values.map((value, i) => `${i ? "L" : "M"}${x(radii[i]).toFixed(2)} ${y(value).toFixed(2)}`).join("");
  if (band) {
    const back = Array.from(band.lower, (value, i) => `L${x(radii[i]).toFixed(2)} ${y(value).toFixed(2)}`).reverse().join("");
    svg.append(drawn("path", { class: "band", d: `${path(Array.from(band.upper))}${back}Z` }));
    if (radii.length === 1) svg.append(drawn("line", { class: "whisker", x1: x(first), x2: x(first), y1: y(band.lower[0]), y2: y(band.upper[0]) }));
  }
  if (before) svg.append(drawn("path", { class: "line before", d: path(Array.from(before)) }));
  for (const curve of series) svg.append(drawn("path", { class: `line ${curve.look || ""}`, d: path(Array.from(curve.values)) }));
  if (cursor !== null) {
    svg.append(drawn("line", { class: "cursor", x1: x(radii[cursor]), x2: x(radii[cursor]), y1: top, y2: y(0) }));
    if (series.length === 1) svg.append(drawn("circle", { class: "dot", cx: x(radii[cursor]), cy: y(series[0].values[cursor]), r: 5.5 }));
  }
  if (picked) {
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect(), at = (event.clientX - box.left) / box.width * width;
      let best = 0;
      radii.forEach((radius, i) => { if (Math.abs(x(radius) - at) < Math.abs(x(radii[best]) - at)) best = i; });
      picked(best);
    });
  }
  return svg;
}

function ticksOf(first, last, most) {
  const rough = (last - first) / most, power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 2.5, 5, 10].map((part) => part * power).find((candidate) => candidate >= rough * (1 - 1e-9)) || rough;
  const begin = Math.ceil(first / step - 1e-9), count = Math.min(4 * most, Math.floor(last / step + 1e-9) - begin + 1);
  return Array.from({ length: Math.max(0, count) }, (_, k) => (begin + k) * step);
}

function legend(entries) {
  return element("ul", { class: "legend" }, ...entries.map(({ name, look }) => element(
    "li", {}, drawn("svg", { viewBox: "0 0 28 12", "aria-hidden": "true" }, drawn("line", { class: `line ${look}`, x1: 0, x2: 28, y1: 6, y2: 6 })), name)));
}
