"""fedcert page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from fedcert._files.documents import kind_of, read_documents
from fedcert._files.paths import kind_of_path
from fedcert.cli import options
from fedcert.cli.console import print_result, working
from fedcert.cli.inputs import files_among, from_options, radii_of, text_of
from fedcert.errors import CallError
from fedcert.estimation.estimate import estimate_of
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.result import Estimate
from fedcert.estimation.settings import Settings
from fedcert.report import check_writable, load
from fedcert.report.report import Report
from fedcert.report.sums.values import Sums
from fedcert.show.page.contents import Contents
from fedcert.show.page.rendering import SUFFIXES, write_page


def page(
    files: Annotated[
        list[Path],
        Argument(metavar="FILE…", help="Reports or sums; or estimates, then without other class mixes."),
    ],
    out: Annotated[Path, Option(help="The page to write (.html).")],
    target: options.TargetMix = "uniform",
    method: options.MethodName = "auto",
    title: Annotated[str | None, Option(help="The heading; it names the target if not given.")] = None,
    confidence: options.Confidence = 0.95,
    interval: options.IntervalName = "finite-sample",
    simultaneous: options.Simultaneous = False,
    target_examples: options.TargetExamples = None,
    seed: Annotated[int, Option(help="Of the draws (ap, ga).")] = 0,
    screen: options.Screen = False,
    all_classes: options.AllClasses = False,
    votes: options.OtherVotes = None,
    radii: options.OtherRadii = None,
) -> None:
    """Write a page to read, to try other class mixes on and to pass on: one HTML file that works offline."""
    check_writable(out, SUFFIXES, [*files, *files_among(target)])
    estimates = _estimates(files)
    if estimates:
        _check_plain(
            target=(target, "uniform"), method=(method, "auto"), confidence=(confidence, 0.95), seed=(seed, 0),
            interval=(interval, "finite-sample"), simultaneous=(simultaneous, False),
            target_examples=(target_examples, None), screen=(screen, False),
            all_classes=(all_classes, False), votes=(votes, None), radii=(radii, None),
        )  # fmt: skip
        contents = Contents.of_estimates(estimates)
    else:
        settings = from_options(
            Settings, seed=seed, confidence=confidence, interval=interval, simultaneous=simultaneous,
            target_examples=target_examples, screen=screen, all_classes=all_classes, votes=votes,
            radii=radii_of(radii),
        )  # fmt: skip
        with working("reading and estimating"):
            prepared = PreparedClients.of(clients_of(load(files)), settings)
            contents = Contents.of_clients(prepared, estimate_of(prepared, target, method))
    write_page(contents, out, None if title is None else text_of(title))
    print_result(f"Wrote {out}: open it in any browser; it needs no network.")


def _check_plain(**options: tuple[object, object]) -> None:
    """Check that nothing was asked for that a page from estimates cannot do.

    Raises:
        CallError: an option differs from its default.
    """
    for name, (given, default) in options.items():
        if given != default:
            raise CallError(
                f"--{name.replace('_', '-')} is for a page from reports; estimates are shown as they were made: leave "
                "it out, or give the reports"
            )


def _estimates(files: Sequence[Path]) -> list[Estimate]:
    """The estimates among files; none where these are reports.

    Raises:
        CallError: some are estimates, and some are not.
    """
    estimates: list[Estimate] = []
    for path in files:
        if kind_of_path(path) == "a file" and path.suffix.lower() == ".json":
            ((place, document),) = read_documents(path)
            if kind_of(document, place, (Report, Sums, Estimate)) is Estimate:
                estimates.append(Estimate.from_json(document, place))
    if estimates and len(estimates) < len(files):
        raise CallError(
            "give reports and sums, or estimates, but not both: a page from reports makes its own estimates"
        )
    return estimates
