"""What a field may hold: each type validates a value, words its rule, and describes itself as JSON Schema.

One description per field serves the Python API, the files and the exported schema alike. The client half
uses these values too, and must run where nothing but numpy and scipy is installed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import operator
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fedcert._schema.frozen import FrozenMapping
from fedcert._schema.readable import is_readable
from fedcert._schema.registry import alternatives
from fedcert.errors import InvalidValue

LARGEST_COUNT = 2**53
"""Above this, JSON readers in other languages lose digits, so counts could no longer add up exactly."""

_WRITTEN_OUT = 20
"""Powers of 2 above 2^20, which is about a million, are written as powers in messages."""


class FieldType(ABC):
    """A set of allowed values."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """The rule, worded to follow "must be"."""

    @abstractmethod
    def validate(self, value: Any, field: str) -> Any:
        """The value in its frozen, normal form.

        Raises:
            InvalidValue: the value breaks the rule; `field` is named in the message.
        """

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """The rule as JSON Schema (draft 2020-12)."""

    def error(self, value: Any, field: str) -> InvalidValue:
        """The error for a value that breaks the rule."""
        return InvalidValue(field, self.expected, value)


class PlainType(FieldType):
    """A type that takes values as they are, or not at all."""

    @abstractmethod
    def accepts(self, value: Any) -> bool:
        """Whether a value obeys the rule."""

    def validate(self, value: Any, field: str) -> Any:
        if not self.accepts(value):
            raise self.error(value, field)
        return value


@dataclass(frozen=True)
class Text(FieldType):
    """A name that people read: short, not empty, without control or invisible characters."""

    longest: int = 200

    @property
    def expected(self) -> str:
        return f"a text of 1 to {self.longest} characters without control characters"

    def validate(self, value: Any, field: str) -> str:
        if not isinstance(value, str) or len(value) > self.longest or not is_readable(value):
            raise self.error(value, field)
        return unicodedata.normalize("NFC", value)  # what looks the same is the same name

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": self.longest}


@dataclass(frozen=True)
class Enumerated(PlainType):
    """One of a few words; those of a registry are read at each use, so that what is registered later counts too."""

    options: Collection[str] = dataclasses.field(hash=False)

    @property
    def expected(self) -> str:
        return alternatives(f"'{option}'" for option in self.options)

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.options

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.options)}


@dataclass(frozen=True)
class Pattern(PlainType):
    """A text of a given form."""

    words: str
    pattern: str

    @property
    def expected(self) -> str:
        return self.words

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and re.fullmatch(self.pattern, value) is not None

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^(?:{self.pattern})$"}


_MODEL_NAME = "sha256:[0-9a-f]{64}|(?!sha256:).*"


@dataclass(frozen=True)
class ModelName(FieldType):
    """Which model: the digest of its weights, or, for a bare callable, a name that its owner chose."""

    expected = "'sha256:' and 64 hexadecimal digits, or a text of 1 to 200 characters without control characters"

    def validate(self, value: Any, field: str) -> str:
        try:
            name = Text().validate(value, field)
            Pattern("", _MODEL_NAME).validate(name, field)
        except InvalidValue:
            raise self.error(value, field) from None
        return name

    def schema(self) -> dict[str, Any]:
        return {**Text().schema(), **Pattern("", _MODEL_NAME).schema()}


@dataclass(frozen=True)
class Timestamp(PlainType):
    """A point in time with its time zone."""

    expected = "a time with its zone such as '2026-11-15T06:12:00Z'"

    def accepts(self, value: Any) -> bool:
        with contextlib.suppress(ValueError):
            return isinstance(value, str) and len(value) <= 40 and datetime.fromisoformat(value).tzinfo is not None
        return False

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "format": "date-time", "maxLength": 40}


@dataclass(frozen=True)
class Flag(PlainType):
    """True or false."""

    expected = "true or false"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool)

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Whole(FieldType):
    """A whole number. 3.0 counts as one, as it does in JSON Schema."""

    least: int = 0
    most: int = LARGEST_COUNT

    @property
    def expected(self) -> str:
        power = self.most.bit_length() - 1
        most = f"2^{power}" if power > _WRITTEN_OUT and self.most == 2**power else str(self.most)
        return f"a whole number from {self.least} to {most}"

    def validate(self, value: Any, field: str) -> int:
        try:
            number = int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)
        except TypeError:
            raise self.error(value, field) from None
        if isinstance(value, bool) or not self.least <= number <= self.most:
            raise self.error(value, field)
        return number

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class Number(FieldType):
    """A finite number, rounded to `digits` decimals where given, in an interval whose ends may be open."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf
    digits: int | None = None

    @property
    def expected(self) -> str:
        bounds = (("of at least", self.least), ("above", self.above), ("of at most", self.most), ("below", self.below))
        rules = [f"{words} {bound:g}" for words, bound in bounds if math.isfinite(bound)]
        return f"a finite number {' and '.join(rules)}".strip()

    def validate(self, value: Any, field: str) -> float:
        if isinstance(value, (bool, str, bytes)):
            raise self.error(value, field)
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise self.error(value, field) from None
        if self.digits is not None and math.isfinite(number):
            number = round(number, self.digits) + 0.0  # + 0.0 turns -0.0 into 0.0
        if not (math.isfinite(number) and self.least <= number <= self.most and self.above < number < self.below):
            raise self.error(value, field)
        return number

    def error(self, value: Any, field: str) -> InvalidValue:
        """The error; where a share is wanted, a percentage is translated."""
        percent = min(self.most, self.below) == 1 and isinstance(value, (int, float)) and 2 <= value <= 100
        return InvalidValue(field, self.expected, value, remedy=f"{value:g}% is {value / 100:g}" if percent else None)

    def schema(self) -> dict[str, Any]:
        bounds = {"minimum": self.least, "maximum": self.most}
        bounds |= {"exclusiveMinimum": self.above, "exclusiveMaximum": self.below}
        return {"type": "number", **{key: bound for key, bound in bounds.items() if math.isfinite(bound)}}


