"""Totals over clients, which an edge server or secure aggregation passes on instead of single reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedcert._files.saved import SavedRecord
from fedcert._schema.declare import defaulting, implied, optional, required
from fedcert._schema.field_types import Enumerated, Flag, ListOf, ModelName, Number, Text, Timestamp, Whole
from fedcert._schema.record import Nested, Record
from fedcert._schema.summary import Summary
from fedcert.errors import InvalidValue
from fedcert.report import fields
from fedcert.report.privacy import SIZE_RELEASES, AddedNoise
from fedcert.report.report import SHARED, Report
from fedcert.report.smoothing import Smoothing
from fedcert.report.summary import summary_of_sums
from fedcert.report.sums.moments import Moments
from fedcert.report.table.columns import Table

_SHARES = ListOf(Number(least=0, most=1), "shares, one per class", most=fields.MOST_CLASSES)
_COVARIANCES = ListOf(Number(), "numbers, one per radius", most=fields.MOST_RADII)
_COVARIANCE = ListOf(_COVARIANCES, "rows, one per radius", most=fields.MOST_RADII)


@dataclass(frozen=True, kw_only=True)
class ClassTotals(Record):
    """Totals per class, over the contributors that gave counts per class.

    Attributes:
        contributors: how many gave them.
        label_counts: their examples of each class.
        certified_counts: CERTIFY: one row per class, one column per radius.
        correct_counts: population certificates: one row per class, one column per number of right answers.
        moments: of these contributors alone, so that those of the others follow by subtraction; null where unknown.
    """

    NOUN: ClassVar[str] = "totals per class"

    contributors: int = required(Whole())
    label_counts: tuple[int, ...] = required(fields.LABEL_COUNTS)
    certified_counts: tuple[tuple[int, ...], ...] | None = implied(fields.CLASS_ROWS)
    correct_counts: tuple[tuple[int, ...], ...] | None = implied(fields.CORRECT_CLASS_ROWS)
    moments: Moments | None = optional(Nested(Moments))

    def _check_consistency(self) -> None:
        """Check that each class's counts go with its examples."""
        if self.certified_counts is None and self.correct_counts is None:
            expected = type(self).field_types()["certified_counts"].expected
            raise InvalidValue("certified_counts", expected, InvalidValue.MISSING)
        if self.certified_counts is not None and self.correct_counts is not None:
            raise InvalidValue("correct_counts", "left out where there are certified_counts", self.correct_counts)
        if self.certified_counts is not None:
            fields.check_class_rows("certified_counts", self.certified_counts, self.label_counts, None)
        elif self.correct_counts is not None:
            passes = len(self.correct_counts[0]) - 1 if self.correct_counts else 0
            fields.check_histogram_rows("correct_counts", self.correct_counts, passes, self.label_counts, None)

    @property
    def procedure_counts(self) -> tuple[tuple[int, ...], ...]:
        """What was counted, one row per class."""
        return self.certified_counts or self.correct_counts or ()


@dataclass(frozen=True, kw_only=True)
class ClusterCovariance(Record):
    """The cluster-robust covariance of a post-stratified estimate.

    Attributes:
        target: the class mix that it is about, in the order of the classes.
        covariance: Σ u uᵀ over the clients, radii x radii, with u the client's contribution to the estimate's error.
        freedom: degrees of freedom: the effective number of clients (of equal weight), less one.
    """

    NOUN: ClassVar[str] = "spread"

    target: tuple[float, ...] = required(_SHARES)
    covariance: tuple[tuple[float, ...], ...] = required(_COVARIANCE)
    freedom: float = required(Number(above=0))


