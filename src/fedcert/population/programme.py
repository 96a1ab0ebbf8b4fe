"""A convex quadratic programme with few variables and many constraints, by a primal-dual interior-point method.

Designs have one variable for each count and some 1,500 constraints; a step solves one system in the variables. What it
returns need not be exact: a design is proven afterwards, whatever its coefficients.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from fedcert._arrays import Floats

_MOST_STEPS = 80
"""Some 30 are typical; designs whose optimum is flat use all of them."""
_SETTLED = 1e-12
"""Of the duality gap: four digits below what designs are compared by."""
_STEP = 0.995
"""Share of the way to the boundary, common in Mehrotra's method."""
_REGULAR = 1e-13
"""Added to the system's diagonal, relative to its mean, so that rounding does not make it singular."""
_FIRST_SLACK, _FIRST_DUALS = 0.01, 10.0
"""Where the slacks start at least, and what the duals add up to: a hundredth of the scores' range, and some times the
objective's, so that the start is inside by far."""


def minimise(quadratic: Floats, linear: Floats, rows: Floats, most: Floats, start: Floats) -> Floats:
    """The x of least ½ x·Qx + c·x with Ax <= b (Mehrotra's predictor and corrector).

    What it gives is finite, and as near to the optimum as rounding lets it come; nothing is promised of how near.

    Args:
        quadratic: Q, positive semidefinite.
        linear: c.
        rows: A.
        most: b.
        start: any x.
    """
    x = start.copy()
    slack, dual = np.maximum(most - rows @ x, _FIRST_SLACK), np.full(len(most), _FIRST_DUALS / len(most))
    with np.errstate(all="ignore"):  # where digits are used up, the last step is not taken
        for _ in range(_MOST_STEPS):
            missing = rows @ x + slack - most
            gap = float(slack @ dual)
            if gap < _SETTLED and np.abs(missing).max() < _SETTLED:
                break
            gradient = quadratic @ x + linear + rows.T @ dual
            moved = _step(quadratic, rows, gradient, missing, slack, dual)
            if moved is None:
                break
            x, slack, dual = x + moved[0], slack + moved[1], dual + moved[2]
    return x


def _step(
    quadratic: Floats, rows: Floats, gradient: Floats, missing: Floats, slack: Floats, dual: Floats
) -> tuple[Floats, Floats, Floats] | None:
    """How far x, the slacks and the duals go; None where the digits are used up."""
    system = quadratic + rows.T @ ((dual / slack)[:, None] * rows)
    system[np.diag_indices(len(system))] += _REGULAR * np.trace(system) / len(system)
    if not np.isfinite(system).all():
        return None
    try:
        factor = linalg.cho_factor(system)
    except linalg.LinAlgError:
        return None

    def direction(products: Floats) -> tuple[Floats, Floats, Floats]:
        right = -gradient - rows.T @ ((dual * missing - products) / slack)
        by_x = linalg.cho_solve(factor, right, check_finite=False)
        by_slack = -missing - rows @ by_x
        return by_x, by_slack, -(products + dual * by_slack) / slack

    mean = float(slack @ dual) / len(slack)
    _, by_slack, by_dual = direction(slack * dual)
    ahead = (slack + _length(slack, by_slack) * by_slack) @ (dual + _length(dual, by_dual) * by_dual)
    centring = (float(ahead) / len(slack) / mean) ** 3 * mean
    by_x, by_slack, by_dual = direction(slack * dual + by_slack * by_dual - centring)
    if not (np.isfinite(by_x).all() and np.isfinite(by_slack).all() and np.isfinite(by_dual).all()):
        return None
    primal, other = _STEP * _length(slack, by_slack), _STEP * _length(dual, by_dual)
    return primal * by_x, primal * by_slack, other * by_dual


def _length(values: Floats, step: Floats) -> float:
    """How much of a step leaves all values non-negative; 1 at most."""
    falling = step < 0
    return min(1.0, float(np.min(values[falling] / -step[falling], initial=1.0)))
