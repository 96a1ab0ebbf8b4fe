"""fedcert collect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as dataclass_replace
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from fedcert._files.documents import COMPANIONS
from fedcert.cli import options
from fedcert.cli.console import print_json, print_note, print_result, print_warning, working
from fedcert.cli.estimate import check_outputs, compared, draw_outputs, show_estimate, truth_in
from fedcert.cli.inputs import files_among, quorum_of, radii_of, words_of, wrong_option
from fedcert.cli.signing import keyring_in
from fedcert.coordination.collecting import collect_reports
from fedcert.errors import CallError, InvalidValue
from fedcert.estimation.files import write_estimate
from fedcert.estimation.result import Estimate
from fedcert.report import Request, read_record
from fedcert.rounds.corrections import is_doubtful
from fedcert.show.sentences import mix_of

_SHOWN = 10
"""Refused reports that are named on the terminal: more would push the estimate off the screen."""


def collect(
    reports: Annotated[
        list[Path] | None, Argument(metavar="[REPORT]…", help="Reports: files, folders, NDJSON or Parquet.")
    ] = None,
    request: Annotated[Path | None, Option(help="The request that they answer (.json).")] = None,
    run: Annotated[
        Path | None, Option(help="Run folder (request, reports, settings, estimates, log); reuse it to resume.")
    ] = None,
    target: Annotated[
        str | None,
        Option(
            help="Class mix: uniform, a JSON file, or class=weight,… [default: the run's, the request's, or uniform]"
        ),
    ] = None,
    target_name: options.TargetName = None,
    method: Annotated[str | None, options.RegistryOption(options.method_choices)] = None,
    radius: options.HeadlineRadius = None,
    quorum: Annotated[
        str | None, Option(help="Clients that must answer: a number, or a share such as 50%. [default: 50%]")
    ] = None,
    replace: Annotated[
        list[str] | None, Option(help="Replace this client's kept report with the one given; may be repeated.")
    ] = None,
    withdraw: Annotated[list[str] | None, Option(help="Withdraw this client's kept report; may be repeated.")] = None,
    worst_case: Annotated[
        int | None, Option(min=0, help="Also: the interval if each missing client held up to this many examples.")
    ] = None,
    confidence: Annotated[float | None, Option(help="Confidence level of the interval. [default: 0.95]")] = None,
    interval: Annotated[str | None, options.RegistryOption(options.interval_choices)] = None,
    simultaneous: Annotated[bool | None, Option(help="One interval that holds for all radii at once.")] = None,
    target_examples: options.TargetExamples = None,
    votes: options.OtherVotes = None,
    radii: options.OtherRadii = None,
    screen: options.ScreenUntrusted = None,
    by_class: options.ByClass = False,
    all_classes: Annotated[bool | None, Option(help="Per-class intervals that hold for all classes at once.")] = None,
    non_negative: Annotated[bool | None, Option(help="Keep weights at or above 0 (minimax, blup).")] = None,
    subsets: Annotated[int | None, Option(help="Number of random subsets (T; ap, ga). [default: 1000]")] = None,
    subset_size: Annotated[int | None, Option(help="Clients per subset (E; ap, ga). [default: 10]")] = None,
    threshold: Annotated[
        int | None, Option(help="Clients with fewer examples are grouped (tau; ga). [default: 50]")
    ] = None,
    seed: Annotated[int | None, Option(help="Random seed of the subsets. [default: 0]")] = None,
    trusted: Annotated[Path | None, Option(help="A keyring (.json): whose signatures count.")] = None,
    truth: options.Truth = None,
    out: options.EstimateFile = None,
    figure: options.FigureFile = None,
    page: options.PageFile = None,
    verbose: options.Verbose = False,
    unit: options.PageUnit = None,
    context: options.PageContext = None,
    as_json: options.AsJson = False,
) -> None:
    """Check the reports that answer a request, say who is missing, and estimate."""
    inputs = [*(reports or ()), *files_among(request, target, trusted, truth)]
    for path in (out, figure, page):
        if run is not None and path is not None and path.resolve().is_relative_to(run.resolve()):
            raise CallError(f"{path} is in the folder of --run, which keeps its own files; name another place")
    check_outputs(inputs, out, figure, page)
    given = {
        "target": target, "target_name": target_name, "method": method, "quorum": quorum_of(quorum),
        "worst_case": worst_case, "confidence": confidence, "interval": interval, "simultaneous": simultaneous,
        "target_examples": target_examples, "votes": votes, "radii": radii_of(radii), "radius": radius,
        "screen": screen, "all_classes": all_classes, "non_negative": non_negative, "subsets": subsets,
        "subset_size": subset_size, "threshold": threshold, "seed": seed, "unit": words_of(unit),
        "context": words_of(context),
    }  # fmt: skip
    target_report = truth_in(truth)
    asked: Request | None = read_record(request, Request) if request is not None else None
    try:
        collected = collect_reports(
            reports or (), asked, run, given, replace=replace or (), withdraw=withdraw or (),
            trusted=keyring_in(trusted), on_refused=partial(_show_refused, run), working=working,
        )  # fmt: skip
    except InvalidValue as error:
        if error.field in given:
            raise wrong_option(error) from None
        raise
    result, true = compared(collected.estimate, target_report, list(collected.round.reports.values()))
    for client, what in collected.corrections.items():
        (print_warning if is_doubtful(what) else print_note)(f"{client}: {what}")
    for folder in (path for path in reports or () if path.is_dir()):
        if secrets := sorted(file.name for file in folder.iterdir() if file.suffix in COMPANIONS):
            more = f" and {len(secrets) - 1} more" if len(secrets) > 1 else ""
            print_note(
                f"{folder} holds {secrets[0]}{more}: secret seeds and results of single examples are for their site "
                "alone. If they were sent, delete them, and tell the sites to send the report (.json) only"
            )
    if collected.recalled:
        print_note(f"as in the last estimate of {run}: {_recalled(collected.recalled, result)}")
    written = list(collected.kept) + (write_estimate(result, out) if out is not None else [])
    shown = dataclass_replace(collected, estimate=result)  # the page has the check of a labelled sample too
    written += draw_outputs(result, true, figure, page, shown.contents, shown.unit, shown.context)
    if as_json:
        print_json(result)
        return
    show_estimate(result, true, by_class or bool(all_classes), collected.prepared.clients, verbose)
    _show_worst_case(result)
    for path in written:
        print_result(f"Wrote {path}.")


def _show_refused(run: Path | None, refused: Mapping[str, str]) -> None:
    for place, why in list(refused.items())[:_SHOWN]:
        print_warning(f"not taken: {place}: {why}")
    if len(refused) > _SHOWN:
        where = f"; all are in {run / 'log.ndjson'}" if run is not None else "; --run keeps a log of all"
        print_warning(f"not taken: {len(refused) - _SHOWN} more{where}")


def _recalled(settings: Mapping[str, object], result: Estimate) -> str:
    """Settings of an earlier estimate, in words."""
    words = [f"target {result.target.name} ({mix_of(result.target)})"] if "target" in settings else []
    others = {name: value for name, value in settings.items() if name not in ("target", "target_name")}
    return ", ".join([*words, *(f"{name.replace('_', '-')} {value}" for name, value in others.items())])


def _show_worst_case(result: Estimate) -> None:
    worst = result.worst_case
    if worst is not None:
        print_result(
            f"If each of the {worst.clients} missing clients held up to {worst.examples_each} examples, of "
            f"whatever kind: between {worst.lower[0]:.1%} and {worst.upper[0]:.1%} at radius {result.radii[0]:g}."
        )
