"""A figure of who holds what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedcert.lab.populations.partition import Indices, Labels
from fedcert.show.figures import plot_partition


def draw_partition(parts: Sequence[Indices], labels: Labels, classes: Sequence[str], path: Path, title: str) -> None:
    """Draw each client's examples of each class.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    counts = np.stack([np.bincount(labels[part], minlength=len(classes)) for part in parts])
    plot_partition(counts, classes, path, title=title)
