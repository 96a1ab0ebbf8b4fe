"""The estimate: what a server writes, plots and shows."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from fedcert._schema.declare import defaulting, implied, optional, required
from fedcert._schema.field_types import FieldType, ListOf, MappingOf, ModelName, Number, Text, Timestamp, Whole
from fedcert._schema.frozen import frozen
from fedcert._schema.record import Nested, Record
from fedcert.errors import InvalidValue
from fedcert.estimation.compare import Comparison
from fedcert.estimation.diagnostics.checks import Check
from fedcert.estimation.methods.point_estimate import Chosen
from fedcert.estimation.weights import WEIGHTS
from fedcert.report import Smoothing, Target
from fedcert.report.fields import CLASSES, MOST_CLASSES, MOST_RADII, RADII, check_same_length
from fedcert.report.smoothing import MOST_VOTES, Odd

MOST_WEIGHTS = 10_000
"""More of them go to a file of their own: a document stays below a megabyte."""
_ROUNDING = 1e-9
"""A radius this little above one of the grid is that one."""

_CURVE = ListOf(Number(least=0, most=1), "numbers from 0 to 1, one per radius", most=MOST_RADII)
ALL_CLASSES = "all classes at once"
CURVES = ("certified_accuracy", "lower", "upper")
_ROWS = ListOf(_CURVE, "rows, one per class", most=MOST_CLASSES)


def _check_curves(place: str, of: Record, radii: Sequence[float]) -> None:
    """Check that the curves that a record has are of one point per radius."""
    for name in CURVES:
        if getattr(of, name, None) is not None:
            check_same_length(f"{place}{name}", getattr(of, name), "radii", radii)


@dataclass(frozen=True)
class _Anything(FieldType):
    """An object that is kept as it is: settings and details of methods that fedcert may not know."""

    @property
    def expected(self) -> str:
        return "an object"

    def validate(self, value: Any, field: str) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self.error(value, field)
        kept: Mapping[str, Any] = frozen(value)
        return kept

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}


@dataclass(frozen=True, kw_only=True)
class Mismatch(Record):
    """Distance between the target's class mix and the one that the weights reach."""

    NOUN: ClassVar[str] = "mismatch"

    l2: float = required(Number(least=0))
    tv: float = required(Number(least=0))


@dataclass(frozen=True, kw_only=True)
class BiasBound(Record):
    """How far the expectation of the estimate may be from the truth because of the mismatch.

    Attributes:
        theorem_1: δ·Q with the largest Q that accuracies in [0, 1] allow.
        spread: that Q.
        sharp: ½‖d‖₁, the total variation: holds for the same accuracies and is never larger.
    """

    NOUN: ClassVar[str] = "bias bound"

    theorem_1: float = required(Number(least=0))
    spread: float = required(Number(least=0))
    sharp: float = required(Number(least=0))


@dataclass(frozen=True, kw_only=True)
class Interval(Record):
    """What an interval is.

    Attributes:
        kind: how it is computed.
        scope: at one radius, or at all at once.
        estimand: about what.
    """

    NOUN: ClassVar[str] = "interval"

    kind: str = required(Text())
    scope: str = required(Text())
    estimand: str = required(Text())


@dataclass(frozen=True, kw_only=True)
class ClassCurves(Record):
    """The curve of each class with its interval, one row per class.

    Attributes:
        certified_accuracy: classes x radii.
        lower, upper: ends of each class's own interval.
        scope: "all classes at once" where all of the intervals hold together; null where each holds by itself, and not
            for a class that is picked by its estimate.
    """

    NOUN: ClassVar[str] = "curves of the classes"

    certified_accuracy: tuple[tuple[float, ...], ...] = required(_ROWS)
    lower: tuple[tuple[float, ...], ...] = required(_ROWS)
    upper: tuple[tuple[float, ...], ...] = required(_ROWS)
    scope: str | None = optional(Text(), later=True)

    def check_shape(self, classes: Sequence[str], radii: Sequence[float]) -> None:
        """Check that there is one row per class and one point per radius."""
        for name in CURVES:
            rows = getattr(self, name)
            check_same_length(f"by_class.{name}", rows, "classes", classes)
            for index, row in enumerate(rows):
                check_same_length(f"by_class.{name}[{index}]", row, "radii", radii)


@dataclass(frozen=True, kw_only=True)
class WorstCase(Record):
    """The interval if missing clients had held the worst that they could.

    Attributes:
        clients: how many are missing.
        examples_each: the most that each of them may hold.
        lower, upper: its ends at each radius.
    """

    NOUN: ClassVar[str] = "worst case"

    clients: int = required(Whole())
    examples_each: int = required(Whole())
    lower: tuple[float, ...] = required(_CURVE)
    upper: tuple[float, ...] = required(_CURVE)


