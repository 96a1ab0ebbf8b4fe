"""Tables for a terminal. Names come from other people's files, so nothing in them may act on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from fedcert.estimation.compare import Comparison
from fedcert.estimation.result import Estimate, WhatIf
from fedcert.estimation.weights import heaviest
from fedcert.report import Report
from fedcert.show.sentences import method_of

_SHOWN_RADII = 11
_SHOWN_CLIENTS = 10
_SHOWN_INTERVALS = 5


def plain(text: str) -> Text:
    """Untrusted text: no markup, and what is not printable is written out."""
    return Text("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))


def curve_table(estimates: Sequence[Estimate], truth: Sequence[float] | None = None) -> Table:
    """Certified accuracy at some radii, one row per method."""
    radii = estimates[0].radii
    shown = _spread(len(radii), _SHOWN_RADII)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("certified accuracy at radius")
    for index in shown:
        table.add_column(f"{radii[index]:g}", justify="right")
    rows = []
    for one in estimates:
        rows.append((method_of(one), one.certified_accuracy))
        if one.lower is not None and one.upper is not None and len(estimates) == 1:
            rows += [("  lower end", one.lower), ("  upper end", one.upper)]
    for name, curve in [*rows, *([("truth", tuple(truth))] if truth is not None else [])]:
        table.add_row(plain(name), *(f"{curve[index]:.3f}" for index in shown))
    return table


def error_table(comparisons: Mapping[str, Comparison], estimates: Sequence[Estimate]) -> Table:
    """RMSE and MAPE against the truth, one row per method."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("method", "RMSE", "MAPE", "mismatch (L2)", "effective examples"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for one in estimates:
        errors = comparisons[one.method]
        table.add_row(
            plain(method_of(one)),
            f"{errors.rmse:.4f}",
            "–" if errors.mape is None else f"{errors.mape:.3f}",
            "–" if one.mismatch is None else f"{one.mismatch.l2:.4f}",
            "–" if one.effective_examples is None else f"{one.effective_examples:,.0f}",
        )
    return table


def weight_table(estimate: Estimate) -> Table | None:
    """The clients that weigh most; None for methods without weights."""
    if estimate.weights is None:
        return None
    carrying = sum(weight != 0 for weight in estimate.weights.values())
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(f"client ({carrying} of {estimate.clients} carry weight)")
    table.add_column("weight", justify="right")
    shown = heaviest(estimate.weights, _SHOWN_CLIENTS)
    for client, weight in shown:
        table.add_row(plain(client), f"{weight:.4f}")
    if carrying > len(shown):
        rest = 1 - sum(weight for _, weight in shown)
        table.add_row(f"{carrying - len(shown)} more", f"{rest:.4f}")
    return table


def target_table(made: WhatIf) -> Table:
    """Curves with intervals, one row per target."""
    names = [curve.target.name for curve in made.targets]
    curves = [(curve.certified_accuracy, curve.lower, curve.upper) for curve in made.targets]
    return _interval_table("target", names, curves, made.radii)


def class_table(estimate: Estimate) -> Table | None:
    """The classes' curves with intervals; None for methods that know none."""
    part = estimate.by_class
    if part is None:
        return None
    curves = list(zip(part.certified_accuracy, part.lower, part.upper, strict=True))
    return _interval_table("class", estimate.classes, curves, estimate.radii)


def _interval_table(
    what: str, names: Sequence[str], curves: Sequence[tuple[Sequence[float], ...]], radii: Sequence[float]
) -> Table:
    shown = _spread(len(radii), _SHOWN_INTERVALS)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(f"{what}, at radius")
    for index in shown:
        table.add_column(f"{radii[index]:g}", justify="right", no_wrap=True)
    for name, (point, lower, upper) in zip(names, curves, strict=True):
        cells = [f"{point[index]:.3f} ({lower[index]:.2f}–{upper[index]:.2f})" for index in shown]
        table.add_row(plain(name), *cells)
    return table


def check_lines(estimate: Estimate) -> list[Text]:
    """The checks, one line each."""
    styles = {"ok": "green", "look": "yellow"}
    return [
        Text.assemble((f"{check.verdict:>16}  ", styles.get(check.verdict, "bold red")), plain(check.sentence))
        for check in estimate.checks
    ]


def report_table(report: Report) -> Table:
    """A client's own curve."""
    shown = _spread(len(report.radii), _SHOWN_RADII)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("radius")
    for index in shown:
        table.add_column(f"{report.radii[index]:g}", justify="right")
    table.add_row("certified", *(str(report.certified_counts[index]) for index in shown))
    table.add_row("accuracy", *(f"{report.certified_accuracy[index]:.3f}" for index in shown))
    return table


def _spread(length: int, most: int) -> list[int]:
    """At most so many indices, spread evenly, the ends among them."""
    if length <= most:
        return list(range(length))
    return sorted({round(step * (length - 1) / (most - 1)) for step in range(most)})