@dataclass(frozen=True)
class Implied(FieldType):
    """What may be left out, and then follows from other fields: None stands for that in Python, nothing in a file."""

    kind: FieldType

    @property
    def expected(self) -> str:
        return self.kind.expected

    def validate(self, value: Any, field: str) -> Any:
        return None if value is None else self.kind.validate(value, field)

    def schema(self) -> dict[str, Any]:
        return self.kind.schema()


@dataclass(frozen=True)
class Nullable(FieldType):
    """A value, or null."""

    kind: FieldType

    @property
    def expected(self) -> str:
        return f"{self.kind.expected}, or null"

    def validate(self, value: Any, field: str) -> Any:
        if value is None:
            return None
        try:
            return self.kind.validate(value, field)
        except InvalidValue as error:
            if error.field == field and error.expected == self.kind.expected:
                raise self.error(value, field) from None
            raise

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.kind.schema(), {"type": "null"}]}


@dataclass(frozen=True)
class ListOf(FieldType):
    """A list of values of one kind."""

    kind: FieldType
    words: str
    least: int = 1
    most: int = 100_000
    increasing: bool = False
    distinct: bool = False

    @property
    def expected(self) -> str:
        return f"a list of {self.least} to {self.most} {self.words}"

    def validate(self, value: Any, field: str) -> tuple[Any, ...]:
        if hasattr(value, "tolist"):
            value = value.tolist()
        listed = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
        if not listed or not self.least <= len(value) <= self.most:
            raise self.error(value, field)
        items = tuple(self.kind.validate(item, f"{field}[{index}]") for index, item in enumerate(value))
        if self.increasing:
            for index, (before, item) in enumerate(itertools.pairwise(items), start=1):
                if item <= before:
                    raise InvalidValue(f"{field}[{index}]", f"above the one before it ({before:g})", item)
        if self.distinct and len(set(items)) < len(items):
            seen: set[Any] = set()
            for index, item in enumerate(items):
                if item in seen:
                    raise InvalidValue(f"{field}[{index}]", "different from those before it", item)
                seen.add(item)
        return items

    def schema(self) -> dict[str, Any]:
        schema = {"type": "array", "items": self.kind.schema(), "minItems": self.least, "maxItems": self.most}
        return {**schema, "uniqueItems": True} if self.distinct or self.increasing else schema


@dataclass(frozen=True)
class MappingOf(FieldType):
    """An object from names to values of one kind."""

    kind: FieldType
    words: str
    least: int = 0

    @property
    def expected(self) -> str:
        return f"an object from {self.words}" + (f" with at least {self.least} entries" if self.least else "")

    def validate(self, value: Any, field: str) -> Mapping[str, Any]:
        if not isinstance(value, Mapping) or len(value) < self.least:
            raise self.error(value, field)
        name, kind = Text(), self.kind
        try:
            return FrozenMapping({name.validate(key, field): kind.validate(item, field) for key, item in value.items()})
        except InvalidValue:  # again, with the place; it would cost much to spell out each place beforehand
            for key, item in value.items():
                name.validate(key, f"a name in {field}")
                kind.validate(item, f"{field}[{key!r}]")
            raise

    def schema(self) -> dict[str, Any]:
        entries = {"propertyNames": Text().schema(), "additionalProperties": self.kind.schema()}
        return {"type": "object", **entries, "minProperties": self.least}
