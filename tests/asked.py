"""A request to three clients, and their answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from documents import MODEL
from fedcert import Report, Request, Smoothing
from fedcert.rounds import make_request

NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)
ROSTER = ("site-a", "site-b", "site-c")


def clock(seconds: float = 0.0) -> datetime:
    return NOW + timedelta(seconds=seconds)


def request(**changes: Any) -> Request:
    values: dict[str, Any] = {"radii": (0.0, 0.25), "roster": ROSTER, "seconds": 60.0, "now": NOW}
    return make_request(MODEL, Smoothing(sigma=0.25), ("cat", "dog"), **{**values, **changes})


def answer(asked: Request, client: str = "site-a", **changes: Any) -> Report:
    values: dict[str, Any] = {
        "client": client, "model": asked.model, "request": asked.digest, "smoothing": asked.smoothing,
        "radii": asked.radii, "classes": asked.classes, "label_counts": (30, 20), "certified_counts": (40, 25),
        "class_certified_counts": ((25, 15), (15, 10)), "created": "2026-11-15T12:00:10Z",
    }  # fmt: skip
    return Report(**{**values, **changes})
