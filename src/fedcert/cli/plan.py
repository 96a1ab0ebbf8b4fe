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

from fedcert._files.documents import read_documents
from fedcert._files.paths import check_readable
from fedcert._schema.field_types import MappingOf, Number, Whole
from fedcert.cli import options
from fedcert.cli.console import print_json, print_result, working
from fedcert.cli.inputs import option
from fedcert.errors import InvalidValue
from fedcert.estimation.plan import AccuracyPlan, PrecisionPlan, plan_precision
from fedcert.estimation.target import distribution_of, target_of
from fedcert.population.passes import farthest_ratio
from fedcert.population.tables import SHIPPED_PASSES
from fedcert.report.smoothing import DEFAULT_VOTES, MOST_VOTES, Odd
from fedcert.show.sentences import copies_of
from fedcert.show.terminal import printable

_HISTOGRAMS = MappingOf(
    MappingOf(Whole(), "class names to numbers of examples", least=1), "client names to histograms", least=1
)
_SHOWN = 5
"""Rows of each table: those whose growth helps most."""
_TINY = 1e-12
"""Keeps ratios defined where no length is needed at all."""


def plan(
    histograms: Annotated[Path, Argument(metavar="FILE", help="JSON object: client -> class -> test examples.")],
    target: options.TargetMix = "uniform",
    confidence: options.Confidence = 0.95,
    half_length: Annotated[float | None, Option(help="A half-length to reach.")] = None,
    votes: options.Votes = None,
    as_json: options.AsJson = False,
) -> None:
    """Say what an estimate could reach, from label histograms alone, before anyone certifies."""
    option("--confidence", Number(above=0, below=1), confidence)
    if half_length is not None:
        option("--half-length", Number(above=0, below=1), half_length)
    with working("reading and planning"):
        counts = _read(histograms)
        classes = tuple(sorted({name for row in counts.values() for name in row}))
        wanted = target_of(target, classes)
        precision = plan_precision(counts, distribution_of(wanted, classes), classes, confidence, half_length)
    voting = option("--votes", Odd(least=1, most=MOST_VOTES), DEFAULT_VOTES if votes is None else votes)
    with working("looking at designs"):
        reached = {n: farthest_ratio("gaussian", n, voting) for n in SHIPPED_PASSES}
    if as_json:
        passes = {str(n): ratio for n, ratio in reached.items()}
        print_json({key: _finite(value) for key, value in asdict(precision).items()} | {"passes": passes})
    else:
        _show(precision, confidence, half_length)
        _show_passes(reached, voting)


def _read(path: Path) -> Mapping[str, Mapping[str, int]]:
    check_readable(path, (".json",))
    ((place, document),) = read_documents(path)
    try:
        counts: Mapping[str, Mapping[str, int]] = _HISTOGRAMS.validate(document, "the histograms")
    except InvalidValue as error:
        raise error.at(place, "give an object such as {'site-01': {'cat': 10, 'dog': 20}}") from None
    return counts


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and math.isinf(value) else value


def _show_accuracies(rows: tuple[AccuracyPlan, ...]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in (
        "if so much is certified",
        "without counts per class",
        "information bound",
        "with them",
        "information bound",
    ):
        table.add_column(title, justify="right")
    for row in rows:
        lengths = (row.half_length, row.least_half_length, row.class_half_length, row.class_least_half_length)
        table.add_row(f"{row.accuracy:.0%}", *(f"±{length:.4f}" for length in lengths))
    print_result(table)
    longest = rows[0]
    print_result(
        f"That is {longest.half_length / max(longest.least_half_length, _TINY):.1f} and "
        f"{longest.class_half_length / max(longest.class_least_half_length, _TINY):.1f} times the information bound at "
        f"{longest.accuracy:.0%}: with many examples, no valid interval is shorter than that on average."
    )


def _show_passes(reached: Mapping[int, float], votes: int) -> None:
    print_result(f"Noisy passes of each example, for population certificates of {copies_of(votes)}:")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("passes (--n)", justify="right")
    table.add_column("enough up to radius", justify="right")
    for passes, ratio in reached.items():
        table.add_row(str(passes), f"{ratio:g} sigma")
    print_result(table)


def _show(precision: PrecisionPlan, confidence: float, wanted: float | None) -> None:
    examples, halves = precision.examples, (precision.half_length, precision.class_half_length)
    noun = "example" if examples == 1 else "examples"
    print_result(f"With {examples:,} test {noun}, an interval of {confidence:.0%} confidence at one radius would be")
    print_result(f"  about ±{halves[0]:.3f} without counts per class, ±{halves[1]:.3f} with them from everyone,")
    print_result("  if half of every class is certified; where classes differ it can be longer or shorter.")
    _show_accuracies(precision.accuracies)
    if precision.missing:
        named = ", ".join(f"{name} ({share:.1%})" for name, share in list(precision.missing.items())[:10])
        print_result(f"Nobody holds {named} of the target: no number of other examples makes up for that.")
    if wanted is not None:
        for words, needed in (("without counts per class", precision.needed), ("with them", precision.class_needed)):
            assert needed is not None  # noqa: S101  it was asked for
            amount = "no number of examples of these mixes" if math.isinf(needed) else f"about {needed:,.0f} examples"
            print_result(f"To reach ±{wanted:g} {words}: {amount}.")
    for title, gains in (
        ("client whose growth helps most", precision.clients),
        ("class, with counts per class", precision.classes),
    ):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(title)
        table.add_column("half-length saved by 10% more", justify="right")
        for name, gain in sorted(gains.items(), key=lambda item: -item[1])[:_SHOWN]:
            table.add_row(printable(name), f"{10 * gain:.5f}")
        print_result(table)
