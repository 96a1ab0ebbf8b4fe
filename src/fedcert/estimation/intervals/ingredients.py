"""Ingredients of an interval: worst-case bias from class-mix mismatch, and variance coefficients Σ a²p/n per class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.clients import (
    Clients,
    ReportedClients,
    SufficientStatistics,
    all_disclose,
    examples,
    pooled_mix,
)
from fedcert.estimation.methods.linear_model import Fit, fit
from fedcert.estimation.methods.linear_weights import LinearWeights

CLOSEST_TO_CERTAIN = 0.01
"""Estimated accuracies are kept this far from 0 and 1, where standard errors would vanish: the standard error of an
example is then at least a fifth of a coin's. The page's script has the same."""


@dataclass(frozen=True)
class Uncertainty:
    """Ingredients of an interval.

    Attributes:
        centre: the estimate at each radius, unbiased but for the mismatch, before it is made monotone.
        bias: the most that the mismatch can cost.
        class_variance_weights: Σ a² p/n over the clients, classes x radii, design effects included; summed over the
            classes it is Σ a²/n. None where only that sum is known (from sums).
        sum_squared_weights: Σ a²/n at each radius, design effects included.
        class_accuracy: estimated accuracy of each class, classes x radii; None where nothing is known of it.
        mix: the class mix that the weights reach; None where classes are weighted rather than clients.
        weights: the clients' weights behind the centre; None where classes are weighted, or clients are not known.
        noise: variance at each radius of noise that was added for privacy: its upper bound over all accuracies, and at
            the estimated ones; None where there is none.
        class_variance: estimated variance of an example of each class, classes x radii; that of `class_accuracy` where
            None.
        example_weights: weight of an example of each class in the estimate, design effects included, classes x radii;
            None where examples of a class have several, of which `sum_squared_weights` is the mean.
    """

    centre: Floats
    bias: float
    class_variance_weights: Floats | None
    sum_squared_weights: Floats
    class_accuracy: Floats | None
    mix: Floats | None = None
    weights: Floats | None = None
    noise: tuple[Floats, Floats] | None = None
    class_variance: Floats | None = None
    example_weights: Floats | None = None

    @property
    def example_variance(self) -> Floats | None:
        """The variance of an example of each class as it is estimated, classes x radii; None where nothing is known."""
        if self.class_variance is not None or self.class_accuracy is None:
            return self.class_variance
        return np.asarray(self.class_accuracy * (1 - self.class_accuracy), dtype=np.float64)


def of_weights(federation: ReportedClients, target: Floats, weights: Floats, fitted: Fit | None = None) -> Uncertainty:
    """The uncertainty of a weighted mean of the clients' curves."""
    fitted = fitted or fit(federation.statistics)
    scaled = weights**2 / federation.sizes
    if federation.design_effects is None:
        by_class = np.repeat((federation.mixes.T @ scaled)[:, None], len(federation.radii), axis=1)
    else:
        by_class = federation.mixes.T @ (scaled[:, None] * federation.design_effects)
    mix = weights @ federation.mixes
    centre = (weights / federation.sizes) @ federation.certified_counts
    accuracy = away_from_certain(fitted.class_accuracy)
    return Uncertainty(centre, worst_bias(target, mix), by_class, by_class.sum(axis=0), accuracy, mix, weights)


def of_rule(
    clients: Clients, target: Floats, rule: LinearWeights, statistics: SufficientStatistics, fitted: Fit
) -> Uncertainty:
    """The uncertainty of weights by formula, from sums alone.

    Where examples come in groups, the largest design effect of any client counts; where classes are weighted too, the
    factor that holds for them.

    Args:
        clients: what is known of the clients.
        target: the target's class mix.
        rule: the weights.
        statistics: what they weigh: the clients' overall statistics, or all of them.
        fitted: the model of the classes' accuracies.
    """
    mix = rule.mix(statistics)
    factor = variance_factor(clients, statistics)
    by_class = example_weights = None
    if weighs_classes_alone(clients, statistics):
        by_class = np.outer(rule.coefficients**2 * statistics.labels, factor)
        example_weights = np.outer(rule.coefficients, factor)
    return Uncertainty(
        rule.curve(statistics), worst_bias(target, mix) + rule.slack(statistics), by_class,
        rule.sum_squared_weights(statistics) * factor, away_from_certain(fitted.class_accuracy), mix,
        example_weights=example_weights,
    )  # fmt: skip


def variance_factor(clients: Clients, statistics: SufficientStatistics) -> Floats:
    """How much groups of examples inflate Σ a²/n of a rule over these statistics, at each radius."""
    if statistics is clients.overall_statistics:
        return clients.largest_design_effects
    return np.maximum(clients.largest_design_effects, grouping_factor(clients))


def weighs_classes_alone(clients: Clients, statistics: SufficientStatistics) -> bool:
    """Whether a rule over these statistics weighs classes, and no client's overall counts."""
    return statistics is not clients.overall_statistics and all_disclose(clients)


def grouping_factor(clients: Clients) -> Floats:
    """How much examples that come in groups inflate Σ p(S)²/n over the classes, at each radius.

    A group of m examples moves the estimate by at most the sum of its examples' parts, whose square is at most m times
    the sum of their squares: the size of the largest group is a bound, whatever classes the groups span.
    """
    return np.maximum(clients.largest_design_effects, float(clients.largest_group))


def of_volume(clients: Clients, target: Floats) -> Uncertainty:
    """The uncertainty of the pooled curve, from totals alone."""
    total = examples(clients)
    by_class = np.outer(clients.labels / total**2, clients.largest_design_effects)
    mix, statistics = pooled_mix(clients), clients.statistics
    accuracy = None if statistics is None else away_from_certain(fit(statistics).class_accuracy)
    return Uncertainty(
        clients.certified / total, worst_bias(target, mix), by_class, by_class.sum(axis=0), accuracy, mix
    )


def worst_bias(target: Floats, mix: Floats) -> float:
    """½‖target - mix‖₁: the most that accuracies in [0, 1] make of a mismatch."""
    return float(np.abs(target - mix).sum() / 2)


def away_from_certain(accuracy: Floats) -> Floats:
    """Accuracies whose standard errors do not vanish."""
    return np.clip(accuracy, CLOSEST_TO_CERTAIN, 1 - CLOSEST_TO_CERTAIN)
