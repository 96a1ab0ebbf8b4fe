"""What estimators may know of the clients, whether each is known by its report or all of them by their sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from fedcert._arrays import Floats
from fedcert.errors import EstimationProblem
from fedcert.estimation.clients.statistics import SufficientStatistics
from fedcert.report import Smoothing


class Clients(Protocol):
    """All clients together: `ReportedClients` are known one by one, `AggregatedClients` by their sums alone."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in index order."""

    @property
    def radii(self) -> tuple[float, ...]:
        """Increasing radii."""

    @property
    def model(self) -> str:
        """The model that all of them certified."""

    @property
    def smoothing(self) -> Smoothing:
        """How; the smallest n and the largest failure probability among them."""

    @property
    def same_settings(self) -> bool:
        """Whether all of them drew the same samples at the same failure probability."""

    @property
    def fewest_holders(self) -> int:
        """Classes that fewer clients hold were left out; 1 where none were."""

    @property
    def max_radius_range(self) -> tuple[float, float]:
        """The least and the most of the largest radii that the clients' settings can certify."""

    @property
    def count(self) -> int:
        """Number of clients that hold examples."""

    @property
    def n_with_class_counts(self) -> int:
        """Number of clients that disclose counts per class."""

    @property
    def labels(self) -> Floats:
        """Examples per class."""

    @property
    def certified(self) -> Floats:
        """Certified examples per radius."""

    @property
    def class_totals(self) -> tuple[Floats, Floats] | None:
        """Examples per class and certified ones (classes x radii), of clients that disclose them; None if none does."""

    @property
    def noise_variance(self) -> Floats | None:
        """Variance of the noise added for privacy, in a class's certified and uncertified examples (2 x radii).

        None where the counts are exact.
        """

    @property
    def fallback_curve(self) -> Floats | None:
        """Stands in for the curve of a class whose noisy count is not clearly above zero; None without noise."""

    @property
    def overall_statistics(self) -> SufficientStatistics | None:
        """Sufficient statistics of the clients' mixes and overall counts; None where only totals are known."""

    @property
    def statistics(self) -> SufficientStatistics | None:
        """Sufficient statistics: counts per class where disclosed, overall counts otherwise; None if totals alone."""

    @property
    def largest_design_effects(self) -> Floats:
        """The largest design effect of any client at each radius."""

    @property
    def largest_group(self) -> int:
        """An upper bound on the examples in any client's largest group; 1 where all are independent."""

    @property
    def excluded(self) -> Mapping[str, str]:
        """Client -> why it is left out."""


def examples(clients: Clients) -> int:
    """All examples together."""
    return int(clients.labels.sum())


def all_disclose(clients: Clients) -> bool:
    """Whether every client discloses counts per class."""
    return clients.n_with_class_counts == clients.count


def overall_statistics_of(clients: Clients) -> SufficientStatistics:
    """The statistics of mixes and overall counts.

    Raises:
        EstimationProblem: only totals are known.
    """
    return _known(clients.overall_statistics)


def statistics_of(clients: Clients) -> SufficientStatistics:
    """The statistics of everything that the clients disclose.

    Raises:
        EstimationProblem: only totals are known.
    """
    return _known(clients.statistics)


def pooled_mix(clients: Clients) -> Floats:
    """Class mix of all clients' examples together."""
    return np.asarray(clients.labels / clients.labels.sum(), dtype=np.float64)


def _known(statistics: SufficientStatistics | None) -> SufficientStatistics:
    if statistics is None:
        raise EstimationProblem(
            "these sums have totals but no moments, which BLUP and minimax need; use --method vw or poststratified"
        )
    return statistics
