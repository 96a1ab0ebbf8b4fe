"""What the linear model needs of the clients: sums that merge, whatever the number of clients.

With l the label counts of a client, k its certified counts and n its examples, p = l/n and c = k/n, so that
Σ n p pᵀ = Σ l lᵀ/n, Σ n p c = Σ l k/n and Σ n c² = Σ k²/n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats
from fedcert.report.sums.moments import Moments

_ROWS_PER_STEP = 50_000
_FLOATING = 4e-16
"""What floating-point numbers lose of a sum, relative to it."""


@dataclass(frozen=True)
class SufficientStatistics:
    """Sums over clients that hold examples.

    Attributes:
        clients: how many.
        labels: Σ l, one per class.
        certified: Σ k, one per radius.
        labels_labels: Σ l lᵀ/n, classes x classes (A).
        labels_certified: Σ l k/n, classes x radii.
        certified_squared: Σ k²/n, one per radius.
        rounding: the most that any of these may be off.
    """

    clients: int
    labels: Floats
    certified: Floats
    labels_labels: Floats
    labels_certified: Floats
    certified_squared: Floats
    rounding: float = 0.0

    @property
    def examples(self) -> float:
        """All examples together."""
        return float(self.labels.sum())

    def __add__(self, other: SufficientStatistics) -> SufficientStatistics:
        """The evidence of other clients besides."""
        return SufficientStatistics(
            self.clients + other.clients,
            self.labels + other.labels,
            self.certified + other.certified,
            self.labels_labels + other.labels_labels,
            self.labels_certified + other.labels_certified,
            self.certified_squared + other.certified_squared,
            self.rounding + other.rounding,
        )

    def __sub__(self, other: SufficientStatistics) -> SufficientStatistics:
        """The evidence without that of some of the clients."""
        return SufficientStatistics(
            self.clients - other.clients,
            self.labels - other.labels,
            self.certified - other.certified,
            self.labels_labels - other.labels_labels,
            self.labels_certified - other.labels_certified,
            self.certified_squared - other.certified_squared,
            self.rounding + other.rounding,
        )

    @classmethod
    def of_clients(cls, labels: npt.NDArray[Any], certified: npt.NDArray[Any]) -> SufficientStatistics:
        """From clients' class mixes and curves, as the paper's protocol has them."""
        classes, radii = labels.shape[1], certified.shape[1]
        cells, cross = np.zeros((classes, classes)), np.zeros((classes, radii))
        total = cls(0, np.zeros(classes), np.zeros(radii), cells, cross, np.zeros(radii))
        for start in range(0, len(labels), _ROWS_PER_STEP):  # a few rows at a time: memory stays small
            rows = labels[start : start + _ROWS_PER_STEP].astype(np.float64)
            counts = certified[start : start + _ROWS_PER_STEP].astype(np.float64)
            held = rows.sum(axis=1) > 0
            rows, counts = rows[held], counts[held]
            mixes = rows / rows.sum(axis=1, keepdims=True)
            accuracy = counts / rows.sum(axis=1, keepdims=True)
            total = total + cls(
                len(rows), rows.sum(axis=0), counts.sum(axis=0), rows.T @ mixes, mixes.T @ counts,
                np.sum(counts * accuracy, axis=0), _FLOATING * float(rows.sum()),
            )  # fmt: skip
        return total

    @classmethod
    def of_classes(cls, labels: Floats, certified: Floats) -> SufficientStatistics:
        """From totals per class: each class that is held acts as one client that holds nothing else.

        Args:
            labels: examples per class.
            certified: certified examples, classes x radii.
        """
        held = labels > 0
        return cls(
            int(held.sum()),
            labels,
            certified.sum(axis=0),
            np.diag(labels),
            certified,
            np.sum(certified[held] ** 2 / labels[held, None], axis=0),
            _FLOATING * float(labels.sum()),
        )

    @classmethod
    def of_both(cls, closed: SufficientStatistics, totals: tuple[Floats, Floats] | None) -> SufficientStatistics:
        """Counts per class from those who give them, curves from the others."""
        return closed if totals is None else closed + cls.of_classes(*totals)

    @classmethod
    def of_moments(cls, labels: Sequence[int], certified: Sequence[int], moments: Moments) -> SufficientStatistics:
        """From totals and the moments that sums carry."""
        scale = float(moments.scale)
        return cls(
            moments.clients,
            np.array(labels, dtype=np.float64),
            np.array(certified, dtype=np.float64),
            np.array(moments.labels_labels, dtype=np.float64) / scale,
            np.array(moments.labels_certified, dtype=np.float64) / scale,
            np.array(moments.certified_squared, dtype=np.float64) / scale,
            moments.clients / (2 * scale) + _FLOATING * float(np.sum(labels)),  # each client is rounded to whole units
        )
