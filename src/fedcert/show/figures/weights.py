"""Clients' weights in an estimate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedcert.errors import CallError
from fedcert.estimation.result import Estimate
from fedcert.estimation.weights import heaviest
from fedcert.show.figures.style import COLOURS, check_format, new_figure, save_figure, shortened, style_axes
from fedcert.show.sentences import method_of

_MOST = 40
"""Bars that fit a page."""


def plot_weights(estimate: Estimate, path: str | Path | None = None) -> Any:
    """Draw the clients that weigh most in an estimate; negative weights are hatched.

    Args:
        estimate: the estimate; its method must have weights.
        path: a .png, .svg or .pdf file to write.

    Returns:
        The matplotlib figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        CallError: a path that ends in something else, or an estimate without weights.

    Examples:
        >>> from fedcert.estimation.estimate import estimate
        >>> from fedcert.report import Report
        >>> def site(name, labels, certified):
        ...     return Report(client=name, model="demo", smoothing={"sigma": 0.25}, radii=[0, 0.5],
        ...                   classes=["cat", "dog"], label_counts=labels, certified_counts=certified)
        >>> reports = [site("a", [80, 20], [90, 50]), site("b", [20, 80], [60, 20])]
        >>> figure = plot_weights(estimate(reports, method="ap"))
        >>> [round(float(bar.get_width()), 6) for bar in figure.axes[0].patches]
        [0.5, 0.5]
    """
    check_format(path)
    if estimate.weights is None:
        raise CallError(
            f"the estimate by {estimate.method} has no weights to draw: {estimate.weights_note or 'it names none'}"
        )
    shown = heaviest(estimate.weights, _MOST)
    figure = new_figure(6.4, 1.4 + 0.18 * len(shown))
    axes = figure.add_subplot()
    bars = axes.barh(range(len(shown)), [weight for _, weight in shown], color=COLOURS[0])
    for bar, (_, weight) in zip(bars, shown, strict=True):
        if weight < 0:
            bar.set(hatch="///", facecolor="white", edgecolor=COLOURS[1])
    axes.set_yticks(range(len(shown)), [shortened(client) for client, _ in shown], fontsize=8)
    axes.invert_yaxis()
    axes.axvline(0, color="black", linewidth=0.8)
    carrying = sum(weight != 0 for weight in estimate.weights.values())
    few = f", the {len(shown)} largest of {carrying}" if carrying > len(shown) else ""
    style_axes(axes, f"Weights by {method_of(estimate)}{few}", xlabel="weight")
    return save_figure(figure, path)
