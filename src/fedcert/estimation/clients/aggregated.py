"""Clients known by their sums alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedcert._arrays import Floats
from fedcert._schema.field_types import LARGEST_COUNT
from fedcert.errors import EstimationProblem
from fedcert.estimation.clients.noisy_totals import NoisyTotals
from fedcert.estimation.clients.readings import Reading, named_readings, rounded_counts, rounding_key
from fedcert.estimation.clients.statistics import SufficientStatistics
from fedcert.report import Smoothing, Sums
from fedcert.report.sums.groups import effects_or_ones, group_bound

_TINY = 1e-9
"""Stands in for a noisy total that is not positive, so that the division is defined."""


@dataclass(frozen=True)
class AggregatedClients:
    """`Clients` of whom only sums are known.

    Attributes:
        sums: theirs.
        reading: how right answers are read, where these were counted.
        side: of the interval, for which shares of the range of scores are rounded to whole numbers of examples, as far
            as they are of independent classes; None where they are read as they are.
    """

    sums: Sums
    reading: Reading | None = None
    side: str | None = None

    def __post_init__(self) -> None:
        if self.sums.smoothing.is_population and self.reading is None:
            object.__setattr__(self, "reading", named_readings(self.sums.smoothing, self.sums.radii).lower)
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
        return self.sums.radii if self.reading is None else self.reading.radii

    def read(self, reading: Reading) -> AggregatedClients:
        """The same clients, their right answers read otherwise."""
        return AggregatedClients(self.sums, reading)

    def rounded(self, reading: Reading, side: str) -> AggregatedClients:
        """The same clients with scores as shares of their range, of which class totals are rounded at random."""
        return AggregatedClients(self.sums, reading.as_shares(), side)

    def _scored(self, entries: Sequence[Sequence[int]]) -> Floats:
        """Certified examples at each radius, from rows of what was counted."""
        rows = np.array(entries, dtype=np.int64)
        if self.reading is None:
            return rows.astype(np.float64)
        if self.side is not None and self.sums.noise is None:
            key = rounding_key(self.side, str(self.sums.request), rows)
            return rounded_counts(rows, self.reading.scores, key).astype(np.float64)
        return np.asarray(rows @ self.reading.scores.T, dtype=np.float64)

    @property
    def _scores(self) -> Floats | None:
        return None if self.reading is None else self.reading.scores

    @property
    def model(self) -> str:
        """The model that all of them certified."""
        return self.sums.model

    @property
    def smoothing(self) -> Smoothing:
        """How; the smallest n and the largest failure probability among them."""
        return self.sums.smoothing

    @property
    def same_settings(self) -> bool:
        """Whether all of them drew the same samples at the same failure probability."""
        return self.sums.alike

    @property
    def fewest_holders(self) -> int:
        """Classes that fewer clients hold were left out of the sums; 1 where none were."""
        return self.sums.fewest_holders or 1

    @property
    def max_radius_range(self) -> tuple[float, float]:
        """The largest radius of the fewest samples, twice: sums hold no others."""
        return (self.sums.smoothing.largest_radius or 0.0,) * 2

    @property
    def count(self) -> int:
        """Number of clients that hold examples; of all contributors where that is not known."""
        moments = self.sums.moments
        return max(moments.clients if moments is not None else self.sums.contributors, 1)

    @property
    def n_with_class_counts(self) -> int:
        """Number of clients that disclose counts per class."""
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
        return np.asarray(self._scored([self.sums.procedure_counts])[0], dtype=np.float64)

    @cached_property
    def class_totals(self) -> tuple[Floats, Floats] | None:
        """Examples per class and certified ones (classes x radii), of clients that disclose them; None if none does."""
        if self.noisy_totals is not None:
            return self._held(self.noisy_totals)
        totals = self.sums.by_class
        if totals is None or not self.n_with_class_counts:
            return None
        return np.array(totals.label_counts, dtype=np.float64), self._scored(totals.procedure_counts)

    def _held(self, noisy: NoisyTotals) -> tuple[Floats, Floats] | None:
        """The totals of classes whose size is clearly above the noise; 0 for others, None where there are none."""
        held = noisy.sizes > 0
        if not held.any():
            return None
        return np.where(held, np.maximum(noisy.labels, _TINY), 0.0), np.where(held[:, None], noisy.certified, 0.0)

    @cached_property
    def noisy_totals(self) -> NoisyTotals | None:
        """Counts per class with noise for privacy in them; None without noise."""
        return None if self.sums.private is None else NoisyTotals.of(self.sums.private, self._scores)

    @cached_property
    def fallback_curve(self) -> Floats | None:
        """Fallback for classes whose size is not clearly above the noise: the curve pooled over all classes."""
        if self.noisy_totals is None:
            return None
        examples, certified = self.noisy_totals.labels.sum(), self.noisy_totals.certified.sum(axis=0)
        return np.asarray(np.clip(certified / max(float(examples), _TINY), 0.0, 1.0), dtype=np.float64)

    @cached_property
    def overall_statistics(self) -> SufficientStatistics | None:
        """Sufficient statistics of the clients' mixes and overall counts; None where only totals are known."""
        sums = self.sums
        if sums.moments is None:
            return None
        return SufficientStatistics.of_moments(sums.label_counts, sums.procedure_counts, sums.moments, self._scores)

    @cached_property
    def statistics(self) -> SufficientStatistics | None:
        """Sufficient statistics: counts per class where disclosed, overall counts otherwise; None if totals alone."""
        totals = self.class_totals
        if totals is None or self.sums.by_class is None:
            return self.overall_statistics
        if self.n_with_class_counts == self.count:
            return SufficientStatistics.of_classes(*totals)
        moments = self.sums.by_class.moments
        if self.overall_statistics is None or moments is None:
            return self.overall_statistics
        disclosing = SufficientStatistics.of_moments(
            self.sums.by_class.label_counts, np.sum(self.sums.by_class.procedure_counts, axis=0).tolist(), moments,
            self._scores,
        )  # fmt: skip
        return SufficientStatistics.of_both(self.overall_statistics - disclosing, totals)

    @property
    def largest_design_effects(self) -> Floats:
        """The largest design effect of any client at each radius."""
        effects = effects_or_ones(self.sums.design_effect, self.sums.largest_group, len(self.sums.radii))
        return np.array(effects) if self.reading is None else np.full(len(self.radii), max(effects))

    @property
    def largest_group(self) -> int:
        """An upper bound on the examples in any client's largest group; 1 where all are independent."""
        return group_bound(self.sums.examples, self.sums.design_effect, self.sums.largest_group)

    @property
    def excluded(self) -> Mapping[str, str]:
        """Empty: sums name no client."""
        return {}
