"""Certified accuracy against radius: one estimate with its interval, or methods side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedcert.errors import CallError
from fedcert.estimation.compare import true_curve
from fedcert.estimation.result import Estimate
from fedcert.report import Report
from fedcert.show.figures.style import COLOURS, LINES, MARKERS, check_format, new_figure, save_figure, style_axes
from fedcert.show.sentences import method_of


def plot(
    estimates: Estimate | Sequence[Estimate],
    path: str | Path | None = None,
    *,
    truth: Report | Sequence[float] | None = None,
    title: str | None = None,
    interval_of: str | None = None,
) -> Any:
    """Draw certified accuracy against radius, with intervals where there are any.

    Args:
        estimates: one, or several of the same target to compare.
        path: a .png, .svg or .pdf file to write.
        truth: the target's true curve at the same radii, where it is known; or a report on its own examples.
        title: text above the figure; the target's name where None.
        interval_of: method whose interval is drawn; where None, that of a single estimate, and none of several,
            whose bands would hide each other.

    Returns:
        The matplotlib figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        CallError: no estimate, other radii, or a path that ends in something else.

    Examples:
        >>> import fedcert
        >>> site = fedcert.Report(client="a", model="demo", smoothing={"sigma": 0.25}, radii=[0, 0.5], classes=["cat"],
        ...                       label_counts=[100], certified_counts=[90, 40])
        >>> figure = plot(fedcert.estimate(site))
        >>> [float(value) for value in figure.axes[0].get_lines()[0].get_ydata()]
        [0.9, 0.4]
    """
    several = [estimates] if isinstance(estimates, Estimate) else list(estimates or [])
    if not several:
        raise CallError("there is no estimate to plot")
    for estimate in several:
        if not isinstance(estimate, Estimate):
            raise CallError(f"only estimates can be plotted, but one of them is {type(estimate).__name__}")
    truth = None if truth is None else true_curve(truth, several[0])
    if truth is not None and len(truth) != len(several[0].radii):
        raise CallError(f"truth must have one value for each of {len(several[0].radii)} radii, but has {len(truth)}")
    if any(estimate.radii != several[0].radii for estimate in several):
        raise CallError("estimates in one figure must have the same radii")
    check_format(path)
    figure = new_figure()
    axes = figure.add_subplot()
    for index, estimate in enumerate(several):
        colour, which = COLOURS[index % len(COLOURS)], index % len(MARKERS)
        wanted = estimate.method == interval_of if interval_of is not None else len(several) == 1
        if wanted and estimate.lower is not None and estimate.upper is not None:
            axes.fill_between(estimate.radii, estimate.lower, estimate.upper, color=colour, alpha=0.2, linewidth=0)
        axes.plot(
            estimate.radii, estimate.certified_accuracy, color=colour, marker=MARKERS[which], linestyle=LINES[which],
            markersize=4, linewidth=1.6, label=method_of(estimate), clip_on=False,
        )  # fmt: skip
    if truth is not None:
        axes.plot(several[0].radii, truth, color="black", linewidth=2.2, linestyle="--", label="truth", zorder=1)
    _mark_cap(axes, several[0])
    norm, kind = several[0].smoothing.norm.upper(), "certified" if several[0].votes is None else "proven"
    style_axes(
        axes, title or f"Target: {several[0].target.name}", xlabel=f"{norm} radius", ylabel=f"{kind} accuracy",
        xlim=_limits(several[0].radii), ylim=(0, 1),
    )  # fmt: skip
    axes.legend(frameon=False)
    return save_figure(figure, path)


def _limits(radii: Sequence[float]) -> tuple[float, float]:
    return (radii[0], radii[-1]) if len(radii) > 1 else (0.0, max(2 * radii[0], 1.0))


def _mark_cap(axes: Any, estimate: Estimate) -> None:
    start, end = _limits(estimate.radii)
    if estimate.largest_radius is not None and start < estimate.largest_radius < end:
        axes.axvspan(estimate.largest_radius, end, color="0.92", zorder=0)
        axes.text(
            estimate.largest_radius, 0.98, " beyond what n samples\n can certify", va="top", fontsize=8, color="0.4"
        )
