"""Tables for a terminal. Names come from other people's files, so nothing in them may act on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fedcert._schema.summary import spread
from fedcert.estimation.clients import ReportedClients
from fedcert.estimation.clients.readings import own_curve
from fedcert.estimation.compare import Comparison
from fedcert.estimation.diagnostics.checks import OK, WARNING, Check
from fedcert.estimation.result import Estimate, WhatIf
from fedcert.estimation.weights import heaviest
from fedcert.report import Report
from fedcert.report.classifier import classifier_sentence
from fedcert.show.sentences import copies_of, headline, method_of

_SHOWN_RADII, _SHOWN_INTERVALS = 11, 5
"""Columns of curves and of intervals, which are wider: they fit a terminal of 100 characters."""
_LONGEST_NAME = 40
"""Characters before a name is folded: it leaves half of a terminal to the numbers."""
_SHOWN_CLIENTS = 10
"""Rows of the table of weights: one screen with all the rest."""
_STYLES = {OK: "green", WARNING: "yellow"}
_ANY_WIDTH = 10_000
"""Wider than any table: what a table would take if it could."""


def printable(text: str) -> Text:
    """Untrusted text: no markup, and what is not printable is written out."""
    return Text("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))


@dataclass(frozen=True)
class Fitting:
    """A table with as many radii as the terminal is wide: figures are never cut off.

    Attributes:
        radii: how many there are.
        most: how many of them are shown where there is room.
        build: the table with the radii of these indices.
        including: the index of a radius that is always shown.
    """

    radii: int
    most: int
    build: Callable[[Sequence[int]], Table]
    including: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The widest table that fits, of at least one radius."""
        counts = range(min(self.most, self.radii), 1, -1)
        tables = (self.build(spread(self.radii, count, self.including)) for count in counts)
        unlimited = options.update(max_width=_ANY_WIDTH)
        fitting = (table for table in tables if Measurement.get(console, unlimited, table).maximum <= options.max_width)
        yield next(fitting, self.build([self.including]))


