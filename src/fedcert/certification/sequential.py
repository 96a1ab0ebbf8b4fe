"""The sequential procedure's statistics: when to look, what each look may spend, when to give up.

A fixed number of samples is needed only by examples whose radius is close to one of the grid. So the successes are
looked at several times, at growing numbers of samples; each look has a share of the failure probability, and its lower
bound holds with that share. By the union bound all of them hold at once, so the best one seen so far is valid whenever
one stops, and for whatever reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import special

from fedcert._arrays import Floats, Integers
from fedcert.certification.bounds import error_upper_bound
from fedcert.certification.perturbation import Perturbation
from fedcert.report.smoothing import LAST_SHARE

_GROWTH = 1.18
_FIRST = 100
_CHANCE_PER_TOLERANCE = 20.0
"""Giving up below a chance of 20 times the tolerance costs less than the tolerance, as long as no more than a
twentieth of the examples are given up at one radius; on CIFAR-10, with radii 0.05 apart, it cost 0.6 to 0.9 of it."""
_LARGEST_CHANCE = 0.9


@dataclass(frozen=True)
class LookSchedule:
    """When to look, and what each look may spend.

    Attributes:
        sizes: samples drawn by each look, increasing.
        shares: the failure probability of each; they add up to no more than that of the certificate.
    """

    sizes: tuple[int, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, n: int, failure_probability: float, step: int) -> LookSchedule:
        """Looks that grow by some 18%, at multiples of a step, the last one at n.

        The last look keeps its share, and no earlier one can certify more than it, so that the largest radius follows
        from the settings alone (`Smoothing.largest_radius`).

        Args:
            n: the most samples to draw.
            failure_probability: of a certificate.
            step: samples that are drawn at a time.
        """
        sizes: list[int] = []
        wanted = float(max(step, _FIRST))
        while wanted * _GROWTH**0.5 < n:
            size = int(np.ceil(wanted / step)) * step
            if not sizes or size > sizes[-1]:
                sizes.append(size)
            wanted *= _GROWTH
        sizes = [size for size in sizes if size < n]
        last = failure_probability * LAST_SHARE
        each = (failure_probability - last) / max(1, len(sizes))
        return cls((*sizes, n), (*(min(each, last ** (size / n)) for size in sizes), last))

    def miss(self, look: int, successes: npt.ArrayLike) -> Floats:
        """The bound on a class's probability of being missed, by one look."""
        return error_upper_bound(successes, self.sizes[look], self.shares[look])


@dataclass(frozen=True)
class StoppingRule:
    """What a number of successes is good for, given the radii that are asked about.

    Attributes:
        looks: when to look.
        noise: what is added to the input.
        radii: increasing radii.
        tolerance: about the most certified accuracy that giving up may cost at any radius; with 0, an example is given
            up only when the next radius is out of reach.
    """

    looks: LookSchedule
    noise: Perturbation
    radii: tuple[float, ...]
    tolerance: float

    def next_radius(self, miss: Floats) -> Integers:
        """The position of the first radius that is not certified yet; the number of radii where all are."""
        radius = self.noise.radius(miss)
        reached = np.searchsorted(np.asarray(self.radii), radius, side="right")
        return np.where(radius > 0, reached, 0)

    def decided(self, look: int, successes: Integers, miss: Floats) -> npt.NDArray[np.bool_]:
        """Which examples need no more samples after a look: all radii are certified, or the next is out of reach.

        Args:
            look: which look it was.
            successes: of each example, so far.
            miss: the best bound so far.
        """
        following = self.next_radius(miss)
        within = following < len(self.radii)
        if look == len(self.looks.sizes) - 1:
            return np.ones(len(following), dtype=np.bool_)
        chance = self._chance(look, successes, np.minimum(following, len(self.radii) - 1))
        least = min(_CHANCE_PER_TOLERANCE * self.tolerance, _LARGEST_CHANCE)
        return np.asarray(~within | (chance < least) | (chance == 0), dtype=np.bool_)

    def _chance(self, look: int, successes: Integers, following: Integers) -> Floats:
        """The chance that the last look certifies the next radius, by what was seen.

        The share of misses at the end has the mean of the share so far and (1 - m/n)/m of its variance: about that of a
        Beta distribution with n/(n - m) times the counts.
        """
        size, most = self.looks.sizes[look], self.looks.sizes[-1]
        stretch = most / (most - size)
        allowed = self._allowed[following]
        misses = (size - successes) * stretch + 0.5
        hits = successes * stretch + 0.5
        chance = special.betainc(misses, hits, np.clip((allowed + 0.5) / most, 0.0, 1.0))
        return np.where(allowed < 0, 0.0, chance)

    @cached_property
    def _allowed(self) -> Integers:
        """How many misses the last look allows at each radius; -1 where even none are too many."""
        last = len(self.looks.sizes) - 1
        most = self.looks.sizes[last]
        allowed = []
        for radius in self.radii:
            low, high = -1, most  # bisection: the radius of the bound falls with the misses
            while high - low > 1:
                middle = (low + high) // 2
                reached = float(self.noise.radius(self.looks.miss(last, most - middle)))
                low, high = (middle, high) if reached > 0 and reached >= radius else (low, middle)
            allowed.append(low)
        return np.array(allowed, dtype=np.int64)
