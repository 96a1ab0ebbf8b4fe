"""What a field may hold: each type validates a value, words its rule, and describes itself as JSON Schema.

One description per field serves the Python API, the files and the exported schema alike. The client half
uses these values too, and must run where nothing but numpy and scipy is installed.
"""

from __future__ import annotations

import dataclasses
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
class Enumerated(FieldType):
    """One of a few words; those of a registry are read at each use, so that what is registered later counts too."""

    options: Collection[str] = dataclasses.field(hash=False)

    @property
    def expected(self) -> str:
        return _quoted(self.options)

    def validate(self, value: Any, field: str) -> str:
        if not isinstance(value, str) or value not in self.options:
            raise self.error(value, field)
        return value

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.options)}


def _quoted(options: Collection[str]) -> str:
    return alternatives(f"'{option}'" for option in options)


@dataclass(frozen=True)
class Pattern(FieldType):
    """A text of a given form."""

    words: str
    pattern: str

    @property
    def expected(self) -> str:
        return self.words

    def validate(self, value: Any, field: str) -> str:
        if not isinstance(value, str) or re.fullmatch(self.pattern, value) is None:
            raise self.error(value, field)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^(?:{self.pattern})$"}


@dataclass(frozen=True)
class ModelName(FieldType):
    """Which model: the digest of its weights, or, for a bare callable, a name that its owner chose."""

    @property
    def expected(self) -> str:
        return "'sha256:' and 64 hexadecimal digits, or a text of 1 to 200 characters without control characters"

    def validate(self, value: Any, field: str) -> str:
        try:
            name = Text().validate(value, field)
        except InvalidValue:
            raise self.error(value, field) from None
        if name.startswith("sha256:") and re.fullmatch("sha256:[0-9a-f]{64}", name) is None:
            raise self.error(value, field)
        return name

    def schema(self) -> dict[str, Any]:
        return {
            "type": "string",
            "minLength": 1,
            "maxLength": 200,
            "pattern": "^(?:sha256:[0-9a-f]{64}|(?!sha256:).*)$",
        }


@dataclass(frozen=True)
class Timestamp(FieldType):
    """A point in time with its time zone."""

    @property
    def expected(self) -> str:
        return "a time with its zone such as '2026-11-15T06:12:00Z'"

    def validate(self, value: Any, field: str) -> str:
        try:
            if not isinstance(value, str) or len(value) > 40 or datetime.fromisoformat(value).tzinfo is None:
                raise ValueError
        except ValueError:
            raise self.error(value, field) from None
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "format": "date-time", "maxLength": 40}


@dataclass(frozen=True)
class Flag(FieldType):
    """True or false."""

    @property
    def expected(self) -> str:
        return "true or false"

    def validate(self, value: Any, field: str) -> bool:
        if not isinstance(value, bool):
            raise self.error(value, field)
        return value

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
        if isinstance(value, bool):
            raise self.error(value, field)
        try:
            number = int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)
        except TypeError:
            raise self.error(value, field) from None
        if not self.least <= number <= self.most:
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
        bounds = [
            f"{words} {bound:g}"
            for words, bound in (
                ("of at least", self.least),
                ("above", self.above),
                ("of at most", self.most),
                ("below", self.below),
            )
            if math.isfinite(bound)
        ]
        return " ".join(["a finite number", " and ".join(bounds)]).strip()

    def validate(self, value: Any, field: str) -> float:
        if isinstance(value, (bool, str, bytes)):
            raise self.error(value, field)
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise self.error(value, field) from None
        if self.digits is not None and math.isfinite(number):
            number = round(number, self.digits) + 0.0  # + 0.0 turns -0.0 into 0.0
        inside = self.least <= number <= self.most and self.above < number < self.below
        if not math.isfinite(number) or not inside:
            raise self.error(value, field)
        return number

    def schema(self) -> dict[str, Any]:
        bounds = {
            "minimum": self.least,
            "maximum": self.most,
            "exclusiveMinimum": self.above,
            "exclusiveMaximum": self.below,
        }
        return {"type": "number", **{key: bound for key, bound in bounds.items() if math.isfinite(bound)}}


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
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            raise self.error(value, field)
        if not self.least <= len(value) <= self.most:
            raise self.error(value, field)
        items = tuple(self.kind.validate(item, f"{field}[{index}]") for index, item in enumerate(value))
        if self.increasing:
            for index in range(1, len(items)):
                if items[index] <= items[index - 1]:
                    rule = f"above the one before it ({items[index - 1]:g})"
                    raise InvalidValue(f"{field}[{index}]", rule, items[index])
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
            return FrozenMapping(
                {
                    name.validate(key, f"a name in {field}"): kind.validate(item, f"{field}[{key!r}]")
                    for key, item in value.items()
                }
            )

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "propertyNames": Text().schema(),
            "additionalProperties": self.kind.schema(),
            "minProperties": self.least,
        }
