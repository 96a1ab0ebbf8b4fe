"""Values at which numbers go wrong, put into every numeric field of a JSON document, alone and all through a list."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

NUMBERS: tuple[Any, ...] = (
    0, -0.0, 1, -1, 2, 3, 31, 2_000, 10_000, 2**31 - 1, 2**31, 2**53 - 1, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63,
    2**64, 0.5, 1 - 2**-53, 1 + 2**-52, 1e-9, 1e-300, 5e-324, -5e-324, 1e6, 1e12, 1e154, 1e300, 1e308,
    1.7976931348623157e308, -1e308, 10**400, float("nan"), float("inf"), -float("inf"),
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    None, True, "NaN", "Infinity", "1", "", [], {}, [[]], [0], [0, 0], [1, 0], [0] * 2_000, [1e308] * 3,
    list(range(500)), "A" * 200, "A" * 201, "\u00e9" * 200, "A" * 100_000,
)  # fmt: skip
"""What stands where a number, or a list of them, should."""

Path = tuple[str | int, ...]


def numeric_fields(document: Any) -> list[Path]:
    """Where numbers are: each field once, by the first place of the lists on the way; and the lists themselves."""
    seen: dict[tuple[Any, ...], Path] = {}

    def walk(value: Any, path: Path) -> None:
        plain = tuple("[]" if isinstance(step, int) else step for step in path)
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, (*path, key))
        elif isinstance(value, list):
            if path and any(isinstance(item, (int, float, list)) for item in value):
                seen.setdefault((*plain, "whole"), path)
            for place, item in enumerate(value[:3]):
                walk(item, (*path, place))
        elif path and isinstance(value, (int, float)) and not isinstance(value, bool):
            seen.setdefault(plain, path)

    walk(document, ())
    return list(seen.values())


def changed(document: Any, path: Path, value: Any, *, throughout: bool = False) -> Any:
    """The document with another value in a place; in all places of its list, where wanted."""
    document = copy.deepcopy(document)
    holder = document
    for step in path[:-1]:
        holder = holder[step]
    if throughout and isinstance(holder, list):
        holder[:] = [value] * len(holder)
    else:
        holder[path[-1]] = value
    return document


def sweep(document: Any) -> Iterator[Any]:
    """Every numeric field with every value, one at a time; what may be made consistent again is, too."""
    for path in numeric_fields(document):
        for value in (*NUMBERS, *OTHERS):
            for throughout in {False, isinstance(path[-1], int)}:
                odd = changed(document, path, value, throughout=throughout)
                yield odd
                if (whole := consistent(odd)) is not None:
                    yield whole


def at_boundaries(document: Any, generator: random.Random) -> Any:
    """The document with one to three fields at a boundary, made consistent again more often than not."""
    for _ in range(generator.randint(1, 3)):
        fields = numeric_fields(document)
        if not fields:
            return document
        value = copy.deepcopy(generator.choice(NUMBERS if generator.random() < 0.8 else OTHERS))
        document = changed(document, generator.choice(fields), value, throughout=generator.random() < 0.3)
    if generator.random() < 0.7 and (whole := consistent(document)) is not None:
        return whole
    return document


def consistent(document: Any) -> Any:
    """A report whose counts are brought into agreement with its labels, so that what is odd is read further.

    None where it is no report, or where that cannot be done.
    """
    if not isinstance(document, dict) or document.get("schema") != "fedcert/report/1":
        return None
    report = copy.deepcopy(document)
    labels, classes = report.get("label_counts"), report.get("classes")
    if not _counts(labels) or not isinstance(classes, list):
        return None
    labels = report["label_counts"] = [min(int(count), 2**53 // len(labels)) for count in labels]
    report["classes"] = [*classes, *(f"class {place}" for place in range(len(classes), len(labels)))][: len(labels)]
    examples, smoothing = sum(labels), report.get("smoothing")
    if not isinstance(smoothing, dict):
        return None
    if smoothing.get("procedure") == "population":
        _consistent_histograms(report, labels, smoothing.get("n", 32))
    elif not _consistent_curves(report, labels):
        return None
    radii, effects = report.get("radii"), report.get("design_effect")
    if isinstance(radii, list) and isinstance(effects, list) and effects:
        report["design_effect"] = [*effects, *([effects[-1]] * len(radii))][: len(radii)]
    group = report.get("largest_group")
    if isinstance(group, int) and group > examples:
        report["largest_group"] = max(examples, 1)
    if report.get("abstained") is not None:
        report["abstained"] = 0
    report["signature"] = None
    return report


def _counts(values: Any) -> bool:
    return (
        bool(values)
        and isinstance(values, list)
        and all(
            isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**80 for value in values
        )
    )


def _consistent_histograms(report: dict[str, Any], labels: list[int], n: Any) -> None:
    if not isinstance(n, int) or not 0 < n <= 2_000:
        return
    right = (n, n // 2, 0)
    rows = [[count * (place == right[index % 3]) for place in range(n + 1)] for index, count in enumerate(labels)]
    report["correct_counts"] = [sum(column) for column in zip(*rows, strict=True)]
    if report.get("class_correct_counts") is not None:
        report["class_correct_counts"] = rows


def _consistent_curves(report: dict[str, Any], labels: list[int]) -> bool:
    """Falling curves: all, half, none; nothing beyond the first radius where the settings may certify nothing there."""
    radii = report.get("radii")
    if not isinstance(radii, list) or not radii:
        return False
    rows = [[count >> place if place < 3 else 0 for place in range(len(radii))] for count in labels]
    report["certified_counts"] = [sum(column) for column in zip(*rows, strict=True)]
    if report.get("class_certified_counts") is not None:
        report["class_certified_counts"] = rows
    return True


def dumped(document: Any) -> bytes:
    """As JSON, with NaN and infinity as Python writes them."""
    return json.dumps(document).encode()
