"""Sums with noise for privacy, drawn again and again."""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace

import numpy as np

from fedcert import Sums
from fedcert.estimation.clients.aggregated import AggregatedClients
from fedcert.estimation.clients.noisy_totals import NoisyTotals
from fedcert.estimation.intervals.noisy_sums import noisy_interval
from fedcert.report.privacy import AddedNoise, PrivacyBudget
from fedcert.report.sums.algebra import noisy_sums

CELLS, SIZES = 0.7, 0.15  # the parts of the budget


@lru_cache(maxsize=16)
def discrete_gaussian(variance: float) -> tuple[np.ndarray, np.ndarray]:
    values = np.arange(-int(9 * variance**0.5) - 2, int(9 * variance**0.5) + 3)
    weights = np.exp(-(values**2) / (2 * variance))
    return values, np.cumsum(weights / weights.sum())


def noise(generator: np.random.Generator, variance: float, shape: tuple[int, ...]) -> np.ndarray:
    values, below = discrete_gaussian(variance)
    return values[np.searchsorted(below, generator.random(shape)).clip(max=len(values) - 1)]


def released(cells: np.ndarray, variance: float, generator: np.random.Generator) -> AddedNoise:
    """What is released of cells: the variance is that of cells to which the whole budget went."""
    of_cells, of_sizes = variance / CELLS, variance / SIZES
    sizes = np.tile(cells.sum(axis=1), (2, 1))
    return AddedNoise(
        budget=PrivacyBudget(epsilon=1.0), rho=0.1, variance=of_cells, sizes_variance=of_sizes,
        cells=(cells + noise(generator, of_cells, cells.shape)).tolist(),
        sizes=(sizes + noise(generator, of_sizes, sizes.shape)).tolist(),
    )  # fmt: skip


def cells_of_counts(labels: np.ndarray, certified: np.ndarray) -> np.ndarray:
    return np.column_stack([labels - certified[:, 0], -np.diff(certified, axis=1), certified[:, -1]])


def clients_of_noise(private: AddedNoise) -> AggregatedClients:
    classes, radii = len(private.cells), len(private.cells[0]) - 1
    like = Sums(
        model="m", smoothing={"sigma": 0.5}, radii=tuple(range(radii)), contributors=100,  # type: ignore[arg-type]
        classes=tuple(f"class {index}" for index in range(classes)), label_counts=(0,) * classes,
        certified_counts=(0,) * radii, noise="noise", private=private,
    )  # fmt: skip
    return AggregatedClients(noisy_sums(like, private, 100, "noise"))


def cells_at(labels: np.ndarray, certified: np.ndarray, radii: int) -> np.ndarray:
    """Cells of examples that are certified to all radii or to none."""
    return cells_of_counts(labels, np.tile(certified[:, None], (1, radii)))


def covered_among_held(classes: int, accuracy: float, runs: int, seed: int = 0) -> int:
    """How often noisy sums of classes at the threshold are covered, for a target of the classes that are held.

    Classes have 45 examples, of which chance drops a third. Which are held is up to the sizes that choose, of which the
    target may be a function. Of seven radii the first and the last count: there all noise but that of one cell is in
    what is certified, or in what is not. The smaller number of both is given.
    """
    generator = np.random.default_rng([classes, int(100 * accuracy), seed])
    labels, of_cells, of_sizes, counts = np.full(classes, 45), 16 / CELLS, 16 / SIZES, np.zeros(2, dtype=np.int64)
    for _ in range(runs):
        cells = cells_at(labels, generator.binomial(labels, accuracy), 7)
        noisy = SimpleNamespace(  # unchecked, which is several times as fast
            scale=1, variance=of_cells, sizes_variance=of_sizes, cells=cells + noise(generator, of_cells, cells.shape),
            sizes=labels + noise(generator, of_sizes, (2, classes)),
        )  # fmt: skip
        totals = NoisyTotals.of(noisy)  # type: ignore[arg-type]
        held = totals.sizes > 0
        first_and_last = totals.among(held, slice(0, None, 6))
        target = np.full(held.sum(), 1 / held.sum())
        lower, upper = noisy_interval(first_and_last, target, 0.95, False, None, np.ones(2))
        counts += (lower <= accuracy) & (accuracy <= upper)
    return int(counts.min())
