"""The minimax estimator: weights whose honest interval is shortest, chosen from the labels alone."""

from __future__ import annotations

import numpy as np
from scipy import stats

from fedcert._arrays import Floats
from fedcert.errors import EstimationProblem
from fedcert.estimation.clients.protocol import Clients, curves_of, evidence_of
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.clients.statistics import SufficientStatistics
from fedcert.estimation.intervals.half_lengths import FINITE, hoeffding_deviations
from fedcert.estimation.intervals.ingredients import Uncertainty, of_rule, of_weights, worst_bias
from fedcert.estimation.methods.linear_model import Fit, decreasing, fit
from fedcert.estimation.methods.linear_weights import NO_WEIGHTS, LinearWeights, MixEigenbasis, by_volume
from fedcert.estimation.methods.minimax_solver import shortest, shortest_convex
from fedcert.estimation.methods.registry import PointEstimate, Settings
from fedcert.estimation.methods.ridge import ridge_rules


def minimax(pool: Clients, target: Floats, settings: Settings) -> PointEstimate:
    """Weights whose honest interval is shortest, of any sign unless the settings say otherwise.

    Raises:
        EstimationProblem: non-negative weights are wanted, but only sums are known.
    """
    used = settings.used("non_negative")
    if isinstance(pool, ReportedClients):
        weights = minimax_weights(pool, target, settings)
        uncertainty = of_weights(pool, target, weights)
        return PointEstimate(decreasing(uncertainty.centre), weights, uncertainty=uncertainty, settings=used)
    _check_signs(settings)
    curves = curves_of(pool)
    rule = _rule(curves, target, deviations_for(settings, len(pool.radii)))
    uncertainty = of_rule(pool, target, rule, curves, fit(evidence_of(pool)))
    return PointEstimate(
        decreasing(uncertainty.centre), None, weights_note=NO_WEIGHTS, rule=rule, uncertainty=uncertainty, settings=used
    )


def honest(pool: Clients, target: Floats, settings: Settings, fitted: Fit) -> Uncertainty:
    """What the shortest honest interval is made of, from all that is told.

    Counts per class are clients of one class each: where some are told, the weights are theirs too.
    """
    if not isinstance(pool, ReportedClients):
        _check_signs(settings)
    if isinstance(pool, ReportedClients) and pool.class_totals is None:
        return of_weights(pool, target, minimax_weights(pool, target, settings), fitted)
    rule = _rule(fitted.evidence, target, deviations_for(settings, len(pool.radii)))
    return of_rule(pool, target, rule, fitted.evidence, fitted)


def _check_signs(settings: Settings) -> None:
    if settings.non_negative:
        raise EstimationProblem(
            "non-negative weights need the clients' reports, but only sums are given; leave --non-negative out"
        )


def minimax_weights(federation: ReportedClients, target: Floats, settings: Settings) -> Floats:
    """The weights of least honest half-length; a function of the labels alone."""
    deviations = deviations_for(settings, len(federation.radii))
    if not settings.non_negative or federation.count < 2:
        return _rule(federation.curves, target, deviations).weights(federation)
    direction = shortest_convex(federation.mixes, federation.sizes, target, deviations)
    weights = federation.sizes * np.maximum(federation.mixes @ direction.coefficients, 0.0)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _rule(evidence: SufficientStatistics, target: Floats, deviations: float) -> LinearWeights:
    """The same weights by formula, of any sign.

    What is known of the clients is rounded, and the solver would make use of that: its weights are held against those
    of the ridge family by the half-length with what rounding can cost.
    """
    if evidence.clients < 2:
        return by_volume(len(target), evidence.examples)
    spectrum = MixEigenbasis.of(evidence)
    found = shortest(evidence.labels_labels, target, deviations, lambda tried: spectrum.projected(tried).coefficients)
    exact = LinearWeights(found.coefficients)
    (ridge,) = ridge_rules(evidence, target[None, :], deviations)

    def half_length(rule: LinearWeights) -> float:
        missed = worst_bias(target, rule.mix(evidence)) + rule.slack(evidence)
        return missed + deviations * float(np.sqrt(rule.squares(evidence)))

    return min(exact, ridge, key=half_length)


def deviations_for(settings: Settings, radii: int) -> float:
    """How many times sqrt(Σ a²/n) chance may cost."""
    if settings.interval == FINITE:
        return hoeffding_deviations(settings.confidence, radii if settings.simultaneous else 1)
    return 0.5 * float(stats.norm.ppf(0.5 + settings.confidence / 2))  # a proportion's deviation is at most ½
