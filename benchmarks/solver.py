"""AP and GA against the loops that people would write with CVXPY: the same answers, timed in one run.

    python benchmarks/solver.py [--repeats 5] [--out benchmarks/results/solver.json]

The setting is the paper's: T = 1000 subsets of E = 10 of N = 100 clients, with M = 10 and 100 classes. Each side
draws nothing itself: all get the same subsets, group them the same way, and must find the same mismatch.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import cvxpy as cp
import numpy as np

from fedcert.estimation.methods.paper.subsets import best_subset, draw_subsets, group_clients
from machine import describe_machine

CLIENTS, SUBSETS, SIZE, THRESHOLD = 100, 1000, 10, 50


def federation(classes: int) -> np.ndarray:
    """Label counts of 100 clients: CIFAR-like volumes, Dirichlet 0.1 mixes."""
    generator = np.random.default_rng(classes)
    sizes = generator.lognormal(4.2, 0.8, size=CLIENTS).astype(int) + 1
    mixes = generator.dirichlet(np.full(classes, 0.1), size=CLIENTS)
    return np.stack([generator.multinomial(n, p) for n, p in zip(sizes, mixes, strict=True)])


def grouped_mixes(counts: np.ndarray, subset: np.ndarray, threshold: int | None) -> np.ndarray:
    """The class mixes of a subset's groups, as Algorithm 1 makes them."""
    sizes = counts[subset].sum(axis=1).tolist()
    groups = [(index,) for index in range(len(subset))] if threshold is None else group_clients(sizes, threshold)
    totals = np.array([counts[subset[list(group)]].sum(axis=0) for group in groups], dtype=float)
    return totals / totals.sum(axis=1, keepdims=True)


def cvxpy_built(counts: np.ndarray, target: np.ndarray, subsets: np.ndarray, threshold: int | None) -> float:
    """The loop that builds a CVXPY problem for every subset."""
    best = np.inf
    for subset in subsets:
        mixes = grouped_mixes(counts, subset, threshold)
        weights = cp.Variable(len(mixes), nonneg=True)
        problem = cp.Problem(cp.Minimize(cp.norm(target - mixes.T @ weights)), [cp.sum(weights) == 1])
        best = min(best, problem.solve(solver=cp.CLARABEL))
    return float(best)


def cvxpy_parameters(counts: np.ndarray, target: np.ndarray, subsets: np.ndarray, threshold: int | None) -> float:
    """The loop that sets the parameters of one CVXPY problem; shorter subsets repeat their last group."""
    mixes = cp.Parameter((SIZE, counts.shape[1]))
    weights = cp.Variable(SIZE, nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.norm(target - mixes.T @ weights)), [cp.sum(weights) == 1])
    best = np.inf
    for subset in subsets:
        found = grouped_mixes(counts, subset, threshold)
        mixes.value = np.concatenate([found, np.repeat(found[-1:], SIZE - len(found), axis=0)])
        best = min(best, problem.solve(solver=cp.CLARABEL))
    return float(best)


def fedcert(counts: np.ndarray, target: np.ndarray, subsets: np.ndarray, threshold: int | None) -> float:
    """fedcert's search."""
    return best_subset(counts, target, subsets, threshold).mismatch


def timed(side: Callable[..., float], *arguments: object, repeats: int) -> tuple[float, float]:
    """The answer, and the median time in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        answer = side(*arguments)
        times.append(time.perf_counter() - start)
    return answer, float(np.median(times))


def main() -> None:
    """Run all sides and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9, help="of fedcert's side; the CVXPY loops run once")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    print(
        f"{'method':<7}{'M':>5}{'fedcert':>12}{'parameters':>13}{'built':>10}{'times':>8}{'times':>8}"
        "  largest difference"
    )
    for classes in (10, 100):
        counts, target = federation(classes), np.full(classes, 1 / classes)
        subsets = draw_subsets(CLIENTS, SIZE, SUBSETS, np.random.default_rng(0))
        for method, threshold in (("AP", None), ("GA", THRESHOLD)):
            task = (counts, target, subsets, threshold)
            fedcert(*task)
            answers = {
                "fedcert": timed(fedcert, *task, repeats=options.repeats),
                "parameters": timed(cvxpy_parameters, *task, repeats=1),
                "built": timed(cvxpy_built, *task, repeats=1),
            }
            own = answers["fedcert"][1]
            difference = max(abs(answer - answers["fedcert"][0]) for answer, _ in answers.values())
            rows.append(
                {
                    "method": method,
                    "classes": classes,
                    "seconds": {name: seconds for name, (_, seconds) in answers.items()},
                    "mismatch": {name: answer for name, (answer, _) in answers.items()},
                    "times_faster": {name: answers[name][1] / own for name in ("parameters", "built")},
                }
            )
            print(
                f"{method:<7}{classes:>5}{own * 1000:>9.1f} ms"
                f"{answers['parameters'][1]:>11.2f} s{answers['built'][1]:>8.2f} s"
                f"{answers['parameters'][1] / own:>8.0f}{answers['built'][1] / own:>8.0f}  {difference:.1e}"
            )
    if options.out is not None:
        settings = {"clients": CLIENTS, "subsets": SUBSETS, "subset_size": SIZE, "threshold": THRESHOLD}
        result = {
            "machine": describe_machine("numpy", "scipy", "cvxpy", "clarabel"),
            "settings": settings,
            "rows": rows,
        }
        options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
