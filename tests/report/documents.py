"""A valid document of each kind, every field filled; the golden files hold the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedcert import Estimate, Report, Request, Sums
from fedcert.report.value import Value

GOLDEN = Path(__file__).parent.parent / "golden"
KINDS: dict[str, type[Value]] = {"report": Report, "request": Request, "sums": Sums, "estimate": Estimate}
DOCUMENTS: dict[str, dict[str, Any]] = {name: json.loads((GOLDEN / f"{name}-1.json").read_text()) for name in KINDS}
REMEDIES = {
    "report": "ask the client to run 'fedcert certify' again",
    "request": "ask the coordinator for a new request",
    "sums": "ask whoever added them up to do it again",
    "estimate": "run 'fedcert estimate' again",
}
