"""Ingredients of an interval: worst-case bias from class-mix mismatch, and variance coefficients Σ a²p/n per class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

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
from fedcert.estimation.intervals.least_favourable import segments
from fedcert.estimation.intervals.least_favourable.ends import Segment
from fedcert.estimation.methods.linear_model import Fit, fit
from fedcert.estimation.methods.linear_weights import LinearWeights

CLOSEST_TO_CERTAIN = 0.01
"""Estimated accuracies are kept this far from 0 and 1, where standard errors would vanish: the standard error of an
example is then at least a fifth of a coin's. The page's script has the same."""

Segments = Callable[[float], tuple[Segment, ...]]
"""Statistics for tests at a level; made only where such an interval is asked for."""


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
        segments: the statistics of least-favourable intervals at a level; None where too little is known for them.
        noise: variance at each radius of noise that was added for privacy; None where there is none.
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
    segments: Segments | None = None
    noise: Floats | None = None
    class_variance: Floats | None = None
    example_weights: Floats | None = None

    @property
    def example_variance(self) -> Floats | None:
        """The variance of an example of each class as it is estimated, classes x radii; None where nothing is known."""
        if self.class_variance is not None or self.class_accuracy is None:
            return self.class_variance
        return np.asarray(self.class_accuracy * (1 - self.class_accuracy), dtype=np.float64)


def of_weights(
    federation: ReportedClients,
    target: Floats,
    weights: Floats,
    fitted: Fit | None = None,
    rule: LinearWeights | None = None,
) -> Uncertainty:
    """The uncertainty of a weighted mean of the clients' curves.

    Args:
        federation: the clients.
        target: the target's class mix.
        weights: adding up to 1, chosen without looking at the accuracies.
        fitted: the model of the classes' accuracies, if it is at hand.
        rule: the formula of the weights, where they are those of the shortest honest interval: tests may then have
            others for some θ.
    """
    fitted = fitted or fit(federation.statistics)
    scaled = weights**2 / federation.sizes
    if federation.design_effects is None:
        by_class = at_all_radii(federation, federation.mixes.T @ scaled)
    else:
        by_class = federation.mixes.T @ (scaled[:, None] * federation.design_effects)
    mix = weights @ federation.mixes
    centre = (weights / federation.sizes) @ federation.certified_counts
    accuracy = away_from_certain(fitted.class_accuracy)
    squares = by_class.sum(axis=0)

    def statistics(level: float) -> tuple[Segment, ...]:
        if rule is None:
            return segments.of_client_weights(federation, target, weights, centre, squares)
        return segments.of_rules(federation, target, rule, federation.overall_statistics, level)

    return Uncertainty(centre, worst_bias(target, mix), by_class, squares, accuracy, mix, weights, statistics)


def of_rule(
    clients: Clients, target: Floats, rule: LinearWeights, statistics: SufficientStatistics, fitted: Fit
) -> Uncertainty:
    """The uncertainty of weights by formula, from sums alone.

    Args:
        clients: what is known of the clients.
        target: the target's class mix.
        rule: the weights.
        statistics: what they weigh: the clients' overall statistics, or all of them.
        fitted: the model of the classes' accuracies.
    """
    mix = rule.mix(statistics)
    by_class = known = example_weights = None
    if weighs_classes_alone(clients, statistics):
        inflation = class_inflation(clients)
        by_class = at_all_radii(clients, rule.coefficients**2 * statistics.labels * inflation)
        example_weights = at_all_radii(clients, rule.coefficients * inflation)
    if isinstance(clients, ReportedClients) or by_class is not None:
        known = partial(segments.of_rules, clients, target, rule, statistics)
    return Uncertainty(
        rule.curve(statistics), worst_bias(target, mix) + rule.slack(statistics), by_class,
        inflated_squares(clients, rule, statistics), away_from_certain(fitted.class_accuracy), mix, segments=known,
        example_weights=example_weights,
    )  # fmt: skip


def at_all_radii(clients: Clients, values: Floats) -> Floats:
    """Values of the classes, the same at each radius: classes x radii."""
    return np.repeat(values[:, None], len(clients.radii), axis=1)


def inflated_squares(clients: Clients, rule: LinearWeights, statistics: SufficientStatistics) -> Floats:
    """Σ a²/n of a rule at each radius, inflated by examples that come in groups.

    Where clients are known, each one's own groups count; from sums, the largest of any client.
    """
    squares = rule.sum_squared_weights(statistics)
    plain = np.full(len(clients.radii), squares)
    if statistics is clients.overall_statistics:
        return plain * clients.largest_design_effects
    if not isinstance(clients, ReportedClients):
        return plain * clients.largest_group
    if clients.largest_groups is None:
        return plain
    withholds, discloses = ~clients.has_class_counts, clients.has_class_counts
    assert clients.design_effects is not None  # noqa: S101
    labels = clients.label_counts
    by_client = (clients.mixes[withholds] @ rule.coefficients) ** 2 * clients.sizes[withholds]
    by_class = clients.largest_groups[discloses] @ labels[discloses] @ rule.coefficients**2
    own = by_client @ clients.design_effects[withholds] + by_class
    return np.asarray(np.maximum(plain, own), dtype=np.float64)


def weighs_classes_alone(clients: Clients, statistics: SufficientStatistics) -> bool:
    """Whether a rule over these statistics weighs classes, and no client's overall counts."""
    return statistics is not clients.overall_statistics and all_disclose(clients)


def class_inflation(clients: Clients) -> Floats:
    """How much examples that come in groups inflate each class's p(S)²/n.

    A group of m examples moves the estimate by at most the sum of its examples' parts, whose square is at most m times
    the sum of their squares, whatever classes the group spans: a client's largest group counts for its own examples.
    """
    if not isinstance(clients, ReportedClients):
        return np.full(len(clients.classes), float(clients.largest_group))
    if clients.largest_groups is None:
        return np.ones(len(clients.classes))
    discloses = clients.has_class_counts
    labels = clients.label_counts[discloses]
    total = labels.sum(axis=0)
    grouped = clients.largest_groups[discloses].astype(np.float64) @ labels
    return np.asarray(np.divide(grouped, total, out=np.ones(len(total)), where=total > 0), dtype=np.float64)


def of_volume(clients: Clients, target: Floats) -> Uncertainty:
    """The uncertainty of the pooled curve, from totals alone."""
    total = examples(clients)
    by_class = np.outer(clients.labels / total**2, clients.largest_design_effects)
    mix, statistics = pooled_mix(clients), clients.statistics
    accuracy = None if statistics is None else away_from_certain(fit(statistics).class_accuracy)
    centre, squares = clients.certified / total, by_class.sum(axis=0)

    def statistics_of_pool(_level: float) -> tuple[Segment, ...]:
        return segments.of_pool(clients, target, centre, squares)

    return Uncertainty(centre, worst_bias(target, mix), by_class, squares, accuracy, mix, segments=statistics_of_pool)


def worst_bias(target: Floats, mix: Floats) -> float:
    """½‖target - mix‖₁: the most that accuracies in [0, 1] make of a mismatch."""
    return float(np.abs(target - mix).sum() / 2)


def away_from_certain(accuracy: Floats) -> Floats:
    """Accuracies whose standard errors do not vanish."""
    return np.clip(accuracy, CLOSEST_TO_CERTAIN, 1 - CLOSEST_TO_CERTAIN)
