"""Ends of least-favourable intervals: the tests of all θ, inverted for observed values of T."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from fedcert._arrays import Floats, Integers
from fedcert.estimation.intervals.least_favourable.cells import SAME_WEIGHT, Cells
from fedcert.estimation.intervals.least_favourable.ranges import (
    RANGE_SHARE,
    Ranges,
    class_ranges,
    range_error,
    rejected_within,
)
from fedcert.estimation.intervals.least_favourable.tilted import TiltedBound, tilted_bounds

_RATIO = 1.1
"""Between tilts: the best one of them lengthens intervals by 0.1% at most."""
_COARSE = 3
"""Every so many tilts are tried by Chernoff's bound alone, to see where the best ones are."""
_LEAST_TILT = 0.45
"""The least tilt, relative to Chernoff's best for accuracies of ½."""
_MOST_TILT, _OVERFLOW = 10.0, 600.0
"""The largest λu of a typical weight (e^-10 of what an infinite tilt would give is lost) and of any weight."""
_BELOW, _ABOVE = 4, 2
"""Tilts with the bracket are tried from so many below Chernoff's best to so many above."""
_MOST_BINOMIAL = float(np.log(4))
"""Levels from here on allow the binomial test: it needs a probability of at most ¼."""
_COUNT_ROUNDING, _WEIGHT_ROUNDING = 1e-9, 1e-13
"""A count this little above a whole number is that number, but for rounding: in all, and relative to all examples."""
_STEEPER = (0, 3, 6, 9)
"""Within ranges of the classes' accuracies the best tilt is so many times larger, at most: variances are smaller."""


@dataclass(frozen=True, eq=False)
class Statistic:
    """A weighted sum T that tests θ; compared by identity.

    Attributes:
        values: T at each radius.
        cells: of T.
        squares: an upper bound of Σ n u² at each radius, with design effects where examples come in groups.
        certified: certified examples of each class, classes x radii, where the worst case is sought within ranges of
            the classes' accuracies; the cells are then one row by class, of independent examples.
    """

    values: Floats
    cells: Cells
    squares: Floats
    certified: Floats | None = None

    def rejected(self, places: Integers, level: float, enough: float = 1.0) -> Floats:
        """The largest θ that values of T reject, by any of the tests of T; any from `enough` on will do.

        Every test has a critical value that looks at no accuracies, or at none but the true ones, so that the smallest
        of them keeps its level. Ranges that do not hold are another error: at both ends together they have a share of
        2·exp(-level), which the tests leave them.

        Args:
            places: of radii; with their number added, of the value W - T of uncertified examples.
            level: of the tests.
            enough: see above.
        """
        cells, radii = self.cells, len(self.values)
        values = np.concatenate([self.values, cells.total_weight - self.values])[places]
        ranges = None
        if self.certified is not None:
            ranges = self._ranges(self.certified, level).of(places)
            level = level - float(np.log(1 - RANGE_SHARE))
        squares = np.minimum(self.squares, cells.sum_squares)[places % radii]
        by_hoeffding = values - cells.excess - np.sqrt(level / 2 * squares)
        best = np.where(by_hoeffding >= cells.target.sum(), np.inf, by_hoeffding)
        best = np.maximum(best, _binomial(cells, values, level))
        if ranges is None and _binomial_is_sharp(cells, level):
            return best
        others = best < enough
        if others.any() and cells.sum_squares > 0:
            part = None if ranges is None else ranges.of(others)
            best[others] = np.maximum(best[others], rejected_by_tilting(cells, values[others], level, enough, part))
        return best

    def _ranges(self, certified: Floats, level: float) -> Ranges:
        """Ranges at every radius, then of uncertified examples."""
        assert self.cells.classes is not None  # noqa: S101
        examples = self.cells.classes.examples[0]
        low, high = class_ranges(certified, examples, range_error(examples, level))
        return Ranges(low.T, high.T, low.T @ self.cells.target)


@dataclass(frozen=True)
class Segment:
    """The tests of all θ up to an end, from where the segment before it stops.

    Attributes:
        end: the largest θ that is tested; 1 for the last segment.
        statistics: each with its share of the allowed error, adding up to 1; θ is rejected if any of them rejects it.
            The last one is the same in all segments.
    """

    end: float
    statistics: tuple[tuple[Statistic, float], ...]


def least_favourable_ends(segments: Sequence[Segment], level: float) -> tuple[Floats, Floats]:
    """Lower and upper end at each radius, one of them wrong with probability at most 2·exp(-level).

    The upper end is the lower one of uncertified examples: W - T has the same cells, with 1 - L and 1 - θ. A lower end
    of infinity or an upper one of minus infinity means that no accuracies explain T.

    Guarantee: conditional on the labels, for any accuracies in [0, 1] and any number of examples. It needs segments
    that were chosen without looking at the accuracies, and independent examples and noise.
    """
    radii = len(segments[0].statistics[0][0].values)
    lower, start = np.zeros(2 * radii), 0.0
    testing = np.arange(2 * radii)
    known: dict[tuple[int, float], Floats] = {}  # what one statistic says of all θ serves every segment that has it
    for segment in segments:  # one that is rejected up to its end leaves the next one to be tested
        rejected = np.full(len(testing), -1.0)
        for statistic, share in segment.statistics:
            place = (id(statistic), share)
            if statistic is segments[-1].statistics[-1][0]:
                if place not in known:
                    known[place] = statistic.rejected(np.arange(2 * radii), level - np.log(share))
                rejected = np.maximum(rejected, known[place][testing])
            else:
                rejected = np.maximum(rejected, statistic.rejected(testing, level - np.log(share), segment.end))
        last = segment.end >= 1
        lower[testing] = np.maximum(rejected, start) if last else np.clip(rejected, start, segment.end)
        testing = testing[rejected >= segment.end]
        start = segment.end
        if last or not len(testing):
            break
    return lower[:radii], 1 - lower[radii:]


