"""The README's commands with default options, as ratios to another commit: certify, estimate, what-if, page, import.

    python benchmarks/defaults.py [--before COMMIT] [--out benchmarks/results/defaults-cpu.json]

Both commits run in turn, in processes of their own and on the same files, and the medians are compared. A ratio above 1
is slower than before. Run it on an otherwise idle machine before a change is called done.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from machine import describe_machine

ROOT = Path(__file__).parents[1]
ROUNDS = 7
"""Odd, for a median; with 7 the noise of two cores is some per cent."""
CLIENTS, EXAMPLES, CLASSES = 12, 400, ("healthy", "ill", "unclear")

MODEL = """
import numpy as np
CENTRES = np.random.default_rng(0).random((3, 64)).astype(np.float32)
def predict(batch):
    return -((batch.reshape(len(batch), 64)[:, None] - CENTRES) ** 2).sum(axis=2)
def model():
    return predict
"""


def commands() -> dict[str, list[str]]:
    """Name -> arguments of Python: what a newcomer runs."""
    cli = ["-m", "fedcert"]
    mixes = [part for weight in range(1, 21) for part in ("--target", f"healthy={weight},ill=1,unclear=1")]
    return {
        "import fedcert": ["-c", "import fedcert; fedcert.estimate; fedcert.Report"],
        "fedcert --help": [*cli, "--help"],
        "certify": [
            *cli, "certify", "bench_model:model", "data.npz", "--sigma", "0.25", "--client", "site-00", "--model-id",
            "centres", "--out", "certified.json",
        ],
        "certify, fixed": [
            *cli, "certify", "bench_model:model", "data.npz", "--sigma", "0.25", "--client", "site-00", "--model-id",
            "centres", "--procedure", "fixed", "--out", "fixed.json",
        ],
        "estimate": [*cli, "estimate", "reports", "--target", "healthy=0.9,ill=0.05,unclear=0.05"],
        "estimate, with a page": [*cli, "estimate", "reports", "--page", "estimate.html"],
        "what-if, 20 mixes": [*cli, "what-if", "reports", *mixes],
        "page": [*cli, "page", "reports", "--out", "page.html"],
        "page, counts per class": [*cli, "page", "open", "--out", "open.html"],
    }  # fmt: skip


def prepare(folder: Path) -> None:
    """The files that the commands read; the reports are drawn, as certification of 12 sites would take minutes."""
    generator = np.random.default_rng(1)
    (folder / "bench_model.py").write_text(MODEL)
    x = generator.random((60, 64)).astype(np.float32)
    np.savez(folder / "data.npz", x=x, y=generator.integers(0, 3, 60))
    radii = [round(0.05 * step, 9) for step in range(21)]
    accuracy = np.array([0.95, 0.7, 0.5])[:, None] * np.exp(-2.5 * np.array(radii))
    for name in ("reports", "open"):
        (folder / name).mkdir()
    for client in range(CLIENTS):
        labels = generator.multinomial(EXAMPLES, generator.dirichlet([0.7] * len(CLASSES)))
        rows = [
            np.sum(generator.random((count, 1)) < accuracy[row], axis=0).tolist() for row, count in enumerate(labels)
        ]
        report = {
            "schema": "fedcert/report/1", "client": f"site-{client:02}", "model": "drawn", "smoothing": {"sigma": 0.5},
            "radii": radii, "classes": CLASSES, "label_counts": labels.tolist(),
            "certified_counts": np.sum(rows, axis=0).tolist(),
        }  # fmt: skip
        (folder / "reports" / f"{client}.json").write_text(json.dumps(report))
        (folder / "open" / f"{client}.json").write_text(json.dumps({**report, "class_certified_counts": rows}))


def seconds(arguments: list[str], source: Path, folder: Path) -> float:
    """One run, its output thrown away."""
    for journal in folder.glob("*.journal"):
        journal.unlink()
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env={**environment, "PYTHONPATH": str(source)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed on {source}: {done.stderr}")
    return time.perf_counter() - began


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", default="HEAD~1", help="the commit to compare with")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as place:
        folder, earlier = Path(place) / "work", Path(place) / "before"
        folder.mkdir()
        prepare(folder)
        archive = subprocess.run(["git", "archive", options.before, "src"], cwd=ROOT, capture_output=True, check=True)
        earlier.mkdir()
        subprocess.run(["tar", "x"], cwd=earlier, input=archive.stdout, check=True)
        for name, arguments in commands().items():
            times: dict[str, list[float]] = {"before": [], "now": []}
            for _ in range(ROUNDS):  # in turn, so that both meet the machine's slow minutes
                times["before"].append(seconds(arguments, earlier / "src", folder))
                times["now"].append(seconds(arguments, ROOT / "src", folder))
            before, now = (statistics.median(times[side]) for side in ("before", "now"))
            rows[name] = {
                "before_seconds": round(before, 3),
                "now_seconds": round(now, 3),
                "ratio": round(now / before, 3),
            }
            print(f"{name:<26} before {before:6.2f} s   now {now:6.2f} s   ratio {now / before:.2f}", flush=True)
    if options.out is not None:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", options.before], cwd=ROOT, capture_output=True, text=True, check=True
        )
        result = {
            "machine": describe_machine("numpy", "scipy", "typer"),
            "before": commit.stdout.strip(),
            "commands": rows,
        }
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
