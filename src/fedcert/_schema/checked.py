"""The base of settings: frozen, and validated when made."""

from __future__ import annotations

from dataclasses import dataclass

from fedcert._schema.declare import validate_fields


@dataclass(frozen=True)
class Checked:
    """Settings whose declared fields are validated when they are made, so that a mistake costs no work.

    Raises:
        InvalidValue: a field breaks its rule.
    """

    def __post_init__(self) -> None:
        validate_fields(self)
