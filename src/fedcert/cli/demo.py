"""fedcert demo."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from fedcert.cli.console import print_result, progress, results
from fedcert.estimation.result import Estimate
from fedcert.show.sentences import at_radius, default_radius
from fedcert.show.terminal import curve_table, error_table

_FILES = (
    ("request.json", "what the coordinator asked of the clients"),
    ("model.safetensors", "the federated model's weights"),
    ("data/", "each client's test examples, which never leave it"),
    ("reports/", "what each client sent: counts, nothing else"),
    ("reports-with-class-counts/", "the same with certify --class-counts"),
    ("estimate-*.json", "what the server made of them, by method"),
    ("truth.json", "the target's own certificates, which nobody has in practice"),
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
    console.print(f"Files in {run.folder}:", markup=False)
    for name, words in _FILES:
        console.print(f"  {name:<26} {words}", markup=False)
    where, program = shlex.quote(str(run.folder)), shlex.quote(_program())
    console.print("\nTry next:")
    model = f"fedcert.lab.networks:digits_network {where}/data/client-03.npz --weights {where}/model.safetensors"
    for arguments in (
        f"validate {where}/reports",
        f"estimate {where}/reports --target uniform --method ga",
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


def _program() -> str:
    """How to call the program from here: by its name if it is on the path, else by its path."""
    return "fedcert" if shutil.which("fedcert") else os.path.relpath(sys.argv[0])
