"""How short any valid interval can be on average: the information in the clients' labels.

Pratt (1961): the expected length of an interval is the integral, over all values θ', of the probability that it covers
θ'; and that is at least 1 minus the power of the best test of θ' against the truth. With many examples the best test
of a convex set of accuracies against one point is that of a normal mean, and its power follows from their distance.
So, with z the quantile at the confidence and ω(δ) the largest change of p(S)·L whose distance from the truth is δ, no
valid interval has an expected length below ∫ (ω₊(z - t) + ω₋(z - t)) φ(t) dt over t <= z (Armstrong and Kolesár, 2018).
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from fedcert._arrays import Floats

_FARTHEST, _STEPS = 4.0, 12
"""Distances are taken up to so many standard deviations beyond z, in so many steps; ω is concave, so that chords
between them are below it, and the bound stays one."""
_POINTS = 400
"""Of the integral by the trapezoidal rule."""
_GAP, _GROWTH, _MOST_STEPS, _SETTLED, _SMALL = 1e-4, 20.0, 40, 1e-6, 0.05
"""Of the barrier method: relative distance from the largest value at the end, growth of the sharpness, Newton steps of
a round, and the Newton decrements that end a round and that allow full steps. Every point of it is feasible, so that
stopping early makes the bound smaller, not wrong."""


def shortest_expected_length(labels_labels: Floats, target: Floats, accuracy: float, confidence: float) -> float:
    """A lower bound of the expected length of any valid interval, where all classes have this accuracy.

    Guarantee: to leading order in many examples, where the clients' mixes determine p(S)·L, no interval that covers it
    with the stated confidence for all L in [0, 1] is shorter on average, whatever it is computed from as long as the
    clients disclose what A describes. Where they do not determine it, accuracies far from this one matter, whose
    variances differ, and it is an approximation.

    Args:
        labels_labels: A = Σ l lᵀ/n over the clients that disclose curves, or the diagonal matrix of the classes'
            examples where counts per class are disclosed.
        target: the target's class mix.
        accuracy: above 0, below 1.
        confidence: above 0, below 1.
    """
    z = float(stats.norm.ppf(confidence))
    distances = np.linspace(0.0, max(z, 0.0) + _FARTHEST, _STEPS + 1)
    moduli = np.zeros(len(distances))
    for index, distance in enumerate(distances[1:], start=1):
        budget = distance**2 * accuracy * (1 - accuracy)
        moduli[index] = sum(_largest_change(labels_labels, target, room, budget) for room in (accuracy, 1 - accuracy))
    points = np.linspace(z - distances[-1], z, _POINTS)
    heights = np.interp(z - points, distances, moduli) * stats.norm.pdf(points)
    return float(np.trapezoid(heights, points))


def _largest_change(labels_labels: Floats, target: Floats, down: float, budget: float) -> float:
    """The largest p(S)·u over -down <= u <= 1 - down with uᵀAu <= budget, by a barrier method from 0."""
    classes = len(target)
    point = np.zeros(classes)
    sharpness = 2.0 * classes + 1
    value = 0.0
    while (2 * classes + 1) / sharpness > _GAP * max(value, _GAP):
        for _ in range(_MOST_STEPS):
            image = labels_labels @ point
            room, above, below = budget - float(point @ image), 1 - down - point, point + down
            gradient = -sharpness * target + 2 * image / room + 1 / above - 1 / below
            hessian = 2 * labels_labels / room + 4 * np.outer(image, image) / room**2
            hessian[np.diag_indices(classes)] += 1 / above**2 + 1 / below**2
            step = -np.linalg.solve(hessian, gradient)
            decrease = float(-gradient @ step)
            if not decrease > _SETTLED:
                break
            length = 1.0 if decrease < _SMALL else 1 / (1 + np.sqrt(decrease))
            while not _inside(point + length * step, labels_labels, down, budget):
                length /= 2
            point = point + length * step
        value = float(target @ point)
        sharpness *= _GROWTH
    return max(value, 0.0)


def _inside(point: Floats, labels_labels: Floats, down: float, budget: float) -> bool:
    return bool(point.min() > -down and point.max() < 1 - down and float(point @ labels_labels @ point) < budget)
