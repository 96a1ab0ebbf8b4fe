"""The finite-sample interval: least-favourable tests, for a population or for a finite target set."""

from __future__ import annotations

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.intervals.half_widths import hoeffding
from fedcert.estimation.intervals.ingredients import Uncertainty
from fedcert.estimation.intervals.least_favourable.ends import critical_value, least_favourable_ends

_FIRST_SHARE = 0.1
"""Share of the allowed probability of error for the interval of θ, where the target is a finite set; the rest is for
the difference between the set and the clients. At a tenth the second step is 1.4% longer than with all of it."""


def finite_sample(
    of: Uncertainty, target: Floats, confidence: float, simultaneous: bool, target_examples: int | None
) -> tuple[Floats, Floats]:
    """Ends of the least-favourable interval; Hoeffding's where single cells are not known (curves from sums).

    Guarantee: conditional on the labels, for any accuracies in [0, 1] and any number of examples, it covers with at
    least the stated confidence, at each radius or at all of them at once. It is not longer than Hoeffding's interval;
    where tests share the error, that is checked from the labels at some values of θ. It needs weights that were chosen
    without looking at the accuracies, and independent examples and noise; for a finite target set, its class counts and
    none of the clients' examples in it.

    Args:
        of: the estimate's ingredients.
        target: the target's class mix.
        confidence: above 0, below 1.
        simultaneous: for all radii at once.
        target_examples: size of the finite set that the target is; None for the population it is drawn from.
    """
    if of.segments is None:
        half = hoeffding(of, target, confidence, simultaneous, target_examples)
        return of.centre - half, of.centre + half
    error = (1 - confidence) / (len(of.centre) if simultaneous else 1)
    if target_examples is not None:
        return _of_set(of, error, target_examples)
    level = float(np.log(2 / error))
    return least_favourable_ends(of.segments(level), level)


def _of_set(of: Uncertainty, error: float, size: int) -> tuple[Floats, Floats]:
    """Ends for a set of so many examples: T less their certified accuracy is a sum of cells as well.

    Its spread depends on θ, so an interval of θ comes first. That costs a little of the allowed error: where it could
    end up longer than Hoeffding's interval, which the labels decide, all θ are allowed for instead.
    """
    assert of.segments is not None  # noqa: S101
    once, twice = float(np.log(2 / error)), float(np.log(2 / (error * (1 - _FIRST_SHARE))))
    statistic = of.segments(once)[-1].statistics[-1][0]
    cells = statistic.cells.with_target_set(size)
    radii = len(statistic.values)
    everything = np.zeros(1), np.ones(1)
    excess = float(np.maximum(cells.means, 0.0).sum())
    by_hoeffding = excess + np.sqrt(once / 2 * (np.minimum(statistic.squares, statistic.cells.sum_squares) + 1 / size))
    if critical_value(cells, twice, *everything)[0] <= by_hoeffding.min():
        first = float(np.log(2 / (error * _FIRST_SHARE)))
        lower, upper = (np.clip(end, 0.0, 1.0) for end in least_favourable_ends(of.segments(first), first))
        low, high = np.minimum(lower, upper), np.maximum(lower, upper)
        both = critical_value(cells, twice, np.append(low, 1 - high), np.append(high, 1 - low))
        below, above = np.minimum(both[:radii], by_hoeffding), np.minimum(both[radii:], by_hoeffding)
    else:
        below = above = np.minimum(critical_value(cells, once, *everything), by_hoeffding)
    return statistic.values - below, statistic.values + above - cells.total_weight
