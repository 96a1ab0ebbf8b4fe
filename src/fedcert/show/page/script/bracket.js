// The factor beside Chernoff's bound, by lines above its logarithm: a port of `intervals/least_favourable/bracket.py`.

// intervals/least_favourable/bracket.py
const BERRY_ESSEEN = 0.56, STEEPEST = 0.4, REFERENCE = 7;
const KNOTS = [0.8, 1.5, 2.5, 4, 6, 9, 16, 50, 1e3, 1e6];
const FINE = 600, FINEST = 1e9;
let fineLogs = null;  // log H at points in equal ratios, made when it is first needed

function tailFactor(x) {
  // H(x), the largest exp(xz + x²/2)·(1 - Φ(z + x)) over z: φ(y - x)/x, y with the hazard x.
  let low = -40, high = Math.max(x, 1);
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (normalHazard(middle) < x) low = middle; else high = middle;
  }
  return Math.exp(-0.5 * ((low + high) / 2 - x) ** 2) / Math.sqrt(2 * Math.PI) / x;
}

function logFactor(w) {
  // log H(√w) by chords between fine points, which are above it.
  const ratio = Math.log(FINEST / KNOTS[0]) / (FINE - 1), point = (i) => (i === FINE - 1 ? FINEST : KNOTS[0] * Math.exp(i * ratio));
  if (!fineLogs) fineLogs = Float64Array.from({ length: FINE }, (_, i) => Math.log(tailFactor(Math.sqrt(point(i)))));
  if (w >= FINEST) return fineLogs[FINE - 1];
  let i = clip(Math.floor(Math.log(w / KNOTS[0]) / ratio), 0, FINE - 2);
  while (i > 0 && point(i) > w) i--;
  while (i < FINE - 2 && point(i + 1) <= w) i++;
  const share = (w - point(i)) / (point(i + 1) - point(i));
  return fineLogs[i] + share * (fineLogs[i + 1] - fineLogs[i]);
}

function linesAbove(largest, cubes, most) {
  // Heights and slopes of lines height - slope·w; null where the factor helps nowhere.
  const knots = KNOTS.filter((knot) => most > knot);
  if (!knots.length) return null;
  knots.push(most);
  const factors = knots.map((knot) => Math.exp(logFactor(knot)));
  const byCubes = cubes < largest * Math.min(REFERENCE, most);
  const logs = knots.map((knot, i) =>
    Math.log(factors[i] + 2 * BERRY_ESSEEN * (byCubes ? cubes / knot ** 1.5 : largest / Math.sqrt(knot))));
  const slopes = knots.slice(1).map((knot, i) => (logs[i] - logs[i + 1]) / (knot - knots[i]));
  const first = logs.slice(1).findIndex((value) => value < 0);
  if (first < 0) return null;
  const zero = knots[first] + Math.max(logs[first], 0) / slopes[first];
  const steepest = Math.min(STEEPEST, slopes[first]);
  const lines = { heights: [steepest * zero], slopes: [steepest] };
  for (let i = first; i < slopes.length; i++) {
    if (!(slopes[i] <= STEEPEST)) continue;
    lines.heights.push(logs[i] + slopes[i] * knots[i]);
    lines.slopes.push(slopes[i]);
  }
  return lines;
}
