"""The parts that estimates and what-ifs are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fedcert._schema.declare import optional, required
from fedcert._schema.field_types import FieldType, ListOf, Number, Text, Whole
from fedcert._schema.frozen import frozen
from fedcert._schema.record import Nested, Record
from fedcert.report import Target
from fedcert.report.fields import MOST_CLASSES, MOST_RADII, check_same_length

CURVE = ListOf(Number(least=0, most=1), "numbers from 0 to 1, one per radius", most=MOST_RADII)
ALL_CLASSES = "all classes at once"
CURVES = ("certified_accuracy", "lower", "upper")
ROWS = ListOf(CURVE, "rows, one per class", most=MOST_CLASSES)


def check_curves(place: str, of: Record, radii: Sequence[float]) -> None:
    """Check that the curves that a record has are of one point per radius."""
    for name in CURVES:
        if getattr(of, name, None) is not None:
            check_same_length(f"{place}{name}", getattr(of, name), "radii", radii)


@dataclass(frozen=True)
class Anything(FieldType):
    """An object that is kept as it is: settings and details of methods that fedcert may not know."""

    @property
    def expected(self) -> str:
        """See `FieldType.expected`."""
        return "an object"

    def validate(self, value: Any, field: str) -> Mapping[str, Any]:
        """See `FieldType.validate`."""
        if not isinstance(value, Mapping):
            raise self.error(value, field)
        kept: Mapping[str, Any] = frozen(value)
        return kept

    def schema(self) -> dict[str, Any]:
        """See `FieldType.schema`."""
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

    certified_accuracy: tuple[tuple[float, ...], ...] = required(ROWS)
    lower: tuple[tuple[float, ...], ...] = required(ROWS)
    upper: tuple[tuple[float, ...], ...] = required(ROWS)
    scope: str | None = optional(Text(), later=True)


def check_class_curves(curves: ClassCurves, classes: Sequence[str], radii: Sequence[float]) -> None:
    """Check that there is one row per class and one point per radius."""
    for name in CURVES:
        rows = getattr(curves, name)
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
    lower: tuple[float, ...] = required(CURVE)
    upper: tuple[float, ...] = required(CURVE)


@dataclass(frozen=True, kw_only=True)
class TargetCurve(Record):
    """The estimate for one target mix.

    Attributes:
        target: the mix.
        certified_accuracy, lower, upper: at each radius.
    """

    NOUN: ClassVar[str] = "curve of a target"

    target: Target = required(Nested(Target))
    certified_accuracy: tuple[float, ...] = required(CURVE)
    lower: tuple[float, ...] = required(CURVE)
    upper: tuple[float, ...] = required(CURVE)
