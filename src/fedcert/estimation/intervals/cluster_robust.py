"""Intervals for clients that differ by more than their class mixes: used when the test of label shift rejects.

Each client's accuracies are moved by an effect of its own, drawn at random. The target of inference is then p(S)·L with
L the classes' mean accuracies over such clients.

Two standard errors are computed, and the longer interval kept. One is a model's: a client's effect moves its classes
alike on the logit scale, class j in proportion to L(1 - L), and all effects have one variance τ², whatever the clients'
sizes. It borrows from all clients, so it works where a few large ones carry the weight, with Student's quantile for τ²
being estimated. The other is a sandwich, Σ u² with u the clients' scores (CR2): it assumes nothing about the effects,
but needs many clients; with few, its own Student quantile would make intervals absurdly long.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedcert._arrays import Floats, Integers
from fedcert.estimation.clients import ReportedClients
from fedcert.estimation.intervals.half_widths import LEAST_VARIANCE, folded_quantile, largest_deviations
from fedcert.estimation.intervals.ingredients import away_from_certain
from fedcert.estimation.methods.linear_model import fit
from fedcert.estimation.reml import CLASS_VARIANCES, RestrictedLikelihood

_CLIENT_VARIANCES = np.concatenate([[0.0], np.geomspace(0.05, 3.0, 12) ** 2])
"""Values of τ² that are tried, on the logit scale: none, and standard deviations from 0.05 (which changes an accuracy
by 0.01 at most) to 3; refined around the best."""
_REFINED = 9
"""Values of τ² between the neighbours of the best one."""
_ROUNDS = 2
"""Fits of the classes' accuracies and of τ² in turn: with those of the linear model, then with their own."""
_LEAST_CLASS_VARIANCE = 1e-9
"""Keeps the penalty on class differences finite where σ² is estimated as 0."""
MOST_LEVERAGE = 0.9
"""A client's leverage is taken to be at most this, so that no score is inflated more than threefold."""
_MOST_LEVERAGE_ON_VARIANCE = 0.99
"""The same in the information on τ², which must stay positive."""
FEWEST_FREEDOM = 2.0
"""Least degrees of freedom: with fewer, Student's quantiles are of no use. The page's script has the same."""
_CLIENTS_AT_ONCE = 2_000
"""Clients whose class scores are held at once: 160 MB for 100 classes and 100 radii."""
_MOST_FITTED = 5_000
"""τ² is estimated from a random part of more clients: its relative error is then 2% already."""
_NEGLIGIBLE = 1e-12
"""Variances below it are zero up to rounding."""
_FIRST_VARIANCE, _MOMENT_STEPS = 0.1, 30
"""Start and steps of the fixed-point iteration for τ²: an effect that matters, and more steps than it needs."""


@dataclass(frozen=True)
class ClusterScores:
    """Variance of an estimate by chance and client effects, at each radius.

    Attributes:
        model: variance by the model of client effects.
        freedom: Student's degrees of freedom of that variance.
        client_scores: per-client scores u (clients x radii); Σ u² is the CR2 variance.
    """

    model: Floats
    freedom: Floats
    client_scores: Floats


@dataclass(frozen=True)
class SummedEffects:
    """Client effects from a second sum: the sandwich alone, with Student's quantile.

    Attributes:
        covariance: Σ u uᵀ over the clients, radii x radii.
        freedom: of Student's quantile, for the effective number of clients.
    """

    covariance: Floats
    freedom: float

    def scores(self, target: Floats, weights: Floats | None) -> ClusterScores:  # noqa: ARG002
        """Of the classes' pooled accuracies for the target that the second sum was made for."""
        values, vectors = np.linalg.eigh(self.covariance)
        root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        variance = np.maximum(np.diag(self.covariance), 0.0)
        return ClusterScores(variance, np.full(len(variance), self.freedom), root)


def effects_of(federation: ReportedClients, by_class: bool, seed: int = 0) -> ClientEffects:
    """Client effects, estimated from the clients' curves, or from the counts per class that all of them disclose."""
    return ClassEffects.of(federation) if by_class else CurveEffects.of(federation, seed)


