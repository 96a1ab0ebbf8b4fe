"""Weights of clients for the test of one θ: those of least bias and chance over accuracies with p(S)·L = θ.

The critical value of a test is about the largest bias, d·L over 0 <= L <= 1 with p(S)·L = θ, plus z·sqrt(θ(1 - θ))
times sqrt(Σ a²/n). Its least value over weights that add up to 1 is, by duality, the largest μ - θ for which some L
with p(S)·L = θ looks to the clients almost like accuracies of μ everywhere: Σ n (p·(L - μ))² <= z²θ(1 - θ). The weights
are a = n p·(μ - L), up to their scale. They look at labels alone, so every θ may have its own.

The weights are those of the barrier method at a fixed sharpness, which are unique: the page's script solves the same.
"""

from __future__ import annotations

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.intervals.least_favourable.tilted import LEAST_TARGET

DESIGNS = (0.01, 0.04, 0.12, 0.28, 0.5, 0.72, 0.88, 0.97)
"""Values of θ that have weights of their own: with twice as many, intervals are less than 2% shorter."""
ENDS = (0.02, 0.07, 0.19, 0.38, 0.62, 0.81, 0.94, 1.0)
"""The θ up to which they are used."""
CHANCE = 0.81
"""z relative to sqrt(2·level), Chernoff's: what the bracket leaves of it at 95%."""
WORTHWHILE = 0.9
"""Weights of their own are used where they bring the critical value to this much of what the shortest honest interval's
weights do: less is not worth a test of its own."""
_GAP = 0.01
"""Distance from the least value at which the barrier stops, relative to what chance alone costs."""
_GROWTH = 20.0
"""Factor of the barrier's sharpness from round to round, as in `minimax_solver`."""
_MOST_STEPS = 60
"""Newton steps of a round; a dozen are typical."""
_SETTLED, _SMALL = 1e-9, 0.05
"""Newton decrements: below the first the last round ends, below the second the others do and steps are full ones."""
_SHORTEST_STEP = 1e-15
"""A line search that comes to this has met rounding."""
_REGULAR = 1e-14
"""Added to the scaled Hessian's unit diagonal, so that rounding does not make it singular."""


def design_coefficients(labels_labels: Floats, target: Floats, theta: float, deviations: float) -> Floats:
    """β of the weights a = l·β for the test of θ, adding up to 1.

    Guarantee: none is needed: tests hold with any weights that look at labels alone.

    Args:
        labels_labels: A = Σ l lᵀ/n, classes x classes.
        target: the target's class mix.
        theta: above 0, below 1.
        deviations: z.
    """
    classes, examples = len(target), float(labels_labels.sum())
    budget = deviations**2 * theta * (1 - theta)
    sharpest = (2 * classes + 1) * np.sqrt(examples / budget) / _GAP
    sharpness = min(sharpest * _GAP, sharpest)
    point = np.append(np.full(classes, theta), theta)
    while True:
        last = sharpness >= sharpest  # before that, near the centre is enough
        point = _centre(point, labels_labels, target, theta, budget, sharpness, _SETTLED if last else _SMALL)
        if last:
            break
        sharpness = min(sharpness * _GROWTH, sharpest)
    direction = point[-1] - point[:-1]
    return np.asarray(direction / float((labels_labels @ direction).sum()), dtype=np.float64)


def _centre(
    point: Floats, labels_labels: Floats, target: Floats, theta: float, budget: float, sharpness: float, settled: float
) -> Floats:
    """Minimise -sharpness·μ - log(slacks) over (L, μ) with p(S)·L = θ, by damped Newton steps."""
    size = len(point) - 1
    system = np.zeros((size + 2, size + 2))
    row_sums = labels_labels.sum(axis=1)
    for _ in range(_MOST_STEPS):
        accuracy, middle = point[:-1], point[-1]
        image = labels_labels @ (accuracy - middle)
        room = budget - float((accuracy - middle) @ image)
        inner = float(image.sum())
        gradient = np.append(2 * image / room - 1 / accuracy + 1 / (1 - accuracy), -sharpness - 2 * inner / room)
        barrier = np.diag(1 / accuracy**2 + 1 / (1 - accuracy) ** 2)
        system[:size, :size] = 2 * labels_labels / room + 4 * np.outer(image, image) / room**2 + barrier
        system[:size, size] = system[size, :size] = -2 * row_sums / room - 4 * image * inner / room**2
        system[size, size] = 2 * float(row_sums.sum()) / room + 4 * inner**2 / room**2
        scale = np.append(1 / np.sqrt(np.maximum(np.diag(system)[:-1], _REGULAR)), 1.0)
        system[:size, -1] = system[-1, :size] = target
        right = np.append(-gradient, theta - float(target @ accuracy))
        scaled = system * np.outer(scale, scale)
        scaled[np.arange(size + 1), np.arange(size + 1)] += _REGULAR
        step = (scale * np.linalg.solve(scaled, scale * right))[:-1]
        decrease = float(-gradient @ step)
        if not np.isfinite(decrease):
            return point
        length = 1.0 if decrease < _SMALL else 1 / (1 + np.sqrt(decrease))
        while not _inside(point + length * step, labels_labels, budget):
            length /= 2
            if length < _SHORTEST_STEP:
                return point
        point = point + length * step
        if not decrease > settled:
            break
    return point


def _inside(point: Floats, labels_labels: Floats, budget: float) -> bool:
    accuracy, apart = point[:-1], point[:-1] - point[-1]
    return bool(accuracy.min() > 0 and accuracy.max() < 1 and float(apart @ labels_labels @ apart) < budget)


def criterion(reached: Floats, target: Floats, squares: float, theta: float, deviations: float) -> float:
    """About the critical value less θ: the largest bias with p(S)·L <= θ, and z·sqrt(θ(1 - θ)·Σ a²/n).

    Args:
        reached: the class mix that the weights reach.
        target: the target's class mix.
        squares: Σ a²/n.
        theta: above 0, below 1.
        deviations: z.
    """
    # E T at its largest, less θ: near 1 hardly any accuracies are left to choose, and the bias vanishes as near 0.
    most = np.maximum(reached, 0.0)
    free = target <= LEAST_TARGET
    order = np.argsort(-most[~free] / target[~free])
    shares = np.minimum(np.cumsum(target[~free][order]), theta)
    taken = np.diff(np.append(0.0, shares)) / target[~free][order]
    bias = float(most[free].sum() + most[~free][order] @ taken) - theta
    return bias + deviations * float(np.sqrt(theta * (1 - theta) * squares))
