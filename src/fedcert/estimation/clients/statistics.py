"""Sufficient statistics of the linear model: sums over the clients, which merge and whose size does not depend on them.

With l the label counts of a client, k its certified counts and n its examples, p = l/n and c = k/n, so that
Σ n p pᵀ = Σ l lᵀ/n, Σ n p c = Σ l k/n and Σ n c² = Σ k²/n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats
from fedcert.estimation.clients.eigenbasis import MixEigenbasis
from fedcert.report.sums.moments import Moments

_ROWS_PER_STEP = 50_000
"""Clients converted to floats at once: 400 MB for 1,000 classes."""
_FLOATING = 4e-16
"""What floating-point numbers lose of a sum, relative to it: two units in the last place."""


@dataclass(frozen=True, eq=False)
class SufficientStatistics:
    """Sums over clients that hold examples; compared by identity.

    Attributes:
        clients: how many.
        labels: Σ l, one per class.
        certified: Σ k, one per radius.
        labels_labels: Σ l lᵀ/n, classes x classes (A).
        labels_certified: Σ l k/n, classes x radii.
        certified_squared: Σ k²/n, one per radius.
        rounding: an upper bound on the rounding error of any entry.
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

    @cached_property
    def eigenbasis(self) -> MixEigenbasis:
        """A by its eigenvectors."""
        return MixEigenbasis.of(self.labels_labels, self.rounding)

    def __add__(self, other: SufficientStatistics) -> SufficientStatistics:
        """The statistics of both sets of clients together."""
        return SufficientStatistics(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def __sub__(self, other: SufficientStatistics) -> SufficientStatistics:
        """The statistics without those of some of the clients; the roundings of both remain."""
        parts = {field.name: getattr(self, field.name) - getattr(other, field.name) for field in fields(self)}
        return SufficientStatistics(**parts | {"rounding": self.rounding + other.rounding})

    @classmethod
    def of_clients(cls, labels: npt.NDArray[Any], certified: npt.NDArray[Any]) -> SufficientStatistics:
        """From clients' class mixes and overall counts, as in the paper's protocol."""
        classes, radii = labels.shape[1], certified.shape[1]
        cells, cross = np.zeros((classes, classes)), np.zeros((classes, radii))
        total = cls(0, np.zeros(classes), np.zeros(radii), cells, cross, np.zeros(radii))
        for start in range(0, len(labels), _ROWS_PER_STEP):
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
    def of_both(cls, others: SufficientStatistics, totals: tuple[Floats, Floats]) -> SufficientStatistics:
        """Counts per class of the clients that disclose them, mixes and overall counts of the others."""
        return others + cls.of_classes(*totals)

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
