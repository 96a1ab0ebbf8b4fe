"""What a client sends: counts of certified examples, and what is needed to combine them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fedcert._files.saved import SavedRecord
from fedcert._schema.declare import TablePlace, defaulting, implied, optional, required
from fedcert._schema.field_types import LARGEST_COUNT, Enumerated, ModelName, Number, Text, Timestamp, Whole
from fedcert._schema.record import Nested
from fedcert._schema.summary import Summary
from fedcert.errors import InvalidValue, preview
from fedcert.report import fields
from fedcert.report.input_range import INPUT_RANGE, InputRange
from fedcert.report.signature import Signature
from fedcert.report.smoothing import Smoothing
from fedcert.report.summary import summary_of_report
from fedcert.report.table.layout import TableRow

SHARED, COUNTED, NOTED, EXTRA = TablePlace.SHARED, TablePlace.COUNTED, TablePlace.NOTED, TablePlace.EXTRA
_OF_CERTIFY = ("certified_counts", "class_certified_counts", "abstained")
_OF_POPULATION = ("correct_counts", "class_correct_counts")
"""Counts that only one kind of procedure gives."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(TableRow, SavedRecord):
    """A client's report: all that leaves it.

    A field that is added here, with its place in tables, is read, written, checked and compared everywhere.

    Attributes:
        task: what is predicted; "multiclass" is one label per example.
        client: the client's name, unique in its federation.
        model: digest of the weights that were really certified ("sha256:…"), or a callable's name.
        request: digest of the request that this report answers.
        smoothing: how the model was smoothed and certified.
        radii: increasing radii; with population certificates those that were named before anything was counted.
        classes: names in index order, the same at every client.
        label_counts: test examples of each class.
        certified_counts: CERTIFY: examples predicted right and certified to at least each radius.
        class_certified_counts: the same per class, one row each; only with the client's consent.
        correct_counts: population certificates: examples of which 0, 1, … n noisy copies are predicted right.
        class_correct_counts: the same per class, one row each; only with the client's consent.
        abstained: right selections that were not certified even at radius 0.
        design_effect: Σ m²/n over the sizes m of the groups that examples come in, the same at each radius; an
            inflation of the variance that was estimated from the counts will not do.
        largest_group: examples in the largest of these groups.
        samples: noisy samples drawn, selection included.
        seed: of the noise: the commitment to a secret one, or "fixed" where it was given, so that others may know the
            noise; null in reports of others' software.
        time_budget: seconds after which the client was to stop, whether or not it had to; null where there was none.
        input_range: bounds of the inputs, rounded outward to 0, ±1, ±2, ±5 times a power of ten; null if unknown.
        software: what wrote the report.
        created: when.
        signature: of the client; null in an unsigned report.

    Examples:
        >>> own = Report(client="site-07", model="demo", smoothing={"sigma": 0.25}, radii=[0, 0.5],
        ...              classes=["cat", "dog"], label_counts=[80, 20], certified_counts=[90, 40])
        >>> own.examples, own.certified_accuracy
        (100, (0.9, 0.4))
        >>> Report.from_json(own.to_json()) == own
        True
    """

    SCHEMA: ClassVar[str] = "fedcert/report/1"
    NOUN: ClassVar[str] = "report"
    REMEDY: ClassVar[str | None] = "ask the client to run 'fedcert certify' again"

    task: str = defaulting(Enumerated(("multiclass",)), "multiclass", place=SHARED)
    client: str = required(Text(), place=NOTED)
    model: str = required(ModelName(), place=SHARED)
    request: str | None = optional(fields.REQUEST_DIGEST, place=NOTED)
    smoothing: Smoothing = required(Nested(Smoothing), place=SHARED)
    radii: tuple[float, ...] = required(fields.RADII, place=SHARED)
    classes: tuple[str, ...] = required(fields.CLASSES, place=SHARED)
    label_counts: tuple[int, ...] = required(fields.LABEL_COUNTS, place=COUNTED)
    certified_counts: tuple[int, ...] | None = implied(fields.CERTIFIED_COUNTS, place=COUNTED)
    class_certified_counts: tuple[tuple[int, ...], ...] | None = optional(fields.CLASS_ROWS, place=COUNTED)
    correct_counts: tuple[int, ...] | None = implied(fields.CORRECT_COUNTS, place=COUNTED)
    class_correct_counts: tuple[tuple[int, ...], ...] | None = optional(
        fields.CORRECT_CLASS_ROWS, later=True, place=COUNTED
    )
    abstained: int | None = optional(Whole(), place=COUNTED)
    design_effect: tuple[float, ...] | None = optional(fields.DESIGN_EFFECT, place=COUNTED)
    largest_group: int | None = optional(Whole(least=1), place=COUNTED)
    samples: int | None = optional(Whole(), place=NOTED)
    seed: str | None = optional(fields.SEED, later=True, place=NOTED)
    time_budget: float | None = optional(Number(above=0), later=True, place=NOTED)
    input_range: InputRange | None = optional(INPUT_RANGE, later=True, place=NOTED)
    software: str | None = optional(Text(), place=NOTED)
    created: str | None = optional(Timestamp(), place=NOTED)
    signature: Signature | None = optional(Nested(Signature), later=True, place=EXTRA)

    def _summary(self) -> Summary:
        return summary_of_report(self)

    @property
    def examples(self) -> int:
        """Number of test examples."""
        return sum(self.label_counts)

    @property
    def procedure_counts(self) -> tuple[int, ...]:
        """What was counted: certified examples at each radius, or examples by right answers among n."""
        counts = self.correct_counts if self.smoothing.is_population else self.certified_counts
        assert counts is not None  # noqa: S101 (a rule of reports)
        return counts

    @property
    def class_procedure_counts(self) -> tuple[tuple[int, ...], ...] | None:
        """The same per class; None where the client does not disclose it."""
        return self.class_correct_counts if self.smoothing.is_population else self.class_certified_counts

    @property
    def certified_accuracy(self) -> tuple[float, ...]:
        """CERTIFY: the certified accuracy at each radius; zeros for a client without examples.

        Raises:
            AttributeError: the report has population certificates, of which `fedcert.estimate` makes a curve.
        """
        if self.certified_counts is None:
            raise AttributeError(
                "population certificates have no certified counts; fedcert.estimate(report) gives the proven accuracy"
            )
        examples = max(self.examples, 1)
        return tuple(count / examples for count in self.certified_counts)

    def _check_consistency(self) -> None:
        """Check the rules between counts, labels, classes and radii."""
        fields.check_cells(self.classes, self.radii, self.smoothing)
        fields.check_same_length("label_counts", self.label_counts, "classes", self.classes)
        if self.examples > LARGEST_COUNT:
            raise InvalidValue("the sum of label_counts", "at most 2^53", self.examples)
        self._check_entries()
        if self.design_effect is not None:
            fields.check_same_length("design_effect", self.design_effect, "radii", self.radii)
        if self.largest_group is not None and self.largest_group > max(self.examples, 1):
            raise InvalidValue("largest_group", f"at most the examples ({self.examples})", self.largest_group)
        if self.design_effect is not None and self.examples:
            fields.check_design_effect(self.design_effect, self.largest_group, self.examples)

    def _check_entries(self) -> None:
        """Check that the counts are the procedure's, and go with the labels."""
        population = self.smoothing.is_population
        for name in _OF_CERTIFY if population else _OF_POPULATION:
            if getattr(self, name) is not None:
                why = f"left out (null) with the {self.smoothing.procedure} procedure"
                raise InvalidValue(name, why, getattr(self, name))
        needed = "correct_counts" if population else "certified_counts"
        if getattr(self, needed) is None:
            raise InvalidValue(needed, type(self).field_types()[needed].expected, InvalidValue.MISSING)
        if population:
            fields.check_histogram(
                "correct_counts", self.procedure_counts, self.smoothing.n, self.examples, "the number of examples"
            )
            if self.class_correct_counts is not None:
                fields.check_histogram_rows(
                    "class_correct_counts", self.class_correct_counts, self.smoothing.n, self.label_counts,
                    self.procedure_counts,
                )  # fmt: skip
            return
        certified = self.procedure_counts
        fields.check_same_length("certified_counts", certified, "radii", self.radii)
        fields.check_nonincreasing("certified_counts", certified, self.examples, "the number of examples")
        fields.check_certifiable(self.radii, certified, self.smoothing)
        if self.class_certified_counts is not None:
            rows, labels = self.class_certified_counts, self.label_counts
            fields.check_class_rows("class_certified_counts", rows, labels, certified)
        left = self.examples - certified[0]
        if self.abstained is not None and self.abstained > left:
            raise InvalidValue("abstained", f"at most the examples that are not certified ({left})", self.abstained)

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON types; the counts of another kind of procedure are left out."""
        left_out = _OF_CERTIFY if self.smoothing.is_population else ()
        return {key: value for key, value in super().to_json().items() if key not in left_out}

    @classmethod
    def _place(cls, document: Mapping[str, Any], place: str | None) -> str:
        client = document.get("client")
        name = f"report {preview(client)}" if isinstance(client, str) else "report"
        return f"{name} in {place}" if place else name
