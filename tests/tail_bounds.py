"""The tail bound of a weighted sum of certified examples: by the formula, and as it is computed for one tilt."""

from __future__ import annotations

import numpy as np

from fedcert.estimation.intervals.least_favourable.bracket import BERRY_ESSEEN, tail_factor
from fedcert.estimation.intervals.least_favourable.cells import Cells
from fedcert.estimation.intervals.least_favourable.tilted import MOST_SMOOTH, TiltedBound, tilted_bounds


def tilted_bound(cells: Cells, tilt: float, with_bracket: bool = True) -> TiltedBound:
    """The bound for one tilt."""
    return next(tilted_bounds(cells, np.array([tilt]), with_bracket))


def entries(cells: Cells) -> list[tuple[float, int, float, bool]]:
    """Weight, class, examples, and whether smooth, of every cell that is not empty."""
    rows = []
    if cells.clients is not None:
        smooth = len(cells.clients.low) == len(cells.clients.weights)
        for weight, counts in zip(cells.clients.weights, cells.clients.examples, strict=True):
            rows += [(float(weight), label, float(count), smooth) for label, count in enumerate(counts) if count]
    if cells.classes is not None:
        for weights, counts, smooth in zip(
            cells.classes.weights, cells.classes.examples, cells.classes.smooth, strict=True
        ):
            rows += [(float(weights[label]), label, float(n), bool(smooth)) for label, n in enumerate(counts) if n]
    return rows


def exact(cells: Cells, tilt: float, accuracy: np.ndarray) -> float:
    """K + log(min(1, H + 2·C·B)) at these accuracies, B with the tilted third moments' bounds."""
    cumulant = variance = largest = cubes = 0.0
    for weight, label, examples, smooth in entries(cells):
        z, chance = tilt * weight, accuracy[label]
        cumulant += examples * float(np.log1p(chance * np.expm1(z)))
        if smooth and abs(z) <= MOST_SMOOTH:
            tilted = chance * np.exp(z) / (1 + chance * np.expm1(z))
            variance += examples * z**2 * tilted * (1 - tilted)
            largest, cubes = max(largest, abs(z)), cubes + examples * abs(z) ** 3 / 8
    if variance <= 0:
        return cumulant
    lyapunov = min(largest / np.sqrt(variance), cubes / variance**1.5)
    factor = float(tail_factor(np.array([np.sqrt(variance)]))[0]) + 2 * BERRY_ESSEEN * lyapunov
    return cumulant + min(0.0, float(np.log(factor)))
