"""fedcert page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from fedcert.cli import options
from fedcert.cli.console import print_note, print_result, working
from fedcert.cli.inputs import as_command, files_among, radii_of, text_of, words_of
from fedcert.report import check_writable
from fedcert.show.page.rendering import SUFFIXES
from fedcert.show.page.writing import page as write


def page(
    files: Annotated[
        list[Path],
        Argument(metavar="FILE…", help="Reports or sums; or estimates, then without other class mixes."),
    ],
    out: Annotated[Path, Option(help="The page to write (.html).")],
    target: options.TargetMix = "uniform",
    method: options.MethodName = "auto",
    target_name: Annotated[str | None, Option(help="What to call the target. [default: its file's name]")] = None,
    title: Annotated[str | None, Option(help="The heading. [default: names the target]")] = None,
    unit: options.PageUnit = None,
    context: options.PageContext = None,
    radius: Annotated[
        float | None, Option(min=0, help="The radius to show first. [default: a quarter of the way to the largest]")
    ] = None,
    confidence: options.Confidence = 0.95,
    interval: options.IntervalName = "finite-sample",
    simultaneous: options.Simultaneous = False,
    target_examples: options.TargetExamples = None,
    seed: options.EstimateSeed = 0,
    screen: options.Screen = False,
    all_classes: options.AllClasses = False,
    votes: options.OtherVotes = None,
    radii: options.OtherRadii = None,
) -> None:
    """Write a page to read, to try other class mixes on and to pass on: one HTML file that works offline."""
    check_writable(out, SUFFIXES, [*files, *files_among(target)])
    with working("reading and estimating"):
        as_command(
            write, files, out, target, method, title=words_of(title), unit=words_of(unit), context=words_of(context),
            target_name=None if target_name is None else text_of(target_name), radius=radius, confidence=confidence,
            interval=interval, simultaneous=simultaneous, target_examples=target_examples, seed=seed, screen=screen,
            all_classes=all_classes, votes=votes, radii=radii_of(radii),
        )  # fmt: skip
    if target == "uniform":
        print_note("without --target, the page is about all classes equally frequent, or the estimates' own target")
    print_result(f"Wrote {out}: open it in any browser; it needs no network.")
