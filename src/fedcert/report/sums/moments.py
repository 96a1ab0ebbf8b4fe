"""Second moments over clients, from which BLUP is computed without single clients' counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedcert._schema.declare import required
from fedcert._schema.field_types import ListOf, Whole
from fedcert._schema.record import Record
from fedcert.errors import CannotCombine, InvalidValue
from fedcert.report.fields import MOST_RADII, check_rows, check_same_length
from fedcert.report.table.columns import Counts

MOMENT_SCALE = 2**24
"""Moments are stored as whole multiples of 1/scale: exact to add, and below 2^62 for 2e11 examples."""

_MOMENT = Whole(most=2**62)  # two of them still add up within int64
_CLASS_MOMENTS = ListOf(_MOMENT, "moments, one per class")
_MOMENTS = ListOf(_MOMENT, "moments, one per radius", most=MOST_RADII)
_CELLS_AT_ONCE = 2**22
"""Products of counts that are held at a time, in float64 32 MB: a million clients need not fit into memory at once."""


@dataclass(frozen=True, kw_only=True)
class Moments(Record):
    """Second moments over clients, in units of 1/scale, each client's part rounded to a whole number.

    With l the label counts of a client, k its certified counts and n its examples:

    Attributes:
        scale: units in 1.
        clients: clients with at least one example.
        labels_labels: Σ l lᵀ / n, classes x classes.
        labels_certified: Σ l kᵀ / n, classes x radii.
        certified_squared: Σ k² / n, one per radius.
    """

    NOUN: ClassVar[str] = "moments"

    scale: int = required(Whole(least=1))
    clients: int = required(Whole())
    labels_labels: tuple[tuple[int, ...], ...] = required(ListOf(_CLASS_MOMENTS, "rows, one per class"))
    labels_certified: tuple[tuple[int, ...], ...] = required(ListOf(_MOMENTS, "rows, one per class"))
    certified_squared: tuple[int, ...] = required(_MOMENTS)

    def check_shape(self, classes: Sequence[str], radii: Sequence[float], field: str) -> None:
        """Check that they are over so many classes and radii.

        Raises:
            InvalidValue: they are not; `field` is named in the message.
        """
        check_rows(f"{field}.labels_labels", self.labels_labels, ("classes", classes), ("classes", classes))
        check_rows(f"{field}.labels_certified", self.labels_certified, ("classes", classes), ("radii", radii))
        check_same_length(f"{field}.certified_squared", self.certified_squared, "radii", radii)

    def check_totals(self, labels: Sequence[int], certified: Sequence[int], contributors: int, field: str) -> None:
        """Check that they are moments of such totals, up to the rounding of each client's part.

        Raises:
            InvalidValue: a row does not add up, the matrix is not symmetric, or there are too many clients.
        """
        if self.clients > contributors or (self.clients == 0) != (sum(labels) == 0):
            wanted = f"from 1 to the contributors ({contributors})" if sum(labels) else "0, as there are no examples"
            raise InvalidValue(f"{field}.clients", wanted, self.clients)
        most = (self.clients + 1) * max(len(labels), 1)
        for index, (row, label) in enumerate(zip(self.labels_labels, labels, strict=True)):
            if abs(sum(row) - label * self.scale) > most:
                wanted = f"adding up to {label} in units of 1/scale"
                raise InvalidValue(f"{field}.labels_labels[{index}]", wanted, sum(row))
            for other, cell in enumerate(row[:index]):
                if cell != self.labels_labels[other][index]:
                    wanted = f"the same as labels_labels[{other}][{index}]"
                    raise InvalidValue(f"{field}.labels_labels[{index}][{other}]", wanted, cell)
        for index, count in enumerate(certified):
            total = sum(row[index] for row in self.labels_certified)
            if abs(total - count * self.scale) > most:
                wanted = f"adding up to {count} in units of 1/scale"
                raise InvalidValue(f"column {index} of {field}.labels_certified", wanted, total)


def moments_of(labels: Counts, certified: Counts) -> Moments | None:
    """The moments of clients; None where so many examples are claimed that whole numbers do not hold them.

    Args:
        labels: clients x classes.
        certified: clients x radii.
    """
    if float(labels.sum(dtype=np.float64)) * MOMENT_SCALE > _MOMENT.most:
        return None
    has_examples = labels.sum(axis=1) > 0
    labels, certified = labels[has_examples], certified[has_examples]
    classes, radii = labels.shape[1], certified.shape[1]
    cells = np.zeros((classes, classes), dtype=np.int64)
    cross = np.zeros((classes, radii), dtype=np.int64)
    square = np.zeros(radii, dtype=np.int64)
    step = max(1, _CELLS_AT_ONCE // (classes * max(classes, radii)))
    # Each client is rounded on its own: only then do sums of sums equal the sums of all.
    for start in range(0, len(labels), step):
        label, count = (part[start : start + step].astype(np.float64) for part in (labels, certified))
        unit = MOMENT_SCALE / label.sum(axis=1)
        cells += _rounded_sum(label[:, :, None] * label[:, None, :] * unit[:, None, None])
        cross += _rounded_sum(label[:, :, None] * count[:, None, :] * unit[:, None, None])
        square += _rounded_sum(count**2 * unit[:, None])
    return Moments(
        scale=MOMENT_SCALE,
        clients=len(labels),
        labels_labels=as_rows(cells),
        labels_certified=as_rows(cross),
        certified_squared=tuple(square.tolist()),
    )


def _rounded_sum(parts: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The sum over clients of their parts, each rounded."""
    return np.asarray(np.rint(parts).astype(np.int64).sum(axis=0), dtype=np.int64)


def merged_moments(first: Moments | None, second: Moments | None) -> Moments | None:
    """The moments of the clients of both; None where those of one are unknown.

    Raises:
        CannotCombine: they are in different units.
    """
    if first is None or second is None:
        return None
    if first.scale != second.scale:
        raise CannotCombine(f"moments of scale {first.scale} cannot be added to moments of scale {second.scale}")
    return Moments(
        scale=first.scale,
        clients=first.clients + second.clients,
        labels_labels=tuple(map(added, first.labels_labels, second.labels_labels)),
        labels_certified=tuple(map(added, first.labels_certified, second.labels_certified)),
        certified_squared=added(first.certified_squared, second.certified_squared),
    )


def added(first: Iterable[int], second: Iterable[int]) -> tuple[int, ...]:
    """Two lists of counts, added entry by entry."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


def as_rows(matrix: npt.NDArray[np.int64]) -> tuple[tuple[int, ...], ...]:
    """A matrix as records hold it."""
    return tuple(map(tuple, matrix.tolist()))
