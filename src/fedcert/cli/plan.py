"""fedcert plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from rich import box
from rich.table import Table
from typer import Argument, Option

from fedcert.cli import options
from fedcert.cli.console import print_json, print_result, working
from fedcert.cli.inputs import as_command
from fedcert.estimation.plan import AccuracyPlan, Plan
from fedcert.estimation.plan import plan as make_plan
from fedcert.show.sentences import copies_of
from fedcert.show.terminal import printable

_SHOWN = 5
"""Rows of each table: those whose growth helps most."""
_TINY = 1e-12
"""Keeps ratios defined where no length is needed at all."""


def plan(
    histograms: Annotated[
        Path,
        Argument(metavar="FILE", help="JSON object: client -> class -> test examples; or reports."),
    ],
    target: options.TargetMix = "uniform",
    confidence: options.Confidence = 0.95,
    margin: Annotated[float | None, Option(help="Margin of error to reach: half of the interval's length.")] = None,
    votes: options.Votes = None,
    as_json: options.AsJson = False,
) -> None:
    """Say what an estimate could reach, from label histograms alone, before anyone certifies."""
    with working("reading and planning"):
        result = as_command(make_plan, histograms, target, confidence=confidence, margin=margin, votes=votes)
    if as_json:
        inner = ("confidence", "wanted", "votes", "passes")
        document = {key: _finite(value) for key, value in asdict(result).items() if key not in inner}
        print_json(document | {"passes": {str(n): ratio for n, ratio in result.passes.items()}})
    else:
        _show(result, confidence, margin)
        _show_passes(result.passes, result.votes)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and math.isinf(value) else value


def _show_accuracies(rows: tuple[AccuracyPlan, ...]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in (
        "if this share is certified",
        "without counts per class",
        "information bound",
        "with them",
        "information bound",
    ):
        table.add_column(title, justify="right")
    for row in rows:
        lengths = (row.margin, row.least_margin, row.class_margin, row.class_least_margin)
        table.add_row(f"{row.accuracy:.0%}", *(f"±{length:.4f}" for length in lengths))
    print_result(table)
    longest = rows[0]
    print_result(
        "With many examples, no valid interval is shorter than the information bound on average; at "
        f"{longest.accuracy:.0%} these margins are {longest.margin / max(longest.least_margin, _TINY):.1f} times as "
        f"long, and {longest.class_margin / max(longest.class_least_margin, _TINY):.1f} times with counts per class."
    )


def _show_passes(reached: Mapping[int, float], votes: int) -> None:
    print_result(f"Noisy passes of each example, for population certificates of {copies_of(votes)}:")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("passes (--n)", justify="right")
    table.add_column("enough up to radius", justify="right")
    for passes, ratio in reached.items():
        table.add_row(str(passes), f"{ratio:g} sigma")
    print_result(table)


def _show(precision: Plan, confidence: float, wanted: float | None) -> None:
    examples, halves = precision.examples, (precision.margin, precision.class_margin)
    noun = "example" if examples == 1 else "examples"
    print_result(f"With {examples:,} test {noun}, an interval of {confidence:.0%} confidence at one radius would be")
    print_result(f"  about ±{halves[0]:.3f} without counts per class, ±{halves[1]:.3f} with them from everyone,")
    print_result("  if half of every class is right; where classes differ it can be longer or shorter.")
    _show_accuracies(precision.accuracies)
    if precision.missing:
        named = ", ".join(f"{name} ({share:.1%})" for name, share in list(precision.missing.items())[:10])
        print_result(f"No client holds {named} of the target, and no number of other examples makes up for that.")
    if wanted is not None:
        for words, needed in (("without counts per class", precision.needed), ("with them", precision.class_needed)):
            assert needed is not None  # noqa: S101  it was asked for
            amount = "no number of examples" if math.isinf(needed) else f"about {needed:,.0f} examples"
            print_result(f"To reach ±{wanted:g} {words}: {amount} of these class mixes.")
    for title, gains in (
        ("client whose growth helps most", precision.clients),
        ("class, with counts per class", precision.classes),
    ):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(title)
        table.add_column("margin of error saved by 10% more", justify="right")
        for name, gain in sorted(gains.items(), key=lambda item: -item[1])[:_SHOWN]:
            table.add_row(printable(name), f"{10 * gain:.5f}")
        print_result(table)
