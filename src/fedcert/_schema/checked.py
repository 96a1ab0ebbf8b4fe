"""The base of settings: frozen, and validated on construction."""

from __future__ import annotations

from dataclasses import dataclass

from fedcert._schema.declare import validate_fields


@dataclass(frozen=True)
class Checked:
    """Settings whose declared fields are validated on construction, before any work is done with them.

    Raises:
        InvalidValue: a field breaks its rule.
    """

    def __post_init__(self) -> None:
        validate_fields(self)
