"""Small values that many tests start from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fedcert import Report

MODEL = "sha256:" + "ab" * 32


def report_document(**changes: Any) -> dict[str, Any]:
    """A valid report as JSON: 20 examples of two classes, 18 certified at radius 0."""
    document = {
        "schema": "fedcert/report/1",
        "task": "multiclass",
        "client": "site-07",
        "model": MODEL,
        "request": None,
        "smoothing": {
            "noise": "gaussian",
            "norm": "l2",
            "sigma": 0.25,
            "n0": 100,
            "n": 1000,
            "failure_probability": 0.001,
            "procedure": "fixed",
            "precision": "float32",
        },
        "radii": [0.0, 0.25, 0.5],
        "classes": ["cat", "dog"],
        "label_counts": [12, 8],
        "certified_counts": [18, 10, 3],
        "class_certified_counts": [[11, 7, 3], [7, 3, 0]],
        "abstained": 1,
        "design_effect": [1.0, 1.2, 1.1],
        "samples": 22000,
        "software": "fedcert 0.1.0",
        "created": "2026-11-15T06:12:00Z",
    }
    return {**document, **changes}


@pytest.fixture
def make_report() -> Callable[..., Report]:
    """Makes a report from a name, label counts and certified counts."""

    def make(client: str, labels: list[int], certified: list[int], **changes: Any) -> Report:
        values: dict[str, Any] = {
            "client": client,
            "model": MODEL,
            "smoothing": {"sigma": 0.25},
            "radii": [index / 4 for index in range(len(certified))],
            "classes": [f"class {index}" for index in range(len(labels))],
            "label_counts": labels,
            "certified_counts": certified,
        }
        return Report(**{**values, **changes})

    return make
