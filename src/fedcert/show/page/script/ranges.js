// Ranges of single classes' accuracies, within which the worst case of a test is sought: a port of
// `intervals/least_favourable/ranges.py`.

const RANGE_SHARE = 0.03, MOST_RANGED = 200, LONGEST_RANGES = 0.08;  // intervals/least_favourable/ranges.py

function worthRanges(target, examples, level) {
  // Whether ranges exclude enough to be worth their error and their time, as far as the labels say.
  const error = rangeError(examples, level);
  let weighed = 0, whole = 0, length = 0;
  examples.forEach((count, j) => {
    if (!(count > 0 && target[j] > 0)) return;
    weighed++;
    whole += target[j];
    length -= target[j] * Math.expm1(Math.log(error) / count);
  });
  return weighed > 1 && target.length <= MOST_RANGED && length <= LONGEST_RANGES * whole;
}

function rangeError(examples, level) {
  return Math.exp(-level) * RANGE_SHARE / examples.reduce((sum, count) => sum + (count > 0), 0);
}

function classRanges(certified, examples, radii, error) {
  // Clopper and Pearson's intervals of the classes, each end wrong with probability at most `error`: at each radius, then of
  // what is not certified. Rows of classes; classes without examples may have any accuracy.
  const size = examples.length, low = new Float64Array(2 * radii * size), high = low.slice().fill(1);
  for (let j = 0; j < size; j++) {
    const n = examples[j];
    for (let r = 0; n > 0 && r < radii; r++) {
      const k = certified[j * radii + r], place = r * size + j, mirrored = (radii + r) * size + j;
      if (k > 0) low[place] = betaQuantile(error, k, n - k + 1);
      if (k < n) low[mirrored] = betaQuantile(error, n - k, k + 1);
      high[place] = 1 - low[mirrored];
      high[mirrored] = 1 - low[place];
    }
  }
  return { low, high, size };
}

function leastWithin({ low, size }, target, place) {
  // The smallest θ that the ranges at a place allow.
  let sum = 0;
  for (let j = 0; j < size; j++) sum += target[j] * low[place * size + j];
  return sum;
}

function rejectedWithin(bound, line, value, level, { ranges, places }, index) {
  // As `rejectedByLine`, for accuracies within the ranges at places[index]: the classes' pieces are taken in the order of
  // gain per share of θ, as far as they lie within.
  const { count, ends, held, target } = bound, { low, high, size } = ranges, row = places[index] * size;
  const polyline = polylineOf(bound, line, true), { steep } = polyline, room = bound.tilt * value - level - bound.heights[line];
  polyline.inClasses ??= inClasses(bound, polyline);
  const { ranks, heights } = polyline.inClasses, classes = held.length;
  const first = new Int32Array(classes), last = new Int32Array(classes), atLow = new Float64Array(classes), atHigh = new Float64Array(classes);
  for (let k = 0; k < classes; k++) {
    const piece = k * count, node = piece + k, least = low[row + held[k]], most = high[row + held[k]];
    first[k] = pieceOf(ends, node, count, least);
    last[k] = pieceOf(ends, node, count, most);
    atLow[k] = heights[node + first[k]] + steep[piece + first[k]] * (least - ends[node + first[k]]);
    atHigh[k] = heights[node + last[k]] + steep[piece + last[k]] * (most - ends[node + last[k]]);
  }
  const gain = (step) => {
    let sum = 0;
    for (let k = 0; k < classes; k++) {
      const number = ranksBelow(ranks, k * count, count, step);
      sum += number <= first[k] ? atLow[k] : number > last[k] ? atHigh[k] : heights[k * (count + 1) + number];
    }
    return sum;
  };
  const theta = (step) => {
    let sum = 0;
    for (let k = 0; k < classes; k++) {
      const number = ranksBelow(ranks, k * count, count, step);
      sum += target[k] * clip(ends[k * (count + 1) + number], low[row + held[k]], high[row + held[k]]);
    }
    return sum;
  };
  let start = 0, stop = polyline.order.length;
  if (room < gain(start)) return -1;
  if (room >= gain(stop)) return Infinity;
  while (stop - start > 1) {
    const middle = (start + stop) >> 1;
    if (gain(middle) > room) stop = middle; else start = middle;
  }
  const below = gain(start), above = gain(stop), from = theta(start);
  return from + (above > below ? clip((room - below) / (above - below), 0, 1) : 0) * (theta(stop) - from);
}

function inClasses({ count, ends, target }, { order, steep }) {
  // The place of each class's pieces in the order, and the polylines' values at their ends.
  const ranks = new Uint32Array(steep.length).fill(order.length), heights = new Float64Array(ends.length);
  order.forEach((piece, place) => { ranks[piece] = place; });
  for (let k = 0; k < target.length; k++) {
    for (let c = 0, piece = k * count, node = piece + k; c < count; c++, piece++, node++) {
      heights[node + 1] = heights[node] + steep[piece] * (ends[node + 1] - ends[node]);
    }
  }
  return { ranks, heights };
}

function pieceOf(ends, start, count, accuracy) {
  // The piece of a class in which an accuracy lies: from its first end on, up to but without its second.
  let low = 0, high = count;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (ends[start + middle] <= accuracy) low = middle; else high = middle;
  }
  return low;
}

function ranksBelow(ranks, start, count, step) {
  // How many pieces of a class are among so many of the first ones.
  let low = 0, high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranks[start + middle] < step) low = middle + 1; else high = middle;
  }
  return low;
}
