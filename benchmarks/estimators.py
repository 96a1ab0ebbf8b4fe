"""RMSE of every estimator relative to GA's, over partitions, targets and numbers of classes, in one run.

    python benchmarks/estimators.py [--seeds 50] [--out benchmarks/results/estimators.json]

N = 100 clients share 10,000 test examples; the truth is the certified accuracy of a finite set S of 10,000. Figures
are geometric means of RMSE relative to GA within a partition family and target kind.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.settings import Settings
from machine import describe_machine

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from factories import FAMILIES, TARGET_EXAMPLES, federation, ordinary, shifted

METHODS = ("vw", "ap", "ga", "minimax", "blup", "poststratified")
TARGETS = {"uniform": (None,), "shifted": (0.2, 0.4, 0.6)}


def errors(partition: object, classes: int, distance: float | None, seed: int) -> dict[str, float]:
    """The squared error of each method, averaged over the radii, in one made-up federation."""
    generator = np.random.default_rng([seed, classes, int((distance or 0) * 10)])
    world = ordinary(classes, generator)
    labels = partition(classes, generator)  # type: ignore[operator]
    cells = world.draw(labels, generator)
    pool = labels.sum(axis=0) / labels.sum()
    target = np.full(classes, 1 / classes) if distance is None else shifted(pool, distance, generator)
    size = generator.multinomial(TARGET_EXAMPLES, target)
    truth = world.draw(size, generator).sum(axis=0) / TARGET_EXAMPLES
    mix = size / size.sum()
    closed, opened = federation(labels, cells, False), federation(labels, cells, True)
    found = {}
    for name in METHODS:
        made = estimator(name)(opened if name == "poststratified" else closed, mix, Settings(seed=seed))
        found[name] = float(np.mean((np.clip(made.certified_accuracy, 0, 1) - truth) ** 2))
    return found


def main() -> None:
    """Run all settings and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for classes in (10, 100):
        for family, partitions in FAMILIES.items():
            for kind, distances in TARGETS.items():
                ratios: dict[str, list[float]] = {name: [] for name in METHODS}
                for parameter, partition in partitions.items():
                    for distance in distances:
                        runs = [errors(partition, classes, distance, seed) for seed in range(options.seeds)]
                        rmse = {name: float(np.sqrt(np.mean([run[name] for run in runs]))) for name in METHODS}
                        for name in METHODS:
                            ratios[name].append(rmse[name] / rmse["ga"])
                        setting = {"classes": classes, "family": family, "parameter": parameter, "distance": distance}
                        rows.append({**setting, "rmse": rmse})
                means = {name: float(np.exp(np.mean(np.log(ratios[name])))) for name in METHODS}
                worst = {name: max(ratios[name]) for name in METHODS}
                print(
                    f"M={classes:<4}{family:<14}{kind:<9}"
                    + "".join(f" {name} {means[name]:.2f} (≤{worst[name]:.2f})" for name in METHODS if name != "ga"),
                    flush=True,
                )
    if options.out is not None:
        result = {"machine": describe_machine("numpy", "scipy"), "seeds": options.seeds, "rows": rows}
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
