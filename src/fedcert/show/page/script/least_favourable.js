// Ends of least-favourable intervals: the tests of all θ, inverted for observed values of T. A port of
// `intervals/least_favourable/ends.py` and of `intervals/finite_sample.py`. It takes long with many classes, so that it is
// done in parts: the functions are generators, which pause after each of them.

// intervals/least_favourable/ends.py
const TILT_RATIO = 1.1, COARSE = 3, LEAST_TILT = 0.45, MOST_TILT = 10, MOST_EXPONENT = 600, TILTS_BELOW = 4, TILTS_ABOVE = 2, COUNT_ROUNDING = 1e-9, WEIGHT_ROUNDING = 1e-13;
const STEEPER = [0, 3, 6, 9];  // intervals/least_favourable/ends.py
const FIRST_SHARE = 0.1;  // intervals/finite_sample.py

function* leastFavourable(evaluator, segmentsAt) {
  // Lower and upper ends at each radius, before certificates that fail are allowed for.
  const { confidence, simultaneous, target_examples: set } = evaluator.settings;
  const error = (1 - confidence) / (simultaneous ? evaluator.radii.length : 1);
  if (set) return yield* endsOfSet(segmentsAt, error, set);
  const level = Math.log(2 / error);
  return yield* testedEnds(yield* segmentsAt(level), level);
}

function* endsOfSet(segmentsAt, error, set) {
  // For a set of so many examples: T less their certified accuracy is a sum of cells as well.
  const once = Math.log(2 / error), twice = Math.log(2 / (error * (1 - FIRST_SHARE)));
  const { statistics } = (yield* segmentsAt(once)).at(-1), { statistic } = statistics.at(-1), cells = withTargetSet(statistic.cells, set);
  const { values } = statistic, radii = values.length, everything = [Float64Array.of(0), Float64Array.of(1)];
  const excess = cells.means.reduce((sum, value) => sum + Math.max(value, 0), 0);
  const byHoeffding = statistic.squares.map((square) => excess + Math.sqrt(once / 2 * (Math.min(square, statistic.cells.sumSquares) + 1 / set)));
  let below, above;
  if ((yield* criticalValues(cells, twice, ...everything))[0] <= Math.min(...byHoeffding)) {
    const first = Math.log(2 / (error * FIRST_SHARE));
    const [lower, upper] = (yield* testedEnds(yield* segmentsAt(first), first)).map((ends) => ends.map((value) => clip(value, 0, 1)));
    const low = lower.map((value, r) => Math.min(value, upper[r])), high = lower.map((value, r) => Math.max(value, upper[r]));
    const both = yield* criticalValues(cells, twice, Float64Array.of(...low, ...high.map((value) => 1 - value)), Float64Array.of(...high, ...low.map((value) => 1 - value)));
    below = byHoeffding.map((value, r) => Math.min(value, both[r]));
    above = byHoeffding.map((value, r) => Math.min(value, both[radii + r]));
  } else {
    const [critical] = yield* criticalValues(cells, once, ...everything);
    below = above = byHoeffding.map((value) => Math.min(value, critical));
  }
  return [values.map((value, r) => value - below[r]), values.map((value, r) => value + above[r] - cells.totalWeight)];
}

function* testedEnds(segments, level) {
  // Each end is wrong with probability at most exp(-level). The upper one is the lower one of uncertified examples.
  const last = segments[segments.length - 1].statistics, shared = last[last.length - 1].statistic;
  const radii = shared.values.length, lower = new Float64Array(2 * radii), known = new Map();
  let start = 0, testing = Array.from(lower, (_, i) => i);
  for (const { end, statistics } of segments) {  // one that is rejected up to its end leaves the next one
    let rejected = new Float64Array(testing.length).fill(-1);
    for (const { statistic, share } of statistics) {
      const tested = level - Math.log(share);
      let own;
      if (statistic === shared) {  // what it says of all θ serves every segment
        if (!known.has(share)) known.set(share, yield* largestRejected(statistic, Array.from(lower, (_, i) => i), tested, 1));
        own = testing.map((i) => known.get(share)[i]);
      } else {
        own = yield* largestRejected(statistic, testing, tested, end);
      }
      rejected = rejected.map((value, k) => Math.max(value, own[k]));
    }
    testing.forEach((i, k) => { lower[i] = end >= 1 ? Math.max(rejected[k], start) : clip(rejected[k], start, end); });
    testing = testing.filter((_, k) => rejected[k] >= end);
    start = end;
    if (end >= 1 || !testing.length) break;
  }
  return [lower.subarray(0, radii), lower.subarray(radii).map((value) => 1 - value)];
}

