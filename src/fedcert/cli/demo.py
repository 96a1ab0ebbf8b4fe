"""fedcert demo."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from rich import box
from rich.table import Table
from typer import Option

from fedcert.cli.console import is_quiet, print_result, progress, results
from fedcert.show.sentences import at_radius, headline, verdict
from fedcert.show.terminal import Fitting, curve_table, error_table

_SHOWN_RADII = 6
"""Of both kinds side by side, where the terminal is wide enough: every fourth of the demo's radii."""
_FILES = (
    ("model.safetensors", "the federated model's weights"),
    ("data/", "each office's test examples, which never leave it"),
    ("request.json", "what the coordinator asked for"),
    ("reports/", "what each office sent: counts, nothing else"),
    ("estimate.json", "what the server made of them"),
    ("page.html", "the page: open it in a browser"),
    ("curve.png", "the figure"),
    ("truth.json", "the new district's own certificates, unknown in practice"),
    ("paper/", "the same with CERTIFY and the paper's methods"),
)


def demo(
    out: Annotated[Path, Option(help="Folder to write to.")] = Path("demo"),
    seed: Annotated[
        int | None,
        Option(min=0, max=2**63 - 1, help="Random seed, of the noise too. [default: secret noise, all else fixed]"),
    ] = None,
) -> None:
    """Run the whole pipeline on handwritten digits: train, certify, estimate, compare with the truth."""
    from fedcert.lab.demo import CLIENTS, ROUNDS, SIGMA, TARGET_NAME, TARGET_SIZE, check_folder, run_demo

    check_folder(out)
    console = results()
    if not is_quiet():
        print_result(
            f"{CLIENTS} post offices hold scans of handwritten digits and train a network by FedAvg: {ROUNDS} rounds, "
            f"with noise of sigma {SIGMA}. Each certifies it on its own test data and sends counts. The server "
            f"estimates how accurate it is in a {TARGET_NAME} with another mix of digits; {TARGET_SIZE} held-out "
            "digits of that mix give the truth."
        )
        console.print()
    with progress() as bar:
        tasks: dict[str, Any] = {}

        def show_stage(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total, rate="")
            bar.update(tasks[stage], completed=done)

        run = run_demo(out, seed, show_stage)
    best = run.vote_round.estimate
    radius = headline(best)
    print_result(f"{at_radius(best, radius)} The truth is {100 * run.vote_round.truth[radius]:.1f}%.")
    print_result(verdict(best)[1])
    if best.classifier is not None:
        print_result(best.classifier)
    if is_quiet():
        return
    examples = sum(report.examples for report in run.reports)
    console.print()
    print_result(
        f"With certificates of single examples (CERTIFY), as in the paper, from {len(run.reports)} reports over "
        f"{examples} test examples. VW, AP and GA are the paper's methods, BLUP uses the same reports. "
        "Post-stratification also uses counts per class, and is what fedcert chooses where offices disclose them:"
    )
    console.print(curve_table(run.estimates, run.truth.certified_accuracy))
    console.print(error_table(run.errors, run.estimates))
    print_result("Both kinds of certificates side by side:")
    console.print(_both_kinds(run))
    times = run.certify_round.passes / run.vote_round.passes
    print_result(
        f"The vote takes {times:.0f} times fewer passes and holds on average; CERTIFY holds for each example by itself."
    )
    console.print(f"\nFiles in {run.folder}:", markup=False)
    for name, words in _FILES:
        console.print(f"  {name:<26} {words}", markup=False)
    where, program = shlex.quote(str(run.folder)), shlex.quote(_program())
    console.print("\nTry next:")
    model = f"fedcert.lab.networks:digits_network {where}/data/office-03.npz --weights {where}/model.safetensors"
    for arguments in (
        f"estimate {where}/reports --target uniform",
        f"estimate {where}/reports --target uniform --votes 31 --radii 0,0.3",
        f"estimate {where}/paper/reports --target uniform --method ga",
        f"certify {model} --request {where}/request.json --client office-03 --dry-run",
    ):
        print_result(f"  {program} {arguments}", soft_wrap=True)


def _both_kinds(run: Any) -> Fitting:
    """CERTIFY beside population certificates: passes, seconds, and each curve with its interval and its truth."""
    kinds = (
        ("CERTIFY: of examples one by one", run.certify_round),
        (f"vote of {run.vote_round.estimate.votes}: on average", run.vote_round),
    )
    radii = run.vote_round.estimate.radii

    def build(shown: Sequence[int]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("accuracy at radius")
        for name in ("passes", "seconds", *(f"{radii[index]:g}" for index in shown)):
            table.add_column(name, justify="right", no_wrap=True)
        for title, each in kinds:
            estimate = each.estimate
            cost = (f"{each.passes:,.0f}", f"{each.seconds:.1f}")
            table.add_row(title, *cost, *(f"{estimate.certified_accuracy[index]:.3f}" for index in shown))
            ends = (f"{estimate.lower[index]:.2f}–{estimate.upper[index]:.2f}" for index in shown)
            table.add_row("  95% interval", "", "", *ends)
            table.add_row("  truth", "", "", *(f"{each.truth[index]:.3f}" for index in shown))
        return table

    return Fitting(len(radii), _SHOWN_RADII, build)


def _program() -> str:
    """How to call the program from here: by its name if it is on the path, else by its path."""
    return "fedcert" if shutil.which("fedcert") else os.path.relpath(sys.argv[0])
