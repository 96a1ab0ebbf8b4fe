"""Bytes in JSON: base64 of a known length."""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._schema.field_types import PlainType
from fedcert.errors import InvalidValue

_MOST = 2**26
"""Characters: twice the largest document that is read (`LARGEST_DOCUMENT`), so that no text is matched for long."""

_ENDS = ("", "[A-Za-z0-9+/][AQgw]==", "[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=")
"""The last group of base64, by the length mod 3. Its unused bits must be 0, so that bytes have one text only."""


@lru_cache
def _pattern(length: int | None) -> re.Pattern[str]:
    """Matches the only base64 text of each sequence of so many bytes (of any number where None)."""
    if length is None:
        return re.compile(f"(?:[A-Za-z0-9+/]{{4}})*(?:{_ENDS[1]}|{_ENDS[2]})?", re.ASCII)
    whole, left = divmod(length, 3)
    return re.compile(f"[A-Za-z0-9+/]{{{4 * whole}}}{_ENDS[left]}", re.ASCII)


@dataclass(frozen=True)
class Encoded(PlainType):
    """Bytes as canonical base64: no two texts decode to the same bytes.

    Attributes:
        length: how many bytes; any number where None.
    """

    length: int | None = None

    @property
    def expected(self) -> str:
        """See `FieldType.expected`."""
        return "base64" if self.length is None else f"{self.length} bytes as base64"

    def accepts(self, value: Any) -> bool:
        """See `PlainType.accepts`."""
        return isinstance(value, str) and len(value) <= _MOST and bool(_pattern(self.length).fullmatch(value))

    def schema(self) -> dict[str, Any]:
        """See `FieldType.schema`."""
        rule: dict[str, Any] = {"type": "string", "contentEncoding": "base64"}
        if self.length is not None:
            rule["maxLength"] = rule["minLength"] = len(encoded(bytes(self.length)))
        return rule


@dataclass(frozen=True)
class Secret(Encoded):
    """Secret bytes: no message shows them."""

    def error(self, value: Any, field: str) -> InvalidValue:  # noqa: ARG002
        """See `FieldType.error`."""
        return InvalidValue(field, self.expected, "something else, not shown here")


def encoded(data: bytes) -> str:
    """Bytes as base64."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def encoded_numbers(numbers: npt.NDArray[np.uint64]) -> str:
    """Numbers mod 2^64 as base64, eight bytes each, the lowest first."""
    return encoded(numbers.astype("<u8").tobytes())


def decoded_numbers(text: str, count: int) -> npt.NDArray[np.uint64] | None:
    """The numbers of such a text; None where their count is another."""
    data = decoded(text)
    return np.frombuffer(data, dtype="<u8").astype(np.uint64) if len(data) == 8 * count else None


def decoded(text: str) -> bytes:
    """The bytes of a text that `Encoded` has validated."""
    return binascii.a2b_base64(text)
