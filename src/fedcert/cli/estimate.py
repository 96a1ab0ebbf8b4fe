"""fedcert estimate."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from typer import Option

from fedcert.cli import options
from fedcert.cli.console import print_json, print_result, working
from fedcert.cli.inputs import files_among, from_options, radii_of, words_of
from fedcert.cli.signing import keyring_in
from fedcert.errors import CallError, EstimationProblem, FedcertWarning, preview, require
from fedcert.estimation.clients import Clients, ReportedClients
from fedcert.estimation.compare import compare, true_curve
from fedcert.estimation.diagnostics.checks import Check, truth_agrees
from fedcert.estimation.estimate import estimate as estimate_from
from fedcert.estimation.estimate import estimate_of
from fedcert.estimation.files import weights_path, write_estimate
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.result import Estimate
from fedcert.estimation.settings import Settings
from fedcert.estimation.target import named_target
from fedcert.report import Report, Sums, Table, Target, check_compatible, check_writable, load, read_record
from fedcert.report.load import each_report
from fedcert.rounds.checks import check_signatures
from fedcert.show.figures import FORMATS, plot
from fedcert.show.page.contents import Contents
from fedcert.show.page.rendering import SUFFIXES, write_page
from fedcert.show.sentences import at_radius, class_intervals, headline, method_of, mix_of, verdict
from fedcert.show.terminal import check_lines, class_table, client_table, curve_table, error_table, weight_table

_NAMED = 10
"""Excluded clients that are named on the terminal; the estimate's file has all of them."""


def estimate(
    reports: options.Reports,
    target: options.TargetMix = "uniform",
    method: options.MethodName = "auto",
    out: options.EstimateFile = None,
    figure: options.FigureFile = None,
    page: options.PageFile = None,
    unit: options.PageUnit = None,
    context: options.PageContext = None,
    truth: options.Truth = None,
    subsets: options.Subsets = 1000,
    subset_size: options.SubsetSize = 10,
    threshold: options.SmallClient = 50,
    seed: options.EstimateSeed = 0,
    confidence: options.Confidence = 0.95,
    interval: options.IntervalName = "finite-sample",
    simultaneous: options.Simultaneous = False,
    target_examples: options.TargetExamples = None,
    non_negative: options.NonNegative = False,
    screen: options.ScreenUntrusted = None,
    trusted: Annotated[
        Path | None, Option(help="A keyring (.json): its members' signatures count, and others are screened.")
    ] = None,
    by_class: options.ByClass = False,
    all_classes: options.AllClasses = False,
    votes: options.OtherVotes = None,
    radii: options.OtherRadii = None,
    radius: options.HeadlineRadius = None,
    target_name: options.TargetName = None,
    verbose: options.Verbose = False,
    as_json: options.AsJson = False,
) -> None:
    """Estimate the certified accuracy of a target population from the clients' reports."""
    inputs = [*reports, *files_among(truth, target, trusted)]
    check_outputs(inputs, out, figure, page)
    with working("reading reports"):
        loaded = load(reports)
        if trusted is not None and loaded.sums is not None:
            raise CallError("--trusted is about reports, but sums are among the inputs, which show no single client")
        vouched = _vouched(reports, trusted)
    target_report = truth_in(truth)
    settings = from_options(
        Settings, subsets=subsets, subset_size=subset_size, threshold=threshold, seed=seed, confidence=confidence,
        interval=interval, simultaneous=simultaneous, target_examples=target_examples, non_negative=non_negative,
        screen=trusted is not None if screen is None else screen, trusted=tuple(sorted(vouched)),
        all_classes=all_classes, votes=votes, radii=radii_of(radii), radius=radius,
    )  # fmt: skip
    with working("estimating"):
        prepared = PreparedClients.of(clients_of(loaded), settings)
        result = estimate_of(prepared, named_target(target, prepared.clients.classes, target_name), method)
    if trusted is not None:
        unsigned = sorted({*(loaded.reports.clients if loaded.reports is not None else ())} - vouched)
        signed = check_signatures(len(vouched) + len(unsigned), unsigned, settings.screen)
        result = replace(result, checks=(*result.checks, signed))
    result, true = compared(result, target_report, [part for part in (loaded.reports, loaded.sums) if part is not None])
    written = write_estimate(result, out) if out is not None else []
    written += draw_outputs(
        result, true, figure, page, lambda: Contents.of_clients(prepared, result), words_of(unit), words_of(context)
    )
    if as_json:
        print_json(result)
    else:
        show_estimate(result, true, by_class or all_classes, prepared.clients, verbose)
        for path in written:
            print_result(f"Wrote {path}.")


def _vouched(reports: Sequence[Path], trusted: Path | None) -> frozenset[str]:
    """The clients whose reports are signed by keys of a keyring; none without one.

    Raises:
        Refused: a report was changed, or is in a member's name without that member's signature.
    """
    keyring = keyring_in(trusted)
    if keyring is None:
        return frozenset()
    from fedcert.privacy.keys.signing import signed_clients

    return signed_clients(each_report(reports), keyring)


