// Weights of clients for the test of one θ, and the statistics that test all of them: a port of
// `intervals/least_favourable/design.py` and `segments.py`. The barrier's solution at its last sharpness is unique.

// intervals/least_favourable/design.py
const DESIGNS = [0.01, 0.04, 0.12, 0.28, 0.5, 0.72, 0.88, 0.97], DESIGN_ENDS = [0.02, 0.07, 0.19, 0.38, 0.62, 0.81, 0.94, 1];
const CHANCE = 0.81, WORTHWHILE = 0.9, DESIGN_GAP = 0.01, DESIGN_GROWTH = 20, DESIGN_STEPS = 60;
// intervals/least_favourable/segments.py
const BASE_SHARE = 0.2, CHECKED = [0.005, 0.01, ...Array.from({ length: 49 }, (_, i) => (i + 1) / 50), 0.99, 0.995];
const DESIGN_SETTLED = 1e-9, DESIGN_SMALL = 0.05, DESIGN_REGULAR = 1e-14;

function* classSegments(given, weights, target, values, level) {
  // One statistic for all θ: classes' totals, each example of class j weighing weights[j]. Of independent examples the
  // classes' accuracies have ranges, where what is left of the error is enough for an interval within Hoeffding's.
  const { cells: rows, labels, certified } = given, radii = values.length, cells = cellsOf(target, null, classRows(rows, weights));
  const statistic = { values, cells, squares: new Float64Array(radii).fill(cells.sumSquares) };
  const independent = rows.smooth.length === 1 && rows.smooth[0] === 1;
  if (independent && worthRanges(target, labels, level) && (yield* stillShorter(statistic, level, 1 - RANGE_SHARE))) {
    given.ranges ??= new Map();  // they do not depend on the mix
    statistic.rangesAt = (tested) => {
      if (!given.ranges.has(tested)) given.ranges.set(tested, classRanges(certified, labels, radii, rangeError(labels, tested)));
      return given.ranges.get(tested);
    };
  }
  return alone(statistic);
}

function* ruleSegments(given, radii, target, base, level) {
  // Statistics by formula: those of the shortest honest interval, and weights for one θ beside them where they are worth it.
  const shortest = statisticOf(given, radii, target, base);
  if (given.clients < 2 || !(shortest.cells.sumSquares > 0)) return alone(shortest);
  const own = yield* ownRules(given, target, base, CHANCE * Math.sqrt(2 * level));
  if (own.every((rule) => rule === null) || !(yield* stillShorter(shortest, level, BASE_SHARE))) return alone(shortest);
  const segments = [];
  own.forEach((rule, i) => {
    const beside = rule ? [{ statistic: statisticOf(given, radii, target, rule), share: 1 - BASE_SHARE }] : [];
    const statistics = [...beside, { statistic: shortest, share: rule ? BASE_SHARE : 1 }];
    if (!rule && segments.length && segments.at(-1).statistics.length === 1) segments.pop();
    segments.push({ end: DESIGN_ENDS[i], statistics });
  });
  return segments;
}

function alone(statistic) {
  return [{ end: 1, statistics: [{ statistic, share: 1 }] }];
}

function* ownRules(given, target, base, deviations) {
  // Weights for each θ of DESIGNS, from 0 and 1 inwards until they are not worth it; null where those of the base are as good.
  const rules = DESIGNS.map(() => null), places = DESIGNS.map((_, i) => i);
  for (const inwards of [places, [...places].reverse()]) {
    for (const place of inwards) {
      if (rules[place]) break;
      const theta = DESIGNS[place], rule = designCoefficients(given.labels_labels, target, theta, deviations);
      yield;
      const [least, otherwise] = [rule, base].map((coefficients) => designCriterion(given, coefficients, target, theta, deviations));
      if (!(least < WORTHWHILE * otherwise)) break;
      rules[place] = rule;
    }
  }
  return rules;
}

function* stillShorter({ cells, squares }, level, part) {
  // Whether this share of the error leaves the statistic's interval within Hoeffding's, for all θ.
  const excess = cells.target.reduce((sum, share, j) => sum + Math.max(cells.means[j] - share, 0), 0);
  const chance = Math.sqrt(level / 2 * Math.min(cells.sumSquares, ...squares));
  const rejected = yield* rejectedByTilting(cells, Float64Array.from(CHECKED, (theta) => theta + excess + chance), level - Math.log(part), 1);
  return CHECKED.every((theta, i) => rejected[i] >= theta);
}

function statisticOf(given, radii, target, rule) {
  const matrix = given.labels_labels, total = times(matrix, rule).reduce((sum, value) => sum + value, 0);
  const coefficients = rule.map((value) => value / total), values = curveOf(given, coefficients, radii);
  const { client_cells: clients, class_cells: classes } = given;
  const rows = clients ? clientRows(weightsOfExamples(clients.labels, coefficients), clients) : null;
  const cells = cellsOf(target, rows, classes ? classRows(classes, coefficients) : null);
  // Where examples come in groups, clients or classes enter, not both.
  const squares = Float64Array.from({ length: radii }, (_, r) =>
    given.squares ? quadratic(given.squares[r], coefficients) : clients ? quadratic(matrix, coefficients) : cells.sumSquares);
  return { values, cells, squares };
}

function weightsOfExamples(labels, coefficients) {
  // p·β of each client.
  const size = coefficients.length, weights = new Float64Array(labels.length / size);
  for (let k = 0; k < weights.length; k++) {
    let sum = 0, count = 0;
    for (let j = 0; j < size; j++) {
      sum += labels[k * size + j] * coefficients[j];
      count += labels[k * size + j];
    }
    weights[k] = sum / count;
  }
  return weights;
}

