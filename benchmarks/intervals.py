"""Coverage and mean width of every method's interval, beside the interval that people would put around GA.

    python benchmarks/intervals.py [--runs 200] [--out benchmarks/results/intervals.json]

The naive interval of GA is estimate ± 1.96 sqrt(c (1 - c) Σ a²/n): chance alone, as if the weights reached the target's
class mix and each example were one of its population. Nominal 95%, at each radius; figures at radius 0.2.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from fedcert.estimation.intervals.statement import make_interval
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.settings import Settings
from machine import describe_machine

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from factories import dirichlet, federation, limited, ordinary, pareto

METHODS = ("vw", "ap", "ga", "minimax", "blup", "poststratified")
INTERVALS = ("finite-sample", "asymptotic")
SETTINGS = {
    "M = 10, Dirichlet 0.1": (10, dirichlet(0.1)),
    "M = 10, Dirichlet 1": (10, dirichlet(1.0)),
    "M = 10, Pareto 3": (10, pareto(3.0)),
    "M = 10, class-limited": (10, limited(0.2)),
    "M = 100, Dirichlet 0.3": (100, dirichlet(0.3)),
    "M = 100, class-limited": (100, limited(0.2)),
}
RADIUS = 4


def measure(classes: int, partition: object, runs: int) -> dict[str, dict[str, float]]:
    """Method and interval -> coverage and mean width; each run has labels, accuracies and a target of its own."""
    found: dict[str, list[tuple[bool, float]]] = {}
    for run in range(runs):
        generator = np.random.default_rng(run)
        labels = partition(classes, generator)  # type: ignore[operator]
        world = ordinary(classes, generator)
        cells = world.draw(labels, generator)
        target = generator.dirichlet(np.full(classes, 0.7))
        truth = float(target @ world.accuracy[:, RADIUS])
        for method in METHODS:
            made = federation(labels, cells, method == "poststratified")
            for interval in INTERVALS:
                settings = Settings(interval=interval, seed=run)
                answer = estimator(method)(made, target, settings)
                bounds = make_interval(answer.uncertainty, target, made, settings)  # type: ignore[arg-type]
                ends = float(bounds.lower[RADIUS]), float(bounds.upper[RADIUS])
                found.setdefault(f"{method}, {interval}", []).append((ends[0] <= truth <= ends[1], ends[1] - ends[0]))
                if method == "ga" and interval == "asymptotic":
                    point = float(answer.certified_accuracy[RADIUS])
                    squares = float(np.sum(np.asarray(answer.weights) ** 2 / made.sizes))
                    half = 1.96 * np.sqrt(point * (1 - point) * squares)
                    found.setdefault("ga, naive", []).append((abs(point - truth) <= half, 2 * half))
    return {
        name: dict(zip(("coverage", "width"), np.mean(rows, axis=0).tolist(), strict=True))
        for name, rows in found.items()
    }


def main() -> None:
    """Measure all settings and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = {}
    for name, (classes, partition) in SETTINGS.items():
        rows[name] = measure(classes, partition, options.runs)
        print(name, flush=True)
        for key, figures in rows[name].items():
            print(f"  {key:<30} coverage {figures['coverage']:.3f}  width {figures['width']:.3f}", flush=True)
    if options.out is not None:
        result = {"machine": describe_machine("numpy", "scipy"), "runs": options.runs, "settings": rows}
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
