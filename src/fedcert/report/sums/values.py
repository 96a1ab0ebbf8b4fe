"""What adds up over clients: totals that an edge server or a secure sum can pass on for many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedcert._schema.declare import TablePlace, defaulting, optional, required
from fedcert._schema.field_types import Enumerated, Flag, ListOf, ModelName, Text, Timestamp, Whole
from fedcert._schema.record import Nested, Record
from fedcert.errors import CannotCombine, InvalidValue
from fedcert.report.compatibility import check_together, common_smoothing, joint
from fedcert.report.fields import (
    CERTIFIED_COUNTS,
    CLASS_ROWS,
    CLASSES,
    DESIGN_EFFECT,
    LABEL_COUNTS,
    MOST_RADII,
    RADII,
    REQUEST_DIGEST,
    check_certifiable,
    check_class_rows,
    check_nonincreasing,
    check_same_length,
)
from fedcert.report.privacy import AddedNoise
from fedcert.report.report import Report
from fedcert.report.smoothing import Smoothing
from fedcert.report.sums.cluster_covariance import ClusterCovariance
from fedcert.report.sums.groups import effect_bound, group_bound
from fedcert.report.table.columns import Counts, Table
from fedcert.report.table.layout import fields_at

MOMENT_SCALE = 2**24
"""Moments are stored as whole multiples of 1/scale: exact to add, and below 2^62 for 2e11 examples."""

_MOMENT = Whole(most=2**62)
_MOMENTS = ListOf(_MOMENT, "moments, one per radius", most=MOST_RADII)
_CELLS_AT_ONCE = 2**22


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
    labels_labels: tuple[tuple[int, ...], ...] = required(
        ListOf(ListOf(_MOMENT, "moments, one per class"), "rows, one per class")
    )
    labels_certified: tuple[tuple[int, ...], ...] = required(ListOf(_MOMENTS, "rows, one per class"))
    certified_squared: tuple[int, ...] = required(_MOMENTS)

    def fit(self, classes: Sequence[str], radii: Sequence[float], field: str) -> None:
        """Check that they speak of so many classes and radii."""
        check_same_length(f"{field}.labels_labels", self.labels_labels, "classes", classes)
        check_same_length(f"{field}.labels_certified", self.labels_certified, "classes", classes)
        check_same_length(f"{field}.certified_squared", self.certified_squared, "radii", radii)
        for index, (row, other) in enumerate(zip(self.labels_labels, self.labels_certified, strict=True)):
            check_same_length(f"{field}.labels_labels[{index}]", row, "classes", classes)
            check_same_length(f"{field}.labels_certified[{index}]", other, "radii", radii)

    def agree(self, labels: Sequence[int], certified: Sequence[int], contributors: int, field: str) -> None:
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
                raise InvalidValue(
                    f"{field}.labels_labels[{index}]", f"adding up to {label} in units of 1/scale", sum(row)
                )
            for other, cell in enumerate(row[:index]):
                if cell != self.labels_labels[other][index]:
                    wanted = f"the same as labels_labels[{other}][{index}]"
                    raise InvalidValue(f"{field}.labels_labels[{index}][{other}]", wanted, cell)
        for index, count in enumerate(certified):
            total = sum(row[index] for row in self.labels_certified)
            if abs(total - count * self.scale) > most:
                raise InvalidValue(
                    f"column {index} of {field}.labels_certified", f"adding up to {count} in units of 1/scale", total
                )


@dataclass(frozen=True, kw_only=True)
class ClassTotals(Record):
    """Totals per class, over the contributors that gave counts per class.

    Attributes:
        contributors: how many gave them.
        label_counts: their examples of each class.
        certified_counts: one row per class, one column per radius.
        moments: of these contributors alone, so that the others' can be told apart; null where unknown.
    """

    NOUN: ClassVar[str] = "totals per class"

    contributors: int = required(Whole())
    label_counts: tuple[int, ...] = required(LABEL_COUNTS)
    certified_counts: tuple[tuple[int, ...], ...] = required(CLASS_ROWS)
    moments: Moments | None = optional(Nested(Moments))

    def check_consistency(self) -> None:
        """Check that no class has more certified examples than examples."""
        check_class_rows("certified_counts", self.certified_counts, self.label_counts, None)


@dataclass(frozen=True, kw_only=True)
class Sums(Record):
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
        design_effect: the largest of the contributors' at each radius; null where nobody's examples come in groups.
        largest_group: examples in the largest group of any contributor, at most; null where nobody says.
        alike: whether all contributors drew the same samples at the same failure probability.
        noise: the noise that was added for privacy, in words; null where the totals are exact.
        private: the same in figures, with the noisy counts as they are; the totals are then these, put in order.
        spread: how the contributors differ, for one target; null where unknown. Merging forgets it.
        fewest_holders: classes that fewer contributors hold were left out of the totals; null where none were.
        software: what wrote them.
        created: when.

    Examples:
        >>> from fedcert.report import Report
        >>> site = Report(client="a", model="demo", smoothing={"sigma": 0.25}, radii=[0, 0.5], classes=["cat", "dog"],
        ...               label_counts=[60, 40], certified_counts=[90, 50])
        >>> one, other = Sums.of([site]), Sums.of([site])
        >>> both = one.merged(other)
        >>> both.contributors, both.label_counts
        (2, (120, 80))
    """

    SCHEMA: ClassVar[str] = "fedcert/sums/1"
    NOUN: ClassVar[str] = "sums"
    REMEDY: ClassVar[str | None] = "ask whoever added them up to do it again"

    task: str = defaulting(Enumerated(("multiclass",)), "multiclass")
    model: str = required(ModelName())
    request: str | None = optional(REQUEST_DIGEST)
    smoothing: Smoothing = required(Nested(Smoothing))
    radii: tuple[float, ...] = required(RADII)
    classes: tuple[str, ...] = required(CLASSES)
    contributors: int = required(Whole())
    label_counts: tuple[int, ...] = required(LABEL_COUNTS)
    certified_counts: tuple[int, ...] = required(CERTIFIED_COUNTS)
    by_class: ClassTotals | None = optional(Nested(ClassTotals))
    moments: Moments | None = optional(Nested(Moments))
    design_effect: tuple[float, ...] | None = optional(DESIGN_EFFECT)
    largest_group: int | None = optional(Whole(least=1))
    alike: bool = defaulting(Flag(), True)
    noise: str | None = optional(Text())
    private: AddedNoise | None = optional(Nested(AddedNoise), later=True)
    spread: ClusterCovariance | None = optional(Nested(ClusterCovariance), later=True)
    fewest_holders: int | None = optional(Whole(least=1), later=True)
    software: str | None = optional(Text())
    created: str | None = optional(Timestamp())

    def check_consistency(self) -> None:
        """Check that all parts speak of the same classes and radii, and that counts fit their totals."""
        check_same_length("label_counts", self.label_counts, "classes", self.classes)
        check_same_length("certified_counts", self.certified_counts, "radii", self.radii)
        check_nonincreasing("certified_counts", self.certified_counts, sum(self.label_counts), "the number of examples")
        if self.by_class is not None:
            part = self.by_class
            check_same_length("by_class.label_counts", part.label_counts, "classes", self.classes)
            for index, row in enumerate(part.certified_counts):
                check_same_length(f"by_class.certified_counts[{index}]", row, "radii", self.radii)
            for index, (count, whole) in enumerate(zip(part.label_counts, self.label_counts, strict=True)):
                if count > whole:
                    raise InvalidValue(
                        f"by_class.label_counts[{index}]", f"at most label_counts[{index}] ({whole})", count
                    )
            if part.contributors > self.contributors:
                wanted = f"at most contributors ({self.contributors})"
                raise InvalidValue("by_class.contributors", wanted, part.contributors)
        if self.noise is None:
            check_certifiable(self.radii, self.certified_counts, self.smoothing)
        if self.moments is not None:
            self.moments.fit(self.classes, self.radii, "moments")
            if self.noise is None:
                self.moments.agree(self.label_counts, self.certified_counts, self.contributors, "moments")
        if self.by_class is not None:
            self._check_classes(self.by_class)
        if self.design_effect is not None:
            check_same_length("design_effect", self.design_effect, "radii", self.radii)
        if self.spread is not None:
            check_same_length("spread.target", self.spread.target, "classes", self.classes)
            check_same_length("spread.covariance", self.spread.covariance, "radii", self.radii)
            for index, numbers in enumerate(self.spread.covariance):
                check_same_length(f"spread.covariance[{index}]", numbers, "radii", self.radii)
        if self.private is not None:
            check_same_length("private.cells", self.private.cells, "classes", self.classes)
            for index, row in enumerate(self.private.cells):
                check_same_length(f"private.cells[{index}]", row, "radii and one more", (*self.radii, None))
            if self.noise is None:
                raise InvalidValue("noise", "words about the noise, as private has figures", None)

    def _check_classes(self, part: ClassTotals) -> None:
        certified = tuple(sum(column) for column in zip(*part.certified_counts, strict=True))
        everybody = part.label_counts == self.label_counts
        for index, (count, whole) in enumerate(zip(certified, self.certified_counts, strict=True)):
            if self.noise is None and (count > whole or (everybody and count != whole)):
                wanted = f"{'' if everybody else 'at most '}certified_counts[{index}] ({whole})"
                raise InvalidValue(f"column {index} of by_class.certified_counts", f"adding up to {wanted}", count)
        if part.moments is not None:
            part.moments.fit(self.classes, self.radii, "by_class.moments")
            if self.noise is None:
                part.moments.agree(part.label_counts, certified, part.contributors, "by_class.moments")

    @property
    def shared(self) -> dict[str, object]:
        """See `compatibility.Combinable`."""
        shared = fields_at(Report, TablePlace.SHARED)
        return {name: getattr(self, name) for name in self.field_types() if name in shared}

    @property
    def examples(self) -> int:
        """Number of test examples, of all contributors."""
        return sum(self.label_counts)

    @classmethod
    def of(cls, reports: Sequence[Report] | Table) -> Sums:
        """Fold reports into sums.

        Raises:
            CannotCombine: the reports do not belong together, or there are none.
        """
        table = reports if isinstance(reports, Table) else Table.of(reports)
        labels, certified = table.label_counts, table.certified_counts
        # Clients without examples certified nothing: how they would have is of no interest.
        occurring = table.settings[labels.sum(axis=1) > 0]
        smoothings = [table.smoothings[index] for index in np.unique(occurring)] or list(table.smoothings)
        return cls(
            model=table.model,
            request=table.request,
            smoothing=joint(smoothings),
            radii=table.radii,
            classes=table.classes,
            contributors=len(table),
            label_counts=tuple(labels.sum(axis=0).tolist()),
            certified_counts=tuple(certified.sum(axis=0).tolist()),
            by_class=_class_totals(table) if table.has_class_counts.any() else None,
            moments=_moments(labels, certified),
            design_effect=None if table.design_effects is None else tuple(table.design_effects.max(axis=0).tolist()),
            largest_group=None if table.largest_groups is None else int(table.largest_groups.max()),
            alike=len(smoothings) == 1,
        )

    def merged(self, other: Sums) -> Sums:
        """The sums over the contributors of both, who must be different clients.

        Merging is associative and commutative, and exact: merged sums equal the sums of all reports.

        Raises:
            CannotCombine: the two do not belong together.
        """
        check_together([self, other])
        if self.private is not None and other.private is not None:
            from fedcert.report.sums.noisy import merged_noise  # it is made of sums itself

            return merged_noise(self, other)
        if self.noise is not None or other.noise is not None:
            raise CannotCombine("sums with noise cannot be merged with others: one would tell of the other's noise")
        tested = [one for one in (self, other) if one.examples] or [self, other]  # as in `of`
        return Sums(
            model=self.model,
            request=self.request if self.request == other.request else None,
            smoothing=common_smoothing(tested),
            radii=self.radii,
            classes=self.classes,
            contributors=self.contributors + other.contributors,
            label_counts=_added(self.label_counts, other.label_counts),
            certified_counts=_added(self.certified_counts, other.certified_counts),
            by_class=_merged_totals([part for part in (self.by_class, other.by_class) if part is not None]),
            moments=_merged_moments(self.moments, other.moments),
            design_effect=_larger_effects(self, other),
            largest_group=_larger_group(self, other),
            alike=all(one.alike and one.smoothing == tested[0].smoothing for one in tested),
            fewest_holders=max(self.fewest_holders or 0, other.fewest_holders or 0) or None,
        )


