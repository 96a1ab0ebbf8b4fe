"""The minimax estimator: weights whose honest interval is shortest, chosen from the labels alone."""

from __future__ import annotations

import numpy as np

from fedcert._arrays import Floats
from fedcert.errors import EstimationProblem
from fedcert.estimation.clients import (
    Clients,
    ReportedClients,
    SufficientStatistics,
    all_disclose,
    overall_statistics_of,
    statistics_of,
)
from fedcert.estimation.intervals.ingredients import Uncertainty, of_rule, of_weights
from fedcert.estimation.intervals.registry import interval_kind
from fedcert.estimation.methods.linear_model import Fit, decreasing, fit
from fedcert.estimation.methods.linear_weights import NO_WEIGHTS, LinearWeights, by_volume, ridge_rules
from fedcert.estimation.methods.minimax_solver import shortest, shortest_convex
from fedcert.estimation.methods.point_estimate import PointEstimate
from fedcert.estimation.settings import Settings


def minimax(clients: Clients, target: Floats, settings: Settings) -> PointEstimate:
    """Weights whose honest interval is shortest, of any sign unless the settings say otherwise.

    Raises:
        EstimationProblem: non-negative weights are wanted, but only sums are known.
    """
    used = settings.used("non_negative")
    if isinstance(clients, ReportedClients):
        uncertainty = shortest_of_curves(clients, target, settings)
        weights = uncertainty.weights
        return PointEstimate(decreasing(uncertainty.centre), weights, uncertainty=uncertainty, settings=used)
    _check_signs(settings)
    statistics = overall_statistics_of(clients)
    rule = minimax_rule(statistics, target, deviations_for(settings, len(clients.radii)))
    uncertainty = of_rule(clients, target, rule, statistics, fit(statistics_of(clients)))
    return PointEstimate(
        decreasing(uncertainty.centre), None, weights_note=NO_WEIGHTS, rule=rule, uncertainty=uncertainty, settings=used
    )


def honest(clients: Clients, target: Floats, settings: Settings, fitted: Fit) -> Uncertainty:
    """The ingredients of the shortest honest interval, from everything that the clients disclose.

    Counts per class are clients of one class each: where some are disclosed, they have weights of their own.
    """
    if not isinstance(clients, ReportedClients):
        _check_signs(settings)
    if isinstance(clients, ReportedClients) and clients.class_totals is None:
        return shortest_of_curves(clients, target, settings, fitted)
    deviations = deviations_for(settings, len(clients.radii))
    rule = minimax_rule(fitted.statistics, target, deviations)
    uncertainty = of_rule(clients, target, rule, fitted.statistics, fitted)
    if not isinstance(clients, ReportedClients) or clients.largest_groups is None or all_disclose(clients):
        return uncertainty
    # A group may span classes, and then counts for more where classes are weighed: curves alone may be shorter.
    curves = shortest_of_curves(clients, target, settings, fitted)
    return min(uncertainty, curves, key=lambda of: of.bias + deviations * float(np.sqrt(of.sum_squared_weights.max())))


def _check_signs(settings: Settings) -> None:
    if settings.non_negative:
        raise EstimationProblem(
            "non-negative weights need the clients' reports, but only sums are given; leave --non-negative out"
        )


def shortest_of_curves(
    federation: ReportedClients, target: Floats, settings: Settings, fitted: Fit | None = None
) -> Uncertainty:
    """The ingredients of the shortest honest interval from the clients' curves; its weights look at labels alone."""
    deviations = deviations_for(settings, len(federation.radii))
    if not settings.non_negative or federation.count < 2:
        rule = minimax_rule(federation.overall_statistics, target, deviations)
        return of_weights(federation, target, rule.weights(federation), fitted, rule)
    direction = shortest_convex(federation.mixes, federation.sizes, target, deviations)
    weights = federation.sizes * np.maximum(federation.mixes @ direction.coefficients, 0.0)
    return of_weights(federation, target, weights / weights.sum(), fitted)


def minimax_rule(statistics: SufficientStatistics, target: Floats, deviations: float) -> LinearWeights:
    """The same weights by formula, of any sign.

    What is known of the clients is rounded, and the solver would exploit that: its weights are held against those of
    the ridge family by the half-width with what rounding can cost.
    """
    if statistics.clients < 2:
        return by_volume(len(target), statistics.examples)
    direction = shortest(statistics.labels_labels, target, deviations, statistics.eigenbasis.projected)
    (ridge,) = ridge_rules(statistics, target[None, :], deviations)
    candidates = (LinearWeights(direction.coefficients), ridge)
    return min(candidates, key=lambda rule: rule.half_width(statistics, target, deviations))


def deviations_for(settings: Settings, radii: int) -> float:
    """How many times sqrt(Σ a²/n) chance may cost, in the interval that the settings ask for."""
    return interval_kind(settings.interval).deviations(settings.confidence, radii if settings.simultaneous else 1)
