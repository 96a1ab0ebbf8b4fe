"""Designs: scores g of the count K of right answers whose mean is proven to be below what a vote keeps, or above it.

K is binomial(n, p) for an example whose noisy copies are right with probability p, so E g(K) is a polynomial of p with
Bernstein coefficients g. If that is nowhere above t(p) = h(shift(p)), the mean of g(K) over examples estimates, without
bias, a lower bound of the vote's accuracy under attack; if nowhere below, an upper bound of t's mean. g is chosen by a
linear programme, then among nearly as good ones for the least variance, and proven. It depends on the settings alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import integrate, special, stats

from fedcert._arrays import Floats
from fedcert._threads import single_blas_thread
from fedcert.population.bernstein import beta_moments, binomial_probabilities, elevated
from fedcert.population.programme import minimise
from fedcert.population.proof import excess_above
from fedcert.population.vote import VoteCurve

FLOOR = -0.2
"""The least score of a design from below (and 1.2 the largest of one from above). With 0, 32 passes prove 28% at 2σ
where 37% is true, with -0.2 they prove 36%; -0.5 hardly gains more, and lengthens intervals."""
MARGIN = 1e-5
"""Between a design and its curve, so that subdivision ends: a thousandth of a point."""
DESIGNED_PASSES = 400
"""The most passes that have a programme of their own, some seconds for a radius. More use the same polynomial, which
loses as much as it does with 400: 0.15 points up to 3σ with 11 votes, and up to 2σ with 101."""
_GIVEN_UP = 3e-4
"""Of the programme's best mean, what less variance may cost: a thirtieth of a point, with which 32 passes lose 1.1 and
1.4 points at 2σ on two networks (docs/benchmarks.md). A tenth costs 0.4 points more, and saves 5% of the noise."""
_PRIOR = ((0.5, 1.0, 1.0), (0.25, 0.5, 0.5), (0.25, 5.0, 1.0))
"""Weights and parameters of Beta distributions: a mixture over p that suits all networks tried, since a design that is
best for one of them is hardly better for it. What is proven does not depend on it."""
_GRID = np.linspace(-7.0, 7.0, 1401)
"""Φ⁻¹ of the probabilities at which the programme's constraints stand; between them the proof decides."""
_MOST_LOWERED, _TIMES_LOWERED = 0.01, 30
"""How far, and how often, a design is lowered by what a proof found it to be above; beyond that it is another's turn.
By a rounding error, once or never, is typical."""
_SLACK = MARGIN / 10
"""Lowered by so much more than that, so that the next proof ends at the same place."""


@dataclass(frozen=True, eq=False)
class Design:
    """Scores for one number of passes, of votes, and one radius.

    Those that `make_design` and `tables.designs_for` give are proven.

    Attributes:
        curve: what is bounded.
        lower: scores of K = 0 … n whose mean is at most what the vote keeps; read-only.
        upper: scores whose mean is at least that; read-only.
    """

    curve: VoteCurve
    lower: Floats
    upper: Floats

    def __post_init__(self) -> None:
        # Designs are shared by all callers of a process: none may change another's.
        for name in ("lower", "upper"):
            scores = np.asarray(getattr(self, name), dtype=np.float64).view()
            scores.flags.writeable = False
            object.__setattr__(self, name, scores)

    @property
    def n(self) -> int:
        """Noisy passes of an example."""
        return len(self.lower) - 1

    @property
    def loss(self) -> float:
        """What the lower scores lose of t's mean over the design's own mixture of p: what to expect of n passes."""
        return float(prior_mean(self.curve) - prior_moments(self.n)[0] @ self.lower)

    @property
    def gap(self) -> Floats:
        """Upper less lower scores.

        Guarantee: whatever the distribution of p, the lower scores' mean is below t's by no more than the mean of
        these. So their mean over data estimates, without bias, the most that the design loses there.
        """
        return self.upper - self.lower

    def most_lost(self, correct_counts: npt.ArrayLike) -> float:
        """The mean of `gap` over examples: the most that the design loses on such data, but for chance.

        Args:
            correct_counts: how many examples had K = 0 … n right answers; not all 0.
        """
        counts = np.asarray(correct_counts, dtype=np.float64)
        return float(counts @ self.gap / counts.sum())


@lru_cache(maxsize=8)
def prior_moments(n: int) -> tuple[Floats, Floats]:
    """Means of P(K = j), and of products of two of them, over the mixture of p."""
    parts = [(weight, beta_moments(n, a, b)) for weight, a, b in _PRIOR]
    first = np.sum([weight * means for weight, (means, _) in parts], axis=0)
    return first, np.sum([weight * products for weight, (_, products) in parts], axis=0)


def prior_mean(curve: VoteCurve) -> float:
    """The mean of a curve over the mixture of p."""
    p, complement = special.ndtr(_GRID), special.ndtr(-_GRID)
    density = np.sum([weight * stats.beta.pdf(p, a, b) for weight, a, b in _PRIOR], axis=0) * stats.norm.pdf(_GRID)
    return float(integrate.trapezoid(curve(p, complement)[0] * density, _GRID))


