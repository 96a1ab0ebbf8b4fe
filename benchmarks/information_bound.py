"""A lower bound on the expected length of any 95% interval, where accuracies are what they are.

Take the clients' counts for normal with the variances that the true accuracies give them, and these as known. For any
interval that covers with probability 1 - α at all accuracies in [0, 1], the expected length at the truth is the
integral over θ of the probability that θ is not rejected (Pratt, 1961), so that it is at least that of the most
powerful test of each θ against the truth. For a convex set of accuracies that test is the one against the nearest of
them with p(S)·L = θ, at the distance δ(θ) in standard deviations, and has the power Φ(δ - z) with z the 1 - α quantile.
With the modulus ω(δ), the most that p(S)·L can be moved within the distance δ, in either direction,

    expected length >= Σ over both directions of ∫ ω(δ) φ(z - δ) dδ

(Armstrong and Kolesár, Econometrica 2018, theorem 3.3 and corollary 3.3). For an unbiased estimate far from 0 and 1,
ω(δ) = δ·se, and the bound is 3.33 se, 0.85 of the normal interval's length 3.92 se.

Moves are found by coordinate descent. Where it has not converged they are not the largest, and the bound is a little
too low: still a bound.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

_DISTANCES = np.linspace(0.0, 7.0, 141)
_PENALTIES = np.geomspace(0.03, 300.0, 24)
"""Penalties, relative to the one that would move by one standard deviation without the limits 0 and 1."""


def shortest_expected_length(
    information: np.ndarray, target: np.ndarray, accuracy: np.ndarray, confidence: float = 0.95, sweeps: int = 200
) -> np.ndarray:
    """The bound at each radius.

    Args:
        information: of the counts on the classes' accuracies, radii x classes x classes.
        target: the target's class mix.
        accuracy: the truth, classes x radii.
        confidence: of the interval.
        sweeps: of coordinate descent.
    """
    radii, classes = len(information), len(target)
    ridge = 1e-9 * np.trace(information, axis1=1, axis2=2)[:, None, None] / classes * np.eye(classes)
    matrix = information + ridge
    spread = np.sqrt(
        np.einsum(
            "j,rj->r", target, np.linalg.solve(matrix, np.broadcast_to(target, (radii, classes))[..., None])[..., 0]
        )
    )
    total = np.zeros(radii)
    for sign in (1.0, -1.0):
        low, high = -accuracy.T, 1 - accuracy.T  # how far each class can be moved
        pull = sign * _PENALTIES[None, :] / spread[:, None]  # radii x penalties
        moved = np.zeros((radii, len(_PENALTIES), classes))
        image = np.zeros_like(moved)
        for _ in range(sweeps):
            for label in range(classes):
                own = matrix[:, label, label][:, None]
                wanted = moved[:, :, label] + (pull * target[label] - image[:, :, label]) / own
                change = np.clip(wanted, low[:, label][:, None], high[:, label][:, None]) - moved[:, :, label]
                moved[:, :, label] += change
                image += change[:, :, None] * matrix[:, None, label, :]
        distances = np.sqrt(np.maximum(np.sum(moved * image, axis=2), 0.0))
        moves = sign * (moved @ target)
        total += [_integral(each, move, confidence) for each, move in zip(distances, moves, strict=True)]
    return total


def _integral(distances: np.ndarray, moves: np.ndarray, confidence: float) -> float:
    """∫ ω(δ) φ(z - δ) dδ, ω through the moves: concave, so that chords are below it."""
    order = np.argsort(distances)
    modulus = np.interp(
        _DISTANCES, np.append(0.0, distances[order]), np.maximum.accumulate(np.append(0.0, moves[order]))
    )
    return float(np.trapezoid(modulus * stats.norm.pdf(stats.norm.ppf(confidence) - _DISTANCES), _DISTANCES))


def information_by_class(examples: np.ndarray, accuracy: np.ndarray) -> np.ndarray:
    """Of the classes' totals: n/(L(1 - L)) on the diagonal, radii x classes x classes."""
    variances = np.maximum(accuracy * (1 - accuracy), 1e-9)
    return np.stack([np.diag(examples / column) for column in variances.T])


def information_of_curves(labels: np.ndarray, accuracy: np.ndarray) -> np.ndarray:
    """Of clients' curves: Σ p pᵀ/Var c, radii x classes x classes."""
    sizes = labels.sum(axis=1)
    mixes = labels / sizes[:, None]
    variances = np.maximum(mixes @ (accuracy * (1 - accuracy)), 1e-9) / sizes[:, None]
    return np.einsum("ij,ik,ir->rjk", mixes, mixes, 1 / variances)
