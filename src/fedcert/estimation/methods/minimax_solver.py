"""Weights whose honest interval is shortest, chosen without looking at the accuracies.

For weights a that add up to 1 and d = p(S) - Pᵀa, the half-width is ½‖d‖₁ + z·sqrt(Σ a²/n): the first part is
what accuracies in [0, 1] can make of the mismatch, the second what chance can. The least one is a problem in as
many variables as classes. Its dual reads: how far can two sets of class accuracies be apart on the target, that is
p(S)·u with u their difference, if no class differs by more than 1 from any other, and the clients could hardly
distinguish them, Σ n (p·u)² <= z²? The best weights are a = κ n (p·u), with κ the multiplier of that constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.methods.minimax_path import path_direction

_GAP = 1e-10
"""Half-widths this close to their lower bound are the least: a tenth of what is guaranteed."""
_COST_OF_PROJECTION = 1e-6
"""What leaving out directions within rounding may cost of the path's half-width, before the barrier is tried too."""
_GROWTH = 20.0
"""Factor of the barrier's sharpness from round to round: between 10 and 50 the number of steps hardly changes."""
_MOST_ROUNDS = 14
"""Rounds of the barrier: the gap falls by 10¹⁸ in so many."""
_MOST_STEPS = 100
"""Newton steps of a round; a dozen are typical."""
_SMALL_DECREASE, _SUFFICIENT, _SETTLED = 0.05, 0.1, 1e-6
"""Newton decrements: full steps below the first; a step must bring a tenth of what is promised; centred below the
last (Boyd and Vandenberghe, section 9.6)."""
_SHORTEST_STEP = 1e-9
"""A line search that comes to this has met rounding."""
_REGULAR = 1e-14
"""Added to the scaled Hessian's unit diagonal, so that rounding does not make it singular."""
_CUTOFF = 1e-13
"""Relative to the largest: singular values below it are zero up to rounding."""

Curvature = Callable[[Floats], tuple[float, Floats, Floats]]
"""Half of Σ n (p·u)² as a function of u: its value, gradient and second derivative."""
Projection = Callable[[Floats], Floats] | None
"""Takes from coefficients what the clients have no part in, where only rounding lives."""


@dataclass(frozen=True)
class Direction:
    """The solution of the dual problem.

    Attributes:
        coefficients: β = κu; a client of n examples and mix p has weight n (p·β), or its positive part.
        half_width: the least ½‖d‖₁ + z·sqrt(Σ a²/n).
    """

    coefficients: Floats
    half_width: float


def shortest(labels_labels: Floats, target: Floats, deviations: float, projected: Projection = None) -> Direction:
    """The best weights of any sign, from A = Σ l lᵀ/n alone.

    Guarantee: no weights that add up to 1 have a smaller half-width, up to 1e-9.

    Args:
        labels_labels: A, classes x classes.
        target: the target's class distribution.
        deviations: z, for instance sqrt(log(2/q)/2) for Hoeffding's inequality at confidence 1 - q.
        projected: whatever is tried is tried as it leaves it.
    """
    direction = _by_path(labels_labels, target, deviations, projected)
    if direction is not None:
        return direction

    def curvature(u: Floats) -> tuple[float, Floats, Floats]:
        slope = labels_labels @ u
        return 0.5 * float(u @ slope), slope, labels_labels

    return _solve(curvature, float(labels_labels.sum()), target, deviations, projected)


def _by_path(labels_labels: Floats, target: Floats, deviations: float, projected: Projection) -> Direction | None:
    """The same by `minimax_path`, several times faster; None where its half-width is not shown to be the least."""
    direction = path_direction(labels_labels, target, deviations)
    if direction is None or not np.isfinite(direction).all():
        return None
    image = labels_labels @ direction
    total = float(image.sum())
    if not total > 0:
        return None
    # u = v/κ, brought within its limits, is feasible in the dual: p(S)·u is a lower bound of the half-width.
    kappa = float(np.sqrt(max(float(direction @ image), 0.0))) / deviations
    low = (direction.max() + direction.min() - kappa) / 2
    feasible = np.clip(direction, low, low + kappa)
    norm = float(np.sqrt(max(float(feasible @ labels_labels @ feasible), 0.0)))
    bound = float(target @ feasible) / max(kappa, norm / deviations)
    coefficients = direction / total
    if not _length(labels_labels, target, deviations, coefficients) - bound < _GAP:
        return None
    if projected is not None:
        coefficients = projected(coefficients)
    length = _length(labels_labels, target, deviations, coefficients)
    return Direction(coefficients, length) if length - bound < _COST_OF_PROJECTION else None


def _length(labels_labels: Floats, target: Floats, deviations: float, coefficients: Floats) -> float:
    reached = labels_labels @ coefficients
    chance = deviations * float(np.sqrt(max(float(coefficients @ reached), 0.0)))
    return 0.5 * float(np.abs(target - reached).sum()) + chance


def shortest_convex(mixes: Floats, examples: Floats, target: Floats, deviations: float) -> Direction:
    """The best non-negative weights: the same dual with (p·u)⁺ in place of p·u.

    Guarantee: no non-negative weights that add up to 1 have a smaller half-width, up to 1e-9.
    """

    def curvature(u: Floats) -> tuple[float, Floats, Floats]:
        part = np.maximum(mixes @ u, 0.0)
        active = mixes[part > 0]
        second = active.T @ (examples[part > 0, None] * active)
        return 0.5 * float(examples @ part**2), (examples * part) @ mixes, second

    return _solve(curvature, float(examples.sum()), target, deviations)


