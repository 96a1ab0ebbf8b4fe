"""Clients' class mixes against the target's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedcert.errors import CallError
from fedcert.estimation.clients import ReportedClients
from fedcert.estimation.prepared import clients_of
from fedcert.estimation.target import distribution_of, target_of
from fedcert.report import LoadedReports
from fedcert.report.load import Source
from fedcert.show.figures.style import SHADES, check_format, new_figure, save_figure, shortened

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
        >>> figure = plot_mixes([site], "cat=1,dog=3")
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
        axes.set_xticks(
            range(len(federation.classes)),
            [shortened(name, 16) for name in federation.classes],
            rotation=90,
            fontsize=8,
        )
    axes.set_xlabel("class")
    left = federation.count - len(order)
    axes.set_title(
        f"Class mixes{f' of the {len(order)} largest of {federation.count} clients' if left else ''}", loc="left"
    )
    figure.colorbar(image, ax=axes, label="share of the examples")
    return save_figure(figure, path)