def _with_radii(first: str, radii: Sequence[float], shown: Sequence[int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, overflow="fold", max_width=_LONGEST_NAME)
    for index in shown:
        table.add_column(f"{radii[index]:g}", justify="right", no_wrap=True)
    return table


def curve_table(estimates: Sequence[Estimate], truth: Sequence[float] | None = None) -> Fitting:
    """Certified accuracy at some radii, one row per method."""
    radii = estimates[0].radii
    rows = []
    for estimate in estimates:
        rows.append((method_of(estimate), estimate.certified_accuracy))
        if estimate.lower is not None and estimate.upper is not None and len(estimates) == 1:
            rows += [("  lower bound", estimate.lower), ("  upper bound", estimate.upper)]
    if truth is not None:
        rows.append(("truth", tuple(truth)))

    def build(shown: Sequence[int]) -> Table:
        table = _with_radii(
            f"{'certified' if estimates[0].votes is None else 'proven'} accuracy at radius", radii, shown
        )
        for name, curve in rows:
            table.add_row(printable(name), *(f"{curve[index]:.3f}" for index in shown))
        return table

    return Fitting(len(radii), _SHOWN_RADII, build, headline(estimates[0]))


def error_table(comparisons: Mapping[str, Comparison], estimates: Sequence[Estimate]) -> Table:
    """RMSE and MAPE against the truth, one row per method."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("method", "RMSE", "MAPE", "mismatch (L2)", "effective examples"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for estimate in estimates:
        errors = comparisons[estimate.method]
        table.add_row(
            printable(method_of(estimate)),
            f"{errors.rmse:.4f}",
            "–" if errors.mape is None else f"{errors.mape:.3f}",
            "–" if estimate.mismatch is None else f"{estimate.mismatch.l2:.4f}",
            "–" if estimate.effective_examples is None else f"{estimate.effective_examples:,.0f}",
        )
    return table


def client_table(estimate: Estimate, clients: ReportedClients, index: int) -> Table:
    """Each client's examples, own accuracy and weight: those that weigh most, and the weakest.

    Args:
        estimate: the estimate.
        clients: that it is from.
        index: of the radius.
    """
    own, sizes = clients.certified_counts / clients.sizes[:, None], clients.sizes
    weights = estimate.weights or {}
    order = np.argsort([-abs(weights.get(name, size)) for name, size in zip(clients.clients, sizes, strict=True)])
    shown = list(order[:_SHOWN_CLIENTS])
    if (weakest := int(np.argmin(own[:, index]))) not in shown:
        shown.append(weakest)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("client", overflow="fold", max_width=_LONGEST_NAME)
    columns = dict.fromkeys((0, index))
    titles = ("examples", *(f"own accuracy at {clients.radii[each]:g}" for each in columns))
    for title in (*titles, "weight") if weights else titles:
        table.add_column(title, justify="right")
    for row in shown:
        name = clients.clients[row]
        accuracies = (f"{min(max(own[row, each], 0.0), 1.0):.3f}" for each in columns)
        weight = [f"{weights[name]:.4f}" if name in weights else "–"] if weights else []
        lowest = " (lowest)" if row == weakest and row not in order[:_SHOWN_CLIENTS] else ""
        table.add_row(printable(f"{name}{lowest}"), f"{sizes[row]:,.0f}", *accuracies, *weight)
    if clients.count > len(shown):
        table.add_row(f"{clients.count - len(shown)} more", *[""] * (len(table.columns) - 1))
    return table


def weight_table(estimate: Estimate) -> Table | None:
    """The clients that weigh most; None for methods without weights."""
    if estimate.weights is None:
        return None
    carrying = sum(weight != 0 for weight in estimate.weights.values())
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(f"client ({carrying} of {estimate.clients} have weight)")
    table.add_column("weight", justify="right")
    shown = heaviest(estimate.weights, _SHOWN_CLIENTS)
    for client, weight in shown:
        table.add_row(printable(client), f"{weight:.4f}")
    if carrying > len(shown):
        rest = 1 - sum(weight for _, weight in shown)
        table.add_row(f"{carrying - len(shown)} more", f"{rest:.4f}")
    return table


def target_table(what_if: WhatIf, radius: float | None = None) -> Fitting:
    """Curves with intervals, one row per target.

    Args:
        what_if: the curves.
        radius: one of theirs that is always shown; a quarter of the way to the last where None.
    """
    names = [curve.target.name for curve in what_if.targets]
    curves = [(curve.certified_accuracy, curve.lower, curve.upper) for curve in what_if.targets]
    index = (len(what_if.radii) - 1) // 4 if radius is None else what_if.radii.index(radius)
    return _interval_table("target", names, curves, what_if.radii, index)


def class_table(estimate: Estimate) -> Fitting | None:
    """The classes' curves with intervals; None for methods that know none."""
    part = estimate.by_class
    if part is None:
        return None
    curves = list(zip(part.certified_accuracy, part.lower, part.upper, strict=True))
    return _interval_table("class", estimate.classes, curves, estimate.radii, headline(estimate))


def _interval_table(
    what: str, names: Sequence[str], curves: Sequence[tuple[Sequence[float], ...]], radii: Sequence[float], index: int
) -> Fitting:
    def build(shown: Sequence[int]) -> Table:
        table = _with_radii(f"{what}, at radius", radii, shown)
        for name, (point, lower, upper) in zip(names, curves, strict=True):
            cells = [f"{point[index]:.3f} ({lower[index]:.2f}–{upper[index]:.2f})" for index in shown]
            table.add_row(printable(name), *cells)
        return table

    return Fitting(len(radii), _SHOWN_INTERVALS, build, index)


def check_lines(checks: Sequence[Check], verbose: bool = False) -> list[RenderableType]:
    """The checks that did not pass, and how many did; all of them where verbose."""
    shown = [check for check in checks if verbose or check.verdict != OK]
    table = Table.grid(padding=(0, 2))
    for check in shown:
        verdict = Text(check.verdict, style=_STYLES.get(check.verdict, "bold red"))
        table.add_row(verdict, Text.assemble((printable(check.name).plain, "bold"), ": ", printable(check.sentence)))
    passed = sum(check.verdict == OK for check in checks)
    lines: list[RenderableType] = [table] if shown else []
    if passed and not verbose:
        lines.append(f"{passed} check{'s' if passed > 1 else ''} passed (--verbose lists them).")
    return lines


def report_lines(report: Report, radius: float | None = None) -> list[str | Fitting]:
    """A client's own curve, and what it means, line by line.

    Args:
        report: the client's.
        radius: one of its radii, to begin with; the first where None.
    """
    index = 0 if radius is None else report.radii.index(radius)
    # What is proven cannot rise with the radius; an unbiased estimate from few examples may.
    curve, smoothing = np.minimum.accumulate(own_curve(report)).tolist(), report.smoothing
    examples = f"{report.examples} example{'s' if report.examples != 1 else ''}"
    table = own_table(report, curve, index)
    if smoothing.votes is not None:
        where = f"at radius {report.radii[index]:g}, on average"
        right = f"{copies_of(smoothing.votes)} is proven right on {curve[index]:.1%} {where}"
        return [
            f"{report.client}: {right} ({examples}, {smoothing.n} noisy passes each).",
            table,
            classifier_sentence(smoothing),
        ]
    certified = f"{curve[index]:.1%} of {examples} certified correct at radius {report.radii[index]:g}"
    lines: list[str | Fitting] = [f"{report.client}: {certified}.", table, classifier_sentence(smoothing)]
    cap = smoothing.largest_radius
    if cap is not None and cap < report.radii[-1]:
        lines.append(f"Radii above {cap:.3f} are beyond what n = {smoothing.n} samples can certify.")
    return lines


def report_line(report: Report, radius: float | None, clean: float | None) -> str:
    """The same in one short line, for `--quiet`.

    Args:
        report: the client's, with examples.
        radius: one of its radii; the first where None.
        clean: accuracy without noise, which stays at the client; None where it is not known.
    """
    index = 0 if radius is None else report.radii.index(radius)
    accuracy = float(np.minimum.accumulate(own_curve(report))[index])
    what = "certified correct" if report.smoothing.votes is None else "proven right"
    examples = f"{report.examples:,} example{'s' if report.examples != 1 else ''}"
    without = "" if clean is None else f"; {clean:.1%} right without noise (shown here only)"
    return f"{report.client}: {accuracy:.1%} of {examples} {what} at radius {report.radii[index]:g}{without}."


def own_table(report: Report, curve: Sequence[float], index: int = 0) -> Fitting:
    """A client's own curve; the radius of the index is always shown."""

    def build(shown: Sequence[int]) -> Table:
        table = _with_radii("radius", report.radii, shown)
        if report.certified_counts is not None:
            table.add_row("certified", *(str(report.certified_counts[index]) for index in shown))
        table.add_row("accuracy", *(f"{curve[index]:.3f}" for index in shown))
        return table

    return Fitting(len(report.radii), _SHOWN_RADII, build, index)
