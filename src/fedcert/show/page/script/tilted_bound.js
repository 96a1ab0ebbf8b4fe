// The largest right side of the tail bound over class accuracies, for one tilt and every θ at once: a port of
// `intervals/least_favourable/tilted.py`, where the bound is stated. Lines are sorted only when they are asked for.

// intervals/least_favourable/tilted.py
const MOST_MAGNITUDE = 28, NODE_STEPS = 36, NODE_TAIL = 1.6, NODE_BELOW = 0.02, MOST_SMOOTH = Math.log(2), TILT_ROUNDING = 1e-11, LEAST_BEND = 1e-300, LEAST_TARGET = 1e-200, NEVER_STEEPER = 1e90;

const nodesByMagnitude = new Map();

function nodesFor(examples) {
  // Values of L from 0 to 1 and 1 - L.
  const magnitude = Math.min(Math.ceil(Math.log2(Math.max(examples, 2))), MOST_MAGNITUDE);
  if (!nodesByMagnitude.has(magnitude)) {
    const even = Array.from({ length: NODE_STEPS / 2 }, (_, i) => Math.sin((i + 1) * (Math.PI / 2 / NODE_STEPS)) ** 2);
    const steps = Math.max(Math.ceil(Math.log(even[0] * 2 ** magnitude / NODE_BELOW) / Math.log(NODE_TAIL)), 0);
    const lower = [...Array.from({ length: steps }, (_, i) => even[0] / NODE_TAIL ** (steps - i)), ...even];
    const upper = lower.slice(0, -1).reverse();
    nodesByMagnitude.set(magnitude, {
      values: Float64Array.from([0, ...lower, ...upper.map((value) => 1 - value), 1]),
      complements: Float64Array.from([1, ...lower.map((value) => 1 - value), ...upper, 0]),
    });
  }
  return nodesByMagnitude.get(magnitude);
}

function addCumulants(z, nodes, values, slopes) {
  // log(1 + L(e^z - 1)) and its derivative by L, at the nodes.
  const grown = Math.exp(z), change = Math.expm1(z), count = nodes.values.length;
  for (let i = 0; i < count; i++) {
    const node = nodes.values[i], whole = nodes.complements[i] + node * grown;
    values[i] = change > -0.5 ? Math.log1p(node * change) : Math.log(whole);
    slopes[i] = change / whole;
  }
}

function tiltedVariances(z, nodes, result, place = 0) {
  // L~(1 - L~) of the tilted accuracy L~ = L e^z/(1 + L(e^z - 1)), at the nodes.
  const grown = Math.exp(z), count = nodes.values.length;
  for (let i = 0; i < count; i++) {
    const node = nodes.values[i], other = nodes.complements[i], whole = other + node * grown;
    result[place + i] = grown * node * other / (whole * whole);
  }
}

function tablesAt(cells, tilt, nodes, withBracket) {
  // Cumulants, their derivatives and, for the bracket, tilted variances of each class at the nodes, classes x nodes.
  const size = cells.target.length, count = nodes.values.length;
  const cumulants = new Float64Array(size * count), derivatives = new Float64Array(size * count);
  const tables = { cumulants, derivatives, variances: withBracket ? new Float64Array(size * count) : null, largest: 0, cubes: 0, most: 0 };
  const values = new Float64Array(count), slopes = new Float64Array(count);
  if (cells.clients) {
    const rows = cells.clients;
    for (let r = 0; r < rows.weights.length; r++) {
      addCumulants(tilt * rows.weights[r], nodes, values, slopes);
      for (let j = 0; j < size; j++) {
        const examples = rows.examples[r * size + j], place = j * count;
        if (examples === 0) continue;
        for (let i = 0; i < count; i++) {
          cumulants[place + i] += examples * values[i];
          derivatives[place + i] += examples * slopes[i];
        }
      }
    }
    if (withBracket) addClientVariances(rows, tilt, nodes, size, tables);
  }
  if (cells.classes) {
    const rows = cells.classes;
    for (let r = 0; r < rows.smooth.length; r++) {
      for (let j = 0; j < size; j++) {
        const examples = rows.examples[r * size + j], place = j * count, z = tilt * rows.weights[r * size + j];
        if (examples === 0) continue;
        addCumulants(z, nodes, values, slopes);
        for (let i = 0; i < count; i++) {
          cumulants[place + i] += examples * values[i];
          derivatives[place + i] += examples * slopes[i];
        }
        const square = rows.smooth[r] && Math.abs(z) <= MOST_SMOOTH ? examples * z * z : 0;
        if (!withBracket || !(square > 0)) continue;
        tiltedVariances(z, nodes, values);
        for (let i = 0; i < count; i++) tables.variances[place + i] += square * values[i];
        tables.largest = Math.max(tables.largest, Math.abs(z));
        tables.cubes += square * Math.abs(z) / 8;
        tables.most += square / 4;
      }
    }
  }
  return tables;
}

