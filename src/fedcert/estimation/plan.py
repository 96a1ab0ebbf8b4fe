"""What an estimate could reach, from label histograms alone, before anyone certifies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Floats
from fedcert._threads import single_blas_thread
from fedcert.errors import EstimationProblem
from fedcert.estimation.intervals.half_lengths import hoeffding_deviations
from fedcert.estimation.methods.minimax_solver import shortest

_LARGEST_GROWTH, _SMALLEST_GROWTH = 1e6, 1e-6
"""Factors of the clients' sizes that are considered: from one example to more than any client will have."""
_BISECTIONS, _CLOSE_ENOUGH = 40, 1.001
"""Halvings at most, and the ratio of the ends at which they stop: three digits of a plan are plenty."""
_GROWTH = 0.01
"""The growth whose effect is reported."""


@dataclass(frozen=True)
class PrecisionPlan:
    """What to expect of the finite-sample interval, at any accuracy.

    Attributes:
        half_length: without counts per class, with the minimax weights.
        class_half_length: with counts per class from all clients (post-stratified), missing classes included.
        clients: client -> how much of the half-length 1% more examples of its mix would take off.
        classes: class -> the same for 1% more examples of that class, with counts per class.
        missing: classes of the target that no client holds, and their share.
        examples: how many there are.
        needed: how many examples of the same mixes would reach the wanted half-length without counts per class; None
            where none was wanted, infinity where no number would.
        class_needed: the same with counts per class.
    """

    half_length: float
    class_half_length: float
    clients: Mapping[str, float]
    classes: Mapping[str, float]
    missing: Mapping[str, float]
    examples: int
    needed: float | None
    class_needed: float | None


@single_blas_thread()
def plan_precision(
    histograms: Mapping[str, Mapping[str, int]],
    target: Floats,
    classes: tuple[str, ...],
    confidence: float,
    wanted: float | None,
) -> PrecisionPlan:
    """Plan from each client's number of test examples per class.

    Args:
        histograms: client -> class -> test examples.
        target: the target's class distribution, in the order of `classes`.
        classes: class names.
        confidence: of the interval, at each radius.
        wanted: a half-length to reach.

    Raises:
        EstimationProblem: no client has any example.
    """
    counts = np.array([[row.get(name, 0) for name in classes] for row in histograms.values()], dtype=np.float64)
    held = counts.sum(axis=1) > 0
    if not held.any():
        raise EstimationProblem("no client has any test example, so there is nothing to plan with")
    names = [name for name, has in zip(histograms, held, strict=True) if has]
    labels, sizes = counts[held], counts[held].sum(axis=1)
    mixes, totals = labels / sizes[:, None], labels.sum(axis=0)
    z = hoeffding_deviations(confidence)
    matrix = labels.T @ mixes
    best = shortest(matrix, target, z)
    weights = sizes * (mixes @ best.coefficients)
    chance = float(np.sqrt(np.sum(weights**2 / sizes)))
    # By the envelope theorem the weights may stay as they are while a client grows a little.
    gains = _GROWTH * z * weights**2 / sizes / (2 * chance)
    some = totals > 0
    squares = np.where(some, target**2 / np.where(some, totals, 1.0), 0.0)
    share = float(target[~some].sum())
    class_chance = float(np.sqrt(squares.sum()))
    class_gains = _GROWTH * z * squares / (2 * class_chance) if class_chance > 0 else squares
    return PrecisionPlan(
        half_length=best.half_length,
        class_half_length=share / 2 + z * class_chance,
        clients=dict(zip(names, gains.tolist(), strict=True)),
        classes=dict(zip(classes, class_gains.tolist(), strict=True)),
        missing={
            name: float(part) for name, part, has in zip(classes, target, some, strict=True) if part > 0 and not has
        },
        examples=int(sizes.sum()),
        needed=None if wanted is None else sizes.sum() * _growth(matrix, target, z, wanted),
        class_needed=None if wanted is None else sizes.sum() * _class_growth(share / 2, z * class_chance, wanted),
    )


def _class_growth(ignorance: float, chance: float, wanted: float) -> float:
    return (chance / (wanted - ignorance)) ** 2 if wanted > ignorance else float("inf")


def _growth(matrix: Floats, target: Floats, z: float, wanted: float) -> float:
    """By which factor all clients must grow; the half-length falls with it, which bisection inverts."""
    low, high = _SMALLEST_GROWTH, _LARGEST_GROWTH
    if shortest(matrix * high, target, z).half_length > wanted:
        return float("inf")
    for _ in range(_BISECTIONS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if shortest(matrix * middle, target, z).half_length <= wanted else (middle, high)
        if high / low < _CLOSE_ENOUGH:
            break
    return high
