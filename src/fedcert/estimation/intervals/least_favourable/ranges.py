"""Ranges of single classes' accuracies, within which the worst case of a test is sought.

Over all accuracies the worst case is often one that the classes' own counts rule out: a class next to 0 or 1 that
would have to be next to ½. A small share of the error pays for ranges that hold for all classes at once; the rest of it
is for the tests, whose bound then need hold within the ranges only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fedcert._arrays import Floats, Integers
from fedcert.estimation.intervals.least_favourable.tilted import TiltedBound, best_of_lines

RANGE_SHARE = 0.03
"""Share of the error for the ranges: the tests are then less than 1% longer, and ranges hardly longer with more."""
_MOST_RANGED = 200
"""Of more classes, ranges would take longer than they are worth."""
_LONGEST = 0.08
"""The most that ranges next to 0 or 1 may be long, on average over the target: at 0.11, which 100 classes of 100
examples have, they shorten intervals by 1 to 3%, at 0.05 by 5 to 11%."""

_LOOKUPS, _MOST_PARTS = 4_000, 16
"""A search goes on in so many parts that this many pieces are looked up at once: fewer and larger calls."""


@dataclass(frozen=True)
class Ranges:
    """The accuracies that each class may have, values of T x classes.

    Attributes:
        low, high: ends.
        least: the smallest θ that they allow, one per value.
    """

    low: Floats
    high: Floats
    least: Floats

    def of(self, values: Integers | npt.NDArray[np.bool_]) -> Ranges:
        """Those of some of the values."""
        return Ranges(self.low[values], self.high[values], self.least[values])


def worth_ranges(target: Floats, examples: Floats, level: float) -> bool:
    """Whether ranges exclude enough to be worth their error and their time, as far as the labels say."""
    weighed = (target > 0) & (examples > 0)
    if np.count_nonzero(weighed) < 2 or len(target) > _MOST_RANGED:
        return False
    shortest = -np.expm1(np.log(range_error(examples, level)) / examples[weighed])
    return float(target[weighed] @ shortest) <= _LONGEST * float(target[weighed].sum())


def range_error(examples: Floats, level: float) -> float:
    """The error of each end of each class's range, where exp(-level) is that of one end of the interval."""
    return float(np.exp(-level)) * RANGE_SHARE / int(np.sum(examples > 0))


def class_ranges(certified: Floats, examples: Floats, error: float) -> tuple[Floats, Floats]:
    """Clopper and Pearson's intervals of classes, each end wrong with probability at most `error`.

    Args:
        certified: classes x radii.
        examples: of each class, independent.
        error: above 0, below ½.

    Returns:
        Low and high ends, classes x (radii, then the same radii of uncertified examples).
    """
    counts = np.hstack([certified, examples[:, None] - certified])
    n = np.broadcast_to(examples[:, None], counts.shape)
    low, some = np.zeros(counts.shape), counts > 0
    low[some] = special.betaincinv(counts[some], n[some] - counts[some] + 1, error)
    return low, 1 - np.roll(low, certified.shape[1], axis=1)


def rejected_within(bound: TiltedBound, values: Floats, level: float, ranges: Ranges) -> Floats:
    """The largest θ that each value of T rejects at exp(-level), for accuracies within its ranges.

    Guarantee: at least `bound.rejected`; for all L within the ranges with p(S)·L <= θ the bound is at most
    tilt·T - level.
    """
    search = _Search.of(bound, ranges)
    ends = bound.rejected_by_line(values, level)
    known = np.zeros(ends.shape, dtype=np.bool_)
    # Ranges only raise what a line rejects. Of the lines beside Chernoff's the smallest counts: those that reject more
    # without ranges than another one does with them are left as they are, and so is Chernoff's.
    wanted = np.zeros(ends.shape, dtype=np.bool_)
    wanted[1 + np.argmin(ends[1:], axis=0) if len(ends) > 1 else 0, np.arange(len(values))] = True
    while wanted.any():
        lines, chosen = np.nonzero(wanted)
        ends[lines, chosen] = search.crossing(lines, chosen, bound.tilt * values[chosen] - level)
        known |= wanted
        smallest = np.min(ends[1:], axis=0, where=known[1:], initial=np.inf)
        wanted = ~known & (ends < smallest)
        wanted[0] = False
    return np.maximum(best_of_lines(ends), ranges.least)


