// Sums with noise for privacy: the point and its ingredients, a port of `methods/noisy_poststratified.py`, and the ends of
// the finite-sample interval, a port of `intervals/noisy_sums.py`, where the bound is stated. Each radius by itself; the
// functions that take long are generators, which pause after each radius.

// intervals/noisy_sums.py
const CLASS_SHARE = 0.1, POPULATION_SHARE = 0.1, CELL_PIECES = 12, ACCURACY_SEGMENTS = 16, SAME_TILT = 1.1, LARGEST_EXPONENT = 300, LARGEST_EXPONENT_OF_SET = 30, NARROW = 1e-15, END_SLACK = 1e-9;
const PIECE_PLACES = Float64Array.from({ length: CELL_PIECES + 1 }, (_, i) => Math.sin(i * (Math.PI / 2 / CELL_PIECES)) ** 2);
const LEAST_EXAMPLES = 0.5;  // methods/noisy_poststratified.py

function byNoisyClass(evaluator, mix) {
  // One ratio of sums; classes that are not held have the pooled curve in the point, and all accuracies in the interval.
  const { labels, certified, inflation, noise: given, fallback_curve: fallback } = evaluator.by_class, { sizes } = given;
  const radii = evaluator.radii.length, weights = mix.map((share, j) => (sizes[j] > 0 ? share / sizes[j] : 0));
  const squares = weights.map((weight, j) => weight * mix[j]), missing = mix.reduce((sum, share, j) => sum + (sizes[j] > 0 ? 0 : share), 0);
  const ratio = (factors) => {
    const below = Math.max(dot(factors, labels), LEAST_EXAMPLES * largestOf(factors), LEAST_VARIANCE);
    return Float64Array.from({ length: radii }, (_, r) => factors.reduce((sum, factor, j) => sum + factor * certified[j * radii + r], 0) / below);
  };
  const mean = ratio(weights), varianceWeights = squares.map((square, j) => square * inflation[j]);
  const together = ratio(squares.map((square, j) => (sizes[j] > 0 ? square / sizes[j] : 0))).map((value) => clip(value, CLOSEST_TO_CERTAIN, 1 - CLOSEST_TO_CERTAIN));
  const noise = mean.map((value, r) => {
    const possible = clip(value, 0, 1), counts = noiseAt(given, r);
    let sum = 0, distance = 0;
    weights.forEach((weight, j) => {
      const each = clip(certified[j * radii + r] / Math.max(labels[j], LEAST_EXAMPLES), 0, 1);
      sum += weight ** 2;
      distance += weight ** 2 * (each - possible) ** 2;
    });
    return sum * noiseVariance(counts, possible) + given.sizes_variance * distance;
  });
  const spread = together.map((value) => value * (1 - value));
  return {
    point: decreasing(mean.map((value, r) => (1 - missing) * value + missing * fallback[r])),
    uncertainty: {
      centre: mean.map((value) => (1 - missing) * value + missing / 2), bias: missing / 2, varianceWeights, exampleWeights: null, noise,
      squares: new Float64Array(radii).fill(varianceWeights.reduce((sum, value) => sum + value, 0)),
      accuracy: Array(mix.length).fill(together), spread: Array(mix.length).fill(spread), parts: mix, segments: null,
    },
  };
}

function noiseAt(given, r) {
  // Variances of the noise in a class's certified examples and in its examples, and the covariance of the two.
  return { ofCertified: given.certified_variance[r], ofLabels: given.labels_variance, ofBoth: given.covariance[r] };
}

function noiseVariance({ ofCertified, ofLabels, ofBoth }, accuracy) {
  // Of the noise in k - L n, for an accuracy L.
  return ofCertified - 2 * accuracy * ofBoth + accuracy ** 2 * ofLabels;
}

