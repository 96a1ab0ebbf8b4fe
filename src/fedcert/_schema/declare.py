"""How fields of records and settings are declared: what each may hold, and its default."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from fedcert._schema.field_types import FieldType, Nullable


def required(field_type: FieldType, *, secret: bool = False) -> Any:
    """A field without a default; a secret one stays out of `repr`."""
    return dataclasses.field(repr=not secret, metadata={"type": field_type, "later": False})


def defaulting(
    field_type: FieldType,
    default: Any = dataclasses.MISSING,
    *,
    factory: Callable[[], Any] | None = None,
    later: bool = False,
) -> Any:
    """A field with a default, given as a value or by a function.

    Args:
        field_type: what it may hold.
        default: the value where none is given.
        factory: makes the default where it cannot be shared.
        later: as for `optional`.
    """
    metadata = {"type": field_type, "later": later}
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def optional(field_type: FieldType, *, later: bool = False) -> Any:
    """A field that may be null, which is its default.

    Args:
        field_type: what it may hold besides null.
        later: added after the schema was in use: omitted when null, so that digests and signatures of older
            documents stay valid.
    """
    return dataclasses.field(default=None, metadata={"type": Nullable(field_type), "later": later})


def field_types(cls: type) -> dict[str, FieldType]:
    """Field name -> what it may hold, in the order of declaration."""
    return {each.name: each.metadata["type"] for each in dataclasses.fields(cls) if "type" in each.metadata}


def validate_fields(value: Any) -> None:
    """Validate each declared field of a frozen dataclass and store it as its type normalises it.

    Raises:
        InvalidValue: a field breaks its rule.
    """
    for name, field_type in field_types(type(value)).items():
        object.__setattr__(value, name, field_type.validate(getattr(value, name), name))
