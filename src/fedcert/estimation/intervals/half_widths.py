"""Half-widths of intervals around linear estimates: what chance and a mismatch of class mixes can do to them.

For weights a that add up to 1 and any accuracies L in [0, 1], the bias is at most ½‖d‖₁ with d the difference between
the target's mix and the one that the weights reach, and that is sharp. What is left is chance: each client's count is
a sum of independent examples.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special, stats

from fedcert._arrays import Floats
from fedcert.estimation.intervals.ingredients import Uncertainty

LEAST_VARIANCE = 1e-300
"""Keeps divisions by a standard error defined where the variance is exactly 0."""
_LARGEST_VARIANCE = 0.25
"""Of an example that is certified or not: that of a fair coin."""
_ROUNDING = 1e-12
"""Ends that cross by no more than this do so by rounding."""
_DRAWS = 10_000
"""Simulated curves: the standard error of a 95% quantile is then about 0.02 standard deviations."""
_MANY_FREEDOM = 1e6
"""From so many degrees of freedom on, Student's scale is 1 to four digits."""
_SUREST = 1 - 1e-15
"""Above it, a normal quantile is infinite in double precision."""
_BISECTIONS = 60
"""Halvings of the bracket: more than a double has bits."""


def hoeffding_deviations(confidence: float, radii: int = 1) -> float:
    """z with half-width z·sqrt(Σ a²/n): two-sided, for so many radii at once."""
    return float(np.sqrt(np.log(2 * radii / (1 - confidence)) / 2))


def normal_deviations(confidence: float, radii: int = 1) -> float:  # noqa: ARG001
    """z as for `hoeffding_deviations`, of a normal estimate whose standard error is the largest possible.

    Weights are chosen for one radius: the radii's deviations hang together, so their number hardly matters.
    """
    return float(np.sqrt(_LARGEST_VARIANCE) * stats.norm.ppf(0.5 + confidence / 2))


def hoeffding(
    of: Uncertainty, _target: Floats, confidence: float, simultaneous: bool, target_examples: int | None
) -> Floats:
    """Half-widths by Hoeffding's inequality plus the bias.

    Guarantee: conditional on the labels, for any accuracies in [0, 1] and any number of examples, the interval
    centre ± half-width covers with at least the stated confidence, at each radius or at all of them at once. It
    needs weights that were chosen without looking at the accuracies, and independent examples and noise.

    Args:
        of: the estimate's ingredients.
        _target: the target's class mix, which plays no part.
        confidence: above 0, below 1.
        simultaneous: for all radii at once.
        target_examples: size of the finite set that the target is; None for the population it is drawn from.
    """
    squares = of.sum_squared_weights + (1 / target_examples if target_examples else 0.0)
    radii = len(of.centre) if simultaneous else 1
    return np.asarray(of.bias + hoeffding_deviations(confidence, radii) * np.sqrt(squares), dtype=np.float64)


def asymptotic(
    of: Uncertainty, target: Floats, confidence: float, simultaneous: bool, target_examples: int | None
) -> Floats:
    """Half-widths from estimated standard errors, aware of the bias: shorter, and right for many examples.

    At one radius it is the quantile of |N(bias/se, 1)|, times se. For all radii at once, the bias plus the quantile of
    the largest of the radii's deviations, which are correlated: an example certified to a radius is certified to all
    smaller ones.

    Where the variance of each class is not known (sums), the class of largest variance stands for all, and radii are
    taken as if they were unrelated, which is longer.

    Guarantee: approximate, for many examples. With few, the standard error is lengthened (`_for_few_examples`): of one
    class of 20 examples or more, whatever its accuracy, the interval at 0.95 covers with probability 0.92 at least, and
    0.95 or more on average over accuracies.
    """
    accuracy, variance_weights = of.class_accuracy, of.class_variance_weights
    each = 1 - (1 - confidence) / len(of.centre) if simultaneous else confidence
    of_target = 1 / target_examples if target_examples else 0.0
    spread = of.example_variance
    squares = of.sum_squared_weights + of_target
    if variance_weights is None or accuracy is None or spread is None:
        largest = np.full(len(of.centre), _LARGEST_VARIANCE) if spread is None else spread.max(axis=0)
        lean = squares * np.sqrt(np.maximum(1 - largest / _LARGEST_VARIANCE, 0.0))  # |1 - 2L| of that variance
        return _around(of, squares * largest, lean, squares, each)
    example_weights = of.sum_squared_weights if of.example_weights is None else of.example_weights
    thirds = variance_weights * example_weights - (target * of_target**2)[:, None]
    variance_weights = variance_weights + (target * of_target)[:, None]
    variance = np.sum(variance_weights * spread, axis=0) + (0.0 if of.noise is None else of.noise)
    lean = np.sum(thirds * spread * (1 - 2 * accuracy), axis=0) / np.maximum(variance, LEAST_VARIANCE)
    if simultaneous and of.noise is None:
        largest = _largest_deviation(variance_weights, accuracy, confidence)
        return np.asarray(of.bias + largest * _for_few_examples(variance, lean, squares, largest), dtype=np.float64)
    return _around(of, variance, lean, squares, each)