function addClientVariances(rows, tilt, nodes, size, tables) {
  const count = nodes.values.length, each = new Float64Array(rows.weights.length * count);
  const known = new Uint8Array(rows.weights.length), least = new Float64Array(count);
  const at = (r) => {
    if (!known[r]) tiltedVariances(tilt * rows.weights[r], nodes, each, r * count);
    known[r] = 1;
    return r * count;
  };
  for (let s = 0; s < rows.first.length; s++) {
    const r = rows.first[s], t = rows.last[s];
    const furthest = tilt * Math.max(Math.abs(rows.weights[r]), Math.abs(rows.weights[t]));
    if (!(furthest <= MOST_SMOOTH)) continue;
    const low = at(r), high = at(t);
    for (let i = 0; i < count; i++) least[i] = Math.min(each[low + i], each[high + i]);
    let all = 0;
    for (let j = 0; j < size; j++) {
      const square = tilt * tilt * rows.squares[s * size + j], place = j * count;
      if (square === 0) continue;
      all += square;
      for (let i = 0; i < count; i++) tables.variances[place + i] += square * least[i];
    }
    if (all > 0) tables.largest = Math.max(tables.largest, furthest);
    tables.cubes += tilt ** 3 * rows.cubes[s] / 8;
    tables.most += all / 4;
  }
}

function tiltedBound(cells, tilt, withBracket) {
  // The bound's logarithm as a function of θ: of Chernoff's line, the first, and the largest of the others, the smaller. Each
  // class's part is below a polyline, whose pieces' ends, gains and bends are kept for classes that are in the target.
  const nodes = nodesFor(cells.examples), tables = tablesAt(cells, tilt, nodes, withBracket);
  const lines = withBracket ? linesAbove(tables.largest, tables.cubes, tables.most) : null;
  const heights = [0, ...(lines ? lines.heights : [])], slopes = [0, ...(lines ? lines.slopes : [])];
  const held = Array.from(cells.target, (_, j) => j).filter((j) => cells.target[j] > LEAST_TARGET), count = nodes.values.length;
  const ends = new Float64Array(held.length * (count + 1)), gains = new Float64Array(held.length * count);
  const bends = lines ? new Float64Array(gains.length) : null;
  held.forEach((j, k) => classPieces(tables, nodes, j, k, ends, gains, bends));
  for (let j = 0; j < cells.target.length; j++) {
    if (cells.target[j] > LEAST_TARGET) continue;  // what adds to the bound without adding to θ, or hardly anything
    const gain = new Float64Array(count), bend = lines ? gain.slice() : null;
    classPieces(tables, nodes, j, 0, new Float64Array(count + 1), gain, bend);
    slopes.forEach((slope, line) => gain.forEach((value, i) => { heights[line] += Math.max(slope ? value - slope * bend[i] : value, 0); }));
  }
  const rounding = TILT_ROUNDING * tilt * cells.sumSizes, target = Float64Array.from(held, (j) => cells.target[j]);
  return { tilt, heights: heights.map((height) => height + rounding), slopes, held, target, count, ends, gains, bends, sorted: [] };
}

function classPieces({ cumulants, derivatives, variances }, nodes, j, k, ends, gains, bends) {
  // A piece is the tangent of the cumulants at a node, between where it meets those of the nodes beside it; the variances'
  // chords are known there.
  const count = nodes.values.length, first = k * count;
  let start = 0, value = cumulants[j * count], variance = bends ? variances[j * count] : 0;
  for (let i = 0, place = j * count; i < count; i++, place++) {
    const before = [value, variance, start];
    if (i < count - 1) {
      const width = nodes.values[i + 1] - nodes.values[i], low = cumulants[place], high = cumulants[place + 1];
      const rising = derivatives[place], falling = derivatives[place + 1];
      const part = clip((high - low - falling * width) / Math.max(rising - falling, LEAST_BEND), 0, width);
      value = Math.max(low + rising * part, high - falling * (width - part));
      if (bends) variance = variances[place] + (variances[place + 1] - variances[place]) * (part / width);
      start = Math.min(nodes.values[i] + part, nodes.values[i + 1]);
    } else {
      value = cumulants[place];
      if (bends) variance = variances[place];
      start = 1;
    }
    gains[first + i] = value - before[0];
    if (bends) bends[first + i] = variance - before[1];
    ends[first + k + i + 1] = start;
  }
}

function polylineOf(bound, line, risingOnly) {
  // The pieces in the order of gain per share, added up from the origin; those that fall are left out where only the
  // rise matters. Each piece is at least as steep as those of its class after it: above what it replaces, and concave.
  if (bound.sorted[line]?.risingOnly === risingOnly) return bound.sorted[line];
  const { gains, bends, ends, count, target } = bound, slope = bound.slopes[line], pieces = gains.length;
  const ratios = new Float64Array(pieces), steep = new Float64Array(pieces), numbers = new Uint32Array(pieces);
  for (let k = target.length - 1, i = pieces - 1; k >= 0; k--) {
    for (let after = -NEVER_STEEPER, c = count - 1; c >= 0; c--, i--) {
      const width = ends[i + k + 1] - ends[i + k];
      if (width > 0) after = Math.max(after, (slope ? gains[i] - slope * bends[i] : gains[i]) / width);
      steep[i] = after;
      ratios[i] = after / target[k];
    }
  }
  let chosen = 0;
  for (let i = 0; i < pieces; i++) if (!risingOnly || steep[i] > 0) numbers[chosen++] = i;
  const order = fallingOrder(ratios, numbers.subarray(0, chosen)), x = new Float64Array(chosen + 1), y = new Float64Array(chosen + 1);
  for (let n = 0; n < chosen; n++) {
    const i = order[n], k = Math.floor(i / count), width = ends[i + k + 1] - ends[i + k];
    x[n + 1] = x[n] + target[k] * width;
    y[n + 1] = y[n] + steep[i] * width;
  }
  return bound.sorted[line] = { risingOnly, steep, order, shares: x, gains: y };
}

