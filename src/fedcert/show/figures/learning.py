"""Learning curves of federated training."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcert._files.paths import check_readable, display_path
from fedcert.errors import CallError, FileProblem
from fedcert.show.figures import style

_LARGEST = 2**26
"""Bytes of a file that are read: a million rounds."""
_MOST = 1e100
"""A loss beyond that has no place on an axis; neither has one that is not a number."""
COLUMNS = ("round", "loss", "noisy accuracy")

Curve = Sequence[Mapping[str, float | None]]
"""Rounds, each with `round`, `loss` and, where it was measured, `noisy accuracy`."""


def plot_learning(curves: Mapping[str, Curve], path: str | Path | None = None) -> Any:
    """Draw loss and accuracy under noise against the rounds of training.

    Args:
        curves: name -> rounds, as `read_learning` gives them.
        path: a .png, .svg or .pdf file to write.

    Returns:
        The matplotlib figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        CallError: a path that ends in something else, or no curve.

    Examples:
        >>> first = {"round": 1, "loss": 2.3, "noisy accuracy": None}
        >>> rounds = [first, {"round": 2, "loss": 1.9, "noisy accuracy": 0.3}]
        >>> len(plot_learning({"fedavg": rounds}).axes)
        2
    """
    style.check_format(path)
    if not curves or not all(curves.values()):
        raise CallError("there is no learning curve to plot")
    figure = style.new_figure(8, 3.4)
    losses, accuracies = figure.subplots(1, 2)
    for index, (name, rows) in enumerate(curves.items()):
        colour, line = style.COLOURS[index % len(style.COLOURS)], style.LINES[index % len(style.LINES)]
        look = {"color": colour, "linestyle": line, "label": _label(name)}
        for axes, column in ((losses, "loss"), (accuracies, "noisy accuracy")):
            measured = [(row["round"], row[column]) for row in rows if row[column] is not None]
            axes.plot([number for number, _ in measured], [value for _, value in measured], **look)
    style.style_axes(losses, "Loss of the clients", xlabel="round", ylabel="loss")
    style.style_axes(accuracies, "Accuracy under noise", xlabel="round", ylabel="accuracy", ylim=(0, 1))
    if len(curves) > 1:
        accuracies.legend(frameon=False, fontsize=8)
    return style.save_figure(figure, path)


def _label(name: str) -> str:
    """A name in the legend; matplotlib leaves out those that begin with an underscore."""
    shown = style.escape_mathtext(name)
    return f" {shown}" if shown.startswith("_") else shown


def _drawable(value: float | None) -> bool:
    return value is not None and abs(value) <= _MOST


def read_learning(path: Path) -> Curve:
    """The rounds of a learning curve that `fedcert lab train` wrote.

    Raises:
        CallError: there is no such file.
        FileProblem: it is no learning curve.
    """
    check_readable(path, (".csv",))
    try:
        with path.open("rb") as opened:
            text = opened.read(_LARGEST).decode("utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        rounds = [{name: float(row[name]) if row[name] else None for name in COLUMNS} for row in rows]
        if not any(_drawable(value) for row in rounds for value in row.values()):
            raise ValueError
        return [{name: value if _drawable(value) else None for name, value in row.items()} for row in rounds]
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError, ValueError):
        raise FileProblem(
            f"{display_path(path)} is no learning curve: it must have the columns {', '.join(COLUMNS)}, and "
            "numbers in them; "
            "'fedcert lab train' writes one (curve.csv)"
        ) from None