@dataclass(frozen=True, kw_only=True)
class Estimate(Record):
    """The certified accuracy of a target population, at each radius.

    Attributes:
        method: the estimator's name.
        target: the population's class mix.
        radii: increasing radii.
        certified_accuracy: the estimate at each.
        lower, upper: ends of the interval; null where the method has none.
        confidence: of the interval.
        interval: its kind, scope and estimand.
        guarantee: in words, what holds and under which assumptions.
        by_class: the curve of each class, as a by-product; null for methods that know none, and for very many classes.
        mismatch: between the target's mix and the one that the weights reach.
        bias_bound: what that mismatch can cost.
        weights: client -> weight; null for methods without.
        weights_file: the Parquet file beside the estimate's that holds them, where they are many.
        weights_note: why there are none.
        effective_examples: 1 / Σ a²/n: how many examples of one sample would be as informative.
        largest_radius: CERTIFY: the largest radius that any client's settings can certify; beyond it accuracy is 0.
        clients, examples: how many took part.
        excluded: client -> why it did not.
        checks: to be read before relying on it.
        details: the method's own (subset, groups, ties), and what has fields of its own below.
        settings: what to give the method to get the same again.
        model, smoothing, classes: what the reports share.
        software, created: what wrote it, and when.
        chosen: the method behind it and why, where it was chosen automatically.
        screened: client -> why screening reduced it; null without screening.
        worst_case: the interval with missing clients at their worst; null where that was not asked for.
        comparison: errors against the truth, where that is known.
        privacy: the noise or rounding that protects the clients' counts; null for exact counts.
        votes: population certificates: noisy copies that vote on an answer, which the accuracy is about.

    Examples:
        >>> import fedcert
        >>> site = fedcert.Report(client="a", model="demo", smoothing={"sigma": 0.25}, radii=[0, 0.5], classes=["cat"],
        ...                       label_counts=[100], certified_counts=[90, 40])
        >>> result = fedcert.estimate(site)
        >>> result.at(0.3), result.largest_radius > 0.5, result.checks[0].verdict
        (0.4, True, 'ok')
    """

    SCHEMA: ClassVar[str] = "fedcert/estimate/1"
    NOUN: ClassVar[str] = "estimate"
    REMEDY: ClassVar[str | None] = "run 'fedcert estimate' again"

    method: str = required(Text())
    target: Target = required(Nested(Target))
    radii: tuple[float, ...] = required(RADII)
    certified_accuracy: tuple[float, ...] = required(_CURVE)
    lower: tuple[float, ...] | None = optional(_CURVE)
    upper: tuple[float, ...] | None = optional(_CURVE)
    confidence: float | None = optional(Number(above=0, below=1))
    interval: Interval | None = optional(Nested(Interval))
    guarantee: str = required(Text(longest=2000))
    by_class: ClassCurves | None = optional(Nested(ClassCurves))
    mismatch: Mismatch | None = optional(Nested(Mismatch))
    bias_bound: BiasBound | None = optional(Nested(BiasBound))
    weights: Mapping[str, float] | None = optional(WEIGHTS)
    weights_file: str | None = optional(Text())
    weights_note: str | None = optional(Text(longest=2000))
    effective_examples: float | None = optional(Number(least=0))
    largest_radius: float | None = implied(Number(least=0))
    clients: int = required(Whole(least=1))
    examples: int = required(Whole(least=1))
    excluded: Mapping[str, str] = defaulting(MappingOf(Text(longest=2000), "client names to reasons"), factory=dict)
    checks: tuple[Check, ...] = defaulting(ListOf(Nested(Check), "checks", least=0, most=1000), ())
    details: Mapping[str, Any] = defaulting(_Anything(), factory=dict)
    settings: Mapping[str, Any] = defaulting(_Anything(), factory=dict)
    model: str = required(ModelName())
    smoothing: Smoothing = required(Nested(Smoothing))
    classes: tuple[str, ...] = required(CLASSES)
    software: str | None = optional(Text())
    created: str | None = optional(Timestamp())
    chosen: Chosen | None = optional(Nested(Chosen), later=True)
    screened: Mapping[str, str] | None = optional(MappingOf(Text(longest=2000), "client names to reasons"), later=True)
    worst_case: WorstCase | None = optional(Nested(WorstCase), later=True)
    comparison: Comparison | None = optional(Nested(Comparison), later=True)
    privacy: Mapping[str, Any] | None = optional(_Anything(), later=True)
    votes: int | None = optional(Odd(least=1, most=MOST_VOTES), later=True)

    def check_consistency(self) -> None:
        """Check that the curves have one point per radius, and that CERTIFY's largest radius is there."""
        if self.largest_radius is None and not self.smoothing.is_population:
            expected = self.field_types()["largest_radius"].expected
            raise InvalidValue("largest_radius", expected, InvalidValue.MISSING)
        _check_curves("", self, self.radii)
        if self.by_class is not None:
            self.by_class.check_shape(self.classes, self.radii)
        if self.worst_case is not None:
            _check_curves("worst_case.", self.worst_case, self.radii)

    @property
    def used_method(self) -> str:
        """The method behind the estimate: the chosen one where it was chosen automatically."""
        chosen = self.upgraded().chosen
        return self.method if chosen is None else chosen.method

    def upgraded(self) -> Estimate:
        """The same, with the fields filled that an earlier fedcert wrote to `details` alone."""
        earlier: dict[str, Any] = {
            "chosen": {"method": self.details.get("chosen"), "because": self.details.get("because")},
            "worst_case": self.details.get("missing"),
            **{name: self.details.get(name) for name in ("screened", "comparison", "privacy")},
        }
        upgraded = self
        for name, value in earlier.items():
            if getattr(self, name) is None and value is not None:
                with contextlib.suppress(InvalidValue):  # the details of another package's method may be of any form
                    filled: dict[str, Any] = {name: value}
                    upgraded = replace(upgraded, **filled)
        return upgraded

    def to_json(self) -> dict[str, Any]:
        """The estimate as plain JSON types; many weights are left to a file of their own."""
        if self.weights is None or len(self.weights) <= MOST_WEIGHTS:
            return super().to_json()
        note = f"{len(self.weights)} weights are too many for this document"
        return {**replace(self, weights=None).to_json(), "weights_note": note}

    def at(self, radius: float) -> float:
        """The certified accuracy at a radius: that of the next radius of the grid, which is never too high.

        Raises:
            ValueError: the radius is beyond the grid.
        """
        for point, accuracy in zip(self.radii, self.certified_accuracy, strict=True):
            if point >= radius - _ROUNDING:
                return accuracy
        raise ValueError(f"radius must be at most {self.radii[-1]}, the last of the estimate, but is {radius}")