def _larger_group(first: Sums, second: Sums) -> int | None:
    if not any((one.design_effect, one.largest_group) != (None, None) for one in (first, second)):
        return None
    return max(group_bound(one.examples, one.design_effect, one.largest_group) for one in (first, second))


def _larger_effects(first: Sums, second: Sums) -> tuple[float, ...] | None:
    """The larger design effect at each radius; where one side tells nothing of groups, its examples are independent."""
    both = [effect_bound(one.design_effect, one.largest_group, len(one.radii)) for one in (first, second)]
    told = [effects for effects in both if effects is not None]
    return tuple(map(max, *told)) if len(told) > 1 else tuple(told[0]) if told else None


def _added(first: Iterable[int], second: Iterable[int]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(first, second, strict=True))


def _rows(matrix: npt.NDArray[np.int64]) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, matrix.tolist()))


def _class_totals(table: Table) -> ClassTotals:
    labels, certified = table.label_counts[table.has_class_counts], table.certified_counts[table.has_class_counts]
    return ClassTotals(
        contributors=int(table.has_class_counts.sum()),
        label_counts=tuple(labels.sum(axis=0).tolist()),
        certified_counts=_rows(table.class_rows.sum(axis=0, dtype=np.int64)),
        moments=_moments(labels, certified),
    )


