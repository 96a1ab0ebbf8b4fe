"""Clients known by their sums alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedcert.errors import EstimationProblem
from fedcert.estimation.evidence import Evidence
from fedcert.estimation.simplex import Floats
from fedcert.report import Smoothing, Sums
from fedcert.report.kinds import LARGEST_COUNT


@dataclass(frozen=True)
class Summed:
    """A pool that sums tell of: see `Pool`."""

    sums: Sums

    def __post_init__(self) -> None:
        if self.sums.noise is not None:
            raise EstimationProblem(
                f"these sums have noise added ({self.sums.noise}), which no interval here accounts for; use exact ones"
            )
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
        totals = self.sums.by_class
        if totals is None or not self.open_count:
            return None
        return np.array(totals.label_counts, dtype=np.float64), np.array(totals.certified_counts, dtype=np.float64)

    @cached_property
    def curves(self) -> Evidence | None:
        """Sums over all clients as the paper's protocol knows them; None where only totals are known."""
        sums = self.sums
        if sums.moments is None:
            return None
        return Evidence.of_moments(sums.label_counts, sums.certified_counts, sums.moments)

    @cached_property
    def evidence(self) -> Evidence | None:
        """All that is told: counts per class of those who tell, curves of the others; None where not known."""
        totals = self.class_totals
        if totals is None or self.sums.by_class is None:
            return self.curves
        if self.open_count == self.count:
            return Evidence.of_classes(*totals)
        moments = self.sums.by_class.moments
        if self.curves is None or moments is None:
            return self.curves
        opened = Evidence.of_moments(
            self.sums.by_class.label_counts, np.sum(self.sums.by_class.certified_counts, axis=0).tolist(), moments
        )
        return Evidence.of_both(self.curves - opened, totals)

    @property
    def effects(self) -> Floats:
        """The largest design effect of any client at each radius."""
        return np.maximum(self.sums.design_effect or [1.0] * len(self.radii), 1.0)

    @property
    def largest_group(self) -> int | None:
        """Examples in the largest group of any client; 1 where all are independent, None where nobody says."""
        if self.sums.largest_group is not None:
            return self.sums.largest_group
        return 1 if self.sums.design_effect is None else None

    @property
    def excluded(self) -> Mapping[str, str]:
        """Nobody: sums name no client."""
        return {}