@dataclass(frozen=True)
class _Search:
    """The polylines of one tilt, cut to the ranges.

    Attributes:
        bound: what is searched.
        target: the share of each class that is in the target.
        low, high: the ranges of these classes, values x classes.
        first, last: the pieces in which they lie.
        values: the polylines at the ends of their pieces, lines x classes x (pieces + 1).
        keys: the place of each piece in the order of gain per share of θ, line after line and class after class, each
            with an offset of its own: all of them rise.
    """

    bound: TiltedBound
    target: Floats
    low: Floats
    high: Floats
    first: Integers
    last: Integers
    values: Floats
    keys: Integers

    @classmethod
    def of(cls, bound: TiltedBound, ranges: Ranges) -> _Search:
        classes = bound.classes
        low, high = ranges.low[:, classes.held], ranges.high[:, classes.held]
        lines, count, pieces = classes.slopes.shape
        values = np.zeros((lines, count, pieces + 1))
        np.cumsum(classes.slopes * np.diff(classes.ends), axis=-1, out=values[..., 1:])
        places = np.empty_like(classes.order)
        np.put_along_axis(places, classes.order, np.arange(classes.order.shape[1])[None], axis=1)
        offsets = np.arange(lines * count) * (count * pieces + 1)
        keys = (places.reshape(-1, pieces) + offsets[:, None]).ravel()
        first, last = _pieces_of(classes.ends, low), _pieces_of(classes.ends, high)
        return cls(bound, bound.target[classes.held], low, high, first, last, values, keys)

    def crossing(self, lines: Integers, chosen: Integers, room: Floats) -> Floats:
        """θ up to which a line is at most `room`, for pairs of a line and a value.

        The classes' pieces are taken in the order of gain per share of θ, as far as they lie within the ranges. -1
        where the line is above from the start, infinity where it never is.
        """
        ends, slopes = self.bound.classes.ends, self.bound.classes.slopes
        low, high, first, last = (each[chosen] for each in (self.low, self.high, self.first, self.last))
        _, count, pieces = slopes.shape
        each, line = np.arange(count), lines[:, None]
        at_low = self.values[line, each, first] + slopes[line, each, first] * (low - ends[each, first])
        at_high = self.values[line, each, last] + slopes[line, each, last] * (high - ends[each, last])
        rows = line * count + each
        offsets, before = rows * (count * pieces + 1), rows * pieces

        def taken(step: Integers) -> Integers:
            """How many pieces of each class are among so many of the first ones."""
            return np.asarray(np.searchsorted(self.keys, offsets + step[..., None]) - before)

        def gain(step: Integers) -> Floats:
            number = taken(step)
            inside = np.where(number > last, at_high, self.values[line, each, number])
            return np.asarray(np.where(number <= first, at_low, inside).sum(axis=-1)) + self.bound.heights[lines]

        def theta(step: Integers) -> Floats:
            return np.asarray(np.clip(ends[each, taken(step)], low, high) @ self.target)

        start = np.zeros(len(room), dtype=np.int64)
        stop = np.count_nonzero(slopes > 0, axis=(1, 2))[lines]
        least, most = gain(start), gain(stop)
        parts = np.arange(1, int(np.clip(_LOOKUPS // low.size, 2, _MOST_PARTS)))[:, None]
        while np.any(stop - start > 1):
            # Several steps between both at once: the last one of them that is not above, and the first one that is.
            steps = np.vstack([start, start + (stop - start) * parts // (len(parts) + 1), stop])
            place = np.count_nonzero(gain(steps[1:-1]) <= room, axis=0), np.arange(len(room))
            start, stop = steps[place], steps[place[0] + 1, place[1]]
        below, above = gain(start), gain(stop)
        along = np.divide(room - below, above - below, out=np.zeros(len(room)), where=above > below)
        at_start = theta(start)
        inside = at_start + np.clip(along, 0.0, 1.0) * (theta(stop) - at_start)
        return np.where(room < least, -1.0, np.where(room >= most, np.inf, inside))


def _pieces_of(ends: Floats, accuracies: Floats) -> Integers:
    """The piece of each class in which an accuracy lies: from its first end on, up to but without its second."""
    classes, last = len(ends), ends.shape[1] - 2
    each = np.arange(classes)
    # Shifted apart, the classes' ends are one sorted list; that rounds, so that the piece may be the next one.
    shifted = np.searchsorted((ends[:, :-1] + 2 * each[:, None]).ravel(), accuracies + 2 * each, side="right")
    piece = np.clip(shifted - 1 - each * (last + 1), 0, last)
    piece = np.where(ends[each, piece] > accuracies, np.maximum(piece - 1, 0), piece)
    return np.asarray(np.where((ends[each, piece + 1] <= accuracies) & (piece < last), piece + 1, piece))
