"""Clients as estimators know them: one by one by their reports, or all of them together by their sums alone."""

from __future__ import annotations

import numpy as np

from fedcert._arrays import Floats
from fedcert.errors import EstimationProblem
from fedcert.estimation.clients.aggregated import AggregatedClients
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.clients.statistics import SufficientStatistics

__all__ = [
    "AggregatedClients", "Clients", "ReportedClients", "SufficientStatistics", "all_disclose", "examples",
    "overall_statistics_of", "pooled_mix", "statistics_of",
]  # fmt: skip

Clients = ReportedClients | AggregatedClients
"""All clients together: the former are known one by one, the latter by their sums alone. Both have the same properties
beside those of single clients."""


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
