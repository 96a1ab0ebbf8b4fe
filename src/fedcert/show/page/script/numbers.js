// Distributions and small algorithms, to the precision of the numbers themselves.

function erfc(x) {
  if (x < 0) return 2 - erfc(-x);
  const square = x * x;
  if (x < 2.5) {  // a series of positive terms: nothing cancels
    let term = x, sum = x;
    for (let n = 1; term > 1e-18 * sum; n++) {
      term *= 2 * square / (2 * n + 1);
      sum += term;
    }
    return 1 - 2 / Math.sqrt(Math.PI) * Math.exp(-square) * sum;
  }
  let fraction = 0;  // Laplace's continued fraction, from far enough down
  for (let n = 120; n > 0; n--) fraction = n / 2 / (x + fraction);
  return Math.exp(-square) / Math.sqrt(Math.PI) / (x + fraction);
}

function normalCdf(x) {
  return 0.5 * erfc(-x / Math.SQRT2);
}

function normalHazard(x) {
  // φ(x)/(1 - Φ(x))
  if (x < 3) return Math.exp(-0.5 * x * x) / Math.sqrt(2 * Math.PI) / normalCdf(-x);
  let fraction = 0;  // Laplace's continued fraction, where both vanish
  for (let n = 120; n > 0; n--) fraction = n / (x + fraction);
  return x + fraction;
}

function normalQuantile(probability) {
  let low = -40, high = 40;
  for (let step = 0; step < 120; step++) {
    const middle = (low + high) / 2;
    if (normalCdf(middle) < probability) low = middle; else high = middle;
  }
  return (low + high) / 2;
}

function logGamma(x) {
  // Stirling's series, after shifting the argument to where it is exact to the last digits.
  let shift = 0;
  while (x < 20) { shift -= Math.log(x); x += 1; }
  const inverse = 1 / x, square = inverse * inverse;
  const series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188))));
  return shift + (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series;
}

function incompleteBeta(x, a, b) {
  // The continued fraction of the regularised incomplete beta function, by Lentz's method.
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a);
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x)) / a;
  const tiny = 1e-300;
  let value = 1, c = 1, d = 0;
  for (let n = 0; n < 20000; n++) {
    const half = Math.floor(n / 2);
    let numerator = 1;
    if (n > 0) {
      numerator = n % 2 === 0
        ? half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        : -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1));
    }
    d = 1 + numerator * d;
    d = 1 / (Math.abs(d) < tiny ? tiny : d);
    c = 1 + numerator / c;
    if (Math.abs(c) < tiny) c = tiny;
    value *= c * d;
    if (n > 0 && Math.abs(1 - c * d) < 1e-15) break;
  }
  return front * (value - 1);
}

function betaQuantile(probability, a, b) {
  // The logarithm of the distribution function is concave for a, b >= 1: from below, Newton's steps do not overshoot.
  const front = logGamma(a + b) - logGamma(a) - logGamma(b), wanted = Math.log(probability);
  let low = 0, high = 1, x = a / (a + b);
  for (let step = 0; step < 200 && high - low > 1e-16 * high; step++) {
    const below = incompleteBeta(x, a, b), density = Math.exp(front + (a - 1) * Math.log(x) + (b - 1) * Math.log1p(-x));
    if (below < probability) low = x; else high = x;
    let next = x + (wanted - Math.log(below)) * below / density;
    if (!(next > low && next < high)) next = (low + high) / 2;
    if (Math.abs(next - x) <= 1e-15 * x) return next;
    x = next;
  }
  return x;
}

function studentCdf(t, freedom) {
  if (freedom > 1e5) {  // so close to the normal distribution that one term of the difference is enough
    return normalCdf(t * (1 - 1 / (4 * freedom)) / Math.sqrt(1 + t * t / (2 * freedom)));
  }
  const tail = 0.5 * incompleteBeta(freedom / (freedom + t * t), freedom / 2, 0.5);
  return t < 0 ? tail : 1 - tail;
}

function foldedQuantile(shift, confidence, cdf) {
  // c with cdf(c - shift) - cdf(-c - shift) = confidence
  let low = 0, high = shift + 1;
  while (cdf(high - shift) - cdf(-high - shift) < confidence) high = 2 * high + 1;
  for (let step = 0; step < 90; step++) {
    const middle = (low + high) / 2;
    if (cdf(middle - shift) - cdf(-middle - shift) > confidence) high = middle; else low = middle;
  }
  return high;
}

function clip(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

function decreasing(curve) {
  // The closest curve that does not rise: neighbours that do are averaged.
  const blocks = [];
  for (const value of curve) {
    let block = { sum: value, count: 1 };
    while (blocks.length && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].count < block.sum / block.count) {
      const before = blocks.pop();
      block = { sum: before.sum + block.sum, count: before.count + block.count };
    }
    blocks.push(block);
  }
  return blocks.flatMap((block) => Array(block.count).fill(clip(block.sum / block.count, 0, 1)));
}
