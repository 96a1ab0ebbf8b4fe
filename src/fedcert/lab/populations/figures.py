"""A figure of who holds what."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedcert.errors import require
from fedcert.lab.populations.partition import Indices, Labels
from fedcert.report import write_whole


def draw_partition(parts: Sequence[Indices], labels: Labels, classes: Sequence[str], path: Path, title: str) -> None:
    """Draw each client's examples of each class: clients by size, the area of a dot says how many.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plotting", "plot")
    from matplotlib.figure import Figure

    counts = np.stack([np.bincount(labels[part], minlength=len(classes)) for part in parts])
    counts = counts[np.argsort(-counts.sum(axis=1), kind="stable")]
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    below, above = figure.subplots(2, 1, height_ratios=(3, 1), sharex=True)
    client, label = np.nonzero(counts)
    below.scatter(client, label, s=120 * counts[client, label] / counts.max(), color="#0072B2", linewidths=0)
    below.set_ylabel("class")
    if len(classes) <= 20:
        below.set_yticks(range(len(classes)), classes)
    below.set_title(title)
    above.bar(range(len(counts)), counts.sum(axis=1), color="#56B4E9", width=1)
    above.set_ylabel("examples")
    above.set_xlabel("clients, by size")
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix.removeprefix("."), dpi=150)
    write_whole(path, content.getvalue())
