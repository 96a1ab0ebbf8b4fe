"""Small values that many tests start from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from documents import MODEL
from fedcert import Report


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
