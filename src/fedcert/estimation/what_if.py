"""Estimates with intervals for any number of target mixes; nothing is solved again.

All that is needed has the size of classes x classes. Post-stratified: everything follows from the totals per class.
BLUP: the point is the mix times the model's class curves; the interval is that of weights by formula, the best of a
family of ridge rules for each mix, chosen from the labels alone, so that it is honest. For the mix that an estimate
was made for, its own minimax weights are among the candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.clients.protocol import Clients, curves_of, evidence_of
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.intervals.cluster_robust import ClientEffects
from fedcert.estimation.intervals.ingredients import Uncertainty, of_rule, of_weights, worst_bias
from fedcert.estimation.intervals.statement import make_interval
from fedcert.estimation.methods.linear_model import decreasing, fit
from fedcert.estimation.methods.minimax import deviations_for
from fedcert.estimation.methods.poststratified import totals_answer
from fedcert.estimation.methods.registry import Settings
from fedcert.estimation.methods.ridge import ridge_rules


@dataclass(frozen=True)
class Curves:
    """Estimates for some mixes, one row each.

    Attributes:
        certified_accuracy, lower, upper: mixes x radii.
    """

    certified_accuracy: Floats
    lower: Floats
    upper: Floats


def curves_for(
    pool: Clients,
    mixes: Floats,
    method: str,
    settings: Settings,
    anchor: Uncertainty | None = None,
    effects: ClientEffects | None = None,
) -> Curves:
    """Estimates for each row of `mixes`, with the interval that the settings ask for.

    Guarantee: each row's interval is one as `fedcert estimate` gives for that mix; with simultaneous intervals it holds
    for all radii at once, but not for all mixes at once.

    Args:
        pool: what is known of the clients.
        mixes: target mixes, one per row.
        method: "poststratified" or "blup".
        settings: of the intervals.
        anchor: what the interval of a mix that was solved for is made of.
        effects: how clients differ, where they do by more than their class mixes and chance explain.

    Raises:
        EstimationProblem: only totals are known, and not by class.
    """
    if method == "poststratified" and pool.open_count == pool.count:
        return _bounded(pool, mixes, [totals_answer(pool, mix) for mix in mixes], settings, effects)
    fitted = fit(evidence_of(pool))
    # Clients that differ are told apart by their curves.
    basis = fitted.evidence if effects is None else curves_of(pool)
    deviations = deviations_for(settings, len(pool.radii))
    rules = ridge_rules(basis, mixes, deviations)
    made = []
    for mix, rule in zip(mixes, rules, strict=True):
        if isinstance(pool, ReportedClients) and basis is pool.curves:
            uncertainty = of_weights(pool, mix, rule.weights(pool), fitted)
        else:
            uncertainty = of_rule(pool, mix, rule, basis, fitted)
        if anchor is not None and anchor.mix is not None:
            moved = replace(anchor, bias=worst_bias(mix, anchor.mix))
            uncertainty = min(moved, uncertainty, key=lambda one: one.bias + deviations * np.sqrt(one.squares.max()))
        made.append((decreasing(mix @ fitted.class_accuracy), uncertainty))
    return _bounded(pool, mixes, made, settings, effects)


def _bounded(
    pool: Clients,
    mixes: Floats,
    made: list[tuple[Floats, Uncertainty]],
    settings: Settings,
    effects: ClientEffects | None,
) -> Curves:
    rows = []
    for mix, (curve, uncertainty) in zip(mixes, made, strict=True):
        bounds = make_interval(uncertainty, mix, pool, settings, effects)
        rows.append((np.clip(curve, *bounds.reach), bounds.lower, bounds.upper))
    shape = (len(rows), len(pool.radii))
    accuracy, lower, upper = (np.array(column).reshape(shape) for column in zip(*rows, strict=True))
    return Curves(accuracy, lower, upper)