def rejected_by_tilting(
    cells: Cells, values: Floats, level: float, enough: float = 1.0, ranges: Ranges | None = None
) -> Floats:
    """The largest θ that each value of T rejects; any that is at least `enough` will do.

    Guarantee: if p(S)·L <= θ, T takes a value that rejects θ with probability at most exp(-level), whichever tilts are
    tried: a tilt that rejects shows that T is above the smallest critical value of all tilts, which is fixed. With
    ranges, that is so if L lies within them.
    """
    tilts = _tilts(cells, level)
    best = np.zeros(len(values)) if ranges is None else np.maximum(ranges.least, 0.0)
    where = np.zeros(len(values), dtype=np.int64)
    coarse = tilted_bounds(cells, tilts[::_COARSE], with_bracket=False)
    bounds = [] if ranges is None else list(coarse)
    for step, bound in enumerate(bounds or coarse):
        up_to = bound.rejected(values, level)
        better = up_to > best
        best[better], where[better] = up_to[better], step * _COARSE
    if ranges is not None:
        where = _raise_within(bounds, values, level, ranges, best, where)
    beside = _near(where[best < enough], len(tilts))
    for index, bound in zip(beside, tilted_bounds(cells, tilts[beside]), strict=True):
        near = (where - _BELOW <= index) & (index <= where + _ABOVE)
        if ranges is None:
            up_to = bound.rejected(values[near], level)
        else:
            up_to = rejected_within(bound, values[near], level, ranges.of(near))
        best[near] = np.maximum(best[near], up_to)
    return best


def _raise_within(
    bounds: list[TiltedBound], values: Floats, level: float, ranges: Ranges, best: Floats, where: Integers
) -> Integers:
    """Raise `best` to what Chernoff's bound rejects within ranges; gives the tilts that do."""
    started, where = where // _COARSE, where.copy()
    for step, bound in enumerate(bounds):
        near = np.flatnonzero(np.isin(step - started, np.array(_STEEPER) // _COARSE))
        if len(near):
            up_to = rejected_within(bound, values[near], level, ranges.of(near))
            better = up_to > best[near]
            best[near[better]], where[near[better]] = up_to[better], step * _COARSE
    return where


def critical_value(cells: Cells, level: float, low: Floats, high: Floats) -> Floats:
    """t with P(T >= t) <= exp(-level) for all accuracies with low <= p(S)·L <= high."""
    tilts = _tilts(cells, level)
    best = np.full(len(low), np.inf)
    where = np.zeros(len(low), dtype=np.int64)

    def threshold(bound: TiltedBound) -> Floats:
        return np.asarray((level + bound.largest(low, high)) / bound.tilt, dtype=np.float64)

    for step, bound in enumerate(tilted_bounds(cells, tilts[::_COARSE], with_bracket=False)):
        at_most = threshold(bound)
        better = at_most < best
        best[better], where[better] = at_most[better], step * _COARSE
    for bound in tilted_bounds(cells, tilts[_near(where, len(tilts))]):
        best = np.minimum(best, threshold(bound))
    return best


def _near(where: Integers, count: int) -> Integers:
    """Indices of tilts beside Chernoff's best ones."""
    beside = where[:, None] + np.arange(-_BELOW, _ABOVE + 1)
    return np.unique(beside[(beside >= 0) & (beside < count)])


def _tilts(cells: Cells, level: float) -> Floats:
    """Tilts in equal ratios, from accuracies of ½ to those next to 0 or 1."""
    least = _LEAST_TILT * np.sqrt(8 * level / cells.sum_squares)
    typical = cells.sum_squares / cells.sum_sizes
    most = max(min(_MOST_TILT / typical, _OVERFLOW / cells.largest_weight), least)
    return np.asarray(least * _RATIO ** np.arange(int(np.ceil(np.log(most / least) / np.log(_RATIO))) + 1))


def _binomial_is_sharp(cells: Cells, level: float) -> bool:
    """Whether no test that holds for all accuracies rejects more than the binomial one.

    With equal weights and the target's mix the binomial tail is reached, where all accuracies are equal.
    """
    known = cells.positive_weights
    if known is None or level < _MOST_BINOMIAL:
        return False
    least, most, _ = known
    return most - least <= SAME_WEIGHT * most and cells.excess <= SAME_WEIGHT


def _binomial(cells: Cells, values: Floats, level: float) -> Floats:
    """The largest θ that an exact binomial test of the number certified rejects, where all weights are positive.

    With weights from u to v, at least T/v examples are certified, and (θ + excess)/u are expected at most. By Hoeffding
    (1956) the tail is at most the binomial one from one above the expectation on, which a probability of at most ¼
    ensures; but for one example, whose probability is at most the expectation. It is sharp for equal weights.
    """
    known = cells.positive_weights
    if known is None or level < _MOST_BINOMIAL:
        return np.full(len(values), -1.0)
    least, most, examples = known
    rounding = _COUNT_ROUNDING + _WEIGHT_ROUNDING * cells.sum_sizes / most
    counts = np.clip(np.ceil(values / most - rounding), 0, examples)
    tail = np.exp(-level)
    at_least_two = special.betaincinv(np.maximum(counts, 1.0), examples - np.maximum(counts, 1.0) + 1, tail)
    rejected = np.where(counts == 1, tail / examples, at_least_two) * examples * least - cells.excess
    return np.where(counts < 1, -1.0, rejected)
