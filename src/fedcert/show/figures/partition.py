"""Who holds what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert.errors import CallError
from fedcert.show.figures.style import COLOURS, check_format, new_figure, save_figure, shortened, style_axes


def plot_partition(
    counts: npt.ArrayLike, classes: Sequence[str], path: str | Path | None = None, *, title: str | None = None
) -> Any:
    """Draw each client's examples of each class: clients by size, the area of a dot says how many.

    Args:
        counts: clients x classes.
        classes: their names.
        path: a .png, .svg or .pdf file to write.
        title: text above the figure.

    Returns:
        The matplotlib figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        CallError: a path that ends in something else, or counts that are no matrix of one column per class.

    Examples:
        >>> figure = plot_partition([[3, 1], [0, 9]], ["cat", "dog"])
        >>> [float(bar.get_height()) for bar in figure.axes[1].patches]
        [9.0, 4.0]
    """
    check_format(path)
    held = np.asarray(counts, dtype=np.float64)
    if held.ndim != 2 or held.shape[1] != len(classes) or not held.size or held.min() < 0:
        raise CallError(f"counts must be clients x {len(classes)} classes, from 0 up, but have the shape {held.shape}")
    held = held[np.argsort(-held.sum(axis=1), kind="stable")]
    figure = new_figure(9, 4.5)
    dots, bars = figure.subplots(2, 1, height_ratios=(3, 1), sharex=True)
    client, label = np.nonzero(held)
    dots.scatter(client + 1, label, s=120 * held[client, label] / max(held.max(), 1), color=COLOURS[0], linewidths=0)
    if len(classes) <= 20:
        dots.set_yticks(range(len(classes)), [shortened(name) for name in classes])
    dots.set_ylim(len(classes) - 0.5, -0.5)  # the first class on top, as in tables
    style_axes(dots, title or "Who holds what", ylabel="class")
    bars.bar(range(1, len(held) + 1), held.sum(axis=1), color=COLOURS[5], width=1)
    bars.set_xlim(0.5, len(held) + 0.5)
    bars.xaxis.get_major_locator().set_params(integer=True)
    style_axes(bars, ylabel="examples", xlabel="clients, the largest first")
    return save_figure(figure, path)
