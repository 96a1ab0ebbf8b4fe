"""How many noisy passes of each example a radius needs."""

from __future__ import annotations

import math

from fedcert.population.tables import SHIPPED_PASSES, designs_for
from fedcert.report.farthest import FARTHEST_RATIO

LADDER = (*SHIPPED_PASSES, 128, 200, 400)
"""Numbers of passes that are tried: those with shipped designs, then up to the most that are designed, each by about
one and a half or twice."""
TOLERANCE = 0.0015
"""What a design may lose over its own mixture of p. A real network loses several times that, as more of its examples
lie where the vote tips over: 32 passes lost 0.2 points at 1.6 sigma and 1.4 at 2 sigma with ResNet-18 on CIFAR-10
(benchmarks/results/population-h200.json), and 0.9 and 4.4 with a small network on shapes of 16 x 16 pixels."""
_STEP, _ROUNDING = 0.1, 1e-9
"""Radii are rounded up to tenths of sigma, which shipped designs have. Quotients of decimals are off by far less than
the second number."""


def passes_needed(noise: str, votes: int, ratio: float, tolerance: float = TOLERANCE) -> int | None:
    """The least number of passes among `LADDER` whose design loses no more than a tolerance; None if all lose more.

    What a design loses is its `Design.loss`, over the designs' own mixture of p: a good guess for most networks and no
    guarantee. It need not rise with the radius, because there is ever less to lose. Ratios between tenths of sigma are
    rounded up.

    Args:
        noise: the name of a noise whose shift is known.
        votes: odd.
        ratio: the radius in units of sigma.
        tolerance: what may be lost, as a share of the examples.

    Raises:
        CallError: see `designs_for`.

    It takes milliseconds where shipped designs suffice (Gaussian noise, votes and radii of the tables), seconds for
    each further number of passes when it is first tried, and hardly any time afterwards.

    Examples:
        >>> passes_needed("gaussian", 11, 0.75), passes_needed("gaussian", 11, 2.3)
        (16, 100)
    """
    rounded = round(math.ceil(ratio / _STEP - _ROUNDING) * _STEP, 1) if math.isfinite(ratio) else ratio
    for n in LADDER:
        (design,) = designs_for(noise, n, votes, [rounded])
        if design.loss <= tolerance:
            return n
    return None


def farthest_ratio(noise: str, n: int, votes: int, tolerance: float = TOLERANCE) -> float:
    """The largest radius, in tenths of sigma, up to which a number of passes loses no more than a tolerance.

    Radii from 0 to 3 sigma are tried in turn, up to the first at which more is lost; see `passes_needed`.

    Args:
        noise: the name of a noise whose shift is known.
        n: noisy passes of each example.
        votes: odd.
        tolerance: what may be lost, as a share of the examples.

    Examples:
        >>> farthest_ratio("gaussian", 16, 11) < farthest_ratio("gaussian", 32, 11) < farthest_ratio("gaussian", 64, 11)
        True
    """
    farthest = 0.0
    for step in range(1, round(FARTHEST_RATIO / _STEP) + 1):
        ratio = round(step * _STEP, 1)
        (design,) = designs_for(noise, n, votes, [ratio])
        if design.loss > tolerance:
            break
        farthest = ratio
    return farthest