def _merged_totals(parts: Sequence[ClassTotals]) -> ClassTotals | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    first, second = parts
    return ClassTotals(
        contributors=first.contributors + second.contributors,
        label_counts=_added(first.label_counts, second.label_counts),
        certified_counts=tuple(map(_added, first.certified_counts, second.certified_counts)),
        moments=_merged_moments(first.moments, second.moments),
    )


def _moments(labels: Counts, certified: Counts) -> Moments | None:
    """The moments; None where so many examples are claimed that whole numbers do not hold them."""
    if float(labels.sum(dtype=np.float64)) * MOMENT_SCALE > _MOMENT.most:
        return None
    held = labels.sum(axis=1) > 0
    labels, certified = labels[held], certified[held]
    classes, radii = labels.shape[1], certified.shape[1]
    cells = np.zeros((classes, classes), dtype=np.int64)
    cross = np.zeros((classes, radii), dtype=np.int64)
    square = np.zeros(radii, dtype=np.int64)
    step = max(1, _CELLS_AT_ONCE // (classes * max(classes, radii)))
    # Each client is rounded on its own: only then do sums of sums equal the sums of all.
    for start in range(0, len(labels), step):
        label, count = (part[start : start + step].astype(np.float64) for part in (labels, certified))
        unit = MOMENT_SCALE / label.sum(axis=1)
        cells += _rounded(label[:, :, None] * label[:, None, :] * unit[:, None, None])
        cross += _rounded(label[:, :, None] * count[:, None, :] * unit[:, None, None])
        square += _rounded(count**2 * unit[:, None])
    return Moments(
        scale=MOMENT_SCALE,
        clients=int(held.sum()),
        labels_labels=_rows(cells),
        labels_certified=_rows(cross),
        certified_squared=tuple(square.tolist()),
    )


def _rounded(parts: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    return np.asarray(np.rint(parts).astype(np.int64).sum(axis=0), dtype=np.int64)


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