def half_widths(
    scores: ClusterScores, bias: float, confidence: float, simultaneous: bool, extra_variance: Floats
) -> Floats:
    """Half-widths of an interval around the estimate, for clients that differ.

    Guarantee: approximate. For client effects drawn alike at random, the interval covers p(S)·L, L the classes' mean
    accuracies over such clients, at each radius (or at all of them at once) with about the stated confidence.

    Args:
        scores: variance of the estimate.
        bias: the most that the mismatch of class mixes can cost.
        confidence: above 0, below 1.
        simultaneous: for all radii at once.
        extra_variance: that of a finite target set; 0 for a population.
    """
    model = np.sqrt(np.maximum(scores.model + extra_variance, LEAST_VARIANCE))
    covariance = scores.client_scores.T @ scores.client_scores
    sandwich = np.sqrt(np.maximum(np.diag(covariance), LEAST_VARIANCE))
    clients = np.sqrt(sandwich**2 + extra_variance)
    if simultaneous:
        correlation = covariance / np.outer(sandwich, sandwich)
        normal, student = largest_deviations(correlation, confidence, float(scores.freedom.min()))
        return bias + np.maximum(student * model, normal * clients)
    by_model = folded_quantile(bias / model, confidence, scores.freedom) * model
    by_clients = folded_quantile(bias / clients, confidence) * clients
    return np.maximum(by_model, by_clients)


@dataclass(frozen=True)
class CurveEffects:
    """The mixed model c = p·L + b + e at each radius, Var b = τ² (p·L(1 - L))².

    Attributes:
        variance: τ² of the clients' effects on the logit scale, one per radius.
        variance_error: the variance of that estimate.
        residuals: c - p·L, clients x radii, as all that follow.
        kept: the square root of what a client's leverage leaves of its residual.
        noise: Var e.
        sensitivity: p·L(1 - L), the derivative of a client's curve by its effect.
    """

    variance: Floats
    variance_error: Floats
    residuals: Floats
    kept: Floats
    noise: Floats
    sensitivity: Floats

    @classmethod
    def of(cls, federation: ReportedClients, seed: int = 0) -> CurveEffects:
        """From the clients' curves, whether or not they disclose counts per class."""
        accuracy = away_from_certain(fit(federation.statistics).class_accuracy)
        chosen = np.arange(federation.count)
        if len(chosen) > _MOST_FITTED:
            chosen = np.sort(np.random.default_rng(seed).choice(len(chosen), _MOST_FITTED, replace=False))
        columns = [_fitted(federation, chosen, radius, accuracy[:, radius]) for radius in range(len(federation.radii))]
        return cls(*(np.stack(parts, axis=-1) for parts in zip(*columns, strict=True)))

    def scores(self, target: Floats, weights: Floats | None) -> ClusterScores:  # noqa: ARG002
        """Of a weighted mean of the clients' curves."""
        assert weights is not None  # noqa: S101
        moved = (weights**2) @ self.sensitivity**2
        model = (weights**2) @ self.noise + self.variance * moved
        by_client = weights[:, None] * self.residuals / self.kept
        return ClusterScores(model, _freedom(model, moved, self.variance_error), by_client)


