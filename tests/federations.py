"""Reports of made-up federations."""

from __future__ import annotations

import numpy as np

from fedcert import Report
from fedcert.report import DEFAULT_RADII
from simulation import dirichlet, ordinary


def reports_of(seed: int, mode: str, clients: int = 60, **changes: object) -> list[Report]:
    """Reports of made-up clients; in a partly open federation every third tells counts per class."""
    generator = np.random.default_rng(seed)
    labels = dirichlet(0.5)(5, generator)[:clients]
    cells = ordinary(5, generator).draw(labels, generator)
    opens = {"closed": 0, "open": 1, "partly open": 3}[mode]
    return [
        Report(
            client=f"client {index}",
            model="simulated",
            smoothing={"sigma": 0.5},  # type: ignore[arg-type]
            radii=DEFAULT_RADII,
            classes=tuple("abcde"),
            label_counts=row,
            certified_counts=cell.sum(axis=0),
            class_certified_counts=cell if opens and index % opens == 0 else None,
            **changes,  # type: ignore[arg-type]
        )
        for index, (row, cell) in enumerate(zip(labels, cells, strict=True))
    ]
