"""The layout of tables of reports, derived from the declarations of a report's fields.

A field is declared once, with its `TablePlace`. From that follow the header of a Parquet file, its columns and their
Arrow types, what is checked in bulk, what reports must agree on, and by what two reports of a client are compared.
"""

from __future__ import annotations

import dataclasses
import inspect
from copy import copy
from dataclasses import dataclass
from typing import Any

from fedcert._schema import field_types as types
from fedcert._schema.declare import TablePlace
from fedcert._schema.encoding import Encoded
from fedcert._schema.field_types import FieldType, Implied, ListOf, Nullable
from fedcert._schema.record import Record

_ARROW_NAMES: dict[type[FieldType], str] = {types.Flag: "bool_", types.Whole: "int64", types.Number: "float64"}
_TEXTS = (types.Text, types.ModelName, types.Pattern, types.Timestamp, types.Enumerated, Encoded)
_ARROW_NAMES |= dict.fromkeys(_TEXTS, "string")
"""The Arrow type of single values, by the name of the function of `pyarrow` that gives it."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TableRow(Record):
    """A record that is also a row of tables: each of its fields says where it stands in one.

    Raises:
        TypeError: on definition of a subclass of which a field is declared in part.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, annotation in inspect.get_annotations(cls).items():
            if "ClassVar" not in str(annotation):
                _check_declared(f"{cls.__name__}.{name}", vars(cls).get(name))


def _check_declared(name: str, declared: Any) -> None:
    metadata = declared.metadata if isinstance(declared, dataclasses.Field) else {}
    if "type" not in metadata:
        raise TypeError(f"the field {name} must be declared by required, defaulting or optional, with its type")
    place = metadata["place"]
    if not isinstance(place, TablePlace):
        places = ", ".join(place.name for place in TablePlace)
        raise TypeError(f"the field {name} must say its place in tables of reports ({places})")
    if place in (TablePlace.COUNTED, TablePlace.NOTED) and _arrow_name(metadata["type"]) is None:
        no_type = f"{type(_item_type(metadata['type'])).__name__} has no Arrow type"
        raise TypeError(f"the field {name} cannot be a column: {no_type}; give it one, or put the field into EXTRA")


def fields_at(row: type[Record], *places: TablePlace) -> tuple[str, ...]:
    """The fields of a record that stand at some places, in the order of declaration."""
    return tuple(field.name for field in dataclasses.fields(row) if field.metadata.get("place") in places)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: the field's.
        field_type: what the field may hold.
        counted: whether it is part of what a client counted.
        required: whether every row has a value.
        default: the field's, where it has one.
    """

    name: str
    field_type: FieldType
    counted: bool
    required: bool
    default: Any

    @property
    def holds_text(self) -> bool:
        """Whether its values are texts, or lists of texts."""
        return _arrow_name(self.field_type) == "string"


def columns_of(row: type[Record]) -> tuple[Column, ...]:
    """The fields of a record that are columns, in the order of declaration."""
    return tuple(
        Column(
            field.name,
            field.metadata["type"],
            field.metadata["place"] is TablePlace.COUNTED,
            field.name in row.required(),
            None if field.default is dataclasses.MISSING else field.default,
        )
        for field in dataclasses.fields(row)
        if field.metadata.get("place") in (TablePlace.COUNTED, TablePlace.NOTED)
    )


def header_type(row: type[Record], schema: str, noun: str, remedy: str) -> Any:
    """The record of what all rows share: a class with the shared fields, as they are declared."""
    shared = fields_at(row, TablePlace.SHARED)
    fields = [(field.name, Any, copy(field)) for field in dataclasses.fields(row) if field.name in shared]
    words = {"SCHEMA": schema, "NOUN": noun, "REMEDY": remedy}
    return dataclasses.make_dataclass("Header", fields, bases=(Record,), namespace=words, frozen=True, kw_only=True)


def arrow_type(arrow: Any, field_type: FieldType) -> Any:
    """The Arrow type of a field's values; `arrow` is the package `pyarrow`."""
    if isinstance(field_type, (Nullable, Implied)):
        return arrow_type(arrow, field_type.kind)
    if isinstance(field_type, ListOf):
        return arrow.list_(arrow_type(arrow, field_type.kind))
    return getattr(arrow, _ARROW_NAMES[type(field_type)])()


def _arrow_name(field_type: FieldType) -> str | None:
    """The name of the Arrow type of single values, or of what lists hold; None where there is none."""
    return _ARROW_NAMES.get(type(_item_type(field_type)))


def _item_type(field_type: FieldType) -> FieldType:
    while isinstance(field_type, (Nullable, Implied, ListOf)):
        field_type = field_type.kind
    return field_type
