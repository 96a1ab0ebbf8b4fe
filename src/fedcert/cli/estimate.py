"""fedcert estimate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fedcert.cli.console import print_json, results, working
from fedcert.cli.inputs import files_among, from_options
from fedcert.cli.options import (
    AsJson,
    Confidence,
    EstimateFile,
    FigureFile,
    IntervalName,
    MethodName,
    PageFile,
    Reports,
    Screen,
    Simultaneous,
    TargetExamples,
    TargetMix,
)
from fedcert.errors import EstimationProblem, require
from fedcert.estimation.compare import Comparison, compare
from fedcert.estimation.estimate import estimate_of
from fedcert.estimation.files import weights_path, write_estimate
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.result import Estimate
from fedcert.estimation.settings import Settings
from fedcert.report import LoadedReports, Report, check_compatible, check_writable, load, read_record
from fedcert.show.figures import FORMATS, plot
from fedcert.show.page.contents import Contents
from fedcert.show.page.rendering import SUFFIXES, write_page
from fedcert.show.sentences import at_radius, default_radius, method_of, share, verdict
from fedcert.show.terminal import check_lines, class_table, curve_table, error_table, printable, weight_table


def estimate(
    reports: Reports,
    target: TargetMix = "uniform",
    method: MethodName = "auto",
    out: EstimateFile = None,
    figure: FigureFile = None,
    page: PageFile = None,
    truth: Annotated[Path | None, typer.Option(help="A report on the target itself, to compare with.")] = None,
    subsets: Annotated[int, typer.Option(help="Random subsets of clients to draw (T; ap, ga).")] = 1000,
    subset_size: Annotated[int, typer.Option(help="Clients in each (E; ap, ga).")] = 10,
    threshold: Annotated[int, typer.Option(help="Examples below which a client is small (tau; ga).")] = 50,
    seed: Annotated[int, typer.Option(help="Of the draws.")] = 0,
    confidence: Confidence = 0.95,
    interval: IntervalName = "finite-sample",
    simultaneous: Simultaneous = False,
    target_examples: TargetExamples = None,
    non_negative: Annotated[bool, typer.Option(help="Keep weights at or above 0 (minimax, blup).")] = False,
    screen: Screen = False,
    by_class: Annotated[bool, typer.Option(help="Show the curve of each class too.")] = False,
    as_json: AsJson = False,
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
        loaded = load(reports)
    true = _truth(truth, loaded) if truth is not None else None
    settings = from_options(
        Settings, subsets=subsets, subset_size=subset_size, threshold=threshold, seed=seed, confidence=confidence,
        interval=interval, simultaneous=simultaneous, target_examples=target_examples, non_negative=non_negative,
        screen=screen,
    )  # fmt: skip
    with working("estimating"):
        prepared = PreparedClients.of(clients_of(loaded), settings)
        result = estimate_of(prepared, target, method)
    if true is not None:
        errors = compare(result.certified_accuracy, true.certified_accuracy)
        result = replace(result, details={**result.details, "comparison": errors.to_json()}, comparison=errors)
    written = write_estimate(result, out) if out is not None else []
    if figure is not None:
        plot(result, figure, truth=true.certified_accuracy if true is not None else None)
    if page is not None:
        with working("writing the page"):
            write_page(Contents.of_clients(prepared, result), page)
    if as_json:
        print_json(result)
    else:
        show_estimate(result, true, by_class)
        for path in [*written, *(file for file in (figure, page) if file is not None)]:
            results().print(printable(f"Wrote {path}."))


def _truth(path: Path, loaded: LoadedReports) -> Report:
    true: Report = read_record(path, Report)
    if not true.examples:
        raise EstimationProblem(f"--truth {path} has no examples, so it tells no truth")
    check_compatible([*(part for part in (loaded.reports, loaded.sums) if part is not None), true])
    return true


def _between(result: Estimate) -> str:
    if result.lower is None or result.upper is None or result.confidence is None:
        return ""
    return f", between {result.lower[0]:.1%} and {result.upper[0]:.1%} with confidence {share(result.confidence)}"


def show_estimate(result: Estimate, true: Report | None = None, by_class: bool = False) -> None:
    """Print an estimate: the conclusion, the curve, what it rests on."""
    console = results()
    console.print(
        printable(
            f"Estimated certified accuracy of the target '{result.target.name}' by {method_of(result)}: "
            f"{result.certified_accuracy[0]:.1%} at radius {result.radii[0]:g}{_between(result)} "
            f"({result.clients} client{'s' if result.clients != 1 else ''}, {result.examples} examples)."
        )
    )
    if len(result.radii) > 1:
        console.print(printable(at_radius(result, default_radius(result))))
    console.print(printable(verdict(result)[1]))
    console.print(curve_table([result], true.certified_accuracy if true is not None else None))
    if true is not None:
        errors: dict[str, Comparison] = {result.method: compare(result.certified_accuracy, true.certified_accuracy)}
        console.print(error_table(errors, [result]))
        left_out = errors[result.method].left_out
        if left_out:
            console.print(f"MAPE leaves out {left_out} radii where the truth is 0.")
    if by_class:
        classes = class_table(result)
        console.print(classes if classes is not None else f"Method {result.method} knows no curves of single classes.")
    weights = weight_table(result)
    if weights is not None:
        console.print(weights)
    if result.mismatch is not None and result.bias_bound is not None:
        whose = "BLUP's own weights (not the interval's)" if method_of(result) == "BLUP" else "the weights"
        console.print(
            f"Mismatch of {whose} with the target's class mix: {result.mismatch.l2:.4f} (L2), "
            f"{result.mismatch.tv:.4f} (total variation); bias at most {result.bias_bound.sharp:.4f} "
            f"(Theorem 1: {result.bias_bound.theorem_1:.4f})."
        )
    for client, why in list(result.excluded.items())[:10]:
        console.print(printable(f"Left out: {client}, because {why}."))
    if len(result.excluded) > 10:
        console.print(f"Left out: {len(result.excluded) - 10} more.")
    reduced = result.screened or {}
    for client, why in list(reduced.items())[:10]:
        console.print(printable(f"Counts for less: {client}, because {why}."))
    if len(reduced) > 10:
        console.print(f"Counts for less: {len(reduced) - 10} more.")
    if result.chosen is not None:
        console.print(printable(f"Method {result.chosen.method}, because {result.chosen.because}."))
    for line in check_lines(result):
        console.print(line)