function* noisyEnds(evaluator, mix) {
  // Lower and upper ends at each radius, before certificates that fail are allowed for.
  const { labels, certified, inflation, noise: given } = evaluator.by_class, radii = evaluator.radii.length;
  const { confidence, simultaneous, target_examples: set } = evaluator.settings;
  const known = Array.from(mix, (_, j) => j).filter((j) => given.sizes[j] > 0 && mix[j] > 0);
  const lower = new Float64Array(radii), upper = new Float64Array(radii).fill(1);
  if (!known.length) return [lower, upper];
  const of = (values) => Float64Array.from(known, (j) => values[j]);
  const shares = of(mix), sizes = of(given.sizes), counted = of(labels), weights = shares.map((share, k) => share / sizes[k]);
  for (let r = 0; r < radii; r++) {
    // Groups are as large in every class: from sums, the largest of any client counts for all.
    const side = {
      shares, sizes, labels: counted, weights, factor: inflation[0], certified: Float64Array.from(known, (j) => certified[j * radii + r]),
      noise: noiseAt(given, r),
    };
    const [below, above] = bothNoisyBounds(side, (1 - confidence) / (simultaneous ? radii : 1), set);
    const ends = [clip(below - END_SLACK, 0, 1), clip(1 - above + END_SLACK, 0, 1)];
    lower[r] = Math.min(...ends);
    upper[r] = Math.max(...ends);
    yield;
  }
  return [lower, upper];
}

function mirroredSide(side) {
  // The same, with certified and uncertified examples exchanged.
  const { noise } = side;
  return {
    ...side, certified: side.labels.map((count, j) => count - side.certified[j]),
    noise: { ofCertified: noiseVariance(noise, 1), ofLabels: noise.ofLabels, ofBoth: noise.ofLabels - noise.ofBoth },
  };
}

function bothNoisyBounds(certified, error, set) {
  // Lower bounds of the held classes' part of the target, certified and not.
  const sides = [certified, mirroredSide(certified)], classes = certified.shares.length, whole = sumOf(certified.shares);
  if (classes === 1 && !set) return sides.map((side) => whole * classBounds(side, error / 2)[0]);
  const [low, others] = sides.map((side) => classBounds(side, error * CLASS_SHARE / (2 * classes)));
  low.forEach((value, j) => {
    if (value > 1 - others[j]) low[j] = others[j] = 0;  // noise can do that: nothing is then known of the class
  });
  const ends = [noisyEnd(sides[0], low, others), noisyEnd(sides[1], others, low)], rest = error * (1 - CLASS_SHARE);
  if (!set) return ends.map((end) => refutedUpTo(end, rest / 2));
  const [least, leastOthers] = ends.map((end) => refutedUpTo(end, error * POPULATION_SHARE / 2));
  const left = (rest - error * POPULATION_SHARE) / 2;
  return [
    boundOfSet(ends[0], left, least, Math.max(whole - leastOthers, least), set),
    boundOfSet(ends[1], left, leastOthers, Math.max(whole - least, leastOthers), set),
  ];
}

function sumOf(values) {
  return values.reduce((sum, value) => sum + value, 0);
}

function largestOf(values) {
  return values.reduce((most, value) => Math.max(most, value), -Infinity);  // of more than a call takes arguments
}

function accuracySegments(smallest) {
  // Ends of segments of accuracies, from 0 to 1, the first of which is below a smallest one.
  const middle = Array.from({ length: ACCURACY_SEGMENTS - 1 }, (_, i) => Math.sin((i + 1) * (Math.PI / 2 / ACCURACY_SEGMENTS)) ** 2);
  const halvings = Math.max(Math.ceil(Math.log2(middle[0] / smallest)), 0);
  const tail = Array.from({ length: halvings }, (_, i) => middle[0] * 0.5 ** (halvings - i));
  return [0, ...tail, ...middle, ...tail.map((value) => 1 - value).reverse(), 1];
}

function tiltFor(variance, unit, log) {
  // About the best one for a sum of this variance with terms of this size, by Bennett's inequality.
  return Math.log1p(unit * (Math.sqrt(2 * log * variance) + unit * log / 3) / variance) / unit;
}

