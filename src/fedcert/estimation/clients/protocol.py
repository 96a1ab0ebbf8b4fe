"""What clients add up to: all that estimators may know where no client's own numbers are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from fedcert._arrays import Floats
from fedcert.errors import EstimationProblem
from fedcert.estimation.clients.statistics import SufficientStatistics
from fedcert.report import Smoothing


class Clients(Protocol):
    """Clients together: `ReportedClients` are known one by one, `AggregatedClients` by their sums alone."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in index order."""

    @property
    def radii(self) -> tuple[float, ...]:
        """Increasing radii."""

    @property
    def model(self) -> str:
        """What all of them certified."""

    @property
    def smoothing(self) -> Smoothing:
        """How; the smallest n and the largest failure probability among them."""

    @property
    def alike(self) -> bool:
        """Whether all of them drew the same samples at the same failure probability."""

    @property
    def fewest_holders(self) -> int:
        """Classes that fewer of them hold were left out of what is known; 1 where none were."""

    @property
    def reach(self) -> tuple[float, float]:
        """The least and the most of the largest radii that the clients' settings can certify."""

    @property
    def count(self) -> int:
        """How many clients hold examples."""

    @property
    def open_count(self) -> int:
        """How many of them tell counts per class."""

    @property
    def labels(self) -> Floats:
        """Examples per class."""

    @property
    def certified(self) -> Floats:
        """Certified examples per radius."""

    @property
    def class_totals(self) -> tuple[Floats, Floats] | None:
        """Examples per class and certified ones, classes x radii, of those who tell; None if nobody does."""

    @property
    def curves(self) -> SufficientStatistics | None:
        """Sums over all clients as the paper's protocol knows them; None where only totals are known."""

    @property
    def evidence(self) -> SufficientStatistics | None:
        """All that is told: counts per class of those who tell, curves of the others; None where not known."""

    @property
    def effects(self) -> Floats:
        """The largest design effect of any client at each radius."""

    @property
    def largest_group(self) -> int:
        """Examples in the largest group of any client, at most; 1 where all are independent."""

    @property
    def excluded(self) -> Mapping[str, str]:
        """Client -> why it is left out."""


def examples(pool: Clients) -> int:
    """All examples together."""
    return int(pool.labels.sum())


def curves_of(pool: Clients) -> SufficientStatistics:
    """The sums over clients' curves.

    Raises:
        EstimationProblem: only totals are known.
    """
    return _known(pool.curves)


def evidence_of(pool: Clients) -> SufficientStatistics:
    """All that is told.

    Raises:
        EstimationProblem: only totals are known.
    """
    return _known(pool.evidence)


def pooled_mix(pool: Clients) -> Floats:
    """Class distribution of all clients' examples together."""
    return np.asarray(pool.labels / pool.labels.sum(), dtype=np.float64)


def _known(evidence: SufficientStatistics | None) -> SufficientStatistics:
    if evidence is None:
        raise EstimationProblem(
            "these sums have totals but no moments, which BLUP and minimax need; use --method vw or poststratified"
        )
    return evidence