@single_blas_thread()
def make_design(curve: VoteCurve, n: int) -> Design:
    """The design for n passes.

    Guarantee: for every p in [0, 1], E lower(K) <= t(p) <= E upper(K), K binomial(n, p). Both are proven before they
    are returned. With radius 0 and no fewer passes than votes both are equations, to the rounding of a double.
    """
    if is_equation(curve, n):
        exact = unbiased_scores(n, curve.votes)
        return Design(curve, exact, exact)
    designed = min(n, DESIGNED_PASSES)
    lower, mirrored = _from_below(curve, designed), _from_below(curve.mirror(), designed)
    return Design(curve, elevated(lower, n), (1 - elevated(mirrored, n))[::-1])


def is_equation(curve: VoteCurve, n: int) -> bool:
    """Whether some scores have the vote's accuracy itself as their mean: the copies hold a vote on unchanged inputs."""
    return curve.ratio == 0 and n >= curve.votes


@lru_cache(maxsize=64)
def unbiased_scores(n: int, votes: int) -> Floats:
    """Scores whose mean is exactly that of the vote on unchanged inputs: `votes` of the n copies, drawn at random.

    Guarantee: E g(K) = h(p) for every p. Each score is a ratio of whole numbers, rounded once: 2⁻⁵³ at the most.

    Examples:
        >>> unbiased_scores(4, 3).tolist()
        [0.0, 0.0, 0.5, 1.0, 1.0]
    """
    majority, draws = votes // 2 + 1, math.comb(n, votes)
    scores = np.empty(n + 1)
    for right in range(n + 1):
        # j of the drawn copies are right; the first term by factorials, each next one from it: whole numbers all along.
        j = max(majority, votes - (n - right))
        term = math.comb(right, j) * math.comb(n - right, votes - j)
        favourable = 0
        while term:
            favourable += term
            term = term * (right - j) * (votes - j) // ((j + 1) * (n - right - votes + j + 1))
            j += 1
        scores[right] = favourable / draws
    scores.flags.writeable = False
    return scores


def is_proven(design: Design) -> bool:
    """Whether both inequalities hold for every p in [0, 1]; by subdivision, or because the scores are the vote's own.

    False also where they may hold and cannot be shown. It takes some milliseconds.
    """
    curve = design.curve
    if is_equation(curve, design.n):
        exact = unbiased_scores(design.n, curve.votes)
        return np.array_equal(design.lower, exact) and np.array_equal(design.upper, exact)
    return excess_above(design.lower, curve) == 0 and excess_above(1 - design.upper[::-1], curve.mirror()) == 0


def _from_below(curve: VoteCurve, n: int) -> Floats:
    """Scores of nearly the largest mean over the mixture, and of the least variance: proven to be below the curve."""
    for scores in _candidates(curve, n):
        below = _lowered(scores, curve)
        if below is not None:
            return below
    # No accuracy is below 0, so this needs no proof. It is what remains where a programme was not solved.
    return np.full(n + 1, -MARGIN)


def _candidates(curve: VoteCurve, n: int) -> Iterator[Floats]:
    """The programmes' solutions, the better one first."""
    rows, most = _constraints(curve, n)
    first, second = prior_moments(n)
    best = minimise(np.zeros_like(second), -first, rows, most, np.zeros(n + 1))
    # Var(g(K) | p), on average over p, is g·(D - M)g with D the diagonal of the means.
    nearly = np.vstack([rows, -first]), np.append(most, _GIVEN_UP - float(first @ best))
    steady = minimise(2 * (np.diag(first) - second), np.zeros(n + 1), *nearly, best)
    for scores in (steady, best):
        # A constant changes no variance: up to where the first constraint is met, or down. (The floor is not one.)
        yield scores + np.min((most - rows @ scores)[: -(n + 1)])


def _lowered(scores: Floats, curve: VoteCurve) -> Floats | None:
    """Scores lowered, all by the same, until they are proven to be below a curve; None where that is far."""
    lowest = scores - _MOST_LOWERED
    for _ in range(_TIMES_LOWERED):
        excess = excess_above(scores, curve)
        if excess == 0:
            return scores
        scores = scores - (excess + _SLACK)
        if not np.all(scores >= lowest):
            return None
    return None


def _constraints(curve: VoteCurve, n: int) -> tuple[Floats, Floats]:
    """Below the curve less the margin on a grid, and scores at most 1, then at least the floor."""
    p, complement = (
        np.concatenate([[end], special.ndtr(sign * _GRID), [1 - end]]) for end, sign in ((0.0, 1), (1.0, -1))
    )
    value, _ = curve(p, complement)
    identity = np.eye(n + 1)
    rows = np.vstack([binomial_probabilities(n, p, complement), identity, -identity])
    return rows, np.concatenate([value - MARGIN, np.ones(n + 1), np.full(n + 1, 2 * MARGIN - FLOOR)])
