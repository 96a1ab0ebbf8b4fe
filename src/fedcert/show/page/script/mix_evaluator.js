// The estimate and its interval for any class mix: a port of `MixEvaluator.at` in `estimation/mix_evaluator.py`, to the
// arrays of `estimation/mix_arrays.py`, which the page carries. The constants are those of the Python modules.

const CLOSEST_TO_CERTAIN = 0.01;  // intervals/ingredients.py
const FEWEST_FREEDOM = 2;  // intervals/cluster_robust.py
const LEAST_VARIANCE = 1e-300, CROSSED = 1e-12;  // intervals/half_widths.py
// methods/linear_weights.py
const PENALTIES = Array.from({ length: 29 }, (_, i) => Math.exp(Math.log(1e-6) + i * Math.log(1e14) / 28));

// Kinds of intervals, by their ends at each radius; others are errors.
const KINDS = { "finite-sample": unlessNoisy(finiteSample), hoeffding: unlessNoisy(aroundCentre(hoeffding)), asymptotic: aroundCentre(asymptotic) };

function* evaluationAt(evaluator, mix) {
  // The estimate for a class mix, in parts: it pauses after each of them, and returns the whole.
  const { point, uncertainty } = ingredientsAt(evaluator, mix);
  if (evaluator.no_interval) return { point, lower: null, upper: null, why: evaluator.no_interval };
  const ends = yield* evaluator.vote ? endsOfVote(evaluator, mix) : endsAt(evaluator, uncertainty, mix);
  const together = evaluator.vote ? evaluator.vote.at_once : evaluator.settings.simultaneous;
  const [lower, upper] = allowedEnds(ends, evaluator.failure_probability, together);
  const [least, most] = allowedEnds(ends, 0, together);
  return { point: point.map((value, r) => clip(clip(value, least[r], most[r]), 0, 1)), lower, upper, contradicted: contradicted(ends, together) };
}

function* endsAt(evaluator, uncertainty, mix) {
  // Both ends at each radius, before they are kept within what accuracies can be.
  const kind = evaluator.settings.interval;
  if (!Object.hasOwn(KINDS, kind)) throw new Error(`this page knows no interval “${kind}”`);
  const ends = yield* KINDS[kind](evaluator, uncertainty, mix);
  return evaluator.client_effects ? allowingForEffects(evaluator, uncertainty, mix, ends) : ends;
}

function aroundCentre(halfLengths) {
  return function* (evaluator, of, mix) {
    const half = halfLengths(evaluator, of, mix);
    return [half.map((value, r) => of.centre[r] - value), half.map((value, r) => of.centre[r] + value)];
  };
}

function unlessNoisy(kind) {
  // Noise for privacy has one interval for all kinds that do not rest on standard errors.
  return (evaluator, of, mix) => (evaluator.by_class?.noise ? noisyEnds(evaluator, mix) : kind(evaluator, of, mix));
}

function* finiteSample(evaluator, of, mix) {
  // Hoeffding's interval where single cells are not known.
  return yield* of.segments ? leastFavourable(evaluator, of.segments) : aroundCentre(hoeffding)(evaluator, of, mix);
}

function evaluateAt(evaluator, mix) {
  const evaluation = evaluationAt(evaluator, mix);
  for (;;) {
    const { done, value } = evaluation.next();
    if (done) return value;
  }
}

function pointAt(evaluator, mix) {
  // The point by itself, which takes no time; with its interval, it is moved into that.
  const { by_client: given } = evaluator;
  const point = given ? pointOfClasses(given.class_accuracy, evaluator.radii.length, mix) : ingredientsAt(evaluator, mix).point;
  return { point, lower: null, upper: null };
}

function ingredientsAt(evaluator, mix) {
  const accuracy = evaluator.vote?.class_accuracy;
  if (accuracy) return { point: pointOfClasses(accuracy, evaluator.radii.length, mix), uncertainty: null };  // its ends have their own
  if (evaluator.by_class) return evaluator.by_class.noise ? byNoisyClass(evaluator, mix) : byClass(evaluator, mix);
  if (evaluator.by_client) return byClient(evaluator, mix);
  throw new Error(`this page knows no way to evaluate “${evaluator.method}”`);
}

