"""BLUP: the best linear unbiased predictor, from clients' class mixes and curves."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import nnls

from fedcert._arrays import Floats
from fedcert.estimation.clients import Clients, ReportedClients, overall_statistics_of, statistics_of
from fedcert.estimation.methods.linear_model import Fit, decreasing, fit
from fedcert.estimation.methods.linear_weights import NO_WEIGHTS
from fedcert.estimation.methods.minimax import honest
from fedcert.estimation.methods.point_estimate import PointEstimate
from fedcert.estimation.settings import Settings


def blup(clients: Clients, target: Floats, settings: Settings) -> PointEstimate:
    """The best linear unbiased predictor, from class mixes and curves; counts per class are used where given.

    The point is BLUP's; the interval is that of the minimax weights, into which the point is clipped: BLUP's weights
    depend on the accuracies through λ, so no finite-sample guarantee is theirs.

    Raises:
        EstimationProblem: only totals are known.
    """
    fitted = fit(statistics_of(clients))
    details: dict[str, Any] = {"ratio": fitted.ratio}
    weights, rule, note = None, None, None
    if clients.class_totals is not None and clients.statistics is not clients.overall_statistics:
        note = "counts per class enter the estimate directly, not through clients' curves"
        curve = target @ fitted.class_accuracy
    elif isinstance(clients, ReportedClients):
        weights = _blup_weights(clients, target, fitted, settings.non_negative)
        details["non_negative"] = bool(np.all(weights >= 0))
        curve = (weights / clients.sizes) @ clients.certified_counts
    else:
        rule, note = fitted.rule(target), NO_WEIGHTS
        curve = rule.curve(overall_statistics_of(clients))
    return PointEstimate(
        decreasing(curve), weights, weights_note=note, rule=rule,
        uncertainty=honest(clients, target, settings, fitted), settings=settings.used("non_negative"), details=details,
    )  # fmt: skip


def _blup_weights(federation: ReportedClients, target: Floats, fitted: Fit, non_negative: bool) -> Floats:
    mixes, sizes = federation.mixes, federation.sizes
    weights = fitted.rule(target).weights(federation)
    if np.all(weights >= 0) or not non_negative:
        return weights
    # The same risk, Σ a²/n + λ‖p(S) - Pᵀa‖², over non-negative weights; exact by the trick of `simplex`.
    rows = np.vstack([np.sqrt(fitted.ratio) * (mixes - target).T, np.diag(1 / np.sqrt(sizes)), np.ones(len(sizes))])
    wanted = np.zeros(len(rows))
    wanted[-1] = 1.0
    convex, _ = nnls(rows, wanted, maxiter=30 * len(sizes) + 100)
    return np.asarray(convex / convex.sum(), dtype=np.float64)