function* largestRejected({ values: curve, cells, squares, rangesAt }, testing, level, enough) {
  // The largest θ that values of T reject, by any of the tests of T: of the radii, then of their mirrored values.
  const ranges = rangesAt ? rangesAt(level) : null;
  if (ranges) level -= Math.log(1 - RANGE_SHARE);
  const radii = curve.length, values = Float64Array.from(testing, (i) => (i < radii ? curve[i] : cells.totalWeight - curve[i - radii]));
  let excess = 0, whole = 0;
  cells.target.forEach((share, j) => {
    excess += Math.max(cells.means[j] - share, 0);
    whole += share;
  });
  const best = values.map((value, k) => {
    const rejected = value - excess - Math.sqrt(level / 2 * Math.min(squares[testing[k] % radii], cells.sumSquares));
    return rejected >= whole ? Infinity : rejected;
  });
  if (cells.positive && level >= Math.log(4)) {
    values.forEach((value, i) => { best[i] = Math.max(best[i], rejectedByBinomial(cells, excess, value, level)); });
    const { least, most } = cells.positive;  // equal weights and the target's mix: no test rejects more
    if (!ranges && most - least <= SAME_WEIGHT * most && excess <= SAME_WEIGHT) return best;
  }
  const others = Array.from(best, (_, i) => i).filter((i) => best[i] < enough);
  if (others.length && cells.sumSquares > 0) {
    const within = ranges ? { ranges, places: others.map((i) => testing[i]) } : null;
    const tilted = yield* rejectedByTilting(cells, values.filter((_, i) => best[i] < enough), level, enough, within);
    others.forEach((i, k) => { best[i] = Math.max(best[i], tilted[k]); });
  }
  return best;
}

function* rejectedByTilting(cells, values, level, enough, within) {
  // The largest θ that each value of T rejects; any that is at least `enough` will do. `within`: ranges of the accuracies,
  // and the place of each value's.
  const tilts = tiltsFor(cells, level), where = new Int32Array(values.length), all = Array.from(values, (_, i) => i);
  const best = Float64Array.from(values, (_, i) => (within ? leastWithin(within.ranges, cells.target, within.places[i]) : 0));
  const coarse = [];
  const raise = (index, bound, chosen, ranged) => {
    const before = best.slice();
    raiseRejected(bound, values, level, best, chosen, ranged);
    for (const i of chosen) if (best[i] > before[i]) where[i] = index;
  };
  for (let index = 0; index < tilts.length; index += COARSE) {
    const bound = tiltedBound(cells, tilts[index], false);
    raise(index, bound, all, null);
    if (within) coarse.push(bound);
    yield;
  }
  const started = where.slice();
  for (const [step, bound] of coarse.entries()) {  // within ranges, the best tilts are larger
    raise(step * COARSE, bound, all.filter((i) => STEEPER.includes(step * COARSE - started[i])), within);
    yield;
  }
  const open = all.filter((i) => best[i] < enough);
  for (let index = 0; index < tilts.length; index++) {
    const near = open.filter((i) => where[i] - TILTS_BELOW <= index && index <= where[i] + TILTS_ABOVE);
    if (!near.length) continue;
    raiseRejected(tiltedBound(cells, tilts[index], true), values, level, best, near, within);
    yield;
  }
  return best;
}

function* criticalValues(cells, level, low, high) {
  // t with P(T >= t) <= exp(-level) for all accuracies with low <= p(S)·L <= high, for several pairs.
  const tilts = tiltsFor(cells, level), best = new Float64Array(low.length).fill(Infinity), near = new Uint8Array(tilts.length);
  const where = new Int32Array(low.length);
  const thresholds = (index, withBracket) =>
    largestBetween(tiltedBound(cells, tilts[index], withBracket), low, high).map((value) => (level + value) / tilts[index]);
  for (let index = 0; index < tilts.length; index += COARSE) {
    thresholds(index, false).forEach((value, i) => {
      if (value < best[i]) { best[i] = value; where[i] = index; }
    });
    yield;
  }
  for (const index of where) near.fill(1, Math.max(index - TILTS_BELOW, 0), index + TILTS_ABOVE + 1);
  for (let index = 0; index < near.length; index++) {
    if (!near[index]) continue;
    thresholds(index, true).forEach((value, i) => { best[i] = Math.min(best[i], value); });
    yield;
  }
  return best;
}

function tiltsFor(cells, level) {
  // Tilts in equal ratios, from accuracies of ½ to those next to 0 or 1.
  const least = LEAST_TILT * Math.sqrt(8 * level / cells.sumSquares), typical = cells.sumSquares / cells.sumSizes;
  const most = Math.max(Math.min(MOST_TILT / typical, MOST_EXPONENT / cells.largest), least);
  const steps = Math.ceil(Math.log(most / least) / Math.log(TILT_RATIO));
  return Float64Array.from({ length: steps + 1 }, (_, i) => least * TILT_RATIO ** i);
}

function rejectedByBinomial({ positive, sumSizes }, excess, value, level) {
  // The largest θ that an exact binomial test of the number certified rejects, where all weights are positive.
  const { least, most, count: examples } = positive, rounding = COUNT_ROUNDING + WEIGHT_ROUNDING * sumSizes / most;
  const count = clip(Math.ceil(value / most - rounding), 0, examples), tail = Math.exp(-level);
  if (count < 1) return -1;
  return (count === 1 ? tail / examples : betaQuantile(tail, count, examples - count + 1)) * examples * least - excess;
}