@dataclass(frozen=True, kw_only=True)
class TargetCurve(Record):
    """The estimate for one target mix.

    Attributes:
        target: the mix.
        certified_accuracy, lower, upper: at each radius.
    """

    NOUN: ClassVar[str] = "curve of a target"

    target: Target = required(Nested(Target))
    certified_accuracy: tuple[float, ...] = required(_CURVE)
    lower: tuple[float, ...] = required(_CURVE)
    upper: tuple[float, ...] = required(_CURVE)


@dataclass(frozen=True, kw_only=True)
class WhatIf(Record):
    """The certified accuracy of many target populations, each with its own interval.

    Attributes:
        method: "poststratified" or "blup".
        radii: increasing radii.
        classes: class names in index order.
        targets: one curve per target mix.
        confidence: of each interval.
        interval: its kind, scope and estimand.
        guarantee: in words, what holds of each of them and under which assumptions.
        checks: to be read before relying on any of them.
        clients, examples: how many took part.
        settings: what to give to get the same again.
        model, smoothing: what the reports share.
        software, created: what wrote it, and when.
        votes: as of an `Estimate`.

    Examples:
        >>> import fedcert
        >>> site = fedcert.Report(client="a", model="demo", smoothing={"sigma": 0.25}, radii=[0],
        ...                       classes=["cat", "dog"], label_counts=[80, 20], certified_counts=[70],
        ...                       class_certified_counts=[[60], [10]])
        >>> result = fedcert.what_if(site, ["uniform"])
        >>> result.method, result.targets[0].certified_accuracy
        ('poststratified', (0.625,))
    """

    SCHEMA: ClassVar[str] = "fedcert/what-if/1"
    NOUN: ClassVar[str] = "what-if"
    REMEDY: ClassVar[str | None] = "run 'fedcert what-if' again"

    method: str = required(Text())
    radii: tuple[float, ...] = required(RADII)
    classes: tuple[str, ...] = required(CLASSES)
    targets: tuple[TargetCurve, ...] = required(ListOf(Nested(TargetCurve), "curves, one per target"))
    confidence: float = required(Number(above=0, below=1))
    interval: Interval = required(Nested(Interval))
    guarantee: str = required(Text(longest=2000))
    checks: tuple[Check, ...] = defaulting(ListOf(Nested(Check), "checks", least=0, most=1000), ())
    clients: int = required(Whole(least=1))
    examples: int = required(Whole(least=1))
    settings: Mapping[str, Any] = defaulting(_Anything(), factory=dict)
    model: str = required(ModelName())
    smoothing: Smoothing = required(Nested(Smoothing))
    software: str | None = optional(Text())
    created: str | None = optional(Timestamp())
    votes: int | None = optional(Odd(least=1, most=MOST_VOTES), later=True)

    def check_consistency(self) -> None:
        """Check that the curves have one point per radius."""
        for index, curve in enumerate(self.targets):
            _check_curves(f"targets[{index}].", curve, self.radii)