def _solve(
    curvature: Curvature, examples: float, target: Floats, deviations: float, projected: Projection = None
) -> Direction:
    """Maximise p(S)·u over curvature(u) <= z²/2 and low <= u <= low + 1.

    A barrier method comes close; which classes are at their limits then gives the solution in closed form.
    """
    classes = len(target)
    # A constant difference is inside: every client sees it, so it must stay below z/sqrt(n).
    start = min(0.25, 0.5 * deviations / np.sqrt(examples))
    point = np.append(np.full(classes, start), start - 0.5)
    sharpness = 2.0 * classes + 1
    best: Direction | None = None
    for _ in range(_MOST_ROUNDS):
        point = _centre(point, curvature, 0.5 * deviations**2, target, sharpness)
        gap = (2 * classes + 1) / sharpness
        for tried in _polished(point, gap, curvature, target, deviations):
            coefficients = tried if projected is None else projected(tried)
            value, reached, _ = curvature(coefficients)
            chance = deviations * float(np.sqrt(max(2 * value, 0.0)))
            length = 0.5 * float(np.abs(target - reached).sum()) + chance
            if best is None or length < best.half_width:
                best = Direction(coefficients, length)
        # target·u is a lower bound of the half-width once u is feasible: the difference is what is left to gain.
        if best is not None and best.half_width - float(target @ point[:-1]) < _GAP:
            break
        sharpness *= _GROWTH
    assert best is not None  # noqa: S101  the first round gives one
    return best


def _polished(point: Floats, gap: float, curvature: Curvature, target: Floats, deviations: float) -> Iterator[Floats]:
    """Coefficients β whose weights add up to 1: the barrier's own, and those that its active limits determine.

    With v = κu, classes inside their limits have no mismatch, (Av) = p(S) there; those at the upper limit have
    v = ℓ + κ, those at the lower one v = ℓ. That makes v = g + κh linear in κ, and vᵀAv = κ²z² gives κ.
    """
    u, low = point[:-1], point[-1]
    _, slope, second = curvature(u)
    yield u / slope.sum()
    for tolerance in (np.sqrt(gap), gap**0.75, 1e-2):
        upper, lower = u > low + 1 - tolerance, u < low + tolerance
        if np.any(upper & lower):
            continue
        free = ~(upper | lower)
        spread = np.column_stack([np.eye(len(u))[:, free], (~free).astype(float)])  # v = spread·(v_free, ℓ) + κ·upper
        rows = np.vstack([second[free], second.sum(axis=0)])
        right = np.column_stack([np.append(target[free], 1.0), -rows @ upper.astype(float)])
        solution = spread @ np.linalg.lstsq(rows @ spread, right, rcond=_CUTOFF)[0]
        constant, linear = solution[:, 0], solution[:, 1] + upper
        # (g + κh)ᵀA(g + κh) = κ²z²
        a = linear @ second @ linear - deviations**2
        b, c = 2 * constant @ second @ linear, constant @ second @ constant
        roots = np.roots([a, b, c]) if upper.any() or lower.any() else np.array([1.0])
        for root in roots[np.isreal(roots)].real:
            coefficients = constant + root * linear
            total = curvature(coefficients)[1].sum()
            if total > 0:
                yield coefficients / total


def _centre(point: Floats, curvature: Curvature, budget: float, target: Floats, sharpness: float) -> Floats:
    """Minimise the barrier -sharpness·p(S)·u - log(slacks) by damped Newton steps from a point inside."""
    for _ in range(_MOST_STEPS):
        u, low = point[:-1], point[-1]
        value, slope, second = curvature(u)
        room, above, below = budget - value, low + 1 - u, u - low
        gradient = np.append(-sharpness * target + slope / room + 1 / above - 1 / below, np.sum(1 / below - 1 / above))
        diagonal = 1 / above**2 + 1 / below**2
        hessian = np.empty((len(point), len(point)))
        hessian[:-1, :-1] = second / room + np.outer(slope, slope) / room**2 + np.diag(diagonal)
        hessian[:-1, -1] = hessian[-1, :-1] = -diagonal
        hessian[-1, -1] = diagonal.sum()
        scale = 1 / np.sqrt(np.diag(hessian))
        ridge = _REGULAR * np.eye(len(point))
        step = -scale * np.linalg.solve(hessian * np.outer(scale, scale) + ridge, scale * gradient)
        decrease = float(-gradient @ step)
        if not decrease > _SETTLED:
            break
        # Damped as suits a self-concordant function: a full step would jump close to the boundary and stay there.
        length = 1.0 if decrease < _SMALL_DECREASE else 1 / (1 + np.sqrt(decrease))
        slacks = _slacks(point, curvature, budget)
        while True:
            after = _slacks(point + length * step, curvature, budget)
            # The change of the barrier, term by term: its value is too large to keep the digits of a difference.
            if np.all(after > 0):
                change = -sharpness * length * float(target @ step[:-1]) - float(np.log(after / slacks).sum())
                if change < -_SUFFICIENT * length * decrease:
                    break
            length /= 2
            if length < _SHORTEST_STEP:
                return point
        point = point + length * step
    return point


def _slacks(point: Floats, curvature: Curvature, budget: float) -> Floats:
    """How far a point is from each constraint."""
    u, low = point[:-1], point[-1]
    return np.concatenate([[budget - curvature(u)[0]], low + 1 - u, u - low])