@dataclass(frozen=True, kw_only=True, repr=False)
class Sums(SavedRecord):
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
        certified_counts: CERTIFY: certified examples per radius, over all contributors.
        correct_counts: population certificates: examples by right answers among n, over all contributors.
        by_class: the same per class, where contributors gave that.
        moments: what BLUP needs beyond the totals; null where unknown.
        design_effect: the largest of the contributors' Σ m²/n over the sizes m of their groups of examples, at each
            radius; null where all examples are independent.
        largest_group: examples in the largest group of any contributor, at most; null where unknown.
        alike: whether all contributors drew the same samples at the same failure probability.
        noise: the noise that was added for privacy, in words; null where the totals are exact.
        private: the noise in numbers, with the noisy counts as they are; the totals are then these, put in order.
        spread: how the contributors differ, for one target; null where unknown. Merging forgets it.
        fewest_holders: classes that fewer contributors hold were left out of the totals; null where none were.
        most_examples: of each contributor to a private sum, by the request; null for sums of reports.
        software: what wrote them.
        created: when.

    Examples:
        >>> from fedcert.report import Report
        >>> site = Report(client="a", model="demo", smoothing={"sigma": 0.25}, radii=[0, 0.5], classes=["cat", "dog"],
        ...               label_counts=[60, 40], certified_counts=[90, 50])
        >>> both = Sums.of([site]).merged(Sums.of([site]))
        >>> both.contributors, both.label_counts
        (2, (120, 80))
    """

    SCHEMA: ClassVar[str] = "fedcert/sums/1"
    NOUN: ClassVar[str] = "sums"
    REMEDY: ClassVar[str | None] = "ask whoever added them up to do it again"

    task: str = defaulting(Enumerated(("multiclass",)), "multiclass", place=SHARED)
    model: str = required(ModelName(), place=SHARED)
    request: str | None = optional(fields.REQUEST_DIGEST)
    smoothing: Smoothing = required(Nested(Smoothing), place=SHARED)
    radii: tuple[float, ...] = required(fields.RADII, place=SHARED)
    classes: tuple[str, ...] = required(fields.CLASSES, place=SHARED)
    contributors: int = required(Whole())
    label_counts: tuple[int, ...] = required(fields.LABEL_COUNTS)
    certified_counts: tuple[int, ...] | None = implied(fields.CERTIFIED_COUNTS)
    correct_counts: tuple[int, ...] | None = implied(fields.CORRECT_COUNTS)
    by_class: ClassTotals | None = optional(Nested(ClassTotals))
    moments: Moments | None = optional(Nested(Moments))
    design_effect: tuple[float, ...] | None = optional(fields.DESIGN_EFFECT)
    largest_group: int | None = optional(Whole(least=1))
    alike: bool = defaulting(Flag(), True)
    noise: str | None = optional(Text())
    private: AddedNoise | None = optional(Nested(AddedNoise), later=True)
    spread: ClusterCovariance | None = optional(Nested(ClusterCovariance), later=True)
    fewest_holders: int | None = optional(Whole(least=1), later=True)
    most_examples: int | None = optional(Whole(least=1), later=True)
    software: str | None = optional(Text())
    created: str | None = optional(Timestamp())

    def _check_consistency(self) -> None:
        """Check that all parts speak of the same classes and entries, and that counts fit their totals."""
        classes, radii = ("classes", self.classes), ("radii", self.radii)
        fields.check_cells(self.classes, self.radii, self.smoothing)
        fields.check_same_length("label_counts", self.label_counts, *classes)
        self._check_entries()
        if self.by_class is not None:
            self._check_classes(self.by_class)
        if self.moments is not None:
            self._check_kind(self.moments, "moments")
            self.moments.check_shape(self.classes, self.procedure_counts, "moments")
            if self.noise is None:
                self.moments.check_totals(self.label_counts, self.procedure_counts, self.contributors, "moments")
        if self.design_effect is not None:
            fields.check_same_length("design_effect", self.design_effect, *radii)
        if self.spread is not None:
            fields.check_same_length("spread.target", self.spread.target, *classes)
            fields.check_rows("spread.covariance", self.spread.covariance, radii, radii)
        if self.private is not None:
            fields.check_rows("private.cells", self.private.cells, classes, self._cells)
            releases = ("releases", range(SIZE_RELEASES))
            fields.check_rows("private.sizes", self.private.sizes, releases, classes)
            if self.noise is None:
                raise InvalidValue("noise", "words about the noise, as private has figures", None)

    def _check_entries(self) -> None:
        """Check that the counts are the procedure's, and go with the labels."""
        needed, other = ("certified_counts", "correct_counts")[:: -1 if self.smoothing.is_population else 1]
        if getattr(self, needed) is None:
            raise InvalidValue(needed, type(self).field_types()[needed].expected, InvalidValue.MISSING)
        if getattr(self, other) is not None:
            why = f"left out (null) with the {self.smoothing.procedure} procedure"
            raise InvalidValue(other, why, getattr(self, other))
        if self.smoothing.is_population:
            passes = self.smoothing.n
            fields.check_histogram(needed, self.procedure_counts, passes, self.examples, "the number of examples")
            return
        fields.check_same_length(needed, self.procedure_counts, "radii", self.radii)
        fields.check_nonincreasing(needed, self.procedure_counts, self.examples, "the number of examples")
        if self.noise is None:
            fields.check_certifiable(self.radii, self.procedure_counts, self.smoothing)

    @property
    def _cells(self) -> fields.NamedList:
        """Disjoint cells of an example, and what messages call them."""
        if self.smoothing.is_population:
            return "n and one more", range(self.smoothing.n + 1)
        return "radii and one more", (*self.radii, None)

    def _check_classes(self, part: ClassTotals) -> None:
        name = "correct_counts" if self.smoothing.is_population else "certified_counts"
        if getattr(part, name) is None:
            raise InvalidValue(f"by_class.{name}", type(part).field_types()[name].expected, InvalidValue.MISSING)
        classes = ("classes", self.classes)
        fields.check_same_length("by_class.label_counts", part.label_counts, *classes)
        columns = (name, self.procedure_counts) if self.smoothing.is_population else ("radii", self.radii)
        fields.check_rows(f"by_class.{name}", part.procedure_counts, classes, columns)
        for index, (count, whole) in enumerate(zip(part.label_counts, self.label_counts, strict=True)):
            if count > whole:
                raise InvalidValue(f"by_class.label_counts[{index}]", f"at most label_counts[{index}] ({whole})", count)
        if part.contributors > self.contributors:
            wanted = f"at most contributors ({self.contributors})"
            raise InvalidValue("by_class.contributors", wanted, part.contributors)
        entries = tuple(sum(column) for column in zip(*part.procedure_counts, strict=True))
        all_classes = part.label_counts == self.label_counts
        for index, (count, whole) in enumerate(zip(entries, self.procedure_counts, strict=True)):
            if self.noise is None and (count > whole or (all_classes and count != whole)):
                wanted = f"{'' if all_classes else 'at most '}{name}[{index}] ({whole})"
                raise InvalidValue(f"column {index} of by_class.{name}", f"adding up to {wanted}", count)
        if part.moments is not None:
            self._check_kind(part.moments, "by_class.moments")
            part.moments.check_shape(self.classes, self.procedure_counts, "by_class.moments")
            if self.noise is None:
                part.moments.check_totals(part.label_counts, entries, part.contributors, "by_class.moments")

    def _check_kind(self, moments: Moments, field: str) -> None:
        """Check that moments are of what the procedure counts."""
        name = "labels_correct" if self.smoothing.is_population else "labels_certified"
        if getattr(moments, name) is None:
            raise InvalidValue(f"{field}.{name}", type(moments).field_types()[name].expected, InvalidValue.MISSING)

    @property
    def procedure_counts(self) -> tuple[int, ...]:
        """What was counted: certified examples at each radius, or examples by right answers among n."""
        return self.certified_counts or self.correct_counts or ()

    def _summary(self) -> Summary:
        return summary_of_sums(self)

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
        from fedcert.report.sums.algebra import sums_of  # it is made of sums itself

        return sums_of(reports if isinstance(reports, Table) else Table.of(reports))

    def merged(self, other: Sums) -> Sums:
        """The sums over the contributors of both, who must be different clients.

        Merging is associative and commutative, and exact: merged sums equal the sums of all reports.

        Raises:
            CannotCombine: the two do not belong together.
        """
        from fedcert.report.sums.algebra import merged_sums  # it is made of sums itself

        return merged_sums(self, other)
