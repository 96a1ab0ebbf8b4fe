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

from fedcert.cli.console import print_result, progress, results
from fedcert.estimation.result import Estimate
from fedcert.show.sentences import about_the_vote, at_radius, default_radius
from fedcert.show.terminal import Fitting, curve_table, error_table

_SHOWN_RADII = 6
"""Of both kinds side by side, where the terminal is wide enough: every fourth of the demo's radii."""
_FILES = (
    ("request.json", "what the coordinator asked of the clients"),
    ("model.safetensors", "the federated model's weights"),
    ("data/", "each client's test examples, which never leave it"),
    ("reports/", "what each client sent: counts, nothing else"),
    ("reports-with-class-counts/", "the same with certify --class-counts"),
    ("estimate-*.json", "what the server made of them, by method"),
    ("truth.json", "the target's own certificates, which nobody has in practice"),
    ("population/", "the round with population certificates: request, reports, estimate, truth"),
    ("curve.png", "the picture"),
    ("page.html", "the page: open it in a browser"),
)


def demo(
    out: Annotated[Path, Option(help="Folder to write to.")] = Path("demo"),
    seed: Annotated[int, Option(min=0, max=2**63 - 1, help="Of everything random.")] = 0,
) -> None:
    """Show the whole story on handwritten digits: train, certify, estimate, compare with the truth."""
    from fedcert.lab.demo import (
        BEST,
        CLIENTS,
        CONCENTRATION,
        DISCLOSED,
        ROUNDS,
        SIGMA,
        TARGET_SIZE,
        check_folder,
        run_demo,
    )

    check_folder(out)
    console = results()
    console.print(
        f"{CLIENTS} clients hold handwritten digits (Dirichlet {CONCENTRATION}) and train a network by FedAvg\n"
        f"in {ROUNDS} rounds with noise of sigma {SIGMA}. Each certifies it on its own test data and sends counts.\n"
        "The server estimates the certified accuracy of a population with another class mix;\n"
        f"{TARGET_SIZE} held-out digits of that mix tell the truth.\n"
    )
    with progress() as bar:
        tasks: dict[str, Any] = {}

        def show_stage(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total, rate="")
            bar.update(tasks[stage], completed=done)

        run = run_demo(out, seed, show_stage)
    examples = sum(report.examples for report in run.reports)
    best, disclosed = (
        next(estimate for estimate in run.estimates if estimate.method == method) for method in (BEST, DISCLOSED)
    )
    radius = default_radius(best)
    print_result(f"{at_radius(best, radius)} The truth is {100 * run.truth.certified_accuracy[radius]:.1f}.")
    print_result(_gain(best, disclosed, radius))
    console.print(
        f"\n{len(run.reports)} reports over {examples} test examples, {run.truth.examples} examples tell the truth.\n"
        "VW, AP and GA are the paper's methods, BLUP and post-stratification (from counts per class) are fedcert's;\n"
        "RMSE and MAPE say how far each is from the truth:"
    )
    console.print(curve_table(run.estimates, run.truth.certified_accuracy))
    console.print(error_table(run.errors, run.estimates))
    console.print(
        "Both kinds of certificates, from the same clients and the same model, counts per class disclosed:",
        markup=False,
    )
    console.print(_both_kinds(run))
    print_result(_saving(run))
    console.print(f"\nFiles in {run.folder}:", markup=False)
    for name, words in _FILES:
        console.print(f"  {name:<26} {words}", markup=False)
    where, program = shlex.quote(str(run.folder)), shlex.quote(_program())
    console.print("\nTry next:")
    model = f"fedcert.lab.networks:digits_network {where}/data/client-03.npz --weights {where}/model.safetensors"
    for arguments in (
        f"validate {where}/reports",
        f"estimate {where}/reports --target uniform --method ga",
        f"estimate {where}/population/reports --target uniform --votes 31 --radii 0,0.3",
        f"certify {model} --request {where}/request.json --client client-03 --seed {seed} --dry-run",
    ):
        print_result(f"  {program} {arguments}", soft_wrap=True)


def _gain(curves: Estimate, disclosed: Estimate, radius: int) -> str:
    """What counts per class do for the interval, in a sentence."""
    assert curves.lower and curves.upper and disclosed.lower and disclosed.upper  # noqa: S101, PT018
    ends = disclosed.lower[radius], disclosed.upper[radius]
    ratio = (curves.upper[radius] - curves.lower[radius]) / (ends[1] - ends[0])
    return (
        "That is from the sites' curves alone. With counts per class (fedcert certify --class-counts) it is "
        f"between {100 * ends[0]:.1f} and {100 * ends[1]:.1f}: {ratio:.1f} times as short."
    )


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


def _saving(run: Any) -> str:
    """What population certificates save, and what they are about."""
    times = run.certify_round.passes / run.vote_round.passes
    return (
        f"The vote takes {times:.0f} times fewer passes. {about_the_vote(run.vote_round.estimate.votes)} "
        "CERTIFY is about each example by itself."
    )


def _program() -> str:
    """How to call the program from here: by its name if it is on the path, else by its path."""
    return "fedcert" if shutil.which("fedcert") else os.path.relpath(sys.argv[0])