@dataclass(frozen=True)
class ClassEffects:
    """Client effects from counts per class, where all clients disclose them.

    Attributes:
        federation: the clients.
        variance: τ² of the clients' effects on the logit scale, one per radius.
        variance_error: the variance of that estimate.
        examples: of each class; 1 where there are none.
        pooled: the classes' pooled accuracies, classes x radii.
        sensitivity: L(1 - L), classes x radii: the derivative of a class's accuracy by a client's effect.
    """

    federation: ReportedClients
    variance: Floats
    variance_error: Floats
    examples: Floats
    pooled: Floats
    sensitivity: Floats

    @classmethod
    def of(cls, federation: ReportedClients) -> ClassEffects:
        """From the counts per class of all clients, reduced as screening reduced them."""
        assert federation.class_totals is not None  # noqa: S101
        labels, certified = federation.class_totals
        examples = np.where(labels > 0, labels, 1.0)
        pooled = certified / examples[:, None]
        smooth = away_from_certain((certified + 0.5) / (examples[:, None] + 1))
        sensitivity = smooth * (1 - smooth)
        variance, error = _effects_of_totals(federation, pooled, sensitivity, _design_effects(federation))
        return cls(federation, variance, error, examples, pooled, sensitivity)

    def scores(self, target: Floats, weights: Floats | None) -> ClusterScores:  # noqa: ARG002
        """Of the classes' pooled accuracies, weighted by the target's mix."""
        share = self.federation.label_counts / self.examples
        moved = np.sum(((share * target) @ self.sensitivity) ** 2, axis=0)
        model = target**2 @ self.noise + self.variance * moved
        expected = (target * self._parts * self.federation.label_counts) @ self.pooled
        certified = np.einsum("ij,ijr->ir", target * self._parts * self._factors, self.federation.class_rows)
        return ClusterScores(model, _freedom(model, moved, self.variance_error), certified - expected)

    @cached_property
    def noise(self) -> Floats:
        """The variance of chance in each class's pooled accuracy, classes x radii."""
        share = self.federation.label_counts / self.examples
        inflated = self.sensitivity * (share.T @ _design_effects(self.federation))
        return np.asarray(inflated / self.examples[:, None], dtype=np.float64)

    @property
    def _parts(self) -> Floats:
        # A client's own share of a class has drawn the pooled accuracy towards it.
        share = self.federation.label_counts / self.examples
        return np.asarray(1 / (self.examples * np.sqrt(1 - np.minimum(share, MOST_LEVERAGE))), dtype=np.float64)

    @property
    def _factors(self) -> Floats:
        factors = self.federation.factors
        return np.ones((self.federation.count, 1)) if factors is None else np.asarray(factors[:, None])

    def score_products(self) -> Floats:
        """Σ u uᵀ over the clients, u a client's scores by class: radii x classes x classes."""
        parts, factors = self._parts[:, :, None], self._factors[:, :, None]
        total = np.zeros((self.pooled.shape[1], *[len(self.examples)] * 2))
        for start in range(0, self.federation.count, _CLIENTS_AT_ONCE):
            some = slice(start, start + _CLIENTS_AT_ONCE)
            expected = self.federation.label_counts[some][:, :, None] * self.pooled
            rows = parts[some] * (factors[some] * self.federation.class_rows[some] - expected)
            by_radius = rows.transpose(2, 1, 0)
            total += by_radius @ by_radius.transpose(0, 2, 1)
        return total


ClientEffects = CurveEffects | ClassEffects | SummedEffects
"""How clients differ, from which the variance of any linear estimate follows."""


def _design_effects(federation: ReportedClients) -> Floats:
    if federation.design_effects is None:
        return np.ones((federation.count, len(federation.radii)))
    return federation.design_effects


def _fitted(federation: ReportedClients, chosen: Integers, radius: int, accuracy: Floats) -> tuple[Floats | float, ...]:
    """The fields of `CurveEffects` at one radius.

    Variances are by REML over the chosen clients, the classes' accuracies L fitted again in each round.

    Args:
        federation: the clients.
        chosen: positions of the clients that the variances are estimated from.
        radius: the index of the radius.
        accuracy: L to begin with.
    """
    sizes, mixes = federation.sizes, federation.mixes
    curve = federation.certified_counts[:, radius] / sizes
    inflated = _design_effects(federation)[:, radius] / sizes
    design = np.column_stack([np.ones(len(chosen)), mixes[chosen]])
    for _ in range(_ROUNDS):
        sensitivity = mixes[chosen] @ (accuracy * (1 - accuracy))
        variance, between = _variances(curve[chosen], mixes[chosen], inflated[chosen], sensitivity)
        weights = 1 / (sensitivity * inflated[chosen] + variance * sensitivity**2)
        penalty = np.diag([0.0] + [1 / max(between, _LEAST_CLASS_VARIANCE)] * mixes.shape[1])
        inverse = np.linalg.pinv(design.T @ (design * weights[:, None]) + penalty, hermitian=True)
        coefficients = inverse @ (design.T @ (weights * curve[chosen]))
        accuracy = away_from_certain(coefficients[0] + coefficients[1:])
    leverage = np.sum((design @ inverse) * design, axis=1) * weights
    # The clients' information on τ², less what the classes' accuracies have used up of it.
    kept = 1 - np.minimum(leverage, _MOST_LEVERAGE_ON_VARIANCE)
    information = 0.5 * np.sum((sensitivity**2 * weights) ** 2 * kept)
    if len(chosen) < len(sizes):
        sensitivity = mixes @ (accuracy * (1 - accuracy))
    of_all = np.zeros(len(sizes))  # a client that was not fitted has no leverage
    of_all[chosen] = leverage
    return (
        variance,
        float(1 / information),
        curve - coefficients[0] - mixes @ coefficients[1:],
        np.sqrt(1 - np.minimum(of_all, MOST_LEVERAGE)),
        sensitivity * inflated,
        sensitivity,
    )