function byClass(evaluator, mix) {
  const { labels, certified, inflation, fallback_curve: fallback } = evaluator.by_class;
  const radii = evaluator.radii.length, centre = new Float64Array(radii), scaled = new Float64Array(mix.length);
  const point = new Float64Array(radii), varianceWeights = [], exampleWeights = [], accuracy = [], spread = [];
  let missing = 0, square = 0;
  labels.forEach((count, j) => {
    const held = count > 0;
    if (!held) missing += mix[j];
    scaled[j] = held ? mix[j] / count : 0;
    const weight = held ? mix[j] ** 2 / count * inflation[j] : 0;
    square += weight;
    varianceWeights.push(weight);
    exampleWeights.push(scaled[j] * inflation[j]);
    const smooth = new Float64Array(radii), shortfall = 1 - count / (count + 1) ** 2;
    for (let r = 0; r < radii; r++) {
      const k = certified[j * radii + r];
      if (held) centre[r] += mix[j] * k / count;
      smooth[r] = (clip(k, 0, count) + 0.5) / (count + 1);
    }
    accuracy.push(smooth);
    spread.push(smooth.map((value) => value * (1 - value) / shortfall));
  });
  const known = centre.slice(), squares = new Float64Array(radii).fill(square);
  for (let r = 0; r < radii; r++) {
    point[r] = centre[r] + missing * (fallback ? fallback[r] : 0.5);
    centre[r] += missing / 2;
  }
  const segments = (level) => classSegments(evaluator.by_class, scaled, mix, known, level);
  const uncertainty = { centre, bias: missing / 2, varianceWeights, exampleWeights, squares, accuracy, spread, parts: mix, segments };
  return { point: decreasing(point), uncertainty };
}

function byClient(evaluator, mix) {
  const given = evaluator.by_client, radii = evaluator.radii.length, size = mix.length;
  const chosen = ruleFor(given, mix);
  // Where clients are known, their weights add up to 1 in spite of rounding.
  const total = given.known ? dot(chosen, rowSums(given.labels_labels, size)) : 1;
  const coefficients = chosen.map((value) => value / total);
  const reached = times(given.labels_labels, coefficients);
  const own = dot(coefficients, reached), sum = sizeOf(coefficients);
  const slack = given.known ? 0 : given.rounding * sum * (size + 1);
  const whole = given.known ? own : Math.max(own, 1 / given.examples) + given.rounding * sum ** 2;
  const varianceWeights = given.labels ? Array.from(given.labels, (count, j) => coefficients[j] ** 2 * count * given.inflation[j]) : null;
  const grouped = varianceWeights ? varianceWeights.reduce((all, value) => all + value, 0) : 0;
  const squares = Float64Array.from({ length: radii }, (_, r) =>
    given.squares ? quadratic(given.squares[r], coefficients) : Math.max(whole * given.factor[r], grouped));
  const centre = curveOf(given, coefficients, radii);
  const accuracy = Array.from({ length: size }, (_, j) => Float64Array.from({ length: radii }, (_, r) =>
    clip(given.class_accuracy[j * radii + r], CLOSEST_TO_CERTAIN, 1 - CLOSEST_TO_CERTAIN)));
  const exampleWeights = given.labels ? coefficients.map((value, j) => value * given.inflation[j]) : null;
  const [variance, asymmetry] = [given.variance, given.asymmetry].map((forms) =>
    forms ? forms.map((form) => quadratic(form, coefficients)) : null);
  const spread = accuracy.map((row) => row.map((value) => value * (1 - value)));
  const bias = worstBias(mix, reached) + slack, cells = given.client_cells || given.class_cells;
  const segments = cells ? (level) => ruleSegments(given, radii, mix, chosen, level) : null;
  return {
    point: pointOfClasses(given.class_accuracy, radii, mix),
    uncertainty: {
      centre, bias, varianceWeights, exampleWeights, squares, accuracy, spread, variance, asymmetry, parts: coefficients,
      segments,
    },
  };
}

