// Weights of clients whose honest interval is shortest: a barrier method, then the exact solution that the classes at
// their limits determine. A port of `estimation/methods/minimax_solver.py`, where the problem is stated; its path of
// solutions is left out, which is faster and gives the same.

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

function times(matrix, vector) {
  const size = vector.length, result = new Float64Array(matrix.length / size);
  for (let i = 0; i < result.length; i++) {
    let sum = 0;
    for (let j = 0; j < size; j++) sum += matrix[i * size + j] * vector[j];
    result[i] = sum;
  }
  return result;
}

function quadratic(matrix, vector) {
  return dot(vector, times(matrix, vector));
}

function cholesky(matrix, size, clearly = 1e-10) {
  // The lower factor; null where the matrix is not clearly positive definite.
  const result = Float64Array.from(matrix);
  for (let j = 0; j < size; j++) {
    const before = Math.abs(matrix[j * size + j]);
    let pivot = result[j * size + j];
    for (let k = 0; k < j; k++) pivot -= result[j * size + k] ** 2;
    if (!(pivot > clearly * before)) {
      if (clearly) return null;
      pivot = 1e-16 * before + 1e-300;
    }
    const root = result[j * size + j] = Math.sqrt(pivot);
    for (let i = j + 1; i < size; i++) {
      let sum = result[i * size + j];
      for (let k = 0; k < j; k++) sum -= result[i * size + k] * result[j * size + k];
      result[i * size + j] = sum / root;
    }
  }
  return result;
}

function solvedBy(factor, right) {
  const size = right.length, result = Float64Array.from(right);
  for (let i = 0; i < size; i++) {
    for (let k = 0; k < i; k++) result[i] -= factor[i * size + k] * result[k];
    result[i] /= factor[i * size + i];
  }
  for (let i = size - 1; i >= 0; i--) {
    for (let k = i + 1; k < size; k++) result[i] -= factor[k * size + i] * result[k];
    result[i] /= factor[i * size + i];
  }
  return result;
}

function leastSolution(matrix, size, rights) {
  // Of a symmetric system, for several right sides; close to the shortest one where it is singular.
  const factor = cholesky(matrix, size);
  if (factor) return rights.map((right) => solvedBy(factor, right));
  let largest = 0;
  for (let i = 0; i < size; i++) largest = Math.max(largest, matrix[i * size + i]);
  const shifted = Float64Array.from(matrix);
  for (let i = 0; i < size; i++) shifted[i * size + i] += 1e-11 * largest + 1e-300;
  const near = cholesky(shifted, size, 0);
  return rights.map((right) => {
    const result = solvedBy(near, right);
    for (let count = 0; count < 4; count++) {  // iterative refinement: it undoes the shift
      const left = times(matrix, result), more = solvedBy(near, right.map((value, i) => value - left[i]));
      for (let i = 0; i < size; i++) result[i] += more[i];
    }
    return result;
  });
}

function slacksOf(matrix, point, budget) {
  const size = point.length - 1, u = point.subarray(0, size), low = point[size];
  const slacks = new Float64Array(2 * size + 1);
  slacks[0] = budget - 0.5 * quadratic(matrix, u);
  for (let j = 0; j < size; j++) {
    slacks[1 + j] = low + 1 - u[j];
    slacks[1 + size + j] = u[j] - low;
  }
  return slacks;
}

function newtonStep(matrix, point, budget, target, sharpness) {
  const size = target.length, n = size + 1, u = point.subarray(0, size), low = point[size];
  const slope = times(matrix, u), room = budget - 0.5 * dot(u, slope);
  const gradient = new Float64Array(n), hessian = new Float64Array(n * n);
  for (let i = 0; i < size; i++) {
    const above = low + 1 - u[i], below = u[i] - low, bend = 1 / above ** 2 + 1 / below ** 2;
    gradient[i] = -sharpness * target[i] + slope[i] / room + 1 / above - 1 / below;
    gradient[size] += 1 / below - 1 / above;
    for (let j = 0; j < size; j++) hessian[i * n + j] = matrix[i * size + j] / room + slope[i] * slope[j] / room ** 2;
    hessian[i * n + i] += bend;
    hessian[i * n + size] = hessian[size * n + i] = -bend;
    hessian[size * n + size] += bend;
  }
  const scale = Float64Array.from({ length: n }, (_, i) => 1 / Math.sqrt(hessian[i * n + i]));
  const scaled = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) scaled[i * n + j] = hessian[i * n + j] * scale[i] * scale[j];
    scaled[i * n + i] += 1e-14;
  }
  const [solution] = leastSolution(scaled, n, [gradient.map((value, i) => value * scale[i])]);
  return { gradient, step: solution.map((value, i) => -scale[i] * value) };
}

