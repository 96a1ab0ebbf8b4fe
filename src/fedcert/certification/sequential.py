"""The sequential procedure's statistics: when to look, the failure probability of each look, when to give up.

A fixed number of samples is needed only by examples whose radius is close to one of the grid. So the successes are
looked at several times, at growing numbers of samples; each look has a share of the failure probability, and its lower
bound holds with that share. By the union bound all of them hold at once, so the best bound so far is valid whenever
sampling stops, and for whatever reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import special

from fedcert._arrays import Floats, Integers
from fedcert.certification.bounds import error_upper_bound
from fedcert.certification.perturbation import Perturbation, perturbation_of
from fedcert.report import Smoothing
from fedcert.report.smoothing import LAST_SHARE

_GROWTH = 1.18
"""From look to look. More looks leave each a smaller share, fewer stop later: 24 looks up to n = 10,000."""
_FIRST = 100
"""Samples at the first look: fewer than these hardly certify any radius at the default failure probability."""
_CHANCE_PER_TOLERANCE = 20.0
"""Giving up below a chance of 20 times the tolerance costs less than the tolerance, as long as no more than a
twentieth of the examples are given up at one radius; on CIFAR-10, with radii 0.05 apart, it cost 0.6 to 0.9 of it."""
_LARGEST_CHANCE = 0.9
"""However large the tolerance, an example that will very likely certify the next radius is not given up."""


@dataclass(frozen=True)
class LookSchedule:
    """When to look, and the failure probability of each look.

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
        sizes: set[int] = set()
        wanted = float(max(step, _FIRST))
        while wanted * _GROWTH**0.5 < n:
            sizes.add(int(np.ceil(wanted / step)) * step)
            wanted *= _GROWTH
        before = sorted(size for size in sizes if size < n)
        last = failure_probability * LAST_SHARE
        each = (failure_probability - last) / max(1, len(before))
        return cls((*before, n), (*(min(each, last ** (size / n)) for size in before), last))

    def error_bound(self, look: int, successes: npt.ArrayLike) -> Floats:
        """The bound that one look puts on the probability that another class is predicted."""
        return error_upper_bound(successes, self.sizes[look], self.shares[look])


@dataclass(frozen=True)
class SamplingPolicy:
    """How many samples are drawn of an example, and when they are enough for the radii that are asked about.

    Attributes:
        n0: samples that select a class.
        looks: when to look at those that bound its error; one look at n with the fixed procedure.
        perturbation: what is done to the input.
        radii: increasing radii.
        tolerance: about the most certified accuracy that giving up may cost at any radius; with 0, an example is given
            up only when the next radius can no longer be certified.
        skips_wrong: whether an example whose selected class is wrong is done at once.
    """

    n0: int
    looks: LookSchedule
    perturbation: Perturbation
    radii: tuple[float, ...]
    tolerance: float
    skips_wrong: bool

    @classmethod
    def of(cls, smoothing: Smoothing, radii: Sequence[float], step: int) -> SamplingPolicy:
        """The policy of the settings' procedure.

        Args:
            smoothing: the settings.
            radii: increasing radii.
            step: samples that are drawn at a time.
        """
        perturbation, n0, failure = perturbation_of(smoothing), smoothing.n0, smoothing.failure_probability
        assert n0 is not None  # noqa: S101 (CERTIFY's settings have both)
        assert failure is not None  # noqa: S101
        if smoothing.procedure == "fixed":
            looks = LookSchedule((smoothing.n,), (failure,))
            return cls(n0, looks, perturbation, tuple(radii), 0.0, skips_wrong=False)
        looks = LookSchedule.of(smoothing.n, failure, step)
        return cls(n0, looks, perturbation, tuple(radii), smoothing.tolerance or 0.0, skips_wrong=True)

    @property
    def n(self) -> int:
        """The most samples that bound an error."""
        return self.looks.sizes[-1]

    def next_radius(self, error_bound: Floats) -> Integers:
        """The position of the first radius that is not certified yet; the number of radii where all are."""
        radius = self.perturbation.radius(error_bound)
        certified = np.searchsorted(np.asarray(self.radii), radius, side="right")
        return np.where(radius > 0, certified, 0)

    def is_decided(self, look: int, successes: Integers, error_bound: Floats) -> npt.NDArray[np.bool_]:
        """Which examples need no more samples: all radii are certified, or the next hardly can be any more.

        Args:
            look: which look it was.
            successes: of each example, so far.
            error_bound: the best bound so far.
        """
        if look == len(self.looks.sizes) - 1:
            return np.ones(len(successes), dtype=np.bool_)
        following = self.next_radius(error_bound)
        all_certified = following == len(self.radii)
        chance = self._chance(look, successes, np.minimum(following, len(self.radii) - 1))
        least = min(_CHANCE_PER_TOLERANCE * self.tolerance, _LARGEST_CHANCE)
        return np.asarray(all_certified | (chance < least) | (chance == 0), dtype=np.bool_)

    def _chance(self, look: int, successes: Integers, following: Integers) -> Floats:
        """The chance that the last look certifies the next radius, given the samples so far.

        The share of errors at the end has the mean of the share so far and (1 - m/n)/m of its variance: about that of a
        Beta distribution with n/(n - m) times the counts.
        """
        size, n = self.looks.sizes[look], self.n
        stretch = n / (n - size)
        allowed = self._allowed_errors[following]
        errors = (size - successes) * stretch + 0.5
        hits = successes * stretch + 0.5
        chance = special.betainc(errors, hits, np.clip((allowed + 0.5) / n, 0.0, 1.0))
        return np.where(allowed < 0, 0.0, chance)

    @cached_property
    def _allowed_errors(self) -> Integers:
        """How many errors the last look allows at each radius; -1 where even none are too many."""
        last = len(self.looks.sizes) - 1
        allowed = []
        for radius in self.radii:
            low, high = -1, self.n  # bisection: the radius of the bound falls with the errors
            while high - low > 1:
                middle = (low + high) // 2
                certified = float(self.perturbation.radius(self.looks.error_bound(last, self.n - middle)))
                low, high = (middle, high) if certified > 0 and certified >= radius else (low, middle)
            allowed.append(low)
        return np.array(allowed, dtype=np.int64)
