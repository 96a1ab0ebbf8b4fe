"""fedcert estimate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fedcert.cli.console import print_json, results, working
from fedcert.cli.inputs import files_among, from_options
from fedcert.cli.methods import ANY_METHOD, INTERVAL_KINDS
from fedcert.errors import EstimationProblem, require
from fedcert.estimation.compare import Comparison, compare
from fedcert.estimation.estimate import estimate_of
from fedcert.estimation.files import weights_path, write_estimate
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.result import Estimate
from fedcert.estimation.settings import Settings
from fedcert.report import LoadedReports, Report, check_alike, check_writable, load, read_one
from fedcert.show.figures import FORMATS, plot
from fedcert.show.page.contents import Contents
from fedcert.show.page.rendering import SUFFIXES, write_page
from fedcert.show.sentences import at_radius, default_radius, method_of, share, verdict
from fedcert.show.terminal import check_lines, class_table, curve_table, error_table, printable, weight_table


def estimate(
    reports: Annotated[
        list[Path], typer.Argument(metavar="REPORT…", help="Reports or sums: files, folders, NDJSON or Parquet.")
    ],
    target: Annotated[
        str, typer.Option(help="uniform, a JSON file from class to weight, or class=weight,…")
    ] = "uniform",
    method: Annotated[str, typer.Option(help=ANY_METHOD)] = "auto",
    out: Annotated[Path | None, typer.Option(help="The estimate file to write (.json).")] = None,
    figure: Annotated[Path | None, typer.Option(help="A figure to write (.png, .svg or .pdf).")] = None,
    page: Annotated[Path | None, typer.Option(help="A page to write (.html), see 'fedcert page'.")] = None,
    truth: Annotated[Path | None, typer.Option(help="A report on the target itself, to compare with.")] = None,
    subsets: Annotated[int, typer.Option(help="Random subsets of clients to draw (T; ap, ga).")] = 1000,
    subset_size: Annotated[int, typer.Option(help="Clients in each (E; ap, ga).")] = 10,
    threshold: Annotated[int, typer.Option(help="Examples below which a client is small (tau; ga).")] = 50,
    seed: Annotated[int, typer.Option(help="Of the draws.")] = 0,
    confidence: Annotated[float, typer.Option(help="Of the interval.")] = 0.95,
    interval: Annotated[str, typer.Option(help=INTERVAL_KINDS)] = "finite-sample",
    simultaneous: Annotated[bool, typer.Option(help="An interval for all radii at once.")] = False,
    target_examples: Annotated[int | None, typer.Option(help="The target is a set of so many examples.")] = None,
    non_negative: Annotated[bool, typer.Option(help="Keep weights at or above 0 (minimax, blup).")] = False,
    screen: Annotated[bool, typer.Option(help="Leave out clients whose curves the others cannot explain.")] = False,
    by_class: Annotated[bool, typer.Option(help="Show the curve of each class too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the estimate as JSON.")] = False,
) -> None:
    """Estimate the certified accuracy of a target population from the clients' reports."""
    inputs = [*reports, *files_among(truth, target)]
    for path, suffixes in ((out, (".json",)), (figure, FORMATS), (page, SUFFIXES)):
        if path is not None:
            check_writable(path, suffixes, inputs)
    if figure is not None:
        require("matplotlib", "plotting", "plot")
    if out is not None:  # in case there are many
        check_writable(weights_path(out), (), inputs)
    with working("reading reports"):
        gathered = load(reports)
    true = _truth(truth, gathered) if truth is not None else None
    settings = from_options(
        Settings, subsets=subsets, subset_size=subset_size, threshold=threshold, seed=seed, confidence=confidence,
        interval=interval, simultaneous=simultaneous, target_examples=target_examples, non_negative=non_negative,
        screen=screen,
    )  # fmt: skip
    with working("estimating"):
        prepared = PreparedClients.of(clients_of(gathered), settings)
        made = estimate_of(prepared, target, method)
    if true is not None:
        errors = compare(made.certified_accuracy, true.certified_accuracy)
        made = replace(made, details={**made.details, "comparison": errors.to_json()}, comparison=errors)
    written = write_estimate(made, out) if out is not None else []
    if figure is not None:
        plot(made, figure, truth=true.certified_accuracy if true is not None else None)
    if page is not None:
        with working("writing the page"):
            write_page(Contents.of_clients(prepared, made), page)
    if as_json:
        print_json(made)
    else:
        show_estimate(made, true, by_class)
        for path in [*written, *(one for one in (figure, page) if one is not None)]:
            results().print(printable(f"Wrote {path}."))


def _truth(path: Path, gathered: LoadedReports) -> Report:
    true: Report = read_one(path, Report)
    if not true.examples:
        raise EstimationProblem(f"--truth {path} has no examples, so it tells no truth")
    check_alike([*(one for one in (gathered.reports, gathered.sums) if one is not None), true])
    return true


def _between(made: Estimate) -> str:
    if made.lower is None or made.upper is None or made.confidence is None:
        return ""
    return f", between {made.lower[0]:.1%} and {made.upper[0]:.1%} with confidence {share(made.confidence)}"


def show_estimate(made: Estimate, true: Report | None = None, by_class: bool = False) -> None:
    """Print an estimate: the conclusion, the curve, what it rests on."""
    console = results()
    console.print(
        printable(
            f"Estimated certified accuracy of the target '{made.target.name}' by {method_of(made)}: "
            f"{made.certified_accuracy[0]:.1%} at radius {made.radii[0]:g}{_between(made)} "
            f"({made.clients} client{'s' if made.clients != 1 else ''}, {made.examples} examples)."
        )
    )
    if len(made.radii) > 1:
        console.print(printable(at_radius(made, default_radius(made))))
    console.print(printable(verdict(made)[1]))
    console.print(curve_table([made], true.certified_accuracy if true is not None else None))
    if true is not None:
        errors: dict[str, Comparison] = {made.method: compare(made.certified_accuracy, true.certified_accuracy)}
        console.print(error_table(errors, [made]))
        left_out = errors[made.method].left_out
        if left_out:
            console.print(f"MAPE leaves out {left_out} radii where the truth is 0.")
    if by_class:
        classes = class_table(made)
        console.print(classes if classes is not None else f"Method {made.method} knows no curves of single classes.")
    weights = weight_table(made)
    if weights is not None:
        console.print(weights)
    if made.mismatch is not None and made.bias_bound is not None:
        whose = "BLUP's own weights (not the interval's)" if method_of(made) == "BLUP" else "the weights"
        console.print(
            f"Mismatch of {whose} with the target's class mix: {made.mismatch.l2:.4f} (L2), "
            f"{made.mismatch.tv:.4f} (total variation); bias at most {made.bias_bound.sharp:.4f} "
            f"(Theorem 1: {made.bias_bound.theorem_1:.4f})."
        )
    for client, why in list(made.excluded.items())[:10]:
        console.print(printable(f"Left out: {client}, because {why}."))
    if len(made.excluded) > 10:
        console.print(f"Left out: {len(made.excluded) - 10} more.")
    reduced = made.screened or {}
    for client, why in list(reduced.items())[:10]:
        console.print(printable(f"Counts for less: {client}, because {why}."))
    if len(reduced) > 10:
        console.print(f"Counts for less: {len(reduced) - 10} more.")
    if made.chosen is not None:
        console.print(printable(f"Method {made.chosen.method}, because {made.chosen.because}."))
    for line in check_lines(made):
        console.print(line)
