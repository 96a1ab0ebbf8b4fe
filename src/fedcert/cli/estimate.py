"""fedcert estimate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Option

from fedcert.cli import options
from fedcert.cli.console import print_json, print_result, working
from fedcert.cli.inputs import files_among, from_options, radii_of
from fedcert.errors import EstimationProblem, require
from fedcert.estimation.clients.readings import own_curve
from fedcert.estimation.compare import compare
from fedcert.estimation.estimate import estimate_of
from fedcert.estimation.files import weights_path, write_estimate
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.result import Estimate
from fedcert.estimation.settings import Settings
from fedcert.report import LoadedReports, Report, check_compatible, check_writable, load, read_record
from fedcert.show.figures import FORMATS, plot
from fedcert.show.page.contents import Contents
from fedcert.show.page.rendering import SUFFIXES, write_page
from fedcert.show.sentences import (
    about_the_vote,
    accuracy_of,
    at_radius,
    class_intervals,
    default_radius,
    method_of,
    share,
    verdict,
)
from fedcert.show.terminal import check_lines, class_table, curve_table, error_table, weight_table


def estimate(
    reports: options.Reports,
    target: options.TargetMix = "uniform",
    method: options.MethodName = "auto",
    out: options.EstimateFile = None,
    figure: options.FigureFile = None,
    page: options.PageFile = None,
    truth: Annotated[Path | None, Option(help="A report on the target itself, to compare with.")] = None,
    subsets: Annotated[int, Option(help="Random subsets of clients to draw (T; ap, ga).")] = 1000,
    subset_size: Annotated[int, Option(help="Clients in each (E; ap, ga).")] = 10,
    threshold: Annotated[int, Option(help="Examples below which a client is small (tau; ga).")] = 50,
    seed: Annotated[int, Option(help="Of the draws.")] = 0,
    confidence: options.Confidence = 0.95,
    interval: options.IntervalName = "finite-sample",
    simultaneous: options.Simultaneous = False,
    target_examples: options.TargetExamples = None,
    non_negative: Annotated[bool, Option(help="Keep weights at or above 0 (minimax, blup).")] = False,
    screen: options.Screen = False,
    by_class: Annotated[
        bool, Option(help="Show the curve of each class too; its interval is for a class named beforehand.")
    ] = False,
    all_classes: options.AllClasses = False,
    votes: options.OtherVotes = None,
    radii: options.OtherRadii = None,
    as_json: options.AsJson = False,
) -> None:
    """Estimate the certified accuracy of a target population from the clients' reports."""
    inputs = [*reports, *files_among(truth, target)]
    check_outputs(inputs, out, figure, page)
    with working("reading reports"):
        loaded = load(reports)
    target_report = _truth(truth, loaded) if truth is not None else None
    settings = from_options(
        Settings, subsets=subsets, subset_size=subset_size, threshold=threshold, seed=seed, confidence=confidence,
        interval=interval, simultaneous=simultaneous, target_examples=target_examples, non_negative=non_negative,
        screen=screen, all_classes=all_classes, votes=votes, radii=radii_of(radii),
    )  # fmt: skip
    with working("estimating"):
        prepared = PreparedClients.of(clients_of(loaded), settings)
        result = estimate_of(prepared, target, method)
    true = None if target_report is None else own_curve(target_report, votes, radii_of(radii))
    if true is not None:
        errors = compare(result.certified_accuracy, true)
        result = replace(result, details={**result.details, "comparison": errors.to_json()}, comparison=errors)
    written = write_estimate(result, out) if out is not None else []
    written += draw_outputs(result, true, figure, page, lambda: Contents.of_clients(prepared, result))
    if as_json:
        print_json(result)
    else:
        show_estimate(result, true, by_class or all_classes)
        for path in written:
            print_result(f"Wrote {path}.")


def check_outputs(inputs: Sequence[Path], out: Path | None, figure: Path | None, page: Path | None) -> None:
    """Check, before any work, that an estimate and what is drawn of it can be written."""
    for path, suffixes in ((out, (".json",)), (figure, FORMATS), (page, SUFFIXES)):
        if path is not None:
            check_writable(path, suffixes, inputs)
    if figure is not None:
        require("matplotlib", "plotting", "plot")
    if out is not None:  # in case there are many
        check_writable(weights_path(out), (), inputs)


def draw_outputs(
    result: Estimate,
    truth: Sequence[float] | None,
    figure: Path | None,
    page: Path | None,
    contents: Callable[[], Contents],
) -> list[Path]:
    """Write the figure and the page of an estimate, where they are asked for, and give the files."""
    if figure is not None:
        plot(result, figure, truth=truth)
    if page is not None:
        with working("writing the page"):
            write_page(contents(), page)
    return [path for path in (figure, page) if path is not None]


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


def show_estimate(result: Estimate, true: Sequence[float] | None = None, by_class: bool = False) -> None:
    """Print an estimate: the conclusion, the curve, what it rests on."""
    print_result(
        f"Estimated {accuracy_of(result)} of the target '{result.target.name}' by {method_of(result)}: "
        f"{result.certified_accuracy[0]:.1%} at radius {result.radii[0]:g}{_between(result)} "
        f"({result.clients} client{'s' if result.clients != 1 else ''}, {result.examples} examples)."
    )
    if len(result.radii) > 1:
        print_result(at_radius(result, default_radius(result)))
    if result.votes is not None:
        print_result(about_the_vote(result.votes))
    print_result(verdict(result)[1])
    print_result(curve_table([result], true))
    if result.comparison is not None:
        print_result(error_table({result.method: result.comparison}, [result]))
        if result.comparison.left_out:
            print_result(f"MAPE leaves out {result.comparison.left_out} radii where the truth is 0.")
    if by_class:
        classes = class_table(result)
        print_result(classes if classes is not None else f"Method {result.method} knows no curves of single classes.")
        if classes is not None:
            print_result(class_intervals(result))
    weights = weight_table(result)
    if weights is not None:
        print_result(weights)
    if result.mismatch is not None and result.bias_bound is not None:
        whose = "BLUP's own weights (not the interval's)" if method_of(result) == "BLUP" else "the weights"
        print_result(
            f"Mismatch of {whose} with the target's class mix: {result.mismatch.l2:.4f} (L2), "
            f"{result.mismatch.tv:.4f} (total variation); bias at most {result.bias_bound.sharp:.4f} "
            f"(Theorem 1: {result.bias_bound.theorem_1:.4f})."
        )
    for what, clients in (("Left out", result.excluded), ("Counts for less", result.screened or {})):
        for client, why in list(clients.items())[:10]:
            print_result(f"{what}: {client}, because {why}.")
        if len(clients) > 10:
            print_result(f"{what}: {len(clients) - 10} more.")
    if result.chosen is not None:
        print_result(f"Method {result.chosen.method}, because {result.chosen.because}.")
    for line in check_lines(result):
        print_result(line)
