"""The convex problem at the paper's heart, solved exactly.

    minimise ‖p(S) - Pᵀa‖ over a >= 0, Σa = 1

with the class mixes of clients (or groups of them) as the rows of P. The mixture Pᵀa and the mismatch are
unique; the weights are not, once there are more rows than classes. Among all exact minimisers the one of
least Σ a²/n is taken: the least variance of the estimate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from fedcert._arrays import Floats

TIE = 1e-9
"""Mismatches that differ by no more than this are equal: rounding must not decide between subsets."""

_FLAT = 1e-10
"""Distances from the supporting plane, relative to the mismatch: rows this close are on it, up to rounding."""
_ABSENT = 1e-13
"""Shares and weights below it are zero up to rounding."""
_NEWTON_STEPS = 100
"""Steps of the dual at most; a dozen are typical."""
_SHORTEST_STEP = 1e-10
"""A line search that comes to this has met rounding."""
_RIDGE = 1e-14
"""Added to the Hessian, relative to its trace, so that rounding does not make it singular."""
_REACHED = 1e-11
"""Largest error of a mixture that counts as reached: two digits above rounding, two below a tie."""
_MOST_ROWS = 500
"""Rows for which the slower exact method, cubic in them, takes less than a second."""
_CARRYING = 1e-9
"""Relative to the largest: weights below it are zero up to the rounding of least-distance programming."""
_RANK = 1e-12
"""Relative to the largest: singular values below it are zero up to rounding."""


def any_closest(mixes: Floats, target: Floats) -> Floats:
    """Weights of the closest mixture: some of those that reach it, on as few rows as possible."""
    return _nearest_point(mixes - target)


def variance_floor(mixture: Floats, mixes: Floats, examples: Floats) -> float:
    """The least Σ a²/n of weights of any sign that reach a mixture: no more than that of non-negative ones."""
    usable = _within(mixture, mixes)
    rows = mixes[usable]
    dual = np.linalg.lstsq(rows.T @ (examples[usable, None] * rows), mixture, rcond=None)[0]
    return float(mixture @ dual)


def of_least_variance(weights: Floats, mixes: Floats, target: Floats, examples: Floats) -> Floats:
    """Of all convex weights with the mixture of `weights`, which is the closest one, those of least Σ a²/n.

    Guarantee: the weights are non-negative and add up to 1, the mismatch is the least possible one, and
    among the weights that reach it theirs is the least Σ a²/n, all up to rounding.
    """
    differences = mixes - target
    gap = weights @ differences
    distance = float(np.linalg.norm(gap))
    # Only rows on the face that touches the target's supporting plane can carry weight in a minimiser.
    slack = differences @ gap - distance**2
    usable = _within(weights @ mixes, mixes)
    face = np.flatnonzero(usable & (slack <= _FLAT * distance) if distance > TIE else usable)
    if len(face) > 1 and len(face) > np.linalg.matrix_rank(mixes[face]):
        spread = _least_variance(mixes[face], weights @ mixes, examples[face])
        if spread is not None:
            weights = np.zeros_like(weights)
            weights[face] = spread
    return weights


def _within(mixture: Floats, mixes: Floats) -> npt.NDArray[np.bool_]:
    """Which rows can be part of a mixture: those without any share in the classes that it lacks."""
    return np.asarray(mixes[:, mixture <= _ABSENT].sum(axis=1) <= _ABSENT, dtype=np.bool_)


def mismatch(weights: Floats, mixes: Floats, target: Floats) -> float:
    """‖p(S) - Pᵀa‖, the distance that Theorem 1 calls δ."""
    return float(np.linalg.norm(target - weights @ mixes))


def _nearest_point(differences: Floats) -> Floats:
    """Convex weights of the point of least norm in the hull of the rows.

    A row of ones is appended and the right-hand side asks for 1 there. Along a direction with residual ρ
    the best scale is 1/(1 + ρ²) with value ρ²/(1 + ρ²), increasing in ρ: so dividing the non-negative
    solution by its sum gives the exact minimiser, no penalty parameter involved.
    """
    rows = np.vstack([differences.T, np.ones(len(differences))])
    wanted = np.zeros(len(rows))
    wanted[-1] = 1.0
    weights, _ = nnls(rows, wanted, maxiter=30 * len(differences) + 100)
    return _simplex(weights)


def _simplex(weights: Floats) -> Floats:
    weights = np.maximum(weights, 0.0)
    weights = weights / weights.sum()
    return np.asarray(weights / weights.sum(), dtype=np.float64)  # the second division removes the first one's rounding


def _least_variance(mixes: Floats, mixture: Floats, examples: Floats) -> Floats | None:
    """The weights of least Σ a²/n among a >= 0 with Pᵀa = mixture; None where rounding gets in the way.

    Newton's method on the dual, which has one variable per class, finds the rows that carry weight: a = n (P y)⁺,
    and the dual objective mixture·y - ½ Σ n ((P y)⁺)² is concave and piecewise quadratic, so the steps end after
    finitely many. On those rows the weights follow from one least-squares problem, to full precision.
    """
    size = examples / examples.max()
    held = mixes.max(axis=0) > 0
    rows, wanted = mixes[:, held], mixture[held]
    dual = np.linalg.lstsq(rows.T @ (size[:, None] * rows), wanted, rcond=None)[0]
    for _ in range(_NEWTON_STEPS):
        step = _newton_step(dual, rows, wanted, size)
        if step is None:
            break
        dual = dual + step
    weights = _on_rows(np.flatnonzero(rows @ dual > 0), rows, wanted, size)
    if weights is None and len(rows) <= _MOST_ROWS:
        weights = _on_rows(_carrying_rows(rows, wanted, size), rows, wanted, size)
    return weights


def _on_rows(carrying: npt.NDArray[np.intp], rows: Floats, wanted: Floats, size: Floats) -> Floats | None:
    """The weights of least Σ a²/n on some rows, whatever their sign; None where one would be negative."""
    if not len(carrying):
        return None
    root = np.sqrt(size[carrying])
    carried = root * np.linalg.lstsq((root[:, None] * rows[carrying]).T, wanted, rcond=None)[0]
    weights = np.zeros(len(rows))
    weights[carrying] = carried
    if carried.min() < -_ABSENT:
        return None
    weights = _simplex(weights)
    return weights if np.abs(weights @ rows - wanted).max() < _REACHED else None


def _carrying_rows(rows: Floats, wanted: Floats, size: Floats) -> npt.NDArray[np.intp]:
    """The rows that carry weight, by Lawson and Hanson's least-distance programming: slower than Newton, but exact.

    With z = a/√n the problem is min ‖z‖, B z = wanted, z >= 0. Along the null space of B, z = z₀ + N t, it is
    min ‖t‖, N t >= -z₀, whose solution is read off the residual of a non-negative least-squares problem.
    """
    system = (np.sqrt(size)[:, None] * rows).T
    _, values, right = np.linalg.svd(system)
    rank = int(np.sum(values > values[0] * _RANK))
    null = right[rank:].T
    least = np.linalg.lstsq(system, wanted, rcond=_RANK)[0]
    scale = max(float(np.abs(least).max()), 1e-300)
    task = np.vstack([null.T, -least[None, :] / scale])
    last = np.zeros(len(task))
    last[-1] = 1.0
    multipliers, _ = nnls(task, last, maxiter=30 * len(rows) + 100)
    residual = task @ multipliers - last
    point = least / scale - null @ residual[:-1] / residual[-1] if residual[-1] else least / scale
    return np.flatnonzero(point > _CARRYING * point.max())


def _newton_step(dual: Floats, rows: Floats, wanted: Floats, size: Floats) -> Floats | None:
    """The next step towards the dual's maximum; None once rounding is all that is left of it."""

    def value(y: Floats) -> float:
        return float(wanted @ y - 0.5 * np.sum(size * np.maximum(rows @ y, 0.0) ** 2))

    active = rows @ dual > 0
    gradient = wanted - (size * np.maximum(rows @ dual, 0.0)) @ rows
    hessian = rows[active].T @ (size[active, None] * rows[active])
    ridge = _RIDGE * max(float(np.trace(hessian)), float(size.min()))
    step = np.linalg.solve(hessian + ridge * np.eye(len(wanted)), gradient)
    here, slope, scale = value(dual), float(gradient @ step), 1.0
    if slope <= 1e-15 * max(abs(here), 1e-300):
        return None
    while scale > _SHORTEST_STEP:
        if value(dual + scale * step) >= here + 1e-4 * scale * slope:
            return np.asarray(scale * step, dtype=np.float64)
        scale /= 2
    return None


