"""Sufficient statistics of the linear model: sums over the clients, which merge and whose size does not depend on them.

With l the label counts of a client, k its certified counts and n its examples, p = l/n and c = k/n, so that
Σ n p pᵀ = Σ l lᵀ/n, Σ n p c = Σ l k/n and Σ n c² = Σ k²/n.

With A = Σ l lᵀ/n over the clients, weights a = l·β reach the class mix Aβ, their Σ a²/n is βᵀAβ, and they add up to
1ᵀAβ. Directions that A lacks change no client's weight. A is known up to rounding: directions within the rounding are
left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats
from fedcert.errors import EstimationProblem
from fedcert.report.sums.moments import Moments

_MOST_CLASSES = 3_000
"""Three times those of ImageNet: a minute and 700 MB. Time grows with the third power."""
_ROWS_PER_STEP = 50_000
"""Clients converted to floats at once: 400 MB for 1,000 classes."""
_FLOATING = 4e-16
"""What floating-point numbers lose of a sum, relative to it: two units in the last place."""
_ABOVE_ROUNDING = 100.0
"""A direction is kept if its eigenvalue is so many times what rounding may make of a zero: a safety margin."""
_EIGENVALUE_ROUNDING = 1e-14
"""What `eigh` loses, relative to the largest eigenvalue: some 50 units in the last place."""


@dataclass(frozen=True)
class MixEigenbasis:
    """A = Σ l lᵀ/n by its eigenvectors, without those that rounding cannot distinguish from zero.

    Attributes:
        values: eigenvalues, all above the rounding.
        vectors: eigenvectors, one per column.
        ones: the component of (1, …, 1) along each.
    """

    values: Floats
    vectors: Floats
    ones: Floats

    @classmethod
    def of(cls, labels_labels: Floats, rounding: float) -> MixEigenbasis:
        """Of A, whose entries are known up to `rounding`."""
        values, vectors = np.linalg.eigh(labels_labels)
        least = _ABOVE_ROUNDING * max(len(values) * rounding, _EIGENVALUE_ROUNDING * max(float(values[-1]), 0.0))
        kept = values > least
        kept[-1] = True  # some client holds examples
        return cls(values[kept], vectors[:, kept], vectors[:, kept].T @ np.ones(len(values)))

    @cached_property
    def _mean_share(self) -> Floats:
        return np.asarray(self.values * self.ones**2, dtype=np.float64)

    def ridge(self, mixes: Floats, penalty: float) -> Floats:
        """The weights of least Σ a²/n + penalty·‖mix - Aβ‖² that add up to 1; one row of β per mix, along the vectors.

        β = (h + penalty·mix)/(1 + penalty·values) with h in the direction of (1, …, 1); all terms are positive or of
        their own size, so that nothing cancels however large the penalty is.
        """
        wanted = mixes @ self.vectors
        falling = 1 / (1 + penalty * self.values)
        # 1 - Σ penalty·values·ones·wanted/(1 + penalty·values), where Σ over all directions of ones·wanted is 1.
        missing = mixes.sum(axis=1) - wanted @ self.ones
        first = (missing + wanted @ (self.ones * falling)) / (self._mean_share @ falling)
        rows = (first[:, None] * self.ones + penalty * wanted) * falling
        return np.asarray(rows / (rows @ (self.values * self.ones))[:, None], dtype=np.float64)

    def coefficients(self, row: Floats) -> Floats:
        """β from its parts along the vectors."""
        return np.asarray(self.vectors @ row, dtype=np.float64)

    def projected(self, coefficients: Floats) -> Floats:
        """β without the directions that the clients lack, scaled so that the weights add up to 1.

        As it is where rounding leaves nothing of their sum, beside a client with 10¹⁵ examples.
        """
        row = self.vectors.T @ coefficients
        total = float(row @ (self.values * self.ones))
        return self.coefficients(row / total) if total else coefficients


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

    @cached_property
    def cross(self) -> Floats:
        """Σ l k/n along the eigenvectors, directions x radii."""
        return np.asarray(self.eigenbasis.vectors.T @ self.labels_certified, dtype=np.float64)

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
        _check_pairs(classes)
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
        _check_pairs(len(labels))
        held = labels > 0
        squares = np.sum(certified[held] ** 2 / labels[held, None], axis=0)
        rounding = _FLOATING * float(labels.sum())
        return cls(int(held.sum()), labels, certified.sum(axis=0), np.diag(labels), certified, squares, rounding)

    @classmethod
    def of_both(cls, others: SufficientStatistics, totals: tuple[Floats, Floats]) -> SufficientStatistics:
        """Counts per class of the clients that disclose them, mixes and overall counts of the others."""
        return others + cls.of_classes(*totals)

    @classmethod
    def of_moments(
        cls, labels: Sequence[int], entries: Sequence[int], moments: Moments, scores: Floats | None = None
    ) -> SufficientStatistics:
        """From totals and the moments that sums carry.

        Args:
            labels: examples of each class.
            entries: certified examples at each radius, or examples by right answers.
            moments: of these clients.
            scores: of right answers, radii x (n + 1), where these are what was counted.
        """
        scale = float(moments.scale)
        examples, successes = (np.array(counts, dtype=np.float64) for counts in (labels, entries))
        squares, cross = (
            np.array(sums, dtype=np.float64) / scale for sums in (moments.labels_labels, moments.labels_entries)
        )
        rounding = moments.clients / (2 * scale)  # each client's, to whole units
        if scores is None:
            certified_squared = np.array(moments.certified_squared, dtype=np.float64) / scale
        else:
            products = np.array(moments.correct_correct, dtype=np.float64) / scale
            certified_squared = np.einsum("rj,jk,rk->r", scores, products, scores)
            successes, cross = scores @ successes, cross @ scores.T
            rounding *= max(1.0, float(np.abs(scores).sum(axis=1).max()))  # of each entry's moment
        rounding += _FLOATING * float(np.sum(labels))
        return cls(moments.clients, examples, successes, squares, cross, certified_squared, rounding)


def _check_pairs(classes: int) -> None:
    """Check that there are not too many pairs of classes, before memory is taken for them.

    Raises:
        EstimationProblem: there are.
    """
    if classes > _MOST_CLASSES:
        raise EstimationProblem(
            f"this estimate would solve equations for all pairs of {classes:,} classes, and may for {_MOST_CLASSES:,}: "
            "beyond that, clients must give counts per class (--class-counts), and the method be poststratified"
        )
