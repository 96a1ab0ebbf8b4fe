"""Second moments over clients, from which BLUP is computed without single clients' counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedcert._schema.declare import implied, required
from fedcert._schema.field_types import ListOf, Whole
from fedcert._schema.record import Record
from fedcert.errors import CannotCombine, InvalidValue
from fedcert.report.fields import MOST_RADII, check_rows, check_same_length
from fedcert.report.smoothing import MOST_PASSES
from fedcert.report.table.columns import Counts

MOMENT_SCALE = 2**24
"""Moments are stored as whole multiples of 1/scale: exact to add, and below 2^62 for 2e11 examples."""

_MOMENT = Whole(most=2**62)  # two of them still add up within int64
_CLASS_MOMENTS = ListOf(_MOMENT, "moments, one per class")
_MOMENTS = ListOf(_MOMENT, "moments, one per radius", most=MOST_RADII)
_CLASS_ROWS = ListOf(_MOMENTS, "rows, one per class")
_CORRECT_MOMENTS = ListOf(_MOMENT, "moments, one per number of right answers", most=MOST_PASSES + 1)
_CORRECT_CLASS_ROWS = ListOf(_CORRECT_MOMENTS, "rows, one per class")
_CELLS_AT_ONCE = 2**22
"""Products of counts that are held at a time, in float64 32 MB: a million clients need not fit into memory at once."""


@dataclass(frozen=True, kw_only=True)
class Moments(Record):
    """Second moments over clients, in units of 1/scale, each client's part rounded to a whole number.

    With l the label counts of a client, k its certified counts (h its examples by right answers) and n its examples:

    Attributes:
        scale: units in 1.
        clients: clients with at least one example.
        labels_labels: Σ l lᵀ / n, classes x classes.
        labels_certified: CERTIFY: Σ l kᵀ / n, classes x radii.
        certified_squared: CERTIFY: Σ k² / n, one per radius.
        labels_correct: population certificates: Σ l hᵀ / n, classes x numbers of right answers.
        correct_correct: population certificates: Σ h hᵀ / n, from which the squares of any scores follow.
    """

    NOUN: ClassVar[str] = "moments"

    scale: int = required(Whole(least=1))
    clients: int = required(Whole())
    labels_labels: tuple[tuple[int, ...], ...] = required(ListOf(_CLASS_MOMENTS, "rows, one per class"))
    labels_certified: tuple[tuple[int, ...], ...] | None = implied(_CLASS_ROWS)
    certified_squared: tuple[int, ...] | None = implied(_MOMENTS)
    labels_correct: tuple[tuple[int, ...], ...] | None = implied(_CORRECT_CLASS_ROWS)
    correct_correct: tuple[tuple[int, ...], ...] | None = implied(
        ListOf(_CORRECT_MOMENTS, "rows, one per number of right answers", most=MOST_PASSES + 1)
    )

    def _check_consistency(self) -> None:
        """Check that they are those of one kind of procedure."""
        kinds = [("labels_certified", "certified_squared"), ("labels_correct", "correct_correct")]
        given = [[name for name in names if getattr(self, name) is not None] for names in kinds]
        for names, some in zip(kinds, given, strict=True):
            if some and len(some) < len(names):
                missing = next(name for name in names if name not in some)
                raise InvalidValue(missing, type(self).field_types()[missing].expected, InvalidValue.MISSING)
        if all(given) or not any(given):
            actual = InvalidValue.MISSING if not any(given) else self.labels_correct
            raise InvalidValue("labels_certified", "moments of CERTIFY's counts or of right answers, not both", actual)

    @property
    def labels_entries(self) -> tuple[tuple[int, ...], ...]:
        """Σ l kᵀ / n or Σ l hᵀ / n."""
        return self.labels_certified or self.labels_correct or ()

    def check_shape(self, classes: Sequence[str], entries: Sequence[int], field: str) -> None:
        """Check that they are over so many classes and entries.

        Raises:
            InvalidValue: they are not; `field` is named in the message.
        """
        check_rows(f"{field}.labels_labels", self.labels_labels, ("classes", classes), ("classes", classes))
        if self.certified_squared is not None:
            radii = ("radii", entries)
            check_rows(f"{field}.labels_certified", self.labels_entries, ("classes", classes), radii)
            check_same_length(f"{field}.certified_squared", self.certified_squared, *radii)
        elif self.correct_correct is not None:
            counts = ("correct_counts", entries)
            check_rows(f"{field}.labels_correct", self.labels_entries, ("classes", classes), counts)
            check_rows(f"{field}.correct_correct", self.correct_correct, counts, counts)

    def check_totals(self, labels: Sequence[int], entries: Sequence[int], contributors: int, field: str) -> None:
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
        name = "labels_correct" if self.labels_certified is None else "labels_certified"
        for index, count in enumerate(entries):
            total = sum(row[index] for row in self.labels_entries)
            if abs(total - count * self.scale) > most:
                wanted = f"adding up to {count} in units of 1/scale"
                raise InvalidValue(f"column {index} of {field}.{name}", wanted, total)
        self._check_correct(entries, field)

    def _check_correct(self, entries: Sequence[int], field: str) -> None:
        """Check that the products of right answers are symmetric and add up, each row over a client's examples."""
        most = (self.clients + 1) * max(len(entries), 1)
        for index, row in enumerate(self.correct_correct or ()):
            if abs(sum(row) - entries[index] * self.scale) > most:
                wanted = f"adding up to {entries[index]} in units of 1/scale"
                raise InvalidValue(f"{field}.correct_correct[{index}]", wanted, sum(row))
            for other, cell in enumerate(row[:index]):
                if cell != (self.correct_correct or ())[other][index]:
                    wanted = f"the same as correct_correct[{other}][{index}]"
                    raise InvalidValue(f"{field}.correct_correct[{index}][{other}]", wanted, cell)


