"""The target population's class mix, in the ways that people write it down."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcert._arrays import Floats
from fedcert._files.documents import read_documents
from fedcert._files.paths import check_readable
from fedcert._schema.field_types import Number
from fedcert._schema.suggestions import known_names
from fedcert.errors import CallError, FedcertWarning, FileProblem, InvalidValue, preview
from fedcert.report import Target
from fedcert.report.load import kind_named

_TOTAL_TOLERANCE = 5e-3
"""Weights that add up to 1 or 100 within this were rounded: 33% three times is 99%, 16.7% six times 100.2%."""
_SHOWN_SHARES = 5
"""Classes of a mix that a warning names."""
KINDS = "'uniform', a JSON file from class name to weight, or class=weight,…"


def target_of(target: object, classes: Sequence[str]) -> Target:
    """A target from a name, a mapping, a list of weights in class order, or a `Target`.

    Weights are normalised. Classes that are not mentioned have weight 0.

    Raises:
        InvalidValue: a negative weight, or one that is no number.
        CallError: none of the known forms, an unknown class, or nothing but zeros.
        FileProblem: the same in a file.
    """
    if isinstance(target, Target):
        return _normalised(target.name, target.distribution, classes)
    if isinstance(target, Path):
        return _from_file(target, classes)
    if isinstance(target, str):
        return _named(target, classes)
    if isinstance(target, Mapping):
        known = _normalised("custom", target, classes)
        _point_out(target, counts=True)
        return known
    try:
        weights = np.asarray(target, dtype=float)
    except (TypeError, ValueError):
        raise CallError(f"target must be {KINDS}, a mapping or a list of weights, but is {preview(target)}") from None
    if weights.shape != (len(classes),):
        raise CallError(
            f"target must have one weight for each of the {len(classes)} classes, but has shape {weights.shape}"
        )
    return _normalised("custom", dict(zip(classes, weights.tolist(), strict=True)), classes)


def named_target(target: object, classes: Sequence[str], name: str | None = None) -> Target:
    """A target in a form that `target_of` takes, under another name where one is given.

    Raises:
        InvalidValue, CallError: as of `target_of`; a name that is no text.
    """
    taken = target_of(target, classes)
    try:
        return taken if name is None else replace(taken, name=name)
    except InvalidValue as error:
        sentence = str(error).removeprefix(error.field).strip()
        raise CallError(f"target_name (--target-name) {sentence}") from None


def _point_out(weights: Mapping[str, float], counts: bool) -> None:
    """Warn where weights are neither shares of 1 nor of 100%.

    Args:
        weights: as given.
        counts: whether whole numbers may be numbers of examples, which add up to anything.
    """
    total = sum(float(weight) for weight in weights.values())  # overflows to infinity, where fsum raises
    if any(math.isclose(total, whole, rel_tol=_TOTAL_TOLERANCE) for whole in (1.0, 100.0)):
        return
    if counts and all(weight == int(weight) for weight in weights.values()):
        return
    if math.isinf(total):  # weights that only a ratio can mean
        return
    shares = ", ".join(f"{name} {weight / total:.1%}" for name, weight in list(weights.items())[:_SHOWN_SHARES])
    more = ", …" if len(weights) > _SHOWN_SHARES else ""
    warnings.warn(
        f"the target's weights add up to {total:g}, not to 1 or 100%; they are scaled to {shares}{more}",
        FedcertWarning,
        stacklevel=2,
    )


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
        if not name and weight.strip().isdigit():
            raise CallError(f"target must be {KINDS}, with a decimal point: {preview(part)} in it has no class")
        if name.strip() in weights:
            raise CallError(f"target names the class {preview(name.strip())} twice")
        try:
            percent = weight.strip().endswith("%")
            weights[name.strip()] = float(weight.strip().removesuffix("%")) / (100 if percent else 1)
        except ValueError:
            raise CallError(f"target must be {KINDS}, but {preview(part)} in it is not class=weight") from None
    try:
        known = _normalised("custom", weights, classes)
        _point_out(weights, counts=False)
        return known
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
    if kind_named(document) == "request":
        raise FileProblem(f"{place} is a request that names no target; give {KINDS}")
    if kind_named(document) != "unknown":
        raise FileProblem(f"{place} is fedcert's own and has no target; give {KINDS}")
    try:
        name = "".join(c for c in path.stem if c.isprintable())[:200].strip() or "custom"
        known = _normalised(name, document, classes)
    except InvalidValue as error:
        raise error.at(place) from None
    except CallError as error:
        raise FileProblem(f"{place}: {error}") from None
    _point_out(document, counts=True)
    return known


def _normalised(name: str, weights: Mapping[str, Any], classes: Sequence[str]) -> Target:
    known = set(classes)
    kind = Number(least=0)
    taken: dict[str, float] = {}
    for key, weight in weights.items():
        if key not in known:
            raise CallError(f"unknown class {preview(key)} in the target; {known_names(key, classes)}")
        taken[key] = kind.validate(weight, f"the target's weight of {preview(key)}")
    largest = max(taken.values(), default=0.0)
    if not largest > 0:
        raise CallError("at least one weight of the target must be above 0")
    # Divided by the largest first, so that huge weights do not overflow when they are added.
    parts = {known: taken.get(known, 0.0) / largest for known in classes}
    total = math.fsum(parts.values())
    return Target(name=name, distribution={known: part / total for known, part in parts.items()})
