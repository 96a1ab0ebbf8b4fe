"""Quantiles that intervals need: of a shifted variable's absolute value, and of the largest of several."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special

from fedcert._arrays import Floats

_DRAWS = 10_000
"""Simulated curves: the standard error of a 95% quantile is then about 0.02 standard deviations."""
_MANY_FREEDOM = 1e6
"""From so many degrees of freedom on, Student's scale is 1 to four digits."""
_SUREST = 1 - 1e-15
"""Above it, a normal quantile is infinite in double precision."""
_BISECTIONS = 60
"""Halvings of the bracket: more than a double has bits."""


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
