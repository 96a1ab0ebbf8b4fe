"""Data for the page's script: plain JSON, with long rows of numbers as bytes, to the last bit."""

from __future__ import annotations

import base64
import json
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from fedcert._arrays import Floats, Integers
from fedcert.estimation.mix_arrays import MixForms

_MARK = "\x01"
_NUMBERS, _TRIANGLES, _COUNTS = f"{_MARK}f64", f"{_MARK}triangles", f"{_MARK}u"
"""Marks of what is packed; no client and no class can have such a name."""


_MOST = 2.0**53
"""Whole numbers below it are exact as floats."""
_DIGIT = 7
"""Bits of a whole number in each of its bytes; the eighth says that another byte follows."""


def packed(numbers: Floats | None) -> dict[str, str] | None:
    """Numbers as bytes: whole ones in as few as each one needs, others as 64-bit floats, lowest byte first."""
    if numbers is None:
        return None
    if numbers.size and np.all(numbers == np.rint(numbers)) and not np.signbit(numbers).any() and numbers.max() < _MOST:
        return {_COUNTS: base64.b64encode(_in_few_bytes(numbers.ravel().astype(np.int64))).decode()}
    return {_NUMBERS: base64.b64encode(np.ascontiguousarray(numbers, dtype="<f8").tobytes()).decode()}


def _in_few_bytes(counts: Integers) -> bytes:
    """Seven bits of a count per byte, the lowest first; all of its bytes but the last have their eighth bit set."""
    lengths = np.ones(len(counts), dtype=np.int64)
    while np.any(longer := counts >> (_DIGIT * lengths) > 0):
        lengths[longer] += 1
    ends = np.cumsum(lengths)
    result = np.zeros(int(ends[-1]), dtype=np.uint8)
    for place in range(int(lengths.max())):
        has, follows = lengths > place, lengths[lengths > place] > place + 1
        digits = (counts[has] >> (_DIGIT * place)) & (2**_DIGIT - 1)
        result[(ends - lengths)[has] + place] = digits + follows * 2**_DIGIT
    return result.tobytes()


def packed_forms(forms: Floats | None) -> dict[str, Any] | None:
    """Symmetric matrices, one per radius: the upper triangles."""
    if forms is None:
        return None
    size = forms.shape[1]
    above = np.triu_indices(size)
    return {"size": size, _TRIANGLES: [packed(form[above]) for form in forms]}


def packed_evaluator(forms: MixForms) -> dict[str, Any]:
    """A mix evaluator for the page's script; of the upper end of a vote, what the lower one does not have as well."""
    evaluator: dict[str, Any] = _any(forms)
    if forms.vote is not None:  # both rest on the same labels, which are most of the numbers
        evaluator["vote"]["upper"] = _beside(evaluator["vote"]["upper"], evaluator["vote"]["lower"])
    return evaluator


def _beside(value: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What of a value differs from another one of the same form; what is packed stays whole."""
    different = dict[str, Any]()
    for name, part in value.items():
        if part == other[name]:
            continue
        inside = isinstance(part, dict) and isinstance(other[name], dict) and not any(map(_is_mark, part))
        different[name] = _beside(part, other[name]) if inside else part
    return different


def _is_mark(name: str) -> bool:
    return name.startswith(_MARK)


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