function centred(matrix, start, budget, target, sharpness) {
  let point = start;
  for (let count = 0; count < 100; count++) {
    const { gradient, step } = newtonStep(matrix, point, budget, target, sharpness);
    const decrease = -dot(gradient, step);
    if (!(decrease > 1e-6)) break;
    // Damped as suits a self-concordant function.
    let length = decrease < 0.05 ? 1 : 1 / (1 + Math.sqrt(decrease));
    const slacks = slacksOf(matrix, point, budget);
    const along = dot(target, step.subarray(0, target.length));
    for (;;) {
      const next = point.map((value, i) => value + length * step[i]);
      const after = slacksOf(matrix, next, budget);
      if (after.every((value) => value > 0)) {
        let change = -sharpness * length * along;
        for (let i = 0; i < after.length; i++) change -= Math.log(after[i] / slacks[i]);
        if (change < -0.1 * length * decrease) { point = next; break; }
      }
      length /= 2;
      if (length < 1e-9) return point;
    }
  }
  return point;
}

function rootsOf(a, b, c) {
  if (a === 0) return b === 0 ? [] : [-c / b];
  const inside = b * b - 4 * a * c;
  if (inside < 0) return [];
  const far = -0.5 * (b + Math.sign(b || 1) * Math.sqrt(inside));
  return far === 0 ? [0] : [far / a, c / far];
}

function polished(matrix, point, gap, target, deviations) {
  // Coefficients whose weights add up to 1: the barrier's own, and those that its active limits determine.
  const size = target.length, u = point.subarray(0, size), low = point[size];
  const slope = times(matrix, u), whole = slope.reduce((sum, value) => sum + value, 0);
  const candidates = [u.map((value) => value / whole)];
  for (const tolerance of [Math.sqrt(gap), gap ** 0.75, 1e-2]) {
    const upper = u.map((value) => (value > low + 1 - tolerance ? 1 : 0));
    const lower = u.map((value) => (value < low + tolerance ? 1 : 0));
    if (upper.some((value, i) => value && lower[i])) continue;
    const free = [];
    for (let i = 0; i < size; i++) if (!upper[i] && !lower[i]) free.push(i);
    const bound = Float64Array.from(upper, (value, i) => (value || lower[i] ? 1 : 0));
    const n = free.length + 1, atBound = times(matrix, bound), atUpper = times(matrix, upper);
    const system = new Float64Array(n * n), wanted = new Float64Array(n), moved = new Float64Array(n);
    free.forEach((i, row) => {
      free.forEach((j, column) => { system[row * n + column] = matrix[i * size + j]; });
      system[row * n + n - 1] = system[(n - 1) * n + row] = atBound[i];
      wanted[row] = target[i];
      moved[row] = -atUpper[i];
    });
    system[n * n - 1] = dot(bound, atBound);
    wanted[n - 1] = dot(bound, target);
    moved[n - 1] = -dot(bound, atUpper);
    const anyBound = bound.some((value) => value > 0);
    if (!anyBound) system[n * n - 1] = 1;  // no class at a limit: the last unknown plays no part
    const [first, second] = leastSolution(system, n, [wanted, moved]);
    const spread = (parts) => {
      const all = bound.map((value) => value * parts[n - 1]);
      free.forEach((i, row) => { all[i] = parts[row]; });
      return all;
    };
    const constant = spread(first), linear = spread(second).map((value, i) => value + upper[i]);
    const image = times(matrix, linear);
    const roots = anyBound
      ? rootsOf(dot(linear, image) - deviations ** 2, 2 * dot(constant, image), quadratic(matrix, constant))
      : [1];
    for (const root of roots) {
      const tried = constant.map((value, i) => value + root * linear[i]);
      const total = times(matrix, tried).reduce((sum, value) => sum + value, 0);
      if (total > 0) candidates.push(tried.map((value) => value / total));
    }
  }
  return candidates;
}

function shortest(matrix, target, deviations, projected) {
  // projected: removes from coefficients the directions that the clients lack, which are rounding.
  const size = target.length, examples = matrix.reduce((sum, value) => sum + value, 0);
  const start = Math.min(0.25, 0.5 * deviations / Math.sqrt(examples));
  let point = new Float64Array(size + 1).fill(start), sharpness = 2 * size + 1, best = null, least = Infinity;
  point[size] = start - 0.5;
  for (let round = 0; round < 14; round++) {
    point = centred(matrix, point, 0.5 * deviations ** 2, target, sharpness);
    for (const candidate of polished(matrix, point, (2 * size + 1) / sharpness, target, deviations)) {
      const coefficients = projected(candidate);
      const reached = times(matrix, coefficients);
      const missed = reached.reduce((sum, value, i) => sum + Math.abs(target[i] - value), 0);
      const length = 0.5 * missed + deviations * Math.sqrt(Math.max(dot(coefficients, reached), 0));
      if (length < least) { least = length; best = coefficients; }
    }
    if (least - dot(target, point.subarray(0, size)) < 1e-10) break;
    sharpness *= 20;
  }
  return best;
}
