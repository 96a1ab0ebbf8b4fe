"""How far an estimated curve is from the truth: the paper's RMSE and MAPE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcert.errors import CallError


@dataclass(frozen=True)
class Comparison:
    """Errors of an estimated curve over the radii.

    Attributes:
        rmse: root of the mean squared error, over all radii.
        mape: mean of |error| / truth over the radii whose truth is above 0; None where there is none.
        radii: how many radii were compared.
        left_out: how many of them MAPE leaves out, because the truth is 0 there.

    Examples:
        >>> compare([0.9, 0.5], [0.8, 0.5]).rmse > 0
        True
    """

    rmse: float
    mape: float | None
    radii: int
    left_out: int


def compare(estimated: Sequence[float], truth: Sequence[float]) -> Comparison:
    """Compare two curves over the same radii.

    The paper divides sums over 21 radii by 20; here they are means over the radii used.

    Raises:
        CallError: the curves have different lengths, are empty, or hold what is no finite number.

    Examples:
        >>> errors = compare([0.8, 0.4, 0.1], [0.8, 0.5, 0.0])
        >>> round(errors.rmse, 4), round(errors.mape, 4), errors.left_out
        (0.0816, 0.1, 1)
    """
    curve, true = np.asarray(estimated, dtype=float), np.asarray(truth, dtype=float)
    if curve.ndim != 1 or curve.shape != true.shape or not len(curve):
        raise CallError(
            f"both curves must have the same number of radii, but have shapes {curve.shape} and {true.shape}"
        )
    if not (np.isfinite(curve).all() and np.isfinite(true).all()):
        raise CallError("both curves must hold finite numbers")
    error = curve - true
    known = true > 0
    mape = float(np.mean(np.abs(error[known]) / true[known])) if known.any() else None
    return Comparison(float(np.sqrt(np.mean(error**2))), mape, len(curve), int((~known).sum()))
