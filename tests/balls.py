"""Ball arithmetic of python-flint, for proofs by other formulas: every number is an interval that holds the truth."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from flint import arb, ctx
from scipy import special

ctx.prec = 160  # some 48 digits, so that the differences of a polynomial's terms keep theirs


def normal_probability(z: arb) -> arb:
    """Φ, by the complementary error function."""
    return (-z / arb(2).sqrt()).erfc() / 2


def normal_quantile(p: float) -> tuple[arb, arb]:
    """Two numbers that Φ⁻¹(p) is between: a guess, moved until Φ proves it."""
    guess = float(special.ndtri(p) if p < 0.5 else -special.ndtri(1 - p))
    away = 1e-15 * (1 + abs(guess))
    while not normal_probability(arb(guess - away)) < arb(p) < normal_probability(arb(guess + away)):
        away *= 2
    return arb(guess - away), arb(guess + away)


def accuracy_of_vote(q: arb, votes: int) -> arb:
    """P(Binomial(votes, q) > votes/2): the sum itself, or the incomplete beta function where that is long."""
    half = votes // 2 + 1
    if votes > 101 and q > 0.5:
        return 1 - accuracy_of_vote(1 - q, votes)
    if votes > 101:
        return arb.beta_lower(q, arb(half), arb(half), regularized=1)
    return sum((arb(votes).bin(j) * q**j * (1 - q) ** (votes - j) for j in range(half, votes + 1)), arb(0))


def kept(p: float, votes: int, ratio: float, noise: str = "gaussian") -> tuple[arb, arb]:
    """Two numbers that the vote's accuracy at a radius is between."""
    if p in (0.0, 1.0) and noise == "gaussian":
        return arb(p), arb(p)
    if noise == "uniform":
        left = arb(p) - arb(ratio) / (2 * arb(3).sqrt())
        accuracy = accuracy_of_vote(left, votes) if left > 0 else arb(0)
        return accuracy, accuracy
    low, high = (accuracy_of_vote(normal_probability(z - arb(ratio)), votes) for z in normal_quantile(p))
    return low, high


def is_between(lower: Iterable[float], upper: Iterable[float], votes: int, ratio: float, noise: str) -> bool:
    """Whether E lower(K) <= t(p) <= E upper(K) on all of [0, 1], by cells that cover it.

    Nothing of fedcert's is used: de Casteljau's triangle in balls, no mirrored curve, other formulas of the curve.
    """
    waiting = [(0.0, 1.0, [arb(float(score)) for score in lower], [arb(float(score)) for score in upper])]
    while waiting:
        start, end, below, above = waiting.pop()
        at_start, at_end = kept(start, votes, ratio, noise), kept(end, votes, ratio, noise)
        settled = all(score < at_start[0] for score in below), all(score > at_end[1] for score in above)
        if all(settled):
            continue
        # The first and last coefficients are the polynomial itself, at the ends of the cell.
        if below[0] > at_start[1] or above[-1] < at_end[0] or end - start < 2.0**-45:
            return False
        middle = (start + end) / 2
        lows = (below, below) if settled[0] else halved(below)
        highs = (above, above) if settled[1] else halved(above)
        waiting += [(start, middle, lows[0], highs[0]), (middle, end, lows[1], highs[1])]
    return True


def halved(scores: list[arb]) -> tuple[list[arb], list[arb]]:
    """De Casteljau's triangle, one row of means after another: the coefficients on both halves of a cell."""
    left, right, row = [], [], scores
    while row:
        left.append(row[0])
        right.append(row[-1])
        row = [(a + b) / 2 for a, b in itertools.pairwise(row)]
    return left, right[::-1]


def polynomial(scores: Sequence[arb], p: arb) -> arb:
    """Σ g(j)·C(n, j)·p^j·(1 - p)^(n - j)."""
    n = len(scores) - 1
    return sum((score * arb(n).bin(j) * p**j * (1 - p) ** (n - j) for j, score in enumerate(scores)), arb(0))
