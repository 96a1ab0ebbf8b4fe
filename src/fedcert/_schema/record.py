"""The base of every value that is exchanged between programs: frozen, validated on construction, JSON in and out."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from fedcert._schema.declare import field_types, validate_fields
from fedcert._schema.field_types import FieldType, Implied
from fedcert._schema.frozen import FrozenMapping, frozen
from fedcert.errors import FedcertWarning, InvalidValue, preview

_NOTHING = FrozenMapping({})
_DECLARED = ("SCHEMA", "NOUN", "REMEDY")
_MOST_COMPARED = 100
"""Unknown keys that are compared with the known ones: a hostile document may have millions."""
_MOST_WARNINGS = 5
"""Near misses that are warned of, so that a report of another schema does not fill the screen."""
_CLOSE = 0.75
"""`difflib`'s ratio from which a key is taken for a misspelling: "lable_counts" is one, "radius" for "radii" not."""


class RecordType(type):
    """The type of record classes: what a class declares about itself, its instances do not show.

    A class body says SCHEMA, NOUN and REMEDY; they are attributes of the class, as the functions below are, but not of
    its instances, so that `dir` of a report lists the report's fields and what can be done with it.
    """

    def __new__(cls, name: str, parents: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> RecordType:
        """Take what the class says about itself out of its attributes."""
        declared = {word: namespace.pop(word) for word in _DECLARED if word in namespace}
        return super().__new__(cls, name, parents, {**namespace, "_declared": declared}, **options)

    def _of_class(cls, word: str) -> Any:
        own = (vars(each).get("_declared", {}) for each in cls.__mro__)
        return next(declared[word] for declared in own if word in declared)

    @property
    def SCHEMA(cls) -> str:  # noqa: N802  class bodies declare it as a constant
        """The schema's name and number ("fedcert/report/1"); empty for a part of another value."""
        return str(cls._of_class("SCHEMA"))

    @property
    def NOUN(cls) -> str:  # noqa: N802
        """What error messages call such a value."""
        return str(cls._of_class("NOUN"))

    @property
    def REMEDY(cls) -> str | None:  # noqa: N802
        """What to do about an invalid one that came from elsewhere."""
        remedy: str | None = cls._of_class("REMEDY")
        return remedy

    def field_types(cls) -> dict[str, FieldType]:
        """Field name -> what it may hold, in the order in which they are written."""
        return field_types(cls)

    def required(cls) -> list[str]:
        """The fields that have no default."""
        declared = [field for field in dataclasses.fields(cls) if "type" in field.metadata]  # type: ignore[arg-type]
        return [field.name for field in declared if field.default is field.default_factory is dataclasses.MISSING]

    def json_schema(cls) -> dict[str, Any]:
        """The rules on single fields as JSON Schema; rules across fields are checked by fedcert alone."""
        schema: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": cls.SCHEMA}
        own = Nested(cls).schema()  # type: ignore[arg-type]
        return {**schema, **own} if cls.SCHEMA else own


@dataclass(frozen=True, kw_only=True)
class Record(metaclass=RecordType):
    """A frozen record whose fields obey their types and, together, `_check_consistency`.

    Making one checks it, whether it comes from a file or from Python, so one that exists is valid.

    Attributes:
        extra: keys that this version does not know, kept as they came.
    """

    SCHEMA: ClassVar[str] = ""
    NOUN: ClassVar[str] = "value"
    REMEDY: ClassVar[str | None] = None

    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        validate_fields(self)
        for key in self.extra:
            if key == "schema" or key in field_types(type(self)):
                raise InvalidValue("extra", "keys that the schema does not know", key)
        if self.extra:
            _check_plain(self.extra)
        object.__setattr__(self, "extra", frozen(self.extra) if self.extra else _NOTHING)
        self._check_consistency()

    def _check_consistency(self) -> None:
        """Check the rules that involve more than one field.

        Raises:
            InvalidValue: one of them is broken.
        """

    @classmethod
    def from_json(cls, document: Any, place: str | None = None) -> Self:
        """Read a parsed JSON document.

        Args:
            document: what `json.loads` gave.
            place: where it stands, for messages ("site-07.json").

        Raises:
            InvalidValue: a rule of the schema is broken; the message names the place, the field, the
                rule, what came and what to do.
        """
        if not isinstance(document, Mapping):
            raise InvalidValue(f"the {cls.NOUN}", "a JSON object", document, place=place)
        where = cls._place(document, place)
        try:
            values = dict(document)
            if cls.SCHEMA:
                _check_schema(values.pop("schema", InvalidValue.MISSING), cls.SCHEMA)
            types = field_types(cls)
            for name in cls.required():
                if name not in values:
                    raise InvalidValue(name, types[name].expected, InvalidValue.MISSING)
            known = {name: values.pop(name) for name in types if name in values}
            for name, value in known.items():
                if value is None and isinstance(types[name], Implied):
                    raise types[name].error(value, name)
            _warn_of_near_misses(values, types, where)
            return cls(**known, extra=values)
        except InvalidValue as error:
            raise error.at(where, cls.REMEDY) from None

    @classmethod
    def _place(cls, document: Mapping[str, Any], place: str | None) -> str:  # noqa: ARG003
        return f"{cls.NOUN} in {place}" if place else cls.NOUN

    def to_json(self) -> dict[str, Any]:
        """The value as plain JSON types, in the order of the contract."""
        schema = type(self).SCHEMA
        document: dict[str, Any] = {"schema": schema} if schema else {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if "type" in field.metadata and not (field.metadata["later"] and value is None):
                document[field.name] = _plain(value)
        document.update(_plain(self.extra))
        return document

    def dumps(self) -> str:
        """JSON text with one line per top-level key: readable, and small where it holds long lists."""
        lines = [f"  {json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in self.to_json().items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"


@dataclass(frozen=True)
class Nested(FieldType):
    """A value inside another value."""

    value: type[Record]

    @property
    def expected(self) -> str:
        required = self.value.required()
        return f"an object with {', '.join(required)}" if required else "an object"

    def validate(self, value: Any, field: str) -> Record:
        if isinstance(value, self.value):
            return value
        if not isinstance(value, Mapping):
            raise self.error(value, field)
        try:
            return self.value.from_json(value)
        except InvalidValue as error:
            raise InvalidValue(f"{field}.{error.field}", error.expected, error.actual) from None

    def schema(self) -> dict[str, Any]:
        properties = {name: kind.schema() for name, kind in field_types(self.value).items()}
        required = self.value.required()
        if self.value.SCHEMA:
            properties = {"schema": {"const": self.value.SCHEMA}, **properties}
            required = ["schema", *required]
        return {"type": "object", "properties": properties, "required": required}


_SIMPLE = frozenset({str, int, float, bool, type(None)})


def _plain(value: Any) -> Any:
    if type(value) in _SIMPLE:
        return value
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: item if type(item) in _SIMPLE else _plain(item) for key, item in value.items()}
    return value


def _check_plain(extra: Mapping[str, Any]) -> None:
    try:
        json.dumps(_plain(extra), allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise InvalidValue("extra", "what JSON can hold, without NaN and infinity", extra) from None


def _check_schema(actual: Any, schema: str) -> None:
    if actual != schema:
        _, kind, _ = schema.split("/")
        words = actual.split("/") if isinstance(actual, str) else []
        newer = words[:2] == ["fedcert", kind]
        remedy = "a newer fedcert wrote it: upgrade this one" if newer else None
        if words[:1] == ["fedcert"] and not newer:
            remedy = {"estimate": "give an estimate", "sums": "give sums"}.get(kind, f"give a {kind}")
        raise InvalidValue("schema", f"'{schema}'", actual, remedy=remedy)


def _warn_of_near_misses(unknown: Mapping[str, Any], kinds: Mapping[str, FieldType], where: str) -> None:
    warned = 0
    for key in itertools.islice(unknown, _MOST_COMPARED):
        close = [] if key.startswith("x-") else difflib.get_close_matches(key[:200], list(kinds), n=1, cutoff=_CLOSE)
        if close and warned < _MOST_WARNINGS:
            words = f"{where}: the unknown key {preview(key)} is kept but not used; did you mean '{close[0]}'?"
            warnings.warn(words, FedcertWarning, stacklevel=4)
            warned += 1