function curveOf(given, coefficients, radii) {
  const curve = new Float64Array(radii);
  for (let j = 0; j < coefficients.length; j++) {
    for (let r = 0; r < radii; r++) curve[r] += coefficients[j] * given.labels_certified[j * radii + r];
  }
  return curve;
}

function designCriterion(given, coefficients, target, theta, deviations) {
  // About the critical value less θ: the largest bias with p(S)·L <= θ, and what chance costs.
  const reached = times(given.labels_labels, coefficients), sum = sizeOf(coefficients), held = [];
  const squares = Math.max(dot(coefficients, reached), 1 / given.examples) + given.rounding * sum ** 2;
  let bias = -theta, left = theta;  // E T at its largest, less θ
  target.forEach((share, j) => {
    const most = Math.max(reached[j], 0);
    if (share > LEAST_TARGET) held.push({ share, ratio: most / share }); else bias += most;
  });
  for (const { share, ratio } of held.sort((a, b) => b.ratio - a.ratio)) {
    const taken = Math.min(share, Math.max(left, 0));
    bias += ratio * taken;
    left -= share;
  }
  return bias + deviations * Math.sqrt(theta * (1 - theta) * squares);
}

function designCoefficients(matrix, target, theta, deviations) {
  const size = target.length, examples = matrix.reduce((sum, value) => sum + value, 0);
  const budget = deviations ** 2 * theta * (1 - theta), sharpest = (2 * size + 1) * Math.sqrt(examples / budget) / DESIGN_GAP;
  let sharpness = sharpest * DESIGN_GAP, point = new Float64Array(size + 1).fill(theta);
  for (;;) {
    const last = sharpness >= sharpest;  // before the last round, near the centre is enough
    point = designCentre(point, matrix, target, theta, budget, sharpness, last ? DESIGN_SETTLED : DESIGN_SMALL);
    if (last) break;
    sharpness = Math.min(sharpness * DESIGN_GROWTH, sharpest);
  }
  const direction = point.subarray(0, size).map((value) => point[size] - value);
  const total = times(matrix, direction).reduce((sum, value) => sum + value, 0);
  return direction.map((value) => value / total);
}

function designCentre(start, matrix, target, theta, budget, sharpness, settled) {
  // Minimise -sharpness·μ - log(slacks) over (L, μ) with p(S)·L = θ, by damped Newton steps.
  const size = target.length, n = size + 1, sums = rowSums(matrix, size), all = sums.reduce((sum, value) => sum + value, 0);
  const system = new Float64Array(n * n), scale = new Float64Array(n), gradient = new Float64Array(n);
  const slope = new Float64Array(n), limit = new Float64Array(n);
  let point = start;
  for (let count = 0; count < DESIGN_STEPS; count++) {
    const middle = point[size], apart = point.subarray(0, size).map((value) => value - middle), image = times(matrix, apart);
    const room = budget - dot(apart, image), inner = image.reduce((sum, value) => sum + value, 0), steep = 4 / room ** 2;
    for (let i = 0; i < size; i++) {
      const low = point[i], high = 1 - low;
      gradient[i] = 2 * image[i] / room - 1 / low + 1 / high;
      for (let j = 0; j < i; j++) system[i * n + j] = 2 * matrix[i * size + j] / room + steep * image[i] * image[j];
      system[i * n + i] = 2 * matrix[i * size + i] / room + steep * image[i] ** 2 + 1 / low ** 2 + 1 / high ** 2;
      system[size * n + i] = -2 * sums[i] / room - steep * image[i] * inner;
    }
    gradient[size] = -sharpness - 2 * inner / room;
    system[size * n + size] = 2 * all / room + steep * inner ** 2;
    for (let i = 0; i < n; i++) scale[i] = 1 / Math.sqrt(system[i * n + i]);
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < i; j++) system[i * n + j] *= scale[i] * scale[j];
      system[i * n + i] = 1 + DESIGN_REGULAR;
      slope[i] = -gradient[i] * scale[i];
      limit[i] = i < size ? target[i] * scale[i] : 0;
    }
    // Python solves for the step and the limit's multiplier together; by Cholesky's factor it is half the work.
    const factor = cholesky(system, n, 0), free = solvedBy(factor, slope), along = solvedBy(factor, limit);
    const multiplier = (dot(limit, free) - theta + dot(target, point.subarray(0, size))) / dot(limit, along);
    const step = free.map((value, i) => scale[i] * (value - multiplier * along[i])), decrease = -dot(gradient, step);
    if (!Number.isFinite(decrease)) return point;
    let length = decrease < DESIGN_SMALL ? 1 : 1 / (1 + Math.sqrt(decrease)), next;
    for (;;) {
      next = point.map((value, i) => value + length * step[i]);
      if (insideDesign(next, matrix, budget)) break;
      length /= 2;
      if (length < 1e-15) return point;  // no step is left: a browser must not hang
    }
    point = next;
    if (!(decrease > settled)) break;
  }
  return point;
}

function insideDesign(point, matrix, budget) {
  const size = point.length - 1, apart = new Float64Array(size);
  for (let i = 0; i < size; i++) {
    if (!(point[i] > 0 && point[i] < 1)) return false;
    apart[i] = point[i] - point[size];
  }
  return quadratic(matrix, apart) < budget;
}
