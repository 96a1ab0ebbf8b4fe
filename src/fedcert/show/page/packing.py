"""Data for the page's script: plain JSON, with long rows of numbers as bytes, to the last bit."""

from __future__ import annotations

import base64
import json
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.mix_forms import MixForms

_NUMBERS, _TRIANGLES, _COUNTS = "\x01f64", "\x01triangles", "\x01u"
"""Marks of what is packed; no client and no class can have such a name."""


_WIDTHS = (1, 2, 4)
"""Bytes of unsigned integers, the narrowest that hold a row of counts are used."""


def packed(numbers: Floats | None) -> dict[str, Any] | None:
    """Numbers as bytes, lowest byte first: whole ones as unsigned integers where they fit, others as 64-bit floats."""
    if numbers is None:
        return None
    width = _width_of_counts(numbers)
    if width is not None:
        return {_COUNTS: _encoded(numbers, f"<u{width}"), "bytes": width}
    return {_NUMBERS: _encoded(numbers, "<f8")}


def _encoded(numbers: Floats, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers, dtype=kind).tobytes()).decode()


def _width_of_counts(numbers: Floats) -> int | None:
    """Bytes for each of several whole numbers; None where some are not, or do not fit."""
    if not numbers.size or not np.all(numbers == np.rint(numbers)) or np.signbit(numbers).any():
        return None
    largest = float(numbers.max())
    return next((width for width in _WIDTHS if largest < 256.0**width), None)


def packed_forms(forms: Floats | None) -> dict[str, Any] | None:
    """Symmetric matrices, one per radius: the upper triangles."""
    if forms is None:
        return None
    size = forms.shape[1]
    above = np.triu_indices(size)
    return {"size": size, _TRIANGLES: [packed(form[above]) for form in forms]}


def packed_evaluator(forms: MixForms) -> dict[str, Any]:
    """A mix evaluator for the page's script."""
    return {name: _any(value) for name, value in vars(forms).items()}


def _any(value: Any) -> Any:
    if is_dataclass(value):
        return {name: _any(part) for name, part in vars(value).items()}
    if not isinstance(value, np.ndarray):
        return value
    return packed_forms(value) if value.ndim == 3 else packed(value)


def as_script(value: object) -> str:
    """JSON that may stand between script tags: no character of it can end them, or begin anything else."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
