"""A second sum, for cluster-robust errors: what each client adds to the error of the estimate from the first.

With the first sum's totals n_j and k_j(r), the estimate is Σ_j p_j k_j/n_j. Client i's part of its error is
u(r) = Σ_j p_j/n_j (k_ij(r) - n_ij k_j(r)/n_j), corrected for its leverage, its own share of each class (CR2). The
clients sum u uᵀ in fixed-point numbers, and the second and fourth powers of their weights w = Σ_j p_j n_ij/n_j, rounded
to steps, from which the degrees of freedom follow.

With population certificates k are sums of the lower scores of examples, at the request's own votes and radii. They are
summed as shares of the scores' range, so that an example counts for 0 to 1 there too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Floats
from fedcert.errors import Refused
from fedcert.estimation.clients.readings import Reading, named_readings
from fedcert.estimation.target import distribution_of, target_of
from fedcert.report import Report, Request, Sums
from fedcert.report.sums.values import ClusterCovariance
from fedcert.secagg.masks import Vector

_SCALE = 2.0**44
"""Units in 1 of the squares. A client's are at most 10, so that those of 10,000 clients stay below 2^62."""
_WEIGHT_SCALE = 2.0**60
"""Units in 1 of the weights' powers, which add up to at most 1.5: with 10,000 clients they are not rounded away."""
_STEPS = 4
"""Weights are rounded to so many steps in each factor of two: exact powers would give few clients away."""
_MOST_LEVERAGE = 0.9
"""Of a client in a class, so that the correction of a client that nearly is the class stays finite (as in
`estimation.intervals.cluster_robust`)."""
_LARGEST = 10.0
"""Products are clipped to this: honest ones are at most 1/(1 - 0.9)."""


@dataclass(frozen=True)
class SecondSum:
    """What the second sum is about.

    Attributes:
        labels: the first sum's examples of each class.
        counts: those certified at each radius, or by their right answers, one row per class.
        target: the class mix of the estimate.
        reading: the scores of right answers, where these were counted.
    """

    labels: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...]
    target: tuple[float, ...]
    reading: Reading | None = None

    @classmethod
    def asked(cls, request: Request, sums: Sums) -> SecondSum:
        """From the first sum, for the request's own target; the uniform one where it names none."""
        wanted = target_of(request.target or "uniform", sums.classes)
        return cls.of(sums, distribution_of(wanted, sums.classes).tolist())

    @classmethod
    def of(cls, sums: Sums, target: Sequence[float]) -> SecondSum:
        """From the first sum.

        Raises:
            Refused: it has noise, or no counts per class.
        """
        if sums.by_class is None or sums.private is not None:
            raise Refused("errors that allow for clients that differ need exact sums with counts per class")
        reading = named_readings(sums.smoothing, sums.radii).lower if sums.smoothing.is_population else None
        return cls(sums.by_class.label_counts, sums.by_class.procedure_counts, tuple(map(float, target)), reading)

    @property
    def purpose(self) -> str:
        """The purpose of this aggregation, unlike that of every other of the same request."""
        text = json.dumps([self.labels, self.counts, self.target])
        return "spread " + hashlib.sha256(text.encode()).hexdigest()

    @property
    def length(self) -> int:
        """Numbers in the vector."""
        return self._radii * (self._radii + 1) // 2 + 2

    @property
    def _radii(self) -> int:
        return len(self.counts[0]) if self.reading is None else len(self.reading.radii)

    def _certified(self, rows: Sequence[Sequence[int]]) -> Floats:
        """Certified examples at each radius, or shares of the scores' range, from rows of what was counted."""
        counts = np.array(rows, dtype=np.float64)
        return counts if self.reading is None else np.asarray(counts @ self.reading.shares.T, dtype=np.float64)

    def pack(self, report: Report) -> Vector:
        """A client's numbers.

        Raises:
            Refused: it has no counts per class, or was not in the first sum.
        """
        if report.class_procedure_counts is None:
            raise Refused("the report has no counts per class")
        own = np.array(report.label_counts, dtype=np.float64)
        total = np.array(self.labels, dtype=np.float64)
        if (own > total).any():
            raise Refused("this site holds more examples of a class than the first sum has: it was not in it")
        examples = np.where(total > 0, total, 1.0)
        pooled = self._certified(self.counts) / examples[:, None]
        share, target = own / examples, np.array(self.target)
        parts = target / (examples * np.sqrt(1 - np.minimum(share, _MOST_LEVERAGE)))
        rows = self._certified(report.class_procedure_counts)
        scores = parts @ (rows - own[:, None] * pooled)
        weight = float(target @ share)
        pairs = np.outer(scores, scores)[np.triu_indices(len(scores))]
        near = 2.0 ** (np.rint(_STEPS * np.log2(min(weight, 1.0))) / _STEPS) if weight > 0 else 0.0
        squares = np.rint(np.clip(pairs, -_LARGEST, _LARGEST) * _SCALE)
        powers = np.rint(np.array([near**2, near**4]) * _WEIGHT_SCALE)
        whole: Vector = np.concatenate([squares, powers]).astype(np.int64).astype(np.uint64)
        return whole

    def spread(self, total: Vector) -> ClusterCovariance:
        """The covariance that the second sum gives, and its degrees of freedom."""
        numbers = total.astype(np.int64) / np.where(np.arange(len(total)) < len(total) - 2, _SCALE, _WEIGHT_SCALE)
        covariance = np.zeros((self._radii, self._radii))
        covariance[np.triu_indices(self._radii)] = numbers[:-2]
        covariance = covariance + np.triu(covariance, 1).T
        if self.reading is not None:  # in scores, of which shares were summed
            covariance *= np.outer(self.reading.width, self.reading.width)
        second, fourth = float(numbers[-2]), float(numbers[-1])
        worth = second**2 / fourth if fourth > 0 else 1.0
        return ClusterCovariance(
            target=self.target, covariance=tuple(map(tuple, covariance.tolist())), freedom=max(worth - 1, 1.0)
        )
