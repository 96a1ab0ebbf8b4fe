"""Canonical JSON (RFC 8785): one text for one document, whatever program writes it. Digests are of that text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_SMALLEST, _LARGEST = -6, 21
"""Powers of ten: numbers below the first, and from the second on, are written with an exponent (ECMAScript's rule)."""


def canonical_json(value: Any) -> bytes:
    """A document of plain JSON types in the canonical form of RFC 8785: sorted keys, no white space, UTF-8.

    Whole numbers beyond 2^53, which the RFC leaves out, are written with all of their digits.

    Raises:
        ValueError: a number is NaN or infinite, or a text is no Unicode.

    Examples:
        >>> canonical_json({"b": 1.0, "a": [1e-7, 1e21, 0.25, True, None], "€": "\\n"}).decode()
        '{"a":[1e-7,1e+21,0.25,true,null],"b":1,"€":"\\\\n"}'
    """
    return _text(value).encode()


def _text(value: Any) -> str:
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        # By UTF-16 code units, as ECMAScript compares texts.
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{_text(key)}:{_text(value[key])}" for key in keys) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    """A number as ECMAScript writes it: the shortest digits that give it back, which `repr` has, laid out anew."""
    if not math.isfinite(value):
        raise ValueError(f"JSON has no number {value}")
    if value == 0:
        return "0"
    negative, parts, shift = Decimal(repr(value)).as_tuple()
    assert isinstance(shift, int)  # noqa: S101 (it is finite)
    sign, written = "-" if negative else "", "".join(map(str, parts))
    exponent, digits = len(written) + shift - 1, written.rstrip("0")
    if not _SMALLEST <= exponent < _LARGEST:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{rest}e{exponent:+d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    rest = digits[exponent + 1 :]
    return f"{sign}{whole}.{rest}" if rest else f"{sign}{whole}"
