"""What the page's script is given: plain JSON, with long rows of numbers as bytes, to the last bit."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from typing import Any

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.mix_evaluator import ByClass, MixEvaluator

_NUMBERS, _TRIANGLES = "\x01f64", "\x01triangles"
"""Marks of what is packed; no client and no class can have such a name."""
_SETTINGS = ("confidence", "interval", "simultaneous", "target_examples")


def packed(numbers: Floats | None) -> dict[str, str] | None:
    """Numbers as the bytes of 64-bit floats, lowest byte first."""
    if numbers is None:
        return None
    return {_NUMBERS: base64.b64encode(np.ascontiguousarray(numbers, dtype="<f8").tobytes()).decode()}


def packed_forms(forms: Floats | None) -> dict[str, Any] | None:
    """Symmetric matrices, one per radius: the upper triangles."""
    if forms is None:
        return None
    size = forms.shape[1]
    above = np.triu_indices(size)
    return {"size": size, _TRIANGLES: [packed(form[above]) for form in forms]}


def packed_basis(basis: MixEvaluator) -> dict[str, Any]:
    """A basis for the page's script."""
    parts, differing = basis.parts, basis.differing
    by_class = isinstance(parts, ByClass)
    given = {name: _any(value) for name, value in vars(parts).items()}
    return {
        "method": basis.method,
        "interval": basis.interval,
        "kind": basis.kind,
        "guarantee": basis.guarantee,
        "settings": {name: value for name, value in asdict(basis.settings).items() if name in _SETTINGS},
        "failure_probability": basis.failure_probability,
        "pool": packed(basis.pool),
        "by_class": given if by_class else None,
        "by_client": None if by_class else given,
        "differing": None if differing is None else {name: _any(value) for name, value in vars(differing).items()},
    }


def _any(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    return packed_forms(value) if value.ndim == 3 else packed(value)


def as_script(value: object) -> str:
    """JSON that may stand between script tags: no character of it can end them, or begin anything else."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
