"""fedcert collect."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from fedcert.cli.console import print_json, results, tell, working
from fedcert.cli.estimate import show_estimate
from fedcert.cli.inputs import files_among, number_of
from fedcert.cli.methods import METHOD
from fedcert.cli.signing import keyring_in
from fedcert.engines.figure import draw_estimate
from fedcert.engines.files import take_files
from fedcert.errors import CallError, require
from fedcert.estimation.files import weights_path, write_estimate
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.result import Estimate
from fedcert.estimation.settings import RECORDED, Settings
from fedcert.report import Request, check_writable, read_one
from fedcert.rounds import CertificationRound, RunFolder
from fedcert.show.figures import FORMATS, plot
from fedcert.show.page.contents import Contents
from fedcert.show.page.rendering import SUFFIXES, write_page
from fedcert.show.terminal import printable

_SHOWN = 10


def collect(
    reports: Annotated[
        list[Path] | None, typer.Argument(metavar="[REPORT]…", help="Reports: files, folders, NDJSON or Parquet.")
    ] = None,
    request: Annotated[Path | None, typer.Option(help="The request that they answer (.json).")] = None,
    run: Annotated[Path | None, typer.Option(help="A folder that keeps all, for now and for what comes later.")] = None,
    target: Annotated[
        str | None, typer.Option(help="uniform, a JSON file, or class=weight,… [default: the request's, or uniform]")
    ] = None,
    method: Annotated[str, typer.Option(help=METHOD)] = "auto",
    quorum: Annotated[str, typer.Option(help="Clients that must have answered, or the share of those asked.")] = "0.5",
    worst_case: Annotated[
        int | None, typer.Option(min=0, help="Also: as if each missing client held up to so many examples.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the interval.")] = 0.95,
    screen: Annotated[
        bool | None,
        typer.Option(
            help="Leave out clients whose curves the others cannot explain. [default: those not in --trusted]"
        ),
    ] = None,
    trusted: Annotated[Path | None, typer.Option(help="A keyring (.json): whose signatures count.")] = None,
    out: Annotated[Path | None, typer.Option(help="The estimate file to write (.json).")] = None,
    figure: Annotated[Path | None, typer.Option(help="A figure to write (.png, .svg or .pdf).")] = None,
    page: Annotated[Path | None, typer.Option(help="A page to write (.html), see 'fedcert page'.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the estimate as JSON.")] = False,
) -> None:
    """Check the reports that answer a request, say who is missing, and estimate."""
    if request is None and run is None:
        raise CallError("give --request FILE, or --run FOLDER that has it")
    inputs = [*(reports or ()), *files_among(request, target, trusted)]
    for given in reports or ():
        if run is not None and given.resolve() == run.resolve():
            raise CallError(f"{given} is the folder of --run, which has what it took already; name the reports' folder")
    if figure is not None:
        require("matplotlib", "plotting", "plot")
    for path, suffixes in ((out, (".json",)), (figure, FORMATS), (page, SUFFIXES)):
        if path is None:
            continue
        if run is not None and path.resolve().is_relative_to(run.resolve()):
            raise CallError(f"{path} is in the folder of --run, which keeps its own files; name another place")
        check_writable(path, suffixes, inputs)
    if out is not None:  # in case there are many
        check_writable(weights_path(out), (), inputs)
    needed = number_of("--quorum", quorum)
    asked: Request | None = read_one(request, Request) if request is not None else None
    if asked is not None and asked.private is not None:
        raise CallError(f"{request} asks for a private sum, not for reports: use fedcert private sum")
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder(run, asked)) if run is not None else None
        one = CertificationRound(asked, folder, trusted=keyring_in(trusted))
        with working("reading reports"):
            refused = take_files(one, reports or (), may_be_empty=bool(one.reports))
        for place, why in list(refused.items())[:_SHOWN]:
            tell(f"not taken: {place}: {why}")
        if len(refused) > _SHOWN:
            where = f"; all are in {folder.path / 'log.ndjson'}" if folder is not None else "; --run keeps a log of all"
            tell(f"not taken: {len(refused) - _SHOWN} more{where}")
        with working("estimating"):
            made = one.conclude(
                target, method, quorum=needed, missing_examples=worst_case, confidence=confidence, screen=screen
            )
        written = write_estimate(made, out) if out is not None else []
        if folder is not None:
            written += folder.keep_estimate(made)
            draw_estimate(made, folder.path)
        if figure is not None:
            plot(made, figure)
            written.append(figure)
        if page is not None:
            with working("writing the page"):
                write_page(page_of(one, made), page)
            written.append(page)
    if as_json:
        print_json(made)
        return
    show_estimate(made)
    _show_worst_case(made)
    for path in written:
        results().print(printable(f"Wrote {path}."))


def page_of(one: CertificationRound, made: Estimate) -> Contents:
    """What a page tells of a round."""
    recorded = {name: made.settings[name] for name in RECORDED}
    settings = Settings(**recorded, trusted=tuple(sorted(one.vouched)))
    reports = [one.reports[client] for client in sorted(one.reports)]
    return Contents.of_clients(PreparedClients.of(clients_of(reports), settings), made)


def _show_worst_case(made: Estimate) -> None:
    worst = made.worst_case
    if worst is not None:
        results().print(
            f"If each of the {worst.clients} missing clients held up to {worst.examples_each} examples, of "
            f"whatever kind: between {worst.lower[0]:.1%} and {worst.upper[0]:.1%} at radius {made.radii[0]:g}."
        )
