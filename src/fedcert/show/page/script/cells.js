// What a weighted sum T of certified examples is made of: cells of examples with one class and one weight. A port of
// `intervals/least_favourable/cells.py`. Tables are rows x classes, row after row.

const MOST_ROWS = 256, BINS = 64, SAME_WEIGHT = 1e-12;  // intervals/least_favourable/cells.py

function cellsOf(target, clients, classes) {
  // With what tests need of all cells together: Σ u n by class and in all, Σ n u², Σ n |u|, Σ n, the largest |u|, and
  // the number of examples that have a weight and these weights' limits, where all are positive and independent.
  const size = target.length, means = new Float64Array(size);
  let totalWeight = 0, sumSquares = 0, sumSizes = 0, examples = 0, largest = 0, least = Infinity, most = -Infinity, weighed = 0;
  const add = (j, count, weight) => {
    if (!(count > 0)) return;
    means[j] += weight * count;
    totalWeight += weight * count;
    sumSquares += weight * weight * count;
    sumSizes += Math.abs(weight) * count;
    examples += count;
    if (weight === 0) return;
    weighed += count;
    largest = Math.max(largest, Math.abs(weight));
    least = Math.min(least, weight);
    most = Math.max(most, weight);
  };
  if (clients) {
    for (let r = 0; r < clients.weights.length; r++) {
      for (let j = 0; j < size; j++) add(j, clients.examples[r * size + j], clients.weights[r]);
    }
  }
  if (classes) classes.examples.forEach((count, i) => add(i % size, count, classes.weights[i]));
  const independent = (!classes || classes.smooth.every((value) => value)) && (!clients || clients.first.length >= clients.weights.length);
  const positive = independent && weighed > 0 && least > 0 ? { least, most, count: Math.round(weighed) } : null;
  return { target, clients, classes, means, totalWeight, sumSquares, sumSizes, examples, largest, positive };
}

function withTargetSet(cells, count) {
  // The cells of T less the certified accuracy of a set of so many examples with the target's mix.
  const { target, clients, classes } = cells, size = target.length;
  const rows = classes || { weights: [], examples: [], smooth: [] };
  return cellsOf(target, clients, {
    weights: Float64Array.from([...rows.weights, ...new Float64Array(size).fill(-1 / count)]),
    examples: Float64Array.from([...rows.examples, ...Array.from(target, (share) => share * count)]),
    smooth: Float64Array.from([...rows.smooth, 1]),
  });
}

function classRows(given, weights) {
  // Cells of the classes' totals, an example of class j weighing weights[j]; groups of alike examples are fewer, heavier ones.
  const size = weights.length;
  return {
    weights: Float64Array.from(given.examples, (_, i) => given.group_sizes[Math.floor(i / size)] * weights[i % size]),
    examples: given.examples, smooth: given.smooth,
  };
}

function clientRows(weights, given) {
  // Cells of clients whose examples weigh weights[k] each. Every weight of smooth row s lies between weights[first[s]] and
  // weights[last[s]] of the result, which has Σ n u² (by class) and Σ n |u|³ of these rows.
  const { labels, group_sizes: groups, smooth } = given, count = weights.length, size = labels.length / count;
  const alone = (k) => groups[k] === 1 && smooth[k] === 1;
  let least = Infinity, most = -Infinity, independent = true;
  for (let k = 0; k < count; k++) {
    least = Math.min(least, weights[k]);
    most = Math.max(most, weights[k]);
    independent = independent && alone(k);
  }
  if (independent && most - least <= SAME_WEIGHT * Math.max(Math.abs(least), Math.abs(most))) {  // one row says the same
    const together = new Float64Array(size);
    for (let i = 0; i < labels.length; i++) together[i % size] += labels[i];
    return rowsAsTheyAre(weights.subarray(0, 1), together, size, [1], () => true);
  }
  return count > MOST_ROWS ? binned(weights, labels, size, groups, alone) : rowsAsTheyAre(weights, labels, size, groups, alone);
}

function rowsAsTheyAre(weights, labels, size, groups, alone) {
  const rows = Array.from(weights, (_, k) => k).filter(alone), first = Int32Array.from(rows);
  const squares = new Float64Array(rows.length * size), cubes = new Float64Array(rows.length);
  rows.forEach((k, s) => {
    for (let j = 0; j < size; j++) {
      squares[s * size + j] = labels[k * size + j] * weights[k] ** 2;
      cubes[s] += labels[k * size + j] * Math.abs(weights[k]) ** 3;
    }
  });
  return {
    weights: weights.map((value, k) => value * groups[k]),
    examples: labels.map((value, i) => value / groups[Math.floor(i / size)]),
    first, last: first, squares, cubes,
  };
}

function binned(each, labels, size, groups, alone) {
  // Each weight spread over the two values beside it, so that its mean stays: the cumulant function only grows.
  let least = Infinity, most = -Infinity;
  for (let k = 0; k < each.length; k++) {
    least = Math.min(least, each[k] * groups[k]);
    most = Math.max(most, each[k] * groups[k]);
  }
  let weights = Float64Array.from({ length: BINS + 1 }, (_, i) => (i === BINS ? most : least + i * ((most - least) / BINS)));
  let width = weights[1] - weights[0];
  if (!(width > 0)) {
    weights = Float64Array.of(least, least);
    width = 1;
  }
  const bins = weights.length - 1, examples = new Float64Array((bins + 1) * size);
  const squares = new Float64Array(bins * size), cubes = new Float64Array(bins);
  for (let k = 0; k < each.length; k++) {
    const heavy = each[k] * groups[k], bin = clip(Math.trunc((heavy - weights[0]) / width), 0, bins - 1);
    const above = clip((heavy - weights[bin]) / width, 0, 1), counted = alone(k);
    for (let j = 0; j < size; j++) {
      const count = labels[k * size + j], few = count / groups[k];
      if (!(count > 0)) continue;
      examples[bin * size + j] += few * (1 - above);
      examples[(bin + 1) * size + j] += few * above;
      if (!counted) continue;
      squares[bin * size + j] += few * heavy * heavy;
      cubes[bin] += few * Math.abs(heavy) ** 3;
    }
  }
  const first = Int32Array.from({ length: bins }, (_, s) => s);
  return { weights, examples, first, last: first.map((s) => s + 1), squares, cubes };
}
