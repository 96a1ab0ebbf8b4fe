"""The look that all figures share."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from fedcert.errors import CallError, require
from fedcert.report import write_whole

FORMATS = (".png", ".svg", ".pdf")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's, which colour-blind readers can distinguish."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
"""With the markers, they distinguish curves in grey."""
SHADES = "Blues"
"""For shares: from white to dark, so that grey shows as much."""


def check_format(path: str | Path | None) -> None:
    """Check a figure's file before any work.

    Raises:
        CallError: its name ends in something else than a format of figures.
    """
    if path is not None and Path(path).suffix not in FORMATS:
        raise CallError(f"a figure's file must end in {', '.join(FORMATS)}, but is {Path(path).name!r}")


def new_figure(width: float = 6.4, height: float = 4.2) -> Any:
    """An empty figure. No pyplot: it would keep global state and look for a screen.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plotting", "plot")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def style_axes(axes: Any, title: str | None = None, **labels: Any) -> Any:
    """Axes with the look, labels and a title."""
    axes.set(**labels)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    if title is not None:
        axes.set_title(escape_mathtext(title), loc="left")
    return axes


def escape_mathtext(text: str) -> str:
    """An untrusted name: a dollar sign would be read as a formula."""
    return text.replace("$", r"\$")


def shortened(text: str, longest: int = 28) -> str:
    """A name that leaves room for the figure."""
    return escape_mathtext(text if len(text) <= longest else f"{text[: longest - 1]}…")


def save_figure(figure: Any, path: str | Path | None) -> Any:
    """The figure, written to its file, whole or not at all."""
    if path is not None:
        write_whole(Path(path), drawn_as(figure, Path(path).suffix[1:]))
    return figure


def drawn_as(figure: Any, kind: str) -> bytes:
    """A figure as the content of a file of some kind ("png")."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150)
    return buffer.getvalue()
