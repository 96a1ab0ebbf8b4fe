"""What an interval is made of: the bias that a mismatch allows, and the loads that chance works on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.clients.protocol import Clients, examples, pooled_mix
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.clients.statistics import SufficientStatistics
from fedcert.estimation.methods.linear_model import Fit, fit
from fedcert.estimation.methods.linear_weights import LinearWeights

_CLOSEST_TO_CERTAIN = 0.01
"""Estimated accuracies are kept this far from 0 and 1, where standard errors would vanish."""


@dataclass(frozen=True)
class Uncertainty:
    """What an interval is made of.

    Attributes:
        centre: the unbiased-but-for-the-mismatch estimate at each radius, before it is made monotone.
        bias: the most that the mismatch can cost.
        loads: Σ a² p/n over the clients, classes x radii, design effects included; summed over the classes it is
            Σ a²/n. None where only `squares` is known (sums do not tell the loads).
        squares: Σ a²/n at each radius, design effects included.
        class_accuracy: estimated accuracy of each class, classes x radii; None where nothing is known of it.
        mix: the class mix that the weights reach; None where classes are weighted rather than clients.
        weights: the clients' weights behind the centre; None where classes are weighted, or clients are not known.
        noise: the variance at each radius of noise that was added for privacy: at most, whatever the accuracies, and as
            they seem to be; None where there is none.
    """

    centre: Floats
    bias: float
    loads: Floats | None
    squares: Floats
    class_accuracy: Floats | None
    mix: Floats | None = None
    weights: Floats | None = None
    noise: tuple[Floats, Floats] | None = None


def of_weights(federation: ReportedClients, target: Floats, weights: Floats, fitted: Fit | None = None) -> Uncertainty:
    """The uncertainty of a weighted mean of the clients' curves."""
    fitted = fitted or fit(federation.evidence)
    scaled = weights**2 / federation.sizes
    if federation.design_effects is None:
        loads = np.repeat((federation.mixes.T @ scaled)[:, None], len(federation.radii), axis=1)
    else:
        loads = federation.mixes.T @ (scaled[:, None] * federation.design_effects)
    mix = weights @ federation.mixes
    centre = (weights / federation.sizes) @ federation.certified_counts
    accuracy = away_from_certain(fitted.class_accuracy)
    return Uncertainty(centre, worst_bias(target, mix), loads, loads.sum(axis=0), accuracy, mix, weights)


def of_rule(
    pool: Clients, target: Floats, rule: LinearWeights, evidence: SufficientStatistics, fitted: Fit
) -> Uncertainty:
    """The uncertainty of weights by formula, from sums alone.

    Where examples come in groups, everybody's largest design effect counts; where classes are weighted too, the factor
    that holds for them.

    Args:
        pool: what is known of the clients.
        target: the target's class distribution.
        rule: the weights.
        evidence: what they weigh: the pool's curves, or all that it tells.
        fitted: the model of the classes' accuracies.
    """
    mix = rule.mix(evidence)
    factor = pool.effects if evidence is pool.curves else np.maximum(pool.effects, grouping_factor(pool))
    loads = None
    if evidence is not pool.curves and pool.open_count == pool.count:  # classes are weighted, and nothing else
        loads = np.outer(rule.coefficients**2 * evidence.labels, factor)
    return Uncertainty(
        rule.curve(evidence), worst_bias(target, mix) + rule.slack(evidence), loads, rule.squares(evidence) * factor,
        away_from_certain(fitted.class_accuracy), mix,
    )  # fmt: skip


def grouping_factor(pool: Clients) -> Floats:
    """How much examples that come in groups inflate Σ p(S)²/n over the classes, at each radius.

    A group of m examples moves the estimate by at most the sum of its examples' parts, whose square is at most m times
    the sum of their squares: the size of the largest group is a bound, whatever classes the groups span.
    """
    return np.maximum(pool.effects, float(pool.largest_group))


def of_volume(pool: Clients, target: Floats) -> Uncertainty:
    """The uncertainty of the pooled curve, from totals alone."""
    total = examples(pool)
    loads = np.outer(pool.labels / total**2, pool.effects)
    mix = pooled_mix(pool)
    accuracy = away_from_certain(fit(pool.evidence).class_accuracy) if pool.evidence is not None else None
    return Uncertainty(pool.certified / total, worst_bias(target, mix), loads, loads.sum(axis=0), accuracy, mix)


def worst_bias(target: Floats, mix: Floats) -> float:
    """½‖target - mix‖₁: the most that accuracies in [0, 1] make of a mismatch."""
    return float(np.abs(target - mix).sum() / 2)


def away_from_certain(accuracy: Floats) -> Floats:
    """Accuracies whose standard errors do not vanish."""
    return np.clip(accuracy, _CLOSEST_TO_CERTAIN, 1 - _CLOSEST_TO_CERTAIN)
