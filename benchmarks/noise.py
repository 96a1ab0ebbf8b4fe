"""What differential privacy costs: RMSE and half-widths of post-stratified estimates from noisy sums, beside GA
without any privacy, in one run.

    python benchmarks/noise.py [--seeds 40] [--epsilon 0.5 1 4] [--out benchmarks/results/noise.json]

N = 100 clients share 10,000 test examples (Dirichlet 0.3); the truth is the certified accuracy of a finite set S of
10,000. "together": 100 sites with a threshold of 67 each add a share, sized for the 34 that are surely honest. "each
site": all noise at each of 100 sites. delta is 1e-6, the unit an example, the adjacency add-remove.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from fedcert.errors import EstimationProblem
from fedcert.estimation.clients.aggregated import AggregatedClients
from fedcert.estimation.intervals.statement import make_interval
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.settings import Settings
from fedcert.privacy.dp.accounting import NoiseShares, Share, noise_shares
from fedcert.privacy.dp.mechanism import with_noise
from fedcert.report import DEFAULT_RADII, Smoothing, Sums
from fedcert.report.privacy import SIZE_RELEASES, AddedNoise, PrivacyBudget
from fedcert.report.sums.algebra import noisy_sums
from fedcert.secagg.threshold import max_colluders
from machine import describe_machine

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from factories import CLIENTS, TARGET_EXAMPLES, dirichlet, federation, ordinary, shifted

THRESHOLD = 2 * CLIENTS // 3 + 1


def noisy(cells: np.ndarray, shares: NoiseShares, budget: PrivacyBudget) -> AggregatedClients:
    """Noisy sums of class x radius cells: all sites' shares drawn at once, as one discrete Gaussian."""
    classes = tuple(f"class {index}" for index in range(len(cells)))
    like = Sums(
        model="simulated", smoothing=Smoothing(sigma=0.5), radii=DEFAULT_RADII, classes=classes, contributors=CLIENTS,
        label_counts=(0,) * len(classes), certified_counts=(0,) * len(DEFAULT_RADII),
    )  # fmt: skip
    in_cells, in_sizes = (
        Share(CLIENTS * share.variance, share.scale, share.rho) for share in (shares.cells, shares.sizes)
    )
    sizes = np.tile(cells.sum(axis=1), (SIZE_RELEASES, 1))
    noise = AddedNoise(
        budget=budget, rho=shares.rho, variance=in_cells.of_examples, sizes_variance=in_sizes.of_examples,
        scale=in_cells.scale, cells=with_noise(cells, in_cells).tolist(), sizes=with_noise(sizes, in_sizes).tolist(),
    )  # fmt: skip
    return AggregatedClients(noisy_sums(like, noise, CLIENTS, "noise"))


def errors(classes: int, distance: float | None, seed: int, epsilons: list[float]) -> dict[str, tuple[float, float]]:
    """Mean squared error and half-width of each way, in one made-up federation."""
    generator = np.random.default_rng([seed, classes, int((distance or 0) * 10)])
    world, labels = ordinary(classes, generator), dirichlet(0.3)(classes, generator)
    rows = world.draw(labels, generator)
    pool = labels.sum(axis=0) / labels.sum()
    target = np.full(classes, 1 / classes) if distance is None else shifted(pool, distance, generator)
    size = generator.multinomial(TARGET_EXAMPLES, target)
    truth, mix = world.draw(size, generator).sum(axis=0) / TARGET_EXAMPLES, size / size.sum()
    total, certified = labels.sum(axis=0), rows.sum(axis=0)
    cells = np.column_stack([total - certified[:, 0], -np.diff(certified, axis=1), certified[:, -1]])
    ways: dict[str, tuple[str, Any]] = {
        "GA, no privacy": ("ga", federation(labels, rows, False)),
        "post-stratified, no noise": ("poststratified", federation(labels, rows, True)),
    }
    for epsilon in epsilons:
        for words, sites in (("together", THRESHOLD - max_colluders(THRESHOLD, CLIENTS)), ("each site", 1)):
            budget = PrivacyBudget(epsilon=epsilon)
            shares, way = noise_shares(budget, sites, *cells.shape), f"epsilon {epsilon:g}, {words}"
            try:
                ways[way] = ("poststratified", noisy(cells, shares, budget))
            except EstimationProblem:  # more noise than counts: anything is possible
                ways[way] = ("", None)
    found, settings = {}, Settings(seed=seed)
    for name, (method, known) in ways.items():
        if known is None:
            found[name] = (float(np.mean((0.5 - truth) ** 2)), 0.5)
            continue
        made = estimator(method)(known, mix, settings)
        assert made.uncertainty is not None  # noqa: S101
        bounds = make_interval(made.uncertainty, mix, known, settings)
        error = np.clip(made.certified_accuracy, 0, 1) - truth
        found[name] = (float(np.mean(error**2)), float(np.mean(bounds.upper - bounds.lower) / 2))
    return found


def main() -> None:
    """Run all settings and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 4.0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for classes in (10, 100):
        for distance in (None, 0.4):
            runs = [errors(classes, distance, seed, options.epsilon) for seed in range(options.seeds)]
            for name in runs[0]:
                row = {
                    "classes": classes, "distance": distance, "way": name,
                    "rmse": float(np.sqrt(np.mean([run[name][0] for run in runs]))),
                    "half_width": float(np.mean([run[name][1] for run in runs])),
                }  # fmt: skip
                rows.append(row)
                figures = f"RMSE {row['rmse']:.4f}  ± {row['half_width']:.3f}"
                print(f"M={classes:<4} distance {distance}: {name:<26} {figures}", flush=True)
    if options.out is not None:
        result = {"machine": describe_machine("numpy", "opendp"), "seeds": options.seeds, "rows": rows}
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
