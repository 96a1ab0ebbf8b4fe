"""The interval from sums with noise for privacy, by exponential tilting; its proof is in docs/proofs.md, "Noisy sums".

Let m be class sizes that were released for this alone, u = p/m the weights, t > 0 a tilt, and c(L) = log(1 + L(e^{tu} -
1)) for a class of accuracy L. Whatever the true sizes of the classes are,

    t Σ u k - Σ [n c(L) + ½ Var(t u k - n c(L))]

exceeds log(1/α) with probability at most α, where k and n are the classes' noisy counts (`NoisyTotals`) and the
variance is that of the noise in them. An accuracy of the target is refuted if that happens for all accuracies of the
classes that make it up, and the interval is what is not refuted. Weights and tilts look at m alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats
from fedcert.estimation.clients.noisy_totals import NoisyTotals

Whole = npt.NDArray[np.int64]

_CLASS_SHARE = 0.1
"""Of the error probability, for the ranges of single classes' accuracies. It lengthens the rest by 1.4%; without these
ranges, noise in sizes could be put down to classes of accuracy 0 and 1, which costs 20% to 50% with ten classes."""
_POPULATION_SHARE = 0.1
"""Of the error probability, for the population's interval where the target is a finite set; it costs as little."""
_PIECES = 12
"""Cells between the possible accuracies of a class, on which the bound is linear by parts: with 80 of them intervals
were shorter by less than 0.1% in simulations."""
_SEGMENTS = 16
"""Segments of accuracies, equal in arcsine: neighbours' tilts differ by a fifth or so. At the ends they are halved
until a segment has less than an example."""
_SAME_TILT = 1.1
"""Neighbouring segments whose tilts differ by less are one: a tilt that is off by so much costs half a percent."""
_LARGEST_EXPONENT = 300.0
"""Of tilts times weights, so that no exponential overflows."""
_LARGEST_EXPONENT_OF_SET = 30.0
"""Of tilts over the size of a finite set: larger ones gain nothing but for accuracies within 1e-13 of 1."""
_NARROW = 1e-15
"""Cells narrower than this count as none: rounding is as large."""
_AT_ONCE = 2**21
"""Pieces held in memory at once: a few arrays of 16 MB."""
_SLACK = 1e-9
"""Ends are moved outwards by so much, for rounding and for cells that are left out."""