function pointOfClasses(accuracy, radii, mix) {
  const point = new Float64Array(radii);
  for (let j = 0; j < mix.length; j++) {
    for (let r = 0; r < radii; r++) point[r] += mix[j] * accuracy[j * radii + r];
  }
  return decreasing(point);
}

function rowSums(matrix, size) {
  return times(matrix, new Float64Array(size).fill(1));
}

function sizeOf(coefficients) {
  return coefficients.reduce((sum, value) => sum + Math.abs(value), 0);
}

function worstBias(mix, reached) {
  let missed = 0;
  for (let j = 0; j < mix.length; j++) missed += Math.abs(mix[j] - reached[j]);
  return missed / 2;
}

function ruleFor(given, mix) {
  // The shortest honest weights, held against the ridge family's by the half-width with what rounding can cost.
  const size = mix.length;
  if (given.clients < 2) return new Float64Array(size).fill(1 / given.examples);
  const along = given.values.map((value, k) => value * given.ones[k]);
  const projected = (coefficients) => {
    const parts = partsAlong(given, coefficients), total = dot(parts, along);
    return fromParts(given, parts.map((value) => value / total));
  };
  const exact = shortest(given.labels_labels, mix, given.deviations, projected);
  const ridge = ridgeRule(given, mix, along);
  return honestLength(given, mix, ridge) < honestLength(given, mix, exact) ? ridge : exact;
}

function honestLength(given, mix, coefficients) {
  const reached = times(given.labels_labels, coefficients), sum = sizeOf(coefficients);
  const squares = Math.max(dot(coefficients, reached), 1 / given.examples) + given.rounding * sum ** 2;
  return worstBias(mix, reached) + given.rounding * sum * (mix.length + 1) + given.deviations * Math.sqrt(squares);
}

function partsAlong(given, vector) {
  const count = given.values.length, parts = new Float64Array(count);
  for (let j = 0; j < vector.length; j++) {
    for (let k = 0; k < count; k++) parts[k] += given.vectors[j * count + k] * vector[j];
  }
  return parts;
}

function fromParts(given, parts) {
  return times(given.vectors, parts);
}

function ridgeRule(given, mix, along) {
  const wanted = partsAlong(given, mix), missing = mix.reduce((sum, value) => sum + value, 0) - dot(wanted, given.ones);
  let best = null, least = Infinity;
  for (const penalty of PENALTIES) {
    const falling = given.values.map((value) => 1 / (1 + penalty * value));
    let above = missing, below = 0;
    falling.forEach((value, k) => {
      above += wanted[k] * given.ones[k] * value;
      below += along[k] * given.ones[k] * value;
    });
    const rows = falling.map((value, k) => (above / below * given.ones[k] + penalty * wanted[k]) * value);
    const total = dot(rows, along), ridge = rows.map((value) => value / total);
    const coefficients = fromParts(given, ridge), sum = sizeOf(coefficients);
    const reached = fromParts(given, ridge.map((value, k) => value * given.values[k]));
    const squares = ridge.reduce((all, value, k) => all + value ** 2 * given.values[k], 0) + given.rounding * sum ** 2;
    const half = worstBias(mix, reached) + given.rounding * sum * (mix.length + 1) + given.deviations * Math.sqrt(squares);
    if (half < least) { least = half; best = coefficients; }
  }
  return best;
}

function hoeffding(evaluator, of) {
  const { confidence, simultaneous, target_examples: set } = evaluator.settings;
  const radii = simultaneous ? evaluator.radii.length : 1;
  const deviations = Math.sqrt(Math.log(2 * radii / (1 - confidence)) / 2);
  return Array.from(of.squares, (square, r) =>
    of.bias + deviations * Math.sqrt(square + (set ? 1 / set : 0)));
}