function fallingOrder(values, numbers) {
  // The numbers in the order of falling values: by the values' upper halves, eleven bits at a time from the last ones, and
  // the few that this leaves out of order one by one. Several times faster than sorting with a comparison.
  const count = numbers.length, halves = new Uint32Array(values.buffer), counts = new Uint32Array(3 * 2048);
  const keys = new Uint32Array(values.length);
  for (let k = 0; k < count; k++) {
    const i = numbers[k], upper = halves[2 * i + 1], key = (upper >>> 31 ? upper : ~upper & 0x7fffffff) >>> 0;
    keys[i] = key;
    counts[key & 2047]++;
    counts[2048 + (key >>> 11 & 2047)]++;
    counts[4096 + (key >>> 22)]++;
  }
  let order = numbers, other = new Uint32Array(count);
  for (let digit = 0; digit < 3; digit++) {
    const shift = 11 * digit, place = 2048 * digit;
    for (let d = 0, start = 0; d < 2048; d++) {
      const next = start + counts[place + d];
      counts[place + d] = start;
      start = next;
    }
    for (let k = 0; k < count; k++) other[counts[place + (keys[order[k]] >>> shift & 2047)]++] = order[k];
    [order, other] = [other, order];
  }
  for (let k = 1; k < count; k++) {
    const i = order[k], value = values[i];
    let before = k - 1;
    while (before >= 0 && values[order[before]] < value) { order[before + 1] = order[before]; before--; }
    order[before + 1] = i;
  }
  return order;
}

function interpolated(at, x, y) {
  // The polyline through (x, y) at a place, x rising; the end's value beyond an end.
  let low = 0, high = x.length - 1;
  if (!(at > x[0])) return y[0];
  if (at >= x[high]) return y[high];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle] <= at) low = middle; else high = middle;
  }
  return y[low] + (y[high] - y[low]) / (x[high] - x[low]) * (at - x[low]);
}

function rejectedByLine(bound, line, value, level) {
  // The largest θ that a value of T rejects by one line: -1 where it rejects none, infinity where all.
  const { shares, gains } = polylineOf(bound, line, true), room = bound.tilt * value - level - bound.heights[line];
  return room < 0 ? -1 : room >= gains[gains.length - 1] ? Infinity : interpolated(room, gains, shares);
}

function raiseRejected(bound, values, level, best, chosen, within) {
  // Raise best[i] of the chosen values to the largest θ that each rejects at exp(-level): infinity where all are. Lines
  // other than Chernoff's are looked at until one of them shows that no value gains. `within`: as in `rejectedWithin`.
  const everywhere = (line, i) => rejectedByLine(bound, line, values[i], level);
  const at = within ? (line, i) => rejectedWithin(bound, line, values[i], level, within, i) : everywhere;
  const alone = bound.slopes.length === 1;
  const ends = new Float64Array(chosen.length).fill(alone ? -1 : Infinity);
  for (let line = 1; line < bound.slopes.length; line++) {
    let gaining = false;
    chosen.forEach((i, k) => {
      // Ranges only raise what a line rejects: where another line rejects less, this one does not matter.
      if (ends[k] > best[i] && (!within || everywhere(line, i) < ends[k])) ends[k] = Math.min(ends[k], at(line, i));
      gaining = gaining || ends[k] > best[i];
    });
    if (!gaining) break;
  }
  chosen.forEach((i, k) => { best[i] = Math.max(best[i], ends[k], (alone ? at : everywhere)(0, i)); });
}

function largestBetween(bound, low, high) {
  // The bound's logarithm at its largest over low <= θ <= high, for several pairs.
  const result = new Float64Array(low.length).fill(-Infinity), chernoff = new Float64Array(low.length);
  for (let line = 0; line < bound.slopes.length; line++) {
    const { shares, gains } = polylineOf(bound, line, false);
    let peak = 0;
    for (let k = 1; k < gains.length; k++) if (gains[k] > gains[peak]) peak = k;
    low.forEach((least, i) => {
      const value = bound.heights[line] + interpolated(clip(shares[peak], least, high[i]), shares, gains);
      if (line) result[i] = Math.max(result[i], value); else chernoff[i] = value;
    });
  }
  return bound.slopes.length > 1 ? result.map((value, i) => Math.min(value, chernoff[i])) : chernoff;
}
