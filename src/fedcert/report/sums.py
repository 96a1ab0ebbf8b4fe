"""What adds up over clients: totals that an edge server or a secure sum can pass on for many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedcert.errors import CannotCombine, InvalidValue
from fedcert.report.combine import check_together, common_smoothing
from fedcert.report.fields import (
    CERTIFIED_COUNTS,
    CLASS_ROWS,
    CLASSES,
    LABEL_COUNTS,
    MOST_CLASSES,
    RADII,
    REQUEST_DIGEST,
    falling,
    rows_fit,
    same_length,
)
from fedcert.report.kinds import ListOf, ModelName, Moment, Nullable, OneOf, Text, Whole
from fedcert.report.report import Report
from fedcert.report.smoothing import Smoothing
from fedcert.report.value import Part, Value, rule

MOMENT_SCALE = 2**24
"""Moments are stored as whole multiples of 1/scale: exact to add, and below 2^53 for 5e8 examples."""


@dataclass(frozen=True, kw_only=True)
class ClassTotals(Value):
    """Totals per class, over the contributors that gave counts per class.

    Attributes:
        contributors: how many gave them.
        label_counts: their examples of each class.
        certified_counts: one row per class, one column per radius.
    """

    NOUN: ClassVar[str] = "totals per class"

    contributors: int = field(metadata=rule(Whole()))
    label_counts: tuple[int, ...] = field(metadata=rule(LABEL_COUNTS))
    certified_counts: tuple[tuple[int, ...], ...] = field(metadata=rule(CLASS_ROWS))

    def consistent(self) -> None:
        """Check that no class has more certified examples than examples."""
        rows_fit("certified_counts", self.certified_counts, self.label_counts, None)


@dataclass(frozen=True, kw_only=True)
class Moments(Value):
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

    scale: int = field(metadata=rule(Whole(least=1)))
    clients: int = field(metadata=rule(Whole()))
    labels_labels: tuple[tuple[int, ...], ...] = field(
        metadata=rule(ListOf(LABEL_COUNTS, "rows, one per class", most=MOST_CLASSES))
    )
    labels_certified: tuple[tuple[int, ...], ...] = field(metadata=rule(CLASS_ROWS))
    certified_squared: tuple[int, ...] = field(metadata=rule(CERTIFIED_COUNTS))


@dataclass(frozen=True, kw_only=True)
class Sums(Value):
    """Totals over contributors. Two of them merge into one; a report folds into one.

    Attributes:
        task: what is predicted.
        model: digest of the model that all contributors certified.
        request: digest of the request that all of them answered.
        smoothing: their settings; n is the smallest, the failure probability the largest.
        radii: increasing radii.
        classes: names in index order.
        contributors: how many clients were added up, those without examples included.
        label_counts: examples of each class, over all contributors.
        certified_counts: certified examples per radius, over all contributors.
        by_class: the same per class, where contributors gave that.
        moments: what BLUP needs beyond the totals; null where unknown.
        noise: the noise that was added for privacy; null where the totals are exact.
        software: what wrote them.
        created: when.
    """

    SCHEMA: ClassVar[str] = "fedcert/sums/1"
    NOUN: ClassVar[str] = "sums"
    REMEDY: ClassVar[str | None] = "ask whoever added them up to do it again"

    task: str = field(default="multiclass", metadata=rule(OneOf(("multiclass",))))
    model: str = field(metadata=rule(ModelName()))
    request: str | None = field(default=None, metadata=rule(Nullable(REQUEST_DIGEST)))
    smoothing: Smoothing = field(metadata=rule(Part(Smoothing)))
    radii: tuple[float, ...] = field(metadata=rule(RADII))
    classes: tuple[str, ...] = field(metadata=rule(CLASSES))
    contributors: int = field(metadata=rule(Whole()))
    label_counts: tuple[int, ...] = field(metadata=rule(LABEL_COUNTS))
    certified_counts: tuple[int, ...] = field(metadata=rule(CERTIFIED_COUNTS))
    by_class: ClassTotals | None = field(default=None, metadata=rule(Nullable(Part(ClassTotals))))
    moments: Moments | None = field(default=None, metadata=rule(Nullable(Part(Moments))))
    noise: str | None = field(default=None, metadata=rule(Nullable(Text())))
    software: str | None = field(default=None, metadata=rule(Nullable(Text())))
    created: str | None = field(default=None, metadata=rule(Nullable(Moment())))

    def consistent(self) -> None:
        """Check that all parts speak of the same classes and radii, and that counts fit their totals."""
        same_length("label_counts", self.label_counts, "classes", self.classes)
        same_length("certified_counts", self.certified_counts, "radii", self.radii)
        falling("certified_counts", self.certified_counts, sum(self.label_counts), "the number of examples")
        if self.by_class is not None:
            part = self.by_class
            same_length("by_class.label_counts", part.label_counts, "classes", self.classes)
            for index, row in enumerate(part.certified_counts):
                same_length(f"by_class.certified_counts[{index}]", row, "radii", self.radii)
            for index, (count, whole) in enumerate(zip(part.label_counts, self.label_counts, strict=True)):
                if count > whole:
                    raise InvalidValue(
                        f"by_class.label_counts[{index}]", f"at most label_counts[{index}] ({whole})", count
                    )
            if part.contributors > self.contributors:
                rule = f"at most contributors ({self.contributors})"
                raise InvalidValue("by_class.contributors", rule, part.contributors)
        if self.moments is not None:
            matrix, cross = self.moments.labels_labels, self.moments.labels_certified
            same_length("moments.labels_labels", matrix, "classes", self.classes)
            same_length("moments.labels_certified", cross, "classes", self.classes)
            same_length("moments.certified_squared", self.moments.certified_squared, "radii", self.radii)
            for index, (row, other) in enumerate(zip(matrix, cross, strict=True)):
                same_length(f"moments.labels_labels[{index}]", row, "classes", self.classes)
                same_length(f"moments.labels_certified[{index}]", other, "radii", self.radii)

    @classmethod
    def of(cls, reports: Sequence[Report]) -> Sums:
        """Fold reports into sums.

        Raises:
            CannotCombine: the reports do not belong together, or there are none.
        """
        check_together(reports)
        first = reports[0]
        labels = np.array([report.label_counts for report in reports], dtype=np.int64)
        certified = np.array([report.certified_counts for report in reports], dtype=np.int64)
        open_ones = [report for report in reports if report.class_certified_counts is not None]
        return cls(
            model=first.model,
            request=first.request if len({report.request for report in reports}) == 1 else None,
            smoothing=common_smoothing(reports),
            radii=first.radii,
            classes=first.classes,
            contributors=len(reports),
            label_counts=tuple(labels.sum(axis=0).tolist()),
            certified_counts=tuple(certified.sum(axis=0).tolist()),
            by_class=_class_totals(open_ones) if open_ones else None,
            moments=_moments(labels, certified),
        )

    def merged(self, other: Sums) -> Sums:
        """The sums over the contributors of both, who must be different clients.

        Merging is associative and commutative, and exact: merged sums equal the sums of all reports.

        Raises:
            CannotCombine: the two do not belong together.
        """
        check_together([self, other])
        if self.noise is not None or other.noise is not None:
            raise CannotCombine("sums with noise cannot be merged: their noise is accounted for one release only")
        return Sums(
            model=self.model,
            request=self.request if self.request == other.request else None,
            smoothing=common_smoothing([self, other]),
            radii=self.radii,
            classes=self.classes,
            contributors=self.contributors + other.contributors,
            label_counts=_added(self.label_counts, other.label_counts),
            certified_counts=_added(self.certified_counts, other.certified_counts),
            by_class=_merged_totals([part for part in (self.by_class, other.by_class) if part is not None]),
            moments=_merged_moments(self.moments, other.moments),
        )


def _added(first: Iterable[int], second: Iterable[int]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(first, second, strict=True))


def _rows(matrix: npt.NDArray[np.int64]) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, matrix.tolist()))


def _class_totals(reports: Sequence[Report]) -> ClassTotals:
    rows = [report.class_certified_counts for report in reports]
    return ClassTotals(
        contributors=len(reports),
        label_counts=tuple(np.sum([report.label_counts for report in reports], axis=0).tolist()),
        certified_counts=_rows(np.sum(np.array(rows, dtype=np.int64), axis=0)),
    )


def _merged_totals(parts: Sequence[ClassTotals]) -> ClassTotals | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    first, second = parts
    return ClassTotals(
        contributors=first.contributors + second.contributors,
        label_counts=_added(first.label_counts, second.label_counts),
        certified_counts=tuple(map(_added, first.certified_counts, second.certified_counts)),
    )


def _moments(labels: npt.NDArray[np.int64], certified: npt.NDArray[np.int64]) -> Moments:
    examples = labels.sum(axis=1)
    held = examples > 0
    labels, certified, examples = labels[held], certified[held], examples[held]
    cells = np.zeros((labels.shape[1], labels.shape[1]), dtype=np.int64)
    cross = np.zeros((labels.shape[1], certified.shape[1]), dtype=np.int64)
    square = np.zeros(certified.shape[1], dtype=np.int64)
    # Each client is rounded on its own: only then do sums of sums equal the sums of all.
    for label, count, size in zip(labels.astype(float), certified.astype(float), examples, strict=True):
        cells += np.rint(np.outer(label, label) * (MOMENT_SCALE / size)).astype(np.int64)
        cross += np.rint(np.outer(label, count) * (MOMENT_SCALE / size)).astype(np.int64)
        square += np.rint(count * count * (MOMENT_SCALE / size)).astype(np.int64)
    return Moments(
        scale=MOMENT_SCALE,
        clients=int(held.sum()),
        labels_labels=_rows(cells),
        labels_certified=_rows(cross),
        certified_squared=tuple(square.tolist()),
    )


def _merged_moments(first: Moments | None, second: Moments | None) -> Moments | None:
    if first is None or second is None:
        return None
    if first.scale != second.scale:
        raise CannotCombine(f"moments of scale {first.scale} cannot be added to moments of scale {second.scale}")
    return Moments(
        scale=first.scale,
        clients=first.clients + second.clients,
        labels_labels=tuple(map(_added, first.labels_labels, second.labels_labels)),
        labels_certified=tuple(map(_added, first.labels_certified, second.labels_certified)),
        certified_squared=_added(first.certified_squared, second.certified_squared),
    )
