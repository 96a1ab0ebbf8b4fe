"""Who holds what: clients' examples of each class, and their class mixes against the target's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert.errors import CallError
from fedcert.estimation.clients import ReportedClients
from fedcert.estimation.prepared import clients_of
from fedcert.estimation.target import distribution_of, target_of
from fedcert.report import LoadedReports
from fedcert.report.load import Source
from fedcert.show.figures.style import COLOURS, SHADES, check_format, new_figure, save_figure, shortened, style_axes

_MOST_CLIENTS, _MOST_NAMED = 60, 30
"""Rows that are drawn, and names that are readable beside or below them, on a page of a paper."""


def plot_mixes(
    reports: Source | Sequence[Source] | LoadedReports, target: object = "uniform", path: str | Path | None = None
) -> Any:
    """Draw the share of each class at the target, at all clients together and at each of them, by size.

    Args:
        reports: as for `fedcert.estimate`; single clients must be known.
        target: likewise.
        path: a .png, .svg or .pdf file to write.

    Returns:
        The matplotlib figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        CallError: a path that ends in something else, or sums alone.
        CannotCombine: reports that do not belong together.

    Examples:
        >>> from fedcert.report import Report
        >>> site = Report(client="a", model="demo", smoothing={"sigma": 0.25}, radii=[0], classes=["cat", "dog"],
        ...               label_counts=[80, 20], certified_counts=[70])
        >>> figure = plot_mixes([site], "cat=0.25,dog=0.75")
        >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
        ['target: custom', 'all clients', 'a (100)']
    """
    check_format(path)
    federation = clients_of(reports)
    if not isinstance(federation, ReportedClients):
        raise CallError("sums do not tell single clients' mixes; give the clients' reports")
    wanted = target_of(target, federation.classes)
    order = np.argsort(-federation.sizes, kind="stable")[:_MOST_CLIENTS]
    pooled = federation.labels / federation.labels.sum()
    rows = np.vstack([distribution_of(wanted, federation.classes), pooled, federation.mixes[order]])
    names = [
        f"target: {wanted.name}",
        "all clients",
        *(f"{federation.clients[row]} ({federation.sizes[row]:,.0f})" for row in order),
    ]
    height = 1.6 + 0.2 * min(len(rows), _MOST_CLIENTS)
    figure = new_figure(min(3 + 0.35 * len(federation.classes), 11), height)
    axes = figure.add_subplot()
    image = axes.imshow(rows, cmap=SHADES, vmin=0, vmax=max(float(rows.max()), 1e-9), aspect="auto")
    axes.axhline(1.5, color="black", linewidth=1)
    shown = names if len(names) <= _MOST_NAMED + 2 else names[:2]
    axes.set_yticks(range(len(shown)), [shortened(name) for name in shown], fontsize=8)
    if len(federation.classes) <= _MOST_NAMED:
        short = [shortened(name, 16) for name in federation.classes]
        axes.set_xticks(range(len(short)), short, rotation=90, fontsize=8)
    axes.set_xlabel("class")
    few = f" of the {len(order)} largest of {federation.count} clients" if federation.count > len(order) else ""
    axes.set_title(f"Class mixes{few}", loc="left")
    figure.colorbar(image, ax=axes, label="share of the examples")
    return save_figure(figure, path)


def plot_partition(
    counts: npt.ArrayLike,
    classes: Sequence[str],
    path: str | Path | None = None,
    *,
    title: str | None = None,
    clients: Sequence[str] | None = None,
) -> Any:
    """Draw each client's examples of each class: clients by size, the area of a dot says how many.

    Args:
        counts: clients x classes.
        classes: their names.
        path: a .png, .svg or .pdf file to write.
        title: text above the figure.
        clients: their names, which are shown where there are at most 30; numbers where None.

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
    order = np.argsort(-held.sum(axis=1), kind="stable")
    held = held[order]
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
    if clients is not None and len(held) <= _MOST_NAMED:
        names = [shortened(clients[index]) for index in order]
        bars.set_xticks(range(1, len(held) + 1), names, rotation=45, ha="right", fontsize=8)
    else:
        bars.xaxis.get_major_locator().set_params(integer=True)
    style_axes(bars, ylabel="examples", xlabel="clients, the largest first")
    return save_figure(figure, path)
