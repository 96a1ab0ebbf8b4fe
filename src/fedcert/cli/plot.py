"""fedcert plot: figures for papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from fedcert.cli import options
from fedcert.cli.console import print_result, working
from fedcert.cli.inputs import files_among, text_of
from fedcert.errors import CallError
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.compare import check_comparable
from fedcert.estimation.prepared import clients_of
from fedcert.estimation.result import Estimate
from fedcert.report import check_writable, load, read_record
from fedcert.show.figures import FORMATS, plot, plot_learning, plot_mixes, plot_partition, plot_weights
from fedcert.show.figures.learning import read_learning

app = Typer(help="Figures for papers (.png, .svg, .pdf).", no_args_is_help=True, rich_markup_mode=None)

Out = Annotated[Path, Option(help="The figure to write (.png, .svg or .pdf).")]
Reports = Annotated[list[Path], Argument(metavar="REPORT…", help="Reports: files, folders, NDJSON or Parquet.")]


def _wrote(out: Path) -> None:
    print_result(f"Wrote {out}.")


@app.command("curve")
def curve(
    estimates: Annotated[list[Path], Argument(metavar="ESTIMATE…", help="One, or several to compare (.json).")],
    out: Out,
    band: Annotated[str | None, Option(help="With several estimates: draw the interval of this method.")] = None,
    title: Annotated[str | None, Option(help="Above the figure; the target's name if not given.")] = None,
) -> None:
    """Draw certified accuracy against radius: one estimate with its interval, or methods side by side."""
    check_writable(out, FORMATS, estimates)
    read: list[Estimate] = [read_record(path, Estimate) for path in estimates]
    check_comparable(read)
    band = next((estimate.method for estimate in read if band in (estimate.method, estimate.used_method)), band)
    if band is not None and band not in [estimate.method for estimate in read]:
        raise CallError(
            f"--band {band}: there is no estimate by this method, only by {', '.join(e.method for e in read)}"
        )
    plot(read, out, interval_of=band, title=None if title is None else text_of(title))
    _wrote(out)


@app.command("mixes")
def mixes(reports: Reports, out: Out, target: options.TargetMix = "uniform") -> None:
    """Draw the clients' class mixes against the target's."""
    check_writable(out, FORMATS, [*reports, *files_among(target)])
    with working("reading and drawing"):
        plot_mixes(load(reports), target, out)
    _wrote(out)


@app.command("weights")
def weights(
    estimate: Annotated[Path, Argument(metavar="ESTIMATE", help="An estimate whose method has weights (.json).")],
    out: Out,
) -> None:
    """Draw the clients that weigh most."""
    check_writable(out, FORMATS, [estimate])
    plot_weights(read_record(estimate, Estimate), out)
    _wrote(out)


@app.command("partition")
def partition(
    reports: Reports, out: Out, title: Annotated[str | None, Option(help="Above the figure.")] = None
) -> None:
    """Draw who holds how many test examples of which class."""
    check_writable(out, FORMATS, reports)
    with working("reading reports"):
        clients = clients_of(load(reports))
    if not isinstance(clients, ReportedClients):
        raise CallError("sums do not tell who holds what; give the clients' reports")
    named = None if title is None else text_of(title)
    plot_partition(clients.label_counts, clients.classes, out, title=named, clients=clients.clients)
    _wrote(out)


@app.command("learning")
def learning(
    curves: Annotated[list[Path], Argument(metavar="CURVE…", help="curve.csv of 'fedcert lab train'.")], out: Out
) -> None:
    """Draw loss and accuracy against the rounds of training."""
    check_writable(out, FORMATS, curves)
    names = [text_of(path.parent.name if path.stem == "curve" and path.parent.name else path.stem) for path in curves]
    if len(set(names)) < len(names):
        names = [text_of(str(path)) for path in curves]
    plot_learning(dict(zip(names, map(read_learning, curves), strict=True)), out)
    _wrote(out)