function asymptotic(evaluator, of, mix) {
  const { confidence, simultaneous, target_examples: set } = evaluator.settings, radii = evaluator.radii.length;
  const each = simultaneous ? 1 - (1 - confidence) / radii : confidence, quantile = foldedQuantile(0, each, normalCdf);
  return Array.from({ length: radii }, (_, r) => {
    const square = of.squares[r] + (set ? 1 / set : 0);
    let variance = of.noise ? of.noise[r] : 0, lean = 0;
    if (of.varianceWeights || of.variance) {
      if (of.variance) { variance = of.variance[r]; lean = of.squares[r] * of.asymmetry[r]; }
      of.accuracy.forEach((row, j) => {
        const spread = of.spread[j][r], lopsided = spread * (1 - 2 * row[r]);
        if (!of.variance) {
          variance += of.varianceWeights[j] * spread;
          lean += of.varianceWeights[j] * (of.exampleWeights ? of.exampleWeights[j] : of.squares[r]) * lopsided;
        }
        if (set) { variance += mix[j] / set * spread; lean -= mix[j] / set ** 2 * lopsided; }
      });
      lean /= Math.max(variance, LEAST_VARIANCE);
    } else {
      const largest = of.spread.reduce((most, row) => Math.max(most, row[r]), 0);
      variance = square * largest;
      lean = square * Math.sqrt(Math.max(1 - 4 * largest, 0));
    }
    const few = quantile ** 2 * (square * variance + lean ** 2 / 2);
    const error = Math.sqrt(Math.max(variance + few, LEAST_VARIANCE));
    return foldedQuantile(of.bias / error, each, normalCdf) * error;
  });
}

function allowingForEffects(evaluator, of, mix, [lower, upper]) {
  const given = evaluator.client_effects, { confidence, target_examples: set } = evaluator.settings;
  const half = of.centre.map((_, r) => {
    let extra = 0;
    if (set) of.spread.forEach((row, j) => { extra += mix[j] * row[r] / set; });
    const moved = quadratic(given.moved[r], of.parts);
    const model = quadratic(given.noise[r], of.parts) + given.variance[r] * moved;
    const freedom = Math.max(2 * model ** 2 / Math.max(moved ** 2 * given.variance_error[r], LEAST_VARIANCE), FEWEST_FREEDOM);
    const byModel = Math.sqrt(Math.max(model + extra, LEAST_VARIANCE));
    const byClients = Math.sqrt(Math.max(quadratic(given.scores[r], of.parts), LEAST_VARIANCE) + extra);
    return Math.max(
      foldedQuantile(of.bias / byModel, confidence, (t) => studentCdf(t, freedom)) * byModel,
      foldedQuantile(of.bias / byClients, confidence, normalCdf) * byClients,
    );
  });
  return [half.map((value, r) => Math.min(lower[r], of.centre[r] - value)), half.map((value, r) => Math.max(upper[r], of.centre[r] + value))];
}

function allowedEnds(ends, failure, monotone) {
  let lower = Array.from(ends[0], (value) => value - failure), upper = Array.from(ends[1]);
  if (monotone) {
    const [highest, lowest] = fallingEnds(lower, upper);
    if (highest.every((value, r) => value <= lowest[r])) { lower = highest; upper = lowest; }
  }
  return [lower.map((value) => clip(value, 0, 1)), upper.map((value) => clip(value, 0, 1))];
}

function contradicted(ends, monotone) {
  // Whether no accuracies that fall with the radius, from 1 to 0, lie within an interval.
  let lower = Array.from(ends[0], (value) => Math.max(value, 0)), upper = Array.from(ends[1], (value) => Math.min(value, 1));
  if (monotone) [lower, upper] = fallingEnds(lower, upper);
  return lower.some((value, r) => value > upper[r] + CROSSED);
}

function fallingEnds(lower, upper) {
  // Ends of curves that fall with the radius, within these.
  const highest = lower.slice(), lowest = upper.slice();
  for (let r = lower.length - 2; r >= 0; r--) highest[r] = Math.max(highest[r], highest[r + 1]);
  for (let r = 1; r < upper.length; r++) lowest[r] = Math.min(lowest[r], lowest[r - 1]);
  return [highest, lowest];
}