def target_sentence(target: Target) -> str:
    """The class mix of a target, which a forgotten --target makes uniform."""
    if target.name == "uniform":
        return "Target: all classes equally frequent (--target names another mix)."
    return f"Target '{target.name}': {mix_of(target)}."


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
    unit: str | None = None,
    context: str | None = None,
) -> list[Path]:
    """Write the figure and the page of an estimate, where they are asked for, and give the files."""
    if figure is not None:
        plot(result, figure, truth=truth)
    if page is not None:
        with working("writing the page"):
            write_page(contents(), page, unit=unit, context=context)
    return [path for path in (figure, page) if path is not None]


def truth_in(path: Path | None) -> Report | None:
    """A report on the target itself; None where none is given.

    Raises:
        CallError: it is no report.
        EstimationProblem: it has no examples.
    """
    if path is None:
        return None
    if path.suffix.lower() != ".json":
        raise CallError(f"--truth must be a report on the target's own examples (.json), but is {path}")
    true: Report = read_record(path, Report)
    if not true.examples:
        raise EstimationProblem(f"--truth {path} has no examples, so there is nothing to compare with")
    return true


def compared(
    result: Estimate, true: Report | None, reports: Sequence[Report | Table | Sums]
) -> tuple[Estimate, Sequence[float] | None]:
    """An estimate with its errors against the truth, and the true curve; as it is where that is not known.

    Raises:
        CannotCombine: the truth is about something else than the estimate.
    """
    if true is None:
        return result, None
    check_compatible([*reports, true])
    names = {name for part in reports for name in (part.clients if isinstance(part, Table) else ())}
    if true.client in names | {part.client for part in reports if isinstance(part, Report)}:
        raise CallError(
            f"--truth is the report of {preview(true.client)}, which is also among the reports: a sample of the target "
            "must be no client's; move it elsewhere, or give it another name (--client)"
        )
    curve = true_curve(true, result)
    errors = compare(result.certified_accuracy, curve)
    details = {**result.details, "comparison": errors.to_json()}
    agreement = _agreement(result, true)
    checks = result.checks if agreement is None else (*result.checks, agreement)
    return replace(result, details=details, comparison=errors, checks=checks), curve


def _agreement(result: Estimate, true: Report) -> Check | None:
    """Whether the sample's own interval meets the estimate's at all radii; None where one of them has none."""
    confidence, lower, upper = result.confidence, result.lower, result.upper
    if confidence is None or lower is None or upper is None:
        return None
    chosen: dict[str, Any] = {} if result.votes is None else {"votes": result.votes, "radii": result.radii}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcertWarning)
        own = estimate_from([true], result.target, confidence=confidence, **chosen)
    if own.lower is None or own.upper is None:
        return None
    gaps = np.maximum(np.subtract(own.lower, upper), np.subtract(lower, own.upper))
    worst = int(np.argmax(gaps))
    return truth_agrees(
        result.radii[worst],
        (own.certified_accuracy[worst], own.lower[worst], own.upper[worst]),
        (result.certified_accuracy[worst], lower[worst], upper[worst]),
    )


def show_estimate(
    result: Estimate,
    true: Sequence[float] | None = None,
    by_class: bool = False,
    clients: Clients | None = None,
    verbose: bool = False,
) -> None:
    """Print an estimate: the answer, the verdict, the curve, and the checks that did not pass.

    Args:
        result: the estimate.
        true: the target's own curve, where it is known.
        by_class: show the curves of single classes.
        clients: that it is from, for the table of their own accuracies.
        verbose: show all checks, weights and mismatches.
    """
    index = headline(result)
    if index:
        print_result(at_radius(result, index))
    print_result(at_radius(result, 0))
    print_result(target_sentence(result.target))
    counted = f"{result.clients} client{'s' if result.clients != 1 else ''}, {result.examples:,} test examples"
    because = "" if result.chosen is None else f" ({result.chosen.because})"
    print_result(f"From {counted}. Method: {method_of(result)}{because}.")
    if result.classifier is not None:
        print_result(result.classifier)
    print_result(verdict(result)[1])
    print_result(curve_table([result], true))
    if result.comparison is not None:
        print_result(error_table({result.method: result.comparison}, [result]))
        if result.comparison.left_out:
            print_result(f"MAPE leaves out {result.comparison.left_out} radii where the truth is 0.")
    if by_class:
        classes = class_table(result)
        print_result(classes if classes is not None else f"{method_of(result)} gives no curves of single classes.")
        if classes is not None:
            print_result(class_intervals(result))
    if isinstance(clients, ReportedClients):
        print_result(client_table(result, clients, index))
    elif verbose and (weights := weight_table(result)) is not None:
        print_result(weights)
    if verbose and result.mismatch is not None and result.bias_bound is not None:
        print_result(
            f"Class-mix mismatch: {result.mismatch.l2:.4f} (L2), {result.mismatch.tv:.4f} (total variation); bias at "
            f"most {result.bias_bound.sharp:.4f} (Theorem 1: {result.bias_bound.theorem_1:.4f})."
        )
    for what, named in (("Excluded", result.excluded), ("Down-weighted", result.screened or {})):
        for client, why in list(named.items())[:_NAMED]:
            print_result(f"{what}: {client}: {why}.")
        if len(named) > _NAMED:
            print_result(f"{what}: {len(named) - _NAMED} more.")
    for line in check_lines(result.checks, verbose):
        print_result(line)