def _around(of: Uncertainty, variance: Floats, lean: Floats, squares: Floats, confidence: float) -> Floats:
    """Half-widths of an estimate of this variance and of the bias, at each radius by itself."""
    quantile = float(special.ndtri(0.5 + min(confidence, _SUREST) / 2))
    errors = _for_few_examples(variance, lean, squares, quantile)
    return np.asarray(folded_quantile(of.bias / errors, confidence) * errors, dtype=np.float64)


def _for_few_examples(variance: Floats, lean: Floats, squares: Floats, quantile: float) -> Floats:
    """Standard errors, longer by what their being estimated costs with few examples ("Many examples" in the proofs).

    An estimate z standard errors off has an estimated variance that is off too: by `lean` times its error where
    accuracies are not ½, and by a share z²·Σ a²/n where they are. With n examples of one class the excess is of order
    1/n.

    Args:
        variance: as it is estimated.
        lean: the estimate's third central moment over its variance: (1 - 2L)/n for n examples of one class.
        squares: Σ a²/n.
        quantile: z, of the interval.
    """
    return np.sqrt(np.maximum(variance + quantile**2 * (squares * variance + lean**2 / 2), LEAST_VARIANCE))


def _largest_deviation(variance_weights: Floats, accuracy: Floats, confidence: float) -> float:
    """The quantile of max |Z| over the radii, Z with the estimate's correlations (sup-t)."""
    # Within a class accuracy falls with the radius: min(L, L') is that of the larger radius.
    root = np.sqrt(variance_weights)
    smaller = np.minimum(accuracy[:, :, None], accuracy[:, None, :]) - accuracy[:, :, None] * accuracy[:, None, :]
    covariance = np.einsum("jr,js,jrs->rs", root, root, smaller)
    errors = np.sqrt(np.maximum(np.diag(covariance), LEAST_VARIANCE))
    return largest_deviations(covariance / np.outer(errors, errors), confidence)[0]


def allowed_ends(lower: Floats, upper: Floats, failure_probability: float, monotone: bool) -> tuple[Floats, Floats]:
    """Ends that allow for certificates that fail, within [0, 1].

    Each certificate is wrong with probability at most the failure probability, so the true robust accuracy is at least
    the expected certified accuracy less that: the lower end is lowered by it, for weights of any sign.

    Args:
        lower, upper: ends for the expected certified accuracy.
        failure_probability: of each certificate.
        monotone: tighten by the fact that the curve falls; valid for simultaneous intervals only. Where that leaves
            nothing (see `contradicted`), it is not done.
    """
    lower = lower - failure_probability
    if monotone:
        highest, lowest = _falling(lower, upper)
        if np.all(highest <= lowest):
            lower, upper = highest, lowest
    return np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0)


def contradicted(lower: Floats, upper: Floats, monotone: bool) -> bool:
    """Whether no accuracies that fall with the radius, from 1 to 0, lie within an interval.

    With the stated confidence some do if the assumptions hold: then something else is wrong.
    """
    lower, upper = np.maximum(lower, 0.0), np.minimum(upper, 1.0)
    if monotone:
        lower, upper = _falling(lower, upper)
    return bool(np.any(lower > upper + _ROUNDING))


def _falling(lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Ends of curves that fall with the radius, within these."""
    return np.maximum.accumulate(lower[::-1])[::-1], np.minimum.accumulate(upper)


def folded_quantile(shift: Floats, confidence: float, freedom: Floats | None = None) -> Floats:
    """c with P(|T + shift| <= c) = confidence, by bisection.

    Args:
        shift: at least 0.
        confidence: above 0, below 1.
        freedom: Student's degrees of freedom of T; standard normal where None.
    """
    confidence = min(confidence, _SUREST)

    def cdf(value: Floats) -> Floats:
        return np.asarray(special.ndtr(value) if freedom is None else special.stdtr(freedom, value), dtype=np.float64)

    def quantile(probability: float) -> Floats:
        normal = freedom is None
        return np.asarray(special.ndtri(probability) if normal else special.stdtrit(freedom, probability))

    low = shift + quantile(confidence)  # one side alone: exact for a large shift
    high = shift + quantile(0.5 + confidence / 2)  # both sides: exact without one
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        above = cdf(middle - shift) - cdf(-middle - shift) > confidence
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(high, dtype=np.float64)


def largest_deviations(correlation: Floats, confidence: float, freedom: float = np.inf) -> tuple[float, float]:
    """Quantiles of max |Z| over the radii, Z with these correlations, and of the same over an estimated scale.

    Args:
        correlation: radii x radii.
        confidence: above 0, below 1.
        freedom: Student's degrees of freedom of the scale.
    """
    values, vectors = np.linalg.eigh(correlation)
    draws = _standard_normal(len(values)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    largest = np.abs(draws).max(axis=1)
    scale = np.sqrt(_chi_square(freedom) / freedom) if freedom < _MANY_FREEDOM else np.ones(_DRAWS)
    return float(np.quantile(largest, confidence)), float(np.quantile(largest / scale, confidence))


@lru_cache(maxsize=4)
def _standard_normal(radii: int) -> Floats:
    """The same draws for every estimate: simulation must not add noise from one call to the next."""
    return np.random.default_rng(0).standard_normal((_DRAWS, radii))


def _chi_square(freedom: float) -> Floats:
    return np.random.default_rng(1).chisquare(freedom, _DRAWS)