def moments_of(labels: Counts, entries: Counts, population: bool) -> Moments | None:
    """The moments of clients; None where so many examples are claimed that whole numbers do not hold them.

    Args:
        labels: clients x classes.
        entries: clients x entries.
        population: whether these are numbers of right answers, rather than radii.
    """
    if float(labels.sum(dtype=np.float64)) * MOMENT_SCALE > _MOMENT.most:
        return None
    has_examples = labels.sum(axis=1) > 0
    labels, entries = labels[has_examples], entries[has_examples]
    classes, columns = labels.shape[1], entries.shape[1]
    cells = np.zeros((classes, classes), dtype=np.int64)
    cross = np.zeros((classes, columns), dtype=np.int64)
    square = np.zeros((columns, columns) if population else columns, dtype=np.int64)
    step = max(1, _CELLS_AT_ONCE // max(classes * classes, classes * columns, square.size))
    # Each client is rounded on its own: only then do sums of sums equal the sums of all.
    for start in range(0, len(labels), step):
        label, count = (part[start : start + step].astype(np.float64) for part in (labels, entries))
        unit = MOMENT_SCALE / label.sum(axis=1)
        cells += _rounded_sum(label[:, :, None] * label[:, None, :] * unit[:, None, None])
        cross += _rounded_sum(label[:, :, None] * count[:, None, :] * unit[:, None, None])
        if population:
            square += _rounded_sum(count[:, :, None] * count[:, None, :] * unit[:, None, None])
        else:
            square += _rounded_sum(count**2 * unit[:, None])
    return moments_from(len(labels), cells, cross, square)


def moments_from(clients: int, cells: Counts, cross: Counts, square: Counts) -> Moments:
    """The record of products in units of 1/MOMENT_SCALE.

    Args:
        clients: with at least one example.
        cells: of labels and labels.
        cross: of labels and entries.
        square: of entries: squares at each radius, or a matrix of right answers.
    """
    known: dict[str, Any] = {"labels_certified": as_rows(cross), "certified_squared": tuple(square.tolist())}
    if square.ndim == 2:
        known = {"labels_correct": as_rows(cross), "correct_correct": as_rows(square)}
    return Moments(scale=MOMENT_SCALE, clients=clients, labels_labels=as_rows(cells), **known)


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
    known: dict[str, Any] = {}
    for name in ("labels_labels", "labels_certified", "labels_correct", "correct_correct"):
        rows, others = getattr(first, name), getattr(second, name)
        if rows is not None and others is not None:
            known[name] = tuple(map(added, rows, others))
    if first.certified_squared is not None and second.certified_squared is not None:
        known["certified_squared"] = added(first.certified_squared, second.certified_squared)
    return Moments(scale=first.scale, clients=first.clients + second.clients, **known)


def added(first: Iterable[int], second: Iterable[int]) -> tuple[int, ...]:
    """Two lists of counts, added entry by entry."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


def as_rows(matrix: npt.NDArray[np.int64]) -> tuple[tuple[int, ...], ...]:
    """A matrix as records hold it."""
    return tuple(map(tuple, matrix.tolist()))
