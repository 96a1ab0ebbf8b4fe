"""fedcert collect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from fedcert.cli import options
from fedcert.cli.console import print_json, print_result, print_status, working
from fedcert.cli.estimate import check_outputs, draw_outputs, show_estimate
from fedcert.cli.inputs import files_among, number_of, radii_of
from fedcert.cli.signing import keyring_in
from fedcert.engines.figure import draw_estimate
from fedcert.engines.files import take_files
from fedcert.errors import CallError
from fedcert.estimation.files import write_estimate
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.result import Estimate
from fedcert.estimation.settings import RECORDED, Settings
from fedcert.report import Request, read_record
from fedcert.rounds import CertificationRound, RunFolder
from fedcert.show.page.contents import Contents

_SHOWN = 10
"""Refused reports that are named on the terminal: more would push the estimate off the screen."""


def collect(
    reports: Annotated[
        list[Path] | None, Argument(metavar="[REPORT]…", help="Reports: files, folders, NDJSON or Parquet.")
    ] = None,
    request: Annotated[Path | None, Option(help="The request that they answer (.json).")] = None,
    run: Annotated[Path | None, Option(help="A folder that keeps all, for now and for what comes later.")] = None,
    target: Annotated[
        str | None, Option(help="uniform, a JSON file, or class=weight,… [default: the request's, or uniform]")
    ] = None,
    method: options.MethodName = "auto",
    quorum: Annotated[str, Option(help="Clients that must have answered, or the share of those asked.")] = "0.5",
    worst_case: Annotated[
        int | None, Option(min=0, help="Also: as if each missing client held up to so many examples.")
    ] = None,
    confidence: options.Confidence = 0.95,
    votes: options.OtherVotes = None,
    radii: options.OtherRadii = None,
    screen: Annotated[
        bool | None,
        Option(help="Leave out clients whose curves the others cannot explain. [default: those not in --trusted]"),
    ] = None,
    trusted: Annotated[Path | None, Option(help="A keyring (.json): whose signatures count.")] = None,
    out: options.EstimateFile = None,
    figure: options.FigureFile = None,
    page: options.PageFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Check the reports that answer a request, say who is missing, and estimate."""
    if request is None and run is None:
        raise CallError("give --request FILE, or --run FOLDER that has it")
    inputs = [*(reports or ()), *files_among(request, target, trusted)]
    _check_apart(run, reports or ())
    for path in (out, figure, page):
        if run is not None and path is not None and path.resolve().is_relative_to(run.resolve()):
            raise CallError(f"{path} is in the folder of --run, which keeps its own files; name another place")
    check_outputs(inputs, out, figure, page)
    needed = number_of("--quorum", quorum)
    asked: Request | None = read_record(request, Request) if request is not None else None
    if asked is not None and asked.private is not None:
        raise CallError(f"{request} asks for a private sum, not for reports: use fedcert private sum")
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder(run, asked)) if run is not None else None
        collection = CertificationRound(asked, folder, trusted=keyring_in(trusted))
        with working("reading reports"):
            refused = take_files(collection, reports or (), may_be_empty=bool(collection.reports))
        _show_refused(refused, folder)
        with working("estimating"):
            result = collection.conclude(
                target, method, quorum=needed, missing_examples=worst_case, confidence=confidence, screen=screen,
                votes=votes, radii=radii_of(radii),
            )  # fmt: skip
        written = write_estimate(result, out) if out is not None else []
        if folder is not None:
            written += folder.keep_estimate(result)
            draw_estimate(result, folder.path)
        written += draw_outputs(result, None, figure, page, lambda: page_of(collection, result))
    if as_json:
        print_json(result)
        return
    show_estimate(result)
    _show_worst_case(result)
    for path in written:
        print_result(f"Wrote {path}.")


def _check_apart(run: Path | None, reports: Sequence[Path]) -> None:
    """Check that the run's own folder is not read as a folder of new reports."""
    for path in reports:
        if run is not None and path.resolve() == run.resolve():
            raise CallError(f"{path} is the folder of --run, which has what it took already; name the reports' folder")


def _show_refused(refused: Mapping[str, str], folder: RunFolder | None) -> None:
    for place, why in list(refused.items())[:_SHOWN]:
        print_status(f"not taken: {place}: {why}")
    if len(refused) > _SHOWN:
        where = f"; all are in {folder.path / 'log.ndjson'}" if folder is not None else "; --run keeps a log of all"
        print_status(f"not taken: {len(refused) - _SHOWN} more{where}")


def page_of(collection: CertificationRound, result: Estimate) -> Contents:
    """What a page shows of a round."""
    recorded = {name: result.settings[name] for name in (*RECORDED, "votes", "radii") if name in result.settings}
    settings = Settings(**recorded, trusted=tuple(sorted(collection.vouched)))
    reports = [collection.reports[client] for client in sorted(collection.reports)]
    return Contents.of_clients(PreparedClients.of(clients_of(reports), settings), result)


def _show_worst_case(result: Estimate) -> None:
    worst = result.worst_case
    if worst is not None:
        print_result(
            f"If each of the {worst.clients} missing clients held up to {worst.examples_each} examples, of "
            f"whatever kind: between {worst.lower[0]:.1%} and {worst.upper[0]:.1%} at radius {result.radii[0]:g}."
        )