function classBounds(side, error) {
  // Lower bounds of each class's accuracy by itself.
  const { sizes, factor, noise } = side, log = Math.log(1 / error), segments = accuracySegments(1 / Math.max(largestOf(sizes), 2));
  return sizes.map((size, j) => {
    let bound = 0;
    for (let s = 0; s + 1 < segments.length; s++) {
      const low = segments[s], high = segments[s + 1], middle = (low + high) / 2;
      const refuted = classRefuted(side, j, tiltFor(factor * size * middle * (1 - middle) + noiseVariance(noise, middle), factor, log), log);
      bound = clip(refuted, low, high);
      if (!(refuted >= high)) break;
    }
    return bound;
  });
}

function classRefuted({ labels, certified, factor, noise }, j, tilt, log) {
  // Up to which accuracy its own counts refute a class; below 0 for none.
  const room = tilt * certified[j] - log - tilt ** 2 * noise.ofCertified / 2, slope = labels[j] - tilt * noise.ofBoth;
  if (!(room >= 0)) return -1;
  const root = Math.sqrt(Math.max(slope ** 2 + 2 * noise.ofLabels * room, 0));
  const largest = slope > 0 ? 2 * room / (root + slope) : (root - slope) / noise.ofLabels;  // no difference that cancels
  return Math.expm1(factor * clip(largest, 0, tilt)) / Math.expm1(factor * tilt);
}

function noisyEnd(side, lowest, lowestOthers) {
  // One end of the interval: the ranges of the classes' accuracies beside what is known.
  return { side, lowest, highest: lowestOthers.map((value) => 1 - value), least: dot(lowest, side.shares), statistic: dot(side.weights, side.certified) };
}

function tiltedSegments({ sizes, shares, weights, factor, noise }, log, set) {
  // Ends of segments of Σ p L, and their tilts.
  const whole = sumOf(shares), squares = sumOf(sizes.map((size, j) => size * weights[j] ** 2)), weightSquares = dot(weights, weights);
  const ends = accuracySegments(1 / Math.max(sumOf(sizes), 2)), tilts = [];
  const most = Math.min(LARGEST_EXPONENT / (factor * largestOf(weights)), set ? LARGEST_EXPONENT_OF_SET * set : Infinity);
  for (let s = 0; s + 1 < ends.length; s++) {
    const accuracy = (ends[s] + ends[s + 1]) / 2, before = tilts[s - 1];
    const variance = (squares * factor + (set ? whole / set : 0)) * accuracy * (1 - accuracy) + weightSquares * noiseVariance(noise, accuracy);
    const unit = Math.max(squares * factor / whole, set ? Math.max(2 * accuracy - 1, 0) / set : 0);
    const tilt = Math.min(tiltFor(variance, unit, log), most);
    tilts.push(s && tilt < before * SAME_TILT && before < tilt * SAME_TILT ? before : tilt);
  }
  return { ends: ends.map((end) => end * whole), tilts };
}

function refutedUpTo(end, error) {
  // A lower bound of Σ p L: how far it is refuted from 0 on, each segment by its own tilt.
  const log = Math.log(1 / error), { ends, tilts } = tiltedSegments(end.side, log, null);
  let bound = end.least, refuted = -1, by = 0;
  for (let s = 0; s < tilts.length; s++) {
    if (!(ends[s + 1] > end.least)) continue;  // refuted already
    if (tilts[s] !== by) refuted = refutedBy(end, by = tilts[s], log);
    bound = Math.max(clip(refuted, ends[s], ends[s + 1]), end.least);
    if (!(refuted >= ends[s + 1])) break;
  }
  return bound;
}

function refutedBy(end, tilt, log) {
  // Up to which Σ p L the counts refute all accuracies with a tilt; below 0 for none.
  const { start, shares, gains } = exponentLines(end, tilt, null), room = tilt * end.statistic - log - start;
  if (room < 0) return -1;
  const total = cumulated(gains.map((gain) => Math.max(gain, 0)));
  if (room >= total[total.length - 1]) return 1;
  return interpolated(room, total, cumulated(shares.map((share, i) => (gains[i] > 0 ? share : 0)))) + end.least;
}

