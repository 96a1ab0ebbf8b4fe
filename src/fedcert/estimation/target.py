"""The target population's class mix, in the ways that people write it down."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedcert._arrays import Floats
from fedcert._files.documents import read_documents
from fedcert._files.paths import check_readable
from fedcert._schema.field_types import Number
from fedcert.errors import CallError, InvalidValue, preview
from fedcert.report import Target

KINDS = "'uniform', a JSON file from class name to weight, or class=weight,…"


def target_of(target: object, classes: Sequence[str]) -> Target:
    """A target from a name, a mapping, a list of weights in class order, or a `Target`.

    Weights are normalised. Classes that are not mentioned have weight 0.

    Raises:
        InvalidValue: an unknown class, a negative weight, one that is no number, or nothing but zeros.
        CallError: none of the known forms.
    """
    if isinstance(target, Target):
        return _normalised(target.name, target.distribution, classes)
    if isinstance(target, Path):
        return _from_file(target, classes)
    if isinstance(target, str):
        return _named(target, classes)
    if isinstance(target, Mapping):
        return _normalised("custom", target, classes)
    try:
        weights = np.asarray(target, dtype=float)
    except (TypeError, ValueError):
        raise CallError(f"target must be {KINDS}, a mapping or a list of weights, but is {preview(target)}") from None
    if weights.shape != (len(classes),):
        raise CallError(
            f"target must have one weight for each of the {len(classes)} classes, but has shape {weights.shape}"
        )
    return _normalised("custom", dict(zip(classes, weights.tolist(), strict=True)), classes)


def distribution_of(target: Target, classes: Sequence[str]) -> Floats:
    """The target's shares in class order."""
    shares = np.array([target.distribution.get(name, 0.0) for name in classes])
    return np.asarray(shares / shares.sum(), dtype=np.float64)


def _named(text: str, classes: Sequence[str]) -> Target:
    if text == "uniform":
        return _normalised("uniform", dict.fromkeys(classes, 1.0), classes)
    if text.endswith(".json"):
        return _from_file(Path(text), classes)
    if "=" not in text:
        raise CallError(f"target must be {KINDS}, but is {preview(text)}")
    weights: dict[str, Any] = {}
    for part in text.split(","):
        name, _, weight = part.rpartition("=")
        if name.strip() in weights:
            raise CallError(f"target names the class {preview(name.strip())} twice")
        try:
            weights[name.strip()] = float(weight)
        except ValueError:
            raise CallError(f"target must be {KINDS}, but {preview(part)} in it is not class=weight") from None
    try:
        return _normalised("custom", weights, classes)
    except InvalidValue as error:
        raise CallError(str(error)) from None


def _from_file(path: Path, classes: Sequence[str]) -> Target:
    check_readable(path, (".json",))
    ((place, document),) = read_documents(path)
    if not isinstance(document, Mapping):
        raise InvalidValue("the target", "a JSON object from class name to weight", document, place=place)
    inner = document.get("target")
    if str(document.get("schema", "")).startswith("fedcert/") and isinstance(inner, Mapping):
        # A request or an estimate: its target is meant.
        return target_of(Target.from_json(inner, place), classes)
    try:
        name = "".join(c for c in path.stem if c.isprintable())[:200].strip() or "custom"
        return _normalised(name, document, classes)
    except InvalidValue as error:
        raise error.at(place) from None


def _normalised(name: str, weights: Mapping[str, Any], classes: Sequence[str]) -> Target:
    known = set(classes)
    kind = Number(least=0)
    taken: dict[str, float] = {}
    for key, weight in weights.items():
        if key not in known:
            some = ", ".join(preview(name) for name in classes[:10]) + (", …" if len(classes) > 10 else "")
            raise InvalidValue("each class of the target", f"one of {some}", key)
        taken[key] = kind.validate(weight, f"the target's weight of {preview(key)}")
    largest = max(taken.values(), default=0.0)
    if not largest > 0:
        raise InvalidValue("the target", "at least one class of weight above 0", dict(weights))
    # Divided by the largest first, so that huge weights do not overflow when they are added.
    parts = {known: taken.get(known, 0.0) / largest for known in classes}
    total = math.fsum(parts.values())
    return Target(name=name, distribution={known: part / total for known, part in parts.items()})
