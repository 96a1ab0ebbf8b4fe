"""Tables as Markdown and for a terminal, and the figure of errors against distance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from fedcert.estimation.methods.registry import METHODS
from fedcert.lab.paper.evaluation import OURS, PAPER, Errors
from fedcert.lab.paper.published import Row
from fedcert.lab.paper.tables import Reproduced
from fedcert.lab.paper.vote import RATIOS, VoteComparison
from fedcert.show.figures.style import COLOURS, LINES, MARKERS, new_figure, save_figure, style_axes

_FACTS = ("trained", "rounds", "clean / noisy", "target", "")
"""Columns before the figures."""
_LINES = 3
"""Lines of a row: the paper's figures, ours on the plain target and on a shifted one."""


def lines_of(rows: Sequence[Reproduced], measure: str) -> tuple[list[str], list[list[str]]]:
    """A table's header and lines.

    Args:
        rows: what was reproduced.
        measure: "rmse" or "mape".
    """
    which = 0 if measure == "rmse" else 1
    header = [*_FACTS, *(METHODS[method].title for method in (*PAPER, *OURS))]
    lines = []
    for result in rows:
        printed = result.row.rmse if measure == "rmse" else result.row.mape
        facts = [label_of(result.row), f"{result.trace.rounds}", accuracies(result)]
        lines.append([*facts, "", "paper", *(f"{value:.3f}" for value in printed), *("" for _ in OURS)])
        for target, errors in (("plain", result.plain), ("shifted", result.shifted)):
            lines.append(["", "", "", target, "ours", *(cell(errors[method], which) for method in (*PAPER, *OURS))])
    return header, lines


def label_of(row: Row) -> str:
    """A row's name: what differs between rows."""
    setting = row.setting
    subsets = f", T = {row.subsets:,}" if row.subsets != 1000 else ""
    size = f", E = {row.subset_size}" if row.subset_size != 10 else ""
    return f"{setting.network}, {setting.data}, {setting.partition}, {setting.algorithm}{subsets}{size}"


def accuracies(result: Reproduced) -> str:
    """Clean and noisy accuracy of the global model."""
    return f"{result.trace.accuracy['clean']:.1%} / {result.trace.accuracy['noisy']:.1%}"


def cell(errors: Errors, which: int) -> str:
    """Mean and spread."""
    return f"{errors.mean[which]:.3f} ± {errors.spread[which]:.3f}"


def markdown(rows: Sequence[Reproduced], measure: str) -> str:
    """A table as Markdown."""
    return _pipes(*lines_of(rows, measure))


def terminal(rows: Sequence[Reproduced], measure: str) -> Group:
    """A table for a terminal: what was trained in a line of its own, so that the table fits into eighty columns."""
    header, lines = lines_of(rows, measure)
    head = _narrow()
    head.add_row(measure.upper(), *header[len(_FACTS) :])
    parts: list[Text | Table] = [head]
    for start in range(0, len(lines), _LINES):
        label, rounds, accuracy = lines[start][:3]
        parts.append(Text(f"{label}: {rounds} rounds, clean / noisy {accuracy}"))
        table = _narrow()
        for line in lines[start : start + _LINES]:
            table.add_row("  " + " ".join(word for word in line[3 : len(_FACTS)] if word), *line[len(_FACTS) :])
        parts.append(table)
    return Group(*parts)


def vote_lines(compared: VoteComparison) -> tuple[str, list[str], list[list[str]]]:
    """A caption, a header, and a line for each radius: CERTIFY beside the vote."""
    trace, estimate = compared.trace, compared.estimate
    settings = trace.experiment
    assert estimate.lower is not None  # noqa: S101 (the estimator has an interval)
    assert estimate.upper is not None  # noqa: S101
    facts = f"{settings.network}, {settings.data}, {settings.partition}, {settings.training.algorithm}"
    caption = (
        f"{facts}: {trace.rounds} rounds, sigma {settings.smoothing.sigma:.3g}. Passes of an example: CERTIFY "
        f"{compared.certify_passes:,.0f} on average, the vote {compared.vote_passes}."
    )
    header = ["radius", "radius/sigma", "CERTIFY", f"vote of {estimate.votes}", "estimate", "95% interval"]
    columns = (estimate.radii, RATIOS, compared.certify, compared.truth, estimate.certified_accuracy)
    formats = (".3f", "g", ".3f", ".3f", ".3f")
    lines = [
        [*map(format, row[: len(formats)], formats), f"{row[-2]:.3f}–{row[-1]:.3f}"]
        for row in zip(*columns, estimate.lower, estimate.upper, strict=True)
    ]
    return caption, header, lines


def vote_markdown(compared: VoteComparison) -> str:
    """CERTIFY beside the vote as Markdown."""
    caption, header, lines = vote_lines(compared)
    return f"{caption}\n\n" + _pipes(header, lines)


def vote_terminal(compared: VoteComparison) -> Group:
    """CERTIFY beside the vote for a terminal."""
    caption, header, lines = vote_lines(compared)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in header:
        table.add_column(name, justify="right", no_wrap=True)
    for line in lines:
        table.add_row(*line)
    return Group(Text(caption), table)


def _pipes(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in (header, ["---"] * len(header), *lines))


def _narrow() -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(width=14)
    for method in (*PAPER, *OURS):
        table.add_column(justify="right", width=max(13, len(METHODS[method].title)))
    return table


def draw_distances(errors_at: Mapping[float, Mapping[str, Errors]], path: Path) -> None:
    """Figure 2: RMSE and MAPE against the distance between the target's mix and the pool's.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    figure = new_figure(9, 3.6)
    for which, axes in enumerate(figure.subplots(1, 2)):
        for index, method in enumerate((*PAPER, *OURS)):
            means = [errors[method].mean[which] for errors in errors_at.values()]
            spread = [errors[method].spread[which] for errors in errors_at.values()]
            axes.errorbar(
                list(errors_at), means, yerr=spread, color=COLOURS[index], marker=MARKERS[index],
                linestyle=LINES[index], capsize=2, label=METHODS[method].title,
            )  # fmt: skip
        distance = "L2 distance of the target's class mix from the pool's"
        style_axes(axes, xlabel=distance, ylabel=("RMSE", "MAPE")[which])
        axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False)
    save_figure(figure, path)
