"""The interval from sums with noise for privacy, by exponential tilting; its proof is in docs/proofs.md, "Noisy sums".

Let m be class sizes that were released for this alone, u = p/m the weights, t > 0 a tilt, and c(L) = log(1 + L(e^{tu} -
1)) for a class of accuracy L. Whatever the true sizes of the classes are,

    t Σ u k - Σ [n c(L) + ½ Var(t u k - n c(L))]

exceeds log(1/α) with probability at most α, where k and n are the classes' noisy counts (`NoisyTotals`) and the
variance is that of the noise in them. An accuracy of the target is refuted if that happens for all accuracies of the
classes that make it up, and the interval is what is not refuted. Weights and tilts look at m alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.clients.noisy_totals import NoisyTotals

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
_NARROW = 1e-15
"""Cells narrower than this count as none: rounding is as large."""
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
    sides = [_Side(of, target[known], factor) for of in (totals.among(known), totals.among(known).uncertified)]
    if known.sum() == 1 and target_examples is None:
        ends = [side.shares[0] * side.class_bounds(error / 2)[0] for side in sides]
    else:
        low, low_others = (side.class_bounds(error * _CLASS_SHARE / (2 * known.sum())) for side in sides)
        crossed = low > 1 - low_others  # noise can do that: nothing is then known of the class
        low, low_others = np.where(crossed, 0.0, low), np.where(crossed, 0.0, low_others)
        bounds = (
            _both(_Radius(sides[0], r, low[:, r], 1 - low_others[:, r]),
                  _Radius(sides[1], r, low_others[:, r], 1 - low[:, r]), error, target_examples)
            for r in range(len(factor))
        )  # fmt: skip
        ends = list(np.array(list(bounds)).T)
    lower, upper = np.clip(ends[0] - _SLACK, 0.0, 1.0), np.clip(1 - ends[1] + _SLACK, 0.0, 1.0)
    return np.minimum(lower, upper), np.maximum(lower, upper)


def _both(certified: _Radius, uncertified: _Radius, error: float, target_examples: int | None) -> tuple[float, float]:
    """Lower bounds of the held classes' part of the target, certified and not, given the classes' ranges."""
    rest = error * (1 - _CLASS_SHARE)
    if target_examples is None:
        return certified.bound(rest / 2), uncertified.bound(rest / 2)
    whole = float(certified.side.shares.sum())
    least, least_others = (one.bound(error * _POPULATION_SHARE / 2) for one in (certified, uncertified))
    most, most_others = max(whole - least_others, least), max(whole - least, least_others)
    rest -= error * _POPULATION_SHARE
    return (
        certified.bound_of_set(rest / 2, least, most, target_examples),
        uncertified.bound_of_set(rest / 2, least_others, most_others, target_examples),
    )


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
class _Radius:
    """One end of the interval at one radius.

    Attributes:
        side: what is known.
        radius: its index.
        lowest, highest: ranges of the classes' accuracies.
    """

    side: _Side
    radius: int
    lowest: Floats
    highest: Floats

    def bound(self, error: float) -> float:
        """A lower bound of Σ p L: the end of what is refuted, from 0 on, each segment by its own tilt."""
        log = float(np.log(1 / error))
        least = float(self.side.shares @ self.lowest)
        ends, tilts = self._tilted_segments(log, None)
        for low, high, tilt in zip(ends[:-1], ends[1:], tilts, strict=True):
            if high <= least:
                continue
            refuted = self._refuted(float(tilt), log)
            if refuted < high:
                return max(refuted, least, float(low))
        return float(ends[-1])

    def bound_of_set(self, error: float, least: float, most: float, target_examples: int) -> float:
        """A lower bound of a finite set's certified share, if Σ p L is between `least` and `most`."""
        log = float(np.log(1 / error))
        bounds = []
        ends, tilts = self._tilted_segments(log, target_examples)
        for low, high, tilt in zip(ends[:-1], ends[1:], tilts, strict=True):
            if high < least or low > most:
                continue
            start, shares, gains = self._lines(float(tilt), target_examples)
            order = np.argsort(-gains / shares)
            reached = float(self.side.shares @ self.lowest) + np.append(0.0, np.cumsum(shares[order]))
            value = start + np.append(0.0, np.cumsum(gains[order]))  # concave: largest as near to its peak as may be
            best = np.clip(reached[np.argmax(value)], max(low, least), min(high, most))
            bounds.append(self._statistic - (log + float(np.interp(best, reached, value))) / float(tilt))
        return max(min(bounds), 0.0)

    @property
    def _weights(self) -> Floats:
        return self.side.shares / self.side.counts.sizes

    @property
    def _statistic(self) -> float:
        return float(self._weights @ self.side.counts.certified[:, self.radius])

    def _tilted_segments(self, log: float, target_examples: int | None) -> tuple[Floats, Floats]:
        """Ends of segments of Σ p L, and each one's tilt: functions of what the weights are made of alone."""
        sizes, weights = self.side.counts.sizes, self._weights
        whole, factor = float(self.side.shares.sum()), float(self.side.factor[self.radius])
        ends = _segments(1 / max(float(sizes.sum()), 2.0))
        accuracy = (ends[:-1] + ends[1:]) / 2
        noise = np.sum(weights**2) * self.side.counts.noise_variance(accuracy[:, None])[:, self.radius]
        squares = float(np.sum(sizes * weights**2))
        of_set = whole / target_examples if target_examples else 0.0
        variance = (squares * factor + of_set) * accuracy * (1 - accuracy) + noise
        tilts = _tilts(variance, squares * factor / whole, log)
        tilts = np.minimum(tilts, _LARGEST_EXPONENT / (factor * float(weights.max())))
        kept = [0]
        for index in range(1, len(tilts)):
            if not 1 / _SAME_TILT < tilts[index] / tilts[kept[-1]] < _SAME_TILT:
                kept.append(index)
        return np.append(ends[kept], 1.0) * whole, tilts[kept]

    def _refuted(self, tilt: float, log: float) -> float:
        """Up to which Σ p L the counts refute all accuracies at a tilt; below 0 for none."""
        start, shares, gains = self._lines(tilt, None)
        room = tilt * self._statistic - log - start
        if room < 0:
            return -1.0
        shares, gains = shares[gains > 0], gains[gains > 0]
        order = np.argsort(-gains / shares)
        total, reached = np.append(0.0, np.cumsum(gains[order])), np.append(0.0, np.cumsum(shares[order]))
        if room >= total[-1]:
            return 1.0
        return float(np.interp(room, total, reached) + self.side.shares @ self.lowest)

    def _lines(self, tilt: float, target_examples: int | None) -> tuple[float, Floats, Floats]:
        """An upper bound of what Σ p L may put into the statistic's exponent, as pieces that are linear in it.

        In a class the exponent is a convex parabola of c(L), bounded by its chord on each cell of accuracies; c is
        concave, bounded by tangents where the chord rises, and by its own chord where it falls. A finite set adds a
        concave function. Pieces may be taken in any order: that allows for more than accuracies can do.

        Returns:
            The exponent at the lowest accuracies, and of each piece the share of Σ p L and the exponent that it adds.
        """
        counts, radius, shares = self.side.counts, self.radius, self.side.shares[:, None]
        factor, unit = float(self.side.factor[radius]), tilt * self._weights[:, None]
        grid = np.sin(np.linspace(0.0, np.pi / 2, _PIECES + 1)) ** 2
        accuracy = self.lowest[:, None] + (self.highest - self.lowest)[:, None] * grid
        step = np.expm1(factor * unit)
        tilted, steepness = np.log1p(accuracy * step) / factor, step / (1 + accuracy * step) / factor
        noise = counts.certified_variance[radius] * unit**2 - 2 * counts.covariance[radius] * unit * tilted
        value = counts.labels[:, None] * tilted + (noise + counts.labels_variance * tilted**2) / 2
        width = np.diff(accuracy)
        chord = np.divide(np.diff(value), np.diff(tilted), out=np.zeros_like(width), where=width > _NARROW)
        falling = np.divide(np.diff(value), width, out=np.zeros_like(width), where=width > _NARROW)
        left = np.where(chord > 0, chord * steepness[:, :-1], falling)
        right = np.where(chord > 0, chord * steepness[:, 1:], falling)
        if target_examples:
            step = np.expm1(-tilt / target_examples)
            value = value + target_examples * shares * np.log1p(accuracy * step)
            slope = target_examples * shares * step / (1 + accuracy * step)
            left, right = left + slope[:, :-1], right + slope[:, 1:]
        gain, bends = np.diff(value), left > right
        place = np.divide(gain - right * width, left - right, out=width / 2, where=bends)
        place = np.clip(place, 0.0, width)
        first = left * place
        parts = np.stack([place, width - place]) * shares
        gains = np.stack([first, gain - first])
        wide = parts > _NARROW
        return float(value[:, 0].sum()), parts[wide], gains[wide]
