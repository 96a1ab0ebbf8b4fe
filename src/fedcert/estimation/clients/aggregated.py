"""Clients known by their sums alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedcert._arrays import Floats
from fedcert._schema.field_types import LARGEST_COUNT
from fedcert.errors import EstimationProblem
from fedcert.estimation.clients.statistics import SufficientStatistics
from fedcert.report import Smoothing, Sums
from fedcert.report.privacy import AddedNoise
from fedcert.report.sums.groups import effect_bound, group_bound

_CLEAR = 4.0
"""A class counts as held if its noisy count is so many standard deviations of the noise."""


@dataclass(frozen=True)
class AggregatedClients:
    """A pool that sums tell of: see `Clients`."""

    sums: Sums

    def __post_init__(self) -> None:
        if self.sums.noise is not None and self.sums.private is None:
            raise EstimationProblem(
                f"these sums have noise added ({self.sums.noise}), which no interval here accounts for; use exact ones"
            )
        if self.sums.private is not None and self.class_totals is None:
            raise EstimationProblem("the noise in these sums is larger than what they count: nothing can be said")
        if not self.sums.examples:
            raise EstimationProblem("no client has any test example, so there is nothing to estimate from")
        if self.sums.examples > LARGEST_COUNT:
            raise EstimationProblem("the clients claim more examples together than can be counted (2^53)")

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in index order."""
        return self.sums.classes

    @property
    def radii(self) -> tuple[float, ...]:
        """Increasing radii."""
        return self.sums.radii

    @property
    def model(self) -> str:
        """What all of them certified."""
        return self.sums.model

    @property
    def smoothing(self) -> Smoothing:
        """How; the smallest n and the largest failure probability among them."""
        return self.sums.smoothing

    @property
    def alike(self) -> bool:
        """Whether all of them drew the same samples at the same failure probability."""
        return self.sums.alike

    @property
    def fewest_holders(self) -> int:
        """Classes that fewer of them hold were left out of the sums; 1 where none were."""
        return self.sums.fewest_holders or 1

    @property
    def reach(self) -> tuple[float, float]:
        """The largest radius of the fewest samples, twice: sums tell of no others."""
        return (self.sums.smoothing.largest_radius,) * 2

    @property
    def count(self) -> int:
        """How many clients hold examples, or, where that is not told, how many there are."""
        moments = self.sums.moments
        return max(moments.clients if moments is not None else self.sums.contributors, 1)

    @property
    def open_count(self) -> int:
        """How many of them tell counts per class."""
        totals = self.sums.by_class
        if totals is None or not sum(totals.label_counts):
            return 0
        if totals.label_counts == self.sums.label_counts:
            return self.count
        return totals.moments.clients if totals.moments is not None else totals.contributors

    @cached_property
    def labels(self) -> Floats:
        """Examples per class."""
        return np.array(self.sums.label_counts, dtype=np.float64)

    @cached_property
    def certified(self) -> Floats:
        """Certified examples per radius."""
        return np.array(self.sums.certified_counts, dtype=np.float64)

    @cached_property
    def class_totals(self) -> tuple[Floats, Floats] | None:
        """Examples per class and certified ones, classes x radii, of those who tell; None if nobody does."""
        if self.sums.private is not None:
            return self._noisy_totals(self.sums.private)
        totals = self.sums.by_class
        if totals is None or not self.open_count:
            return None
        return np.array(totals.label_counts, dtype=np.float64), np.array(totals.certified_counts, dtype=np.float64)

    def _noisy_totals(self, noise: AddedNoise) -> tuple[Floats, Floats] | None:
        """Totals as noisy as they are; of a class whose count is within the noise, nothing is known."""
        cells = np.array(noise.cells, dtype=np.float64) / noise.scale
        labels = cells.sum(axis=1)
        known = labels > _CLEAR * np.sqrt(noise.variance * cells.shape[1])
        certified = np.cumsum(cells[:, :0:-1], axis=1)[:, ::-1]
        if not known.any():
            return None
        return np.where(known, labels, 0.0), np.where(known[:, None], certified, 0.0)

    @cached_property
    def drowned(self) -> Floats | None:
        """What is likeliest of classes whose counts are within the noise: all classes' pooled curve, which is not."""
        if self.sums.private is None:
            return None
        cells = np.array(self.sums.private.cells, dtype=np.float64).sum(axis=0)
        certified = np.cumsum(cells[:0:-1])[::-1]
        return np.asarray(np.clip(certified / max(cells.sum(), 1e-9), 0.0, 1.0), dtype=np.float64)

    @cached_property
    def noise(self) -> Floats | None:
        """The variances of the noise in an example's count, where it is certified at a radius and where not."""
        if self.sums.private is None:
            return None
        above = np.arange(len(self.radii), 0, -1.0)
        return self.sums.private.variance * np.stack([above, len(self.radii) + 1 - above])

    @cached_property
    def curves(self) -> SufficientStatistics | None:
        """Sums over all clients as the paper's protocol knows them; None where only totals are known."""
        sums = self.sums
        if sums.moments is None:
            return None
        return SufficientStatistics.of_moments(sums.label_counts, sums.certified_counts, sums.moments)

    @cached_property
    def evidence(self) -> SufficientStatistics | None:
        """All that is told: counts per class of those who tell, curves of the others; None where not known."""
        totals = self.class_totals
        if totals is None or self.sums.by_class is None:
            return self.curves
        if self.open_count == self.count:
            return SufficientStatistics.of_classes(*totals)
        moments = self.sums.by_class.moments
        if self.curves is None or moments is None:
            return self.curves
        opened = SufficientStatistics.of_moments(
            self.sums.by_class.label_counts, np.sum(self.sums.by_class.certified_counts, axis=0).tolist(), moments
        )
        return SufficientStatistics.of_both(self.curves - opened, totals)

    @property
    def effects(self) -> Floats:
        """The largest design effect of any client at each radius."""
        told = effect_bound(self.sums.design_effect, self.sums.largest_group, len(self.radii))
        return np.asarray(told or [1.0] * len(self.radii), dtype=np.float64)

    @property
    def largest_group(self) -> int:
        """Examples in the largest group of any client, at most; 1 where all are independent."""
        return group_bound(self.sums.examples, self.sums.design_effect, self.sums.largest_group)

    @property
    def excluded(self) -> Mapping[str, str]:
        """Nobody: sums name no client."""
        return {}
