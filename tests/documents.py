"""A valid document of each kind, every field filled; the golden files hold the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedcert import Estimate, Report, Request, Sums, WhatIf
from fedcert._schema.record import Record

GOLDEN = Path(__file__).parent / "golden"
KINDS: dict[str, type[Record]] = {
    "report": Report,
    "request": Request,
    "sums": Sums,
    "estimate": Estimate,
    "what-if": WhatIf,
}
DOCUMENTS: dict[str, dict[str, Any]] = {name: json.loads((GOLDEN / f"{name}-1.json").read_text()) for name in KINDS}
REMEDIES = {
    "report": "ask the client to run 'fedcert certify' again",
    "request": "ask the coordinator for a new request",
    "sums": "ask whoever added them up to do it again",
    "estimate": "run 'fedcert estimate' again",
    "what-if": "run 'fedcert what-if' again",
}

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
        "largest_group": 2,
        "samples": 22000,
        "software": "fedcert 0.1.0",
        "created": "2026-11-15T06:12:00Z",
        "signature": {"key": "A" * 43 + "=", "value": "A" * 86 + "=="},
    }
    return {**document, **changes}