def noisy_interval(
    totals: NoisyTotals, target: Floats, confidence: float, simultaneous: bool, target_examples: int | None,
    factor: Floats,
) -> tuple[Floats, Floats]:  # fmt: skip
    """The interval at each radius.

    Guarantee: for any accuracies in [0, 1], any true sizes of the classes and any number of examples, the interval
    covers with at least the stated confidence, at each radius or at all of them at once. It needs independent groups
    of examples, and noise that is sub-Gaussian with the variances given, as discrete Gaussian noise is.

    Args:
        totals: the noisy counts. Classes that are not held may have any accuracy.
        target: the target's class mix.
        confidence: above 0, below 1.
        simultaneous: for all radii at once.
        target_examples: size of the finite set that the target is; None for the population that it is drawn from.
        factor: the most examples in a group, at each radius; 1 where all are independent.

    Returns:
        Lower and upper ends.
    """
    known = (totals.sizes > 0) & (target > 0)
    if not known.any():
        return np.zeros(len(factor)), np.ones(len(factor))
    error = (1 - confidence) / (len(factor) if simultaneous else 1)
    at_once = max(_AT_ONCE // (2 * _PIECES * int(known.sum())), 1)
    parts = [slice(start, start + at_once) for start in range(0, len(factor), at_once)]
    certified = [_Side(totals.among(known, part), target[known], factor[part]) for part in parts]
    bounds = np.concatenate([_both_bounds(side, error, target_examples) for side in certified], axis=1)
    lower, upper = np.clip(bounds[0] - _SLACK, 0.0, 1.0), np.clip(1 - bounds[1] + _SLACK, 0.0, 1.0)
    return np.minimum(lower, upper), np.maximum(lower, upper)


def _both_bounds(certified: _Side, error: float, target_examples: int | None) -> Floats:
    """Lower bounds of the held classes' part of the target, certified and not: 2 x radii."""
    sides = (certified, replace(certified, counts=certified.counts.uncertified))
    whole, classes = float(certified.shares.sum()), len(certified.shares)
    if classes == 1 and target_examples is None:
        return np.stack([whole * side.class_bounds(error / 2)[0] for side in sides])
    low, low_others = (side.class_bounds(error * _CLASS_SHARE / (2 * classes)) for side in sides)
    crossed = low > 1 - low_others  # noise can do that: nothing is then known of the class
    low, low_others = np.where(crossed, 0.0, low).T, np.where(crossed, 0.0, low_others).T
    ends = (_End(sides[0], low, 1 - low_others), _End(sides[1], low_others, 1 - low))
    rest = error * (1 - _CLASS_SHARE)
    if target_examples is None:
        return np.stack([end.bounds(rest / 2) for end in ends])
    least, least_others = (end.bounds(error * _POPULATION_SHARE / 2) for end in ends)
    rest -= error * _POPULATION_SHARE
    return np.stack([
        ends[0].bounds_of_set(rest / 2, least, np.maximum(whole - least_others, least), target_examples),
        ends[1].bounds_of_set(rest / 2, least_others, np.maximum(whole - least, least_others), target_examples),
    ])  # fmt: skip


def _segments(smallest: float) -> Floats:
    """Ends of segments of accuracies, from 0 to 1, the first of which is below a smallest one."""
    middle = np.sin(np.linspace(0.0, np.pi / 2, _SEGMENTS + 1)) ** 2
    halvings = max(int(np.ceil(np.log2(middle[1] / smallest))), 0)
    tail = middle[1] * 0.5 ** np.arange(halvings, 0, -1.0)
    return np.concatenate([[0.0], tail, middle[1:-1], 1 - tail[::-1], [1.0]])


def _tilts(variance: Floats, unit: Floats | float, log: float) -> Floats:
    """Tilts that are about the best for a sum of this variance with terms of this size (by Bennett's inequality).

    Args:
        variance: of the sum.
        unit: the size of its terms.
        log: of one over the error probability.
    """
    ahead = np.sqrt(2 * log * variance) + unit * log / 3
    return np.asarray(np.log1p(unit * ahead / variance) / unit, dtype=np.float64)


@dataclass(frozen=True)
class _Side:
    """What one end of the interval is made of.

    Attributes:
        counts: of the classes that are held and occur in the target.
        shares: of these classes in the target.
        factor: the most examples in a group, at each radius.
    """

    counts: NoisyTotals
    shares: Floats
    factor: Floats

    def class_bounds(self, error: float) -> Floats:
        """Lower bounds of each class's accuracy by itself, classes x radii."""
        counts, log = self.counts, float(np.log(1 / error))
        bounds = np.zeros_like(counts.certified)
        going = np.ones(bounds.shape, dtype=np.bool_)
        segments = _segments(1 / max(float(counts.sizes.max()), 2.0))
        for low, high in pairwise(segments):
            middle = (low + high) / 2
            chance = self.factor * counts.sizes[:, None] * middle * (1 - middle)
            tilts = _tilts(chance + counts.noise_variance(middle), self.factor, log)
            refuted = self._refuted(tilts, log)
            bounds = np.where(going, np.clip(refuted, low, high), bounds)
            going &= refuted >= high
            if not going.any():
                break
        return bounds

    def _refuted(self, tilts: Floats, log: float) -> Floats:
        """Up to which accuracy its own counts refute each class; below 0 for none.

        What is compared with the room is a convex parabola in c: if it fits at 0 and at some c, then between them too.
        """
        counts = self.counts
        room = tilts * counts.certified - log - tilts**2 * counts.certified_variance / 2
        slope = counts.labels[:, None] - tilts * counts.covariance
        root = np.sqrt(np.maximum(slope**2 + 2 * counts.labels_variance * room, 0.0))
        largest = (root - slope) / counts.labels_variance
        positive = slope > 0  # where the difference of roots would cancel
        np.divide(2 * room, root + slope, out=largest, where=positive)
        accuracy = np.expm1(self.factor * np.clip(largest, 0.0, tilts)) / np.expm1(self.factor * tilts)
        return np.where(room >= 0, accuracy, -1.0)


@dataclass(frozen=True)
class _End:
    """One end of the interval.

    Attributes:
        side: what is known.
        lowest, highest: ranges of the classes' accuracies, radii x classes.
    """

    side: _Side
    lowest: Floats
    highest: Floats

    def bounds(self, error: float) -> Floats:
        """Lower bounds of Σ p L: how far it is refuted from 0 on, each segment by its own tilt."""
        log = float(np.log(1 / error))
        ends, tilts = self._tilted_segments(log, None)
        least = self.lowest @ self.side.shares
        bounds, refuted, by = least.copy(), np.full(len(least), -1.0), np.zeros(len(least))
        going = np.ones(len(least), dtype=np.bool_)
        for low, high, tilt in zip(ends[:-1], ends[1:], tilts, strict=True):
            inside = going & (high > least)  # what is below is refuted already
            anew = np.flatnonzero(inside & (tilt != by))
            if len(anew):
                refuted[anew], by[anew] = self._refuted(anew, tilt[anew], log), tilt[anew]
            bounds[inside] = np.maximum(np.clip(refuted, low, high), least)[inside]
            going &= ~inside | (refuted >= high)
            if not going.any():
                break
        return bounds

    def bounds_of_set(self, error: float, least: Floats, most: Floats, target_examples: int) -> Floats:
        """Lower bounds of a finite set's certified share, if Σ p L is between `least` and `most`."""
        log = float(np.log(1 / error))
        ends, tilts = self._tilted_segments(log, target_examples)
        bounds = np.full(len(least), np.inf)
        for low, high, tilt in zip(ends[:-1], ends[1:], tilts, strict=True):
            radii = np.flatnonzero((high >= least) & (low <= most))
            if not len(radii):
                continue
            exponent = self._largest(radii, tilt[radii], target_examples, (least.clip(low), most.clip(None, high)))
            bounds[radii] = np.minimum(bounds[radii], self._statistic[radii] - (log + exponent) / tilt[radii])
        return np.asarray(np.maximum(bounds, 0.0), dtype=np.float64)

    @property
    def _weights(self) -> Floats:
        return self.side.shares / self.side.counts.sizes

    @property
    def _statistic(self) -> Floats:
        return np.asarray(self._weights @ self.side.counts.certified, dtype=np.float64)

    def _tilted_segments(self, log: float, target_examples: int | None) -> tuple[Floats, Floats]:
        """Ends of segments of Σ p L, and their tilts, segments x radii: functions of what weights are made of alone."""
        sizes, weights, factor = self.side.counts.sizes, self._weights, self.side.factor
        whole, squares = float(self.side.shares.sum()), float(np.sum(sizes * weights**2))
        ends = _segments(1 / max(float(sizes.sum()), 2.0))
        accuracy = ((ends[:-1] + ends[1:]) / 2)[:, None]
        of_set = whole / target_examples if target_examples else 0.0
        variance = (squares * factor + of_set) * accuracy * (1 - accuracy)
        variance = variance + np.sum(weights**2) * self.side.counts.noise_variance(accuracy)
        unit = np.broadcast_to(squares * factor / whole, variance.shape)
        if target_examples:  # the set's terms are the larger ones; towards 1, few of them are missing
            unit = np.maximum(unit, np.maximum(2 * accuracy - 1, 0.0) / target_examples)
        tilts = _tilts(variance, unit, log)
        tilts = np.minimum(tilts, _LARGEST_EXPONENT / (factor * float(weights.max())))
        if target_examples:
            tilts = np.minimum(tilts, _LARGEST_EXPONENT_OF_SET * target_examples)
        for before, tilt in pairwise(tilts):
            same = (tilt < before * _SAME_TILT) & (before < tilt * _SAME_TILT)
            tilt[same] = before[same]
        return ends * whole, tilts

    def _refuted(self, radii: Whole, tilts: Floats, log: float) -> Floats:
        """Up to which Σ p L the counts refute all accuracies at some radii, each with its tilt; below 0 for none."""
        start, shares, gains = self._lines(radii, tilts, None)
        room = tilts * self._statistic[radii] - log - start
        total, reached = _cumulated(np.maximum(gains, 0.0)), _cumulated(np.where(gains > 0, shares, 0.0))
        least = self.lowest[radii] @ self.side.shares
        refuted = [np.interp(*row) for row in zip(room, total, reached, strict=True)] + least
        return np.where(room < 0, -1.0, np.where(room >= total[:, -1], 1.0, refuted))

    def _largest(self, radii: Whole, tilts: Floats, target_examples: int, between: tuple[Floats, Floats]) -> Floats:
        """The largest exponent over all accuracies with Σ p L between two values, at some radii, each with its tilt."""
        start, shares, gains = self._lines(radii, tilts, target_examples)
        value, reached = _cumulated(gains), _cumulated(shares) + (self.lowest[radii] @ self.side.shares)[:, None]
        peak = np.take_along_axis(reached, value.argmax(axis=1)[:, None], axis=1)[:, 0]
        best = np.clip(peak, between[0][radii], between[1][radii])  # a concave function is largest nearest to its peak
        return np.array(start + [np.interp(*row) for row in zip(best, reached, value, strict=True)])

    def _lines(self, radii: Whole, tilts: Floats, target_examples: int | None) -> tuple[Floats, Floats, Floats]:
        """An upper bound of the exponent, in pieces that are linear in Σ p L, the steepest first.

        In a class the exponent is a convex parabola of c(L), bounded by its chord on each cell of accuracies; c is
        concave, bounded by tangents where the chord rises, and by its own chord where it falls. A finite set adds a
        concave function. Steepest first, whatever the class and the cell: that allows for more than accuracies can do.

        Returns:
            The exponent at the lowest accuracies; of each piece the part of Σ p L, and of the exponent; radii x pieces.
        """
        counts, shares = self.side.counts, self.side.shares[:, None]
        factor, unit = self.side.factor[radii][:, None, None], tilts[:, None, None] * self._weights[:, None]
        of_certified, of_both = (part[radii][:, None, None] for part in (counts.certified_variance, counts.covariance))
        low, high = self.lowest[radii][:, :, None], self.highest[radii][:, :, None]
        accuracy = low + (high - low) * np.sin(np.linspace(0.0, np.pi / 2, _PIECES + 1)) ** 2
        step = np.expm1(factor * unit)
        tilted, steepness = np.log1p(accuracy * step) / factor, step / (1 + accuracy * step) / factor
        noise = of_certified * unit**2 - 2 * of_both * unit * tilted + counts.labels_variance * tilted**2
        value = counts.labels[:, None] * tilted + noise / 2
        width, gain = np.diff(accuracy), np.diff(value)
        wide = width > _NARROW
        chord = np.divide(gain, np.diff(tilted), out=np.zeros_like(width), where=wide)
        falling = np.divide(gain, width, out=np.zeros_like(width), where=wide)
        left = np.where(chord > 0, chord * steepness[..., :-1], falling)
        right = np.where(chord > 0, chord * steepness[..., 1:], falling)
        if target_examples:
            logarithm, slope = _bernoulli_logarithm(accuracy, -tilts[:, None, None] / target_examples)
            value, slope = value + target_examples * shares * logarithm, target_examples * shares * slope
            left, right, gain = left + slope[..., :-1], right + slope[..., 1:], np.diff(value)
        place = np.divide(gain - right * width, left - right, out=width / 2, where=left > right)
        place = np.clip(place, 0.0, width)
        parts = np.stack([place, width - place], axis=-1) * shares[..., None]
        gains = np.stack([left * place, gain - left * place], axis=-1)
        parts, gains = parts.reshape(len(radii), -1), gains.reshape(len(radii), -1)
        steepest = np.divide(gains, parts, out=np.full_like(gains, -np.inf), where=parts > _NARROW)
        order = np.argsort(-steepest, axis=1)
        parts, gains = (np.take_along_axis(each, order, axis=1) for each in (parts, gains))
        return value[..., 0].sum(axis=1), parts, gains


def _bernoulli_logarithm(accuracy: Floats, exponent: Floats) -> tuple[Floats, Floats]:
    """log(1 + L(e^z - 1)) for z < 0, and its derivative by L: exact next to L = 1 too, where e^z alone is left."""
    step, whole = np.expm1(exponent), (1 - accuracy) + accuracy * np.exp(exponent)
    return np.where(step > -0.5, np.log1p(accuracy * np.maximum(step, -0.5)), np.log(whole)), step / whole


def _cumulated(pieces: Floats) -> Floats:
    """Cumulative sums of rows, from 0."""
    return np.cumsum(np.concatenate([np.zeros((len(pieces), 1)), pieces], axis=1), axis=1)