def distance_bounds(gram: Floats, valid: npt.NDArray[np.bool_], steps: int, start: Floats | None = None) -> Any:
    """Bounds on the least distance of many hulls to the origin, by pairwise Frank-Wolfe steps on all at once.

    Args:
        gram: inner products of each hull's points; hulls x points x points.
        valid: which points exist; hulls x points.
        steps: how many steps to take.
        start: convex weights to go on from.

    Returns:
        Lower bounds, upper bounds, and the weights that reach the upper ones. For weights a with the
        point w = Σ a x, the upper bound is ‖w‖ and the lower one min x·w / ‖w‖ (the nearest point is
        beyond the plane that touches the hull there).
    """
    hulls = np.arange(len(gram))
    diagonal = np.einsum("tii->ti", gram)
    if start is None:
        start = np.zeros(valid.shape)
        start[hulls, np.where(valid, diagonal, np.inf).argmin(axis=1)] = 1.0
    weights = start.copy()
    slope = np.einsum("tij,tj->ti", gram, weights)
    for _ in range(steps):
        towards = np.where(valid, slope, np.inf).argmin(axis=1)
        away = np.where(weights > 0, slope, -np.inf).argmax(axis=1)
        gain = slope[hulls, away] - slope[hulls, towards]
        length = diagonal[hulls, away] + diagonal[hulls, towards] - 2 * gram[hulls, away, towards]
        step = np.minimum(gain / np.where(length > 0, length, 1.0), weights[hulls, away])
        step = np.where(length > 0, np.maximum(step, 0.0), 0.0)
        weights[hulls, away] -= step
        weights[hulls, towards] += step
        slope += step[:, None] * (gram[hulls, towards] - gram[hulls, away])
    # Afresh, because the updates above gather rounding.
    slope = np.einsum("tij,tj->ti", gram, weights)
    upper = np.sqrt(np.maximum(np.einsum("ti,ti->t", weights, slope), 0.0))
    nearest = np.where(valid, slope, np.inf).min(axis=1)
    lower = np.where(upper > 0, np.maximum(nearest, 0.0) / np.where(upper > 0, upper, 1.0), 0.0)
    return lower, upper, weights
