"""How fields of records and settings are declared: what each may hold, its default, and its place in tables."""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, dataclass
from enum import Enum
from typing import Any

from fedcert._schema.field_types import FieldType, Implied, Nullable


class TablePlace(Enum):
    """Where a field stands in a table of records, and whether it is part of what was counted."""

    SHARED = "in the header: all rows must agree on it"
    COUNTED = "a column: part of what a client counted, bound to other fields by the record's rules"
    NOTED = "a column: a note beside the counts, on which no rule but that of its type holds"
    EXTRA = "no column of its own: in the column of further keys, as few rows have it"


def required(field_type: FieldType, *, secret: bool = False, place: TablePlace | None = None) -> Any:
    """A field without a default.

    Args:
        field_type: what it may hold.
        secret: whether it stays out of `repr`.
        place: in tables of such records.
    """
    return dataclasses.field(repr=not secret, metadata=_metadata(field_type, place))


def defaulting(
    field_type: FieldType, default: Any = MISSING, *, factory: Any = MISSING, place: TablePlace | None = None
) -> Any:
    """A field with a default, given as a value or by a function.

    Args:
        field_type: what it may hold.
        default: the value where none is given.
        factory: makes the default where it cannot be shared.
        place: in tables of such records.
    """
    return dataclasses.field(default=default, default_factory=factory, metadata=_metadata(field_type, place))


def optional(field_type: FieldType, *, later: bool = False, place: TablePlace | None = None) -> Any:
    """A field that may be null, which is its default.

    Args:
        field_type: what it may hold besides null.
        later: added after the schema was in use: omitted when null, so that digests and signatures of older
            documents stay valid.
        place: in tables of such records.
    """
    return dataclasses.field(default=None, metadata=_metadata(Nullable(field_type), place, later))


def implied(field_type: FieldType, *, place: TablePlace | None = None) -> Any:
    """A field that may be left out, not null: what that means follows from others, by the record's rules.

    Args:
        field_type: what it may hold.
        place: in tables of such records.
    """
    return dataclasses.field(default=None, metadata=_metadata(Implied(field_type), place, later=True))


def _metadata(field_type: FieldType, place: TablePlace | None, later: bool = False) -> dict[str, Any]:
    return {"type": field_type, "later": later, "place": place}


def field_types(cls: type) -> dict[str, FieldType]:
    """Field name -> what it may hold, in the order of declaration."""
    return {each.name: each.metadata["type"] for each in dataclasses.fields(cls) if "type" in each.metadata}


def shared_fields(record: Any) -> dict[str, Any]:
    """What all rows of a table of such records agree on, by field."""
    places = {field.name: field.metadata.get("place") for field in dataclasses.fields(record)}
    return {name: getattr(record, name) for name, place in places.items() if place is TablePlace.SHARED}


def validate_fields(value: Any) -> None:
    """Validate each declared field of a frozen dataclass and store it as its type normalises it.

    Raises:
        InvalidValue: a field breaks its rule.
    """
    for name, field_type in field_types(type(value)).items():
        object.__setattr__(value, name, field_type.validate(getattr(value, name), name))


@dataclass(frozen=True)
class Checked:
    """Settings whose declared fields are validated on construction, before any work is done with them.

    Raises:
        InvalidValue: a field breaks its rule.
    """

    def __post_init__(self) -> None:
        validate_fields(self)
