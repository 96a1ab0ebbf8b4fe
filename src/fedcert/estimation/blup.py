"""BLUP: the best linear unbiased predictor, from clients' class mixes and curves."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import nnls

from fedcert.estimation.evidence import Evidence
from fedcert.estimation.federation import Federation
from fedcert.estimation.linear_model import Fit, decreasing, fit
from fedcert.estimation.methods import Answer, Settings
from fedcert.estimation.minimax import minimax_weights
from fedcert.estimation.simplex import Floats
from fedcert.estimation.uncertainty import of_weights

_NEAR = 2.0
"""Up to so many clients per class, weights are kept non-negative."""


def blup(federation: Federation, target: Floats, settings: Settings) -> Answer:
    """The best linear unbiased predictor, from class mixes and curves; counts per class are used where given.

    The point is BLUP's; the interval is that of the minimax weights, into which the point is clipped: BLUP's weights
    depend on the accuracies through λ, so no finite-sample guarantee is theirs.
    """
    fitted = fit(Evidence.of(federation))
    used = settings.used("non_negative")
    details: dict[str, Any] = {"ratio": fitted.ratio}
    if federation.class_totals is None:
        weights = _blup_weights(federation, target, fitted, settings.non_negative)
        details["non_negative"] = bool(np.all(weights >= 0))
        curve, note = weights @ federation.certified_accuracy, None
    else:
        weights, note = None, "counts per class enter the estimate directly, not through clients' curves"
        curve = target @ fitted.class_accuracy
    honest = minimax_weights(federation, target, settings)
    uncertainty = of_weights(federation, target, honest, fitted)
    return Answer(
        decreasing(curve), weights, weights_note=note, uncertainty=uncertainty, settings=used, details=details
    )


def _blup_weights(federation: Federation, target: Floats, fitted: Fit, non_negative: bool) -> Floats:
    mixes, sizes = federation.mixes, federation.sizes.astype(np.float64)
    first, second = fitted.coefficients(target)
    weights = sizes * (first + mixes @ second)
    near = len(mixes) <= _NEAR * len(target)
    if np.all(weights >= 0) or not (near or non_negative):
        return weights
    # The same risk, Σ a²/n + λ‖p(S) - Pᵀa‖², over non-negative weights; exact by the trick of `simplex`.
    rows = np.vstack([np.sqrt(fitted.ratio) * (mixes - target).T, np.diag(1 / np.sqrt(sizes)), np.ones(len(sizes))])
    wanted = np.zeros(len(rows))
    wanted[-1] = 1.0
    convex, _ = nnls(rows, wanted, maxiter=30 * len(sizes) + 100)
    return np.asarray(convex / convex.sum(), dtype=np.float64)
