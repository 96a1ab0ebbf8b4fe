"""The factor beside Chernoff's bound: what the central limit theorem takes off it, with Berry and Esseen's error.

Under the tilted distribution T is a sum of independent terms with variance v. With w = λ²v,
P(T >= t) <= exp(K - λt)·(H(√w) + 2·C·B), where H(x) is the largest value over z of exp(xz + x²/2)·(1 - Φ(z + x)) and B
the Lyapunov ratio Σ E|ξ|³/v^(3/2). For terms of at most z = λ|u| two bounds of B are known: z/√w, and κ/w^(3/2) with
κ = Σ n z³/8. With either one the logarithm of the factor is convex and falls in w, so that chords between knots are
above it, and the largest of the chords is a convex polyline above it everywhere between the outer knots.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from fedcert._arrays import Floats

BERRY_ESSEEN = 0.56
"""C for terms that are not identically distributed (Shevtsova, 2010)."""
KNOTS = np.array([0.8, 1.5, 2.5, 4.0, 6.0, 9.0, 16.0, 50.0, 1e3, 1e6])
"""Values of w between which chords are drawn: intervals are then within 0.2% of those with a hundred knots."""
STEEPEST = 0.4
"""The steepest chord that is used: from about ½ on, the best accuracies would be 0s and 1s, and the bound loose."""
REFERENCE = 7.0
"""The w at which the better bound of B is chosen: a little above where 95% tests have theirs."""
_LOG_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))
_STEPS = 60
"""Halvings of the bracket of the hazard's inverse: more than a double has bits."""


@dataclass(frozen=True)
class Lines:
    """Lines height - slope·w whose maximum is above the factor's logarithm for every w that can occur.

    Attributes:
        heights, slopes: one per line.
    """

    heights: Floats
    slopes: Floats


def tail_factor(x: Floats) -> Floats:
    """H(x), the largest exp(xz + x²/2)·(1 - Φ(z + x)) over z, for x > 0.

    The best z + x is y with hazard φ(y)/(1 - Φ(y)) = x, and the value φ(y - x)/x.

    Examples:
        >>> tail_factor(np.array([1e-4, 1.0, 100.0])).round(4)
        array([0.9996, 0.3128, 0.004 ])
    """
    low, high = np.full_like(x, -40.0), np.maximum(x, 1.0)  # the hazard at y is above y
    for _ in range(_STEPS):
        middle = (low + high) / 2
        below = -0.5 * middle**2 - _LOG_ROOT_2PI - special.log_ndtr(-middle) < np.log(x)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    y = (low + high) / 2
    return np.asarray(np.exp(-0.5 * (y - x) ** 2 - _LOG_ROOT_2PI) / x, dtype=np.float64)


_FINE = np.geomspace(KNOTS[0], 1e9, 600)
_LOG_FACTORS = np.log(tail_factor(np.sqrt(_FINE)))
"""log H between which chords are as good as exact: at the last knot, which depends on the cells."""


def lines_above(largest: float, cubes: float, most: float) -> Lines | None:
    """Lines above the factor's logarithm, and above 0 where that is positive; None where the factor helps nowhere.

    Args:
        largest: z, the largest λ|u|.
        cubes: κ = Σ n z³/8.
        most: the largest w that can occur, Σ n z²/4.
    """
    inner = most > KNOTS
    if not inner.any():
        return None
    knots = np.append(KNOTS[inner], most)
    factors = np.exp(np.interp(knots, _FINE, _LOG_FACTORS))
    by_cubes = cubes < largest * min(REFERENCE, most)
    lyapunov = cubes / knots**1.5 if by_cubes else largest / np.sqrt(knots)
    logs = np.log(factors + 2 * BERRY_ESSEEN * lyapunov)
    slopes = -np.diff(logs) / np.diff(knots)
    first = int(np.argmax(logs[1:] < 0))
    if not logs[first + 1] < 0:
        return None
    # Up to where the first chord falls below 0 the factor counts as 1: a line from there, not too steep, is above all
    # steeper chords, and above 0 to its left.
    zero = knots[first] + max(float(logs[first]), 0.0) / slopes[first]
    steepest = min(STEEPEST, float(slopes[first]))
    kept = np.flatnonzero((slopes <= STEEPEST) & (np.arange(len(slopes)) >= first))
    heights = logs[kept] + slopes[kept] * knots[kept]
    return Lines(np.append(steepest * zero, heights), np.append(steepest, slopes[kept]))