def _variances(curve: Floats, mixes: Floats, inflated: Floats, sensitivity: Floats) -> tuple[float, float]:
    """τ² of the clients' effects and σ² between classes, of least restricted deviance."""

    def least(variance: float) -> tuple[float, float]:
        weights = 1 / (sensitivity * inflated + variance * sensitivity**2)
        deviances = RestrictedLikelihood.of(curve[None, :], mixes, weights).deviance(CLASS_VARIANCES)[:, 0]
        index = int(np.argmin(deviances))
        return float(deviances[index]), float(CLASS_VARIANCES[index])

    best = int(np.argmin([least(variance)[0] for variance in _CLIENT_VARIANCES]))
    low, high = _CLIENT_VARIANCES[max(best - 1, 0)], _CLIENT_VARIANCES[min(best + 1, len(_CLIENT_VARIANCES) - 1)]
    _, between, variance = min((*least(variance), float(variance)) for variance in np.linspace(low, high, _REFINED))
    return variance, between


def _effects_of_totals(
    federation: ReportedClients, pooled: Floats, sensitivity: Floats, design_effects: Floats
) -> tuple[Floats, Floats]:
    """τ² from the residuals c - p·L with L the classes' pooled accuracies, by weighted moments.

    With one effect per client the residuals are A·effects + noise, where A subtracts the client's own part in
    the pooled accuracies; E residual² = noise + τ² (A Aᵀ) on the diagonal, exactly, for any number of clients.
    """
    sizes, mixes, curves = federation.sizes, federation.mixes, federation.certified_accuracy
    examples = np.where(federation.labels > 0, federation.labels, 1.0)
    share = federation.label_counts / examples
    together = share.T @ share
    residuals = curves - mixes @ pooled
    variances, errors = [], []
    for index in range(len(federation.radii)):
        parts = mixes * sensitivity[:, index]
        noise = (parts.sum(axis=1) / sizes - (mixes * parts) @ (1 / examples)) * design_effects[:, index]
        whole, own = parts.sum(axis=1), np.sum(parts * share, axis=1)
        moved = whole**2 - 2 * whole * own + np.sum((parts @ together) * parts, axis=1)
        informative = (noise > _NEGLIGIBLE) & (moved > _NEGLIGIBLE)
        noise, moved, square = noise[informative], moved[informative], residuals[informative, index] ** 2
        variance = _FIRST_VARIANCE
        for _ in range(_MOMENT_STEPS):
            weights = moved / (noise + variance * moved) ** 2
            variance = max(float(weights @ (square - noise)) / max(float(weights @ moved), LEAST_VARIANCE), 0.0)
        information = 0.5 * np.sum((moved / (noise + variance * moved)) ** 2)
        variances.append(variance)
        errors.append(1 / max(float(information), LEAST_VARIANCE))
    return np.array(variances), np.array(errors)


def _freedom(total: Floats, moved: Floats, variance_error: Floats) -> Floats:
    """Satterthwaite: 2 (se²)² / Var(se²), where only τ² is uncertain."""
    freedom = 2 * total**2 / np.maximum(moved**2 * variance_error, LEAST_VARIANCE)
    return np.asarray(np.maximum(freedom, FEWEST_FREEDOM), dtype=np.float64)