function boundOfSet(end, error, least, most, set) {
  // A lower bound of a finite set's certified share, if Σ p L is between `least` and `most`.
  const log = Math.log(1 / error), { ends, tilts } = tiltedSegments(end.side, log, set);
  let bound = Infinity, lines = null, by = 0;
  for (let s = 0; s < tilts.length; s++) {
    const low = ends[s], high = ends[s + 1];
    if (!(high >= least && low <= most)) continue;
    if (tilts[s] !== by) lines = exponentLines(end, by = tilts[s], set);
    bound = Math.min(bound, end.statistic - (log + largestExponent(end, lines, Math.max(least, low), Math.min(most, high))) / by);
  }
  return Math.max(bound, 0);
}

function largestExponent(end, { start, shares, gains }, low, high) {
  // Over all accuracies with Σ p L between two values: a concave function is largest nearest to its peak.
  const value = cumulated(gains), reached = cumulated(shares).map((share) => share + end.least);
  return start + interpolated(clip(reached[value.indexOf(largestOf(value))], low, high), reached, value);
}

function exponentLines({ side, lowest, highest }, tilt, set) {
  // An upper bound of the exponent, in pieces that are linear in Σ p L, the steepest first: the exponent at the lowest
  // accuracies, and of each piece the part of Σ p L and of the exponent.
  const { labels, weights, factor, noise } = side, size = labels.length, pieces = 2 * CELL_PIECES * size;
  const shares = new Float64Array(pieces), gains = new Float64Array(pieces), ratios = new Float64Array(pieces);
  const setStep = set ? Math.expm1(-tilt / set) : 0, fallen = set ? Math.exp(-tilt / set) : 1;
  let start = 0, piece = 0;
  const add = (share, gain) => {
    shares[piece] = share;
    gains[piece] = gain;
    ratios[piece++] = share > NARROW ? gain / share : -Infinity;
  };
  for (let j = 0; j < size; j++) {
    const unit = tilt * weights[j], step = Math.expm1(factor * unit), inSet = set ? set * side.shares[j] : 0;
    const at = (place) => {
      const accuracy = lowest[j] + (highest[j] - lowest[j]) * place, tilted = Math.log1p(accuracy * step) / factor;
      const variance = noise.ofCertified * unit ** 2 - 2 * noise.ofBoth * unit * tilted + noise.ofLabels * tilted ** 2;
      const left = 1 - accuracy + accuracy * fallen;  // exact next to 1 too
      return {
        accuracy, tilted, steepness: step / (1 + accuracy * step) / factor, value: labels[j] * tilted + variance / 2,
        ofSet: inSet * (setStep > -0.5 ? Math.log1p(accuracy * setStep) : Math.log(left)), slopeOfSet: inSet * setStep / left,
      };
    };
    let before = at(PIECE_PLACES[0]);
    start += before.value + before.ofSet;
    for (let i = 1; i <= CELL_PIECES; i++) {
      // The tangents where the chord of the parabola rises, else the chord itself.
      const after = at(PIECE_PLACES[i]), width = after.accuracy - before.accuracy, wide = width > NARROW, rise = after.value - before.value;
      const chord = wide ? rise / (after.tilted - before.tilted) : 0, falling = wide ? rise / width : 0;
      const left = (chord > 0 ? chord * before.steepness : falling) + before.slopeOfSet;
      const right = (chord > 0 ? chord * after.steepness : falling) + after.slopeOfSet;
      const gain = rise + after.ofSet - before.ofSet;
      const place = clip(left > right ? (gain - right * width) / (left - right) : width / 2, 0, width);
      add(place * side.shares[j], left * place);
      add((width - place) * side.shares[j], gain - left * place);
      before = after;
    }
  }
  const order = fallingOrder(ratios, Uint32Array.from(ratios, (_, i) => i));
  return { start, shares: Float64Array.from(order, (i) => shares[i]), gains: Float64Array.from(order, (i) => gains[i]) };
}

function cumulated(values) {
  // Cumulative sums, from 0.
  const sums = new Float64Array(values.length + 1);
  values.forEach((value, i) => { sums[i + 1] = sums[i] + value; });
  return sums;
}
