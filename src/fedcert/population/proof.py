"""Proof that a polynomial is nowhere above a rising curve, by subdivision.

On a cell [a, b] the curve is at least its value at a, and a polynomial at most its largest Bernstein coefficient there.
Where that does not settle it the cell is halved. With a margin between the two it ends after finitely many halvings.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fedcert._arrays import Floats
from fedcert.population.bernstein import halves

Curve = Callable[[Floats, Floats], tuple[Floats, Floats]]
"""Of p and 1 - p; gives the value and one minus it."""

LARGEST_SCORE = 2.0
"""In absolute value, of polynomials that are proven: designs lie between -0.2 and 1.2."""
MOST_SCORES = 2001
"""Coefficients of polynomials that are proven: of the 2,000 passes that settings allow, and one more."""
ROUNDING = 1e-10
"""More than what floating point loses. A halving takes means of k + 1 coefficients by weights of relative error k·2⁻⁵³
and adds up to (2k + 3)·2⁻⁵³·LARGEST_SCORE to the errors so far, which it does not enlarge otherwise: below 4.5e-11 for
50 halvings and k = 2000. The curve's own error is below 1e-12: ball arithmetic finds at most 3e-14 (docs/proofs.md)."""
_MOST_HALVINGS = 50
"""Ends of cells and their distances from 1 are then exact: a double has 53 bits."""
_CELLS_AT_ONCE = 20_000
"""Cells that are looked at together: some megabytes."""
_MOST_CELLS = 1_000_000
"""Of one proof: a margin of 1e-5 needs far fewer, some thousand in shipped tables."""


def excess_above(coefficients: Floats, curve: Curve) -> float:
    """How far a polynomial is shown to be above a curve somewhere; 0 where it is proven to be above nowhere.

    Guarantee: at 0, the polynomial is at most the curve for every p in [0, 1], by 1e-11 at least.

    Where neither is shown, because the two all but touch, it is a rounding error; infinity where the coefficients are
    too large, too many or no numbers.

    Args:
        coefficients: Bernstein coefficients of the polynomial on [0, 1].
        curve: rising. Its values, and those of one minus it, have errors below 1e-12.
    """
    # Written so that a NaN is never a proof: it is neither small enough here nor low enough below.
    if len(coefficients) > MOST_SCORES or not np.all(np.abs(coefficients) <= LARGEST_SCORE):
        return math.inf
    waiting = [(coefficients[None, :], np.zeros(1), np.ones(1))]
    looked_at = 0
    while waiting:
        cells, left, width = waiting.pop()
        looked_at += len(cells)
        value, _ = curve(left, 1 - left)
        over = cells[:, 0] + ROUNDING - value
        if np.any(over > 0):
            return float(over[over > 0].max())
        settled = cells.max(axis=1) + ROUNDING <= value
        if settled.all():
            continue
        cells, left, width = cells[~settled], left[~settled], width[~settled] / 2
        if width.min() < 2.0**-_MOST_HALVINGS or looked_at > _MOST_CELLS:
            return ROUNDING
        cells = halves(cells).reshape(-1, len(coefficients))
        left, width = np.stack([left, left + width], axis=1).ravel(), np.repeat(width, 2)
        for start in range(0, len(cells), _CELLS_AT_ONCE):
            some = slice(start, start + _CELLS_AT_ONCE)
            waiting.append((cells[some], left[some], width[some]))
    return 0.0
