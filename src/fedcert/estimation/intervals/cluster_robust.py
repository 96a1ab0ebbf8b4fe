"""Intervals for clients that differ by more than their class mixes: used when the test of label shift rejects.

Each client's accuracies are moved by an effect of its own, drawn at random. The target of inference is then p(S)·L with
L the classes' mean accuracies over such clients.

Two standard errors are taken, and the longer interval kept. One is a model's: a client's effect moves its classes alike
on the logit scale, class j in proportion to L(1 - L), and all effects have one variance τ², whatever the clients'
sizes. It borrows from all clients, so it works where a few large ones carry the weight, with Student's quantile for τ²
being estimated. The other is a sandwich, Σ u² with u what each client adds to the error (CR2): it assumes nothing about
the effects, but needs many clients; with few, its own Student quantile would make intervals absurdly long.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from fedcert._arrays import Floats
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.intervals.half_lengths import largest_deviations
from fedcert.estimation.methods.linear_model import fit

_CLOSEST_TO_CERTAIN = 0.01
"""Accuracies are kept this far from 0 and 1, where standard errors would vanish."""
_CLIENT_GRID = np.concatenate([[0.0], np.geomspace(0.05, 3.0, 12) ** 2])
"""Variances of the clients' effects that are tried, on the logit scale; refined around the best."""
_CLASS_GRID = np.concatenate([[0.0], np.geomspace(1e-4, 0.25, 16)])
"""Variances between classes that are tried; accuracies in [0, 1] have no larger one."""
_ROUNDS = 2
_MOST_LEVERAGE = 0.9
_FEWEST_FREEDOM = 2.0
_CLIENTS_AT_ONCE = 2_000
_MOST_FITTED = 5_000
"""Of more clients, a random part tells how much they differ, which is plenty."""


@dataclass(frozen=True)
class ClusterScores:
    """What chance and clients' effects do to an estimate, at each radius.

    Attributes:
        model: variance by the model of client effects.
        freedom: Student's degrees of freedom of that variance.
        moves: u, what each client adds to the error, clients x radii; the sandwich is the sum of their squares.
    """

    model: Floats
    freedom: Floats
    moves: Floats


class ClientEffects(Protocol):
    """How clients differ: it tells the spread of an estimate made of weights or for a target."""

    def spread(self, target: Floats, weights: Floats | None) -> ClusterScores:
        """The spread of a weighted mean of clients' curves, or of classes' pooled accuracies for a target."""


@dataclass(frozen=True)
class SummedEffects:
    """Clients' effects from a second sum: the sandwich alone, with Student's quantile for as many clients as they are
    worth.

    Attributes:
        covariance: Σ u uᵀ over the clients, radii x radii.
        freedom: of Student's quantile.
    """

    covariance: Floats
    freedom: float

    def spread(self, target: Floats, weights: Floats | None) -> ClusterScores:  # noqa: ARG002
        """The spread of the classes' pooled accuracies for the target that the second sum was about."""
        values, vectors = np.linalg.eigh(self.covariance)
        moves = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        variance = np.maximum(np.diag(self.covariance), 0.0)
        return ClusterScores(variance, np.full(len(variance), self.freedom), moves)


def effects_of(federation: ReportedClients, by_class: bool, seed: int = 0) -> ClientEffects:
    """How clients differ, from their curves, or from counts per class that everybody tells."""
    return ClassEffects.of(federation) if by_class else CurveEffects.of(federation, seed)


def half_lengths(
    of: ClusterScores, bias: float, confidence: float, simultaneous: bool, least: Floats, further: Floats
) -> Floats:
    """Half-lengths of an interval around the estimate, for clients that differ.

    Guarantee: approximate. For client effects drawn alike at random, the interval covers p(S)·L, L the classes' mean
    accuracies over such clients, at each radius (or at all of them at once) with about the stated confidence. It is
    never shorter than `least`, the interval under label shift.

    Args:
        of: the estimate's spread.
        bias: the most that the mismatch of class mixes can cost.
        confidence: above 0, below 1.
        simultaneous: for all radii at once.
        least: half-lengths under label shift.
        further: variance besides, of a finite target set; 0 for a population.
    """
    model = np.sqrt(np.maximum(of.model + further, 1e-300))
    covariance = of.moves.T @ of.moves
    sandwich = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    clients = np.sqrt(sandwich**2 + further)
    if simultaneous:
        correlation = covariance / np.outer(sandwich, sandwich)
        plain, student = largest_deviations(correlation, confidence, float(of.freedom.min()))
        return np.maximum(least, bias + np.maximum(student * model, plain * clients))
    by_model = folded_student_quantile(bias / model, of.freedom, confidence) * model
    # So many degrees of freedom make Student's quantile the normal one.
    by_clients = folded_student_quantile(bias / clients, np.full_like(clients, 1e9), confidence) * clients
    return np.maximum(least, np.maximum(by_model, by_clients))


def folded_student_quantile(shift: Floats, freedom: Floats, confidence: float) -> Floats:
    """The quantile of |T + shift|, T Student's with so many degrees of freedom, by bisection."""
    low = np.zeros_like(shift)
    high = shift + special.stdtrit(freedom, 0.5 + confidence / 2)
    for _ in range(60):
        middle = (low + high) / 2
        above = special.stdtr(freedom, middle - shift) - special.stdtr(freedom, -middle - shift) > confidence
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(high, dtype=np.float64)


@dataclass(frozen=True)
class CurveEffects:
    """The mixed model c = p·L + b + e at each radius, Var b = τ² (p·L(1 - L))²; one figure per client and radius.

    Attributes:
        variance: τ² of the clients' effects on the logit scale, one per radius.
        uncertain: the variance of that estimate.
        residuals: c - p·L.
        kept: the root of what a client's leverage leaves of its residual.
        noise: Var e.
        reach: p·L(1 - L), how far a client's effect moves its curve.
    """

    variance: Floats
    uncertain: Floats
    residuals: Floats
    kept: Floats
    noise: Floats
    reach: Floats

    @classmethod
    def of(cls, federation: ReportedClients, seed: int = 0) -> CurveEffects:
        """From the clients' curves, whether or not they tell counts per class."""
        accuracy = fit(federation.evidence).class_accuracy
        inside = np.clip(accuracy, _CLOSEST_TO_CERTAIN, 1 - _CLOSEST_TO_CERTAIN)
        chosen = np.arange(federation.count)
        if len(chosen) > _MOST_FITTED:
            chosen = np.sort(np.random.default_rng(seed).choice(len(chosen), _MOST_FITTED, replace=False))
        columns = [_mixed_model(federation, chosen, index, inside[:, index]) for index in range(len(federation.radii))]
        variance, uncertain, *rows = zip(*columns, strict=True)
        return cls(np.array(variance), np.array(uncertain), *(np.stack(row, axis=1) for row in rows))

    def spread(self, target: Floats, weights: Floats | None) -> ClusterScores:  # noqa: ARG002
        """The spread of a weighted mean of the clients' curves."""
        assert weights is not None  # noqa: S101
        moved = (weights**2) @ self.reach**2
        model = (weights**2) @ self.noise + self.variance * moved
        return ClusterScores(
            model, _freedom(model, moved, self.uncertain), weights[:, None] * self.residuals / self.kept
        )


@dataclass(frozen=True)
class ClassEffects:
    """Clients' effects from counts per class that everybody tells.

    Attributes:
        federation: the clients.
        variance: τ² of the clients' effects on the logit scale, one per radius.
        uncertain: the variance of that estimate.
        examples: of each class; 1 where there are none.
        pooled: the classes' pooled accuracies, classes x radii.
        spread_of: L(1 - L), classes x radii.
    """

    federation: ReportedClients
    variance: Floats
    uncertain: Floats
    examples: Floats
    pooled: Floats
    spread_of: Floats

    @classmethod
    def of(cls, federation: ReportedClients) -> ClassEffects:
        """From the class rows of all clients, screened ones as they count."""
        assert federation.class_totals is not None  # noqa: S101
        labels, certified = federation.class_totals
        examples = np.where(labels > 0, labels, 1.0)
        pooled = certified / examples[:, None]
        smooth = np.clip((certified + 0.5) / (examples[:, None] + 1), _CLOSEST_TO_CERTAIN, 1 - _CLOSEST_TO_CERTAIN)
        spread = smooth * (1 - smooth)
        variance, uncertain = _effects_of_totals(federation, pooled, spread, _design_effects(federation))
        return cls(federation, variance, uncertain, examples, pooled, spread)

    def spread(self, target: Floats, weights: Floats | None) -> ClusterScores:  # noqa: ARG002
        """The spread of the classes' pooled accuracies, weighted by the target's mix."""
        share = self.federation.label_counts / self.examples
        moved = np.sum(((share * target) @ self.spread_of) ** 2, axis=0)
        model = target**2 @ self.noise + self.variance * moved
        expected = (target * self._parts * self.federation.label_counts) @ self.pooled
        moves = np.einsum("ij,ijr->ir", target * self._parts * self._factors, self.federation.class_rows) - expected
        return ClusterScores(model, _freedom(model, moved, self.uncertain), moves)

    @cached_property
    def noise(self) -> Floats:
        """The variance of chance in each class's pooled accuracy, classes x radii."""
        share = self.federation.label_counts / self.examples
        inflated = self.spread_of * (share.T @ _design_effects(self.federation))
        return np.asarray(inflated / self.examples[:, None], dtype=np.float64)

    @property
    def _parts(self) -> Floats:
        # A client's own share of a class has drawn the pooled accuracy towards it.
        share = self.federation.label_counts / self.examples
        return np.asarray(1 / (self.examples * np.sqrt(1 - np.minimum(share, _MOST_LEVERAGE))), dtype=np.float64)

    @property
    def _factors(self) -> Floats:
        factors = self.federation.factors
        return np.ones((self.federation.count, 1)) if factors is None else np.asarray(factors[:, None])

    def moves(self) -> Floats:
        """Σ u uᵀ with u what a client's examples of each class add to its error: radii x classes x classes."""
        parts, factors = self._parts[:, :, None], self._factors[:, :, None]
        total = np.zeros((self.pooled.shape[1], *[len(self.examples)] * 2))
        for start in range(0, self.federation.count, _CLIENTS_AT_ONCE):  # memory stays small
            some = slice(start, start + _CLIENTS_AT_ONCE)
            expected = self.federation.label_counts[some][:, :, None] * self.pooled
            rows = parts[some] * (factors[some] * self.federation.class_rows[some] - expected)
            by_radius = rows.transpose(2, 1, 0)
            total += by_radius @ by_radius.transpose(0, 2, 1)
        return total


def _design_effects(federation: ReportedClients) -> Floats:
    if federation.design_effects is None:
        return np.ones((federation.count, len(federation.radii)))
    return federation.design_effects


def _mixed_model(
    federation: ReportedClients, chosen: npt.NDArray[np.int64], index: int, inside: Floats
) -> tuple[float, float, Floats, Floats, Floats, Floats]:
    """The fields of `CurveEffects` at one radius; variances by REML over the chosen clients, L fitted again once."""
    sizes, mixes = federation.sizes, federation.mixes
    curve = federation.certified_counts[:, index] / sizes
    effect = np.ones(len(sizes)) if federation.design_effects is None else federation.design_effects[:, index]
    some, part, plain = mixes[chosen], curve[chosen], effect[chosen] / sizes[chosen]
    design = np.column_stack([np.ones(len(some)), some])
    for _ in range(_ROUNDS):
        reach = some @ (inside * (1 - inside))

        def deviances(variances: Floats, reach: Floats = reach) -> tuple[Floats, Floats]:
            return _deviances(part, some, 1 / (reach * plain + variances[:, None] * reach**2))

        best = int(np.argmin(deviances(_CLIENT_GRID)[0]))
        around = np.linspace(_CLIENT_GRID[max(best - 1, 0)], _CLIENT_GRID[min(best + 1, len(_CLIENT_GRID) - 1)], 9)
        tried, betweens = deviances(around)
        best = int(np.argmin(tried))
        variance, between = float(around[best]), float(betweens[best])
        weights = 1 / (reach * plain + variance * reach**2)
        penalty = np.diag([0.0] + [1 / max(between, 1e-9)] * mixes.shape[1])
        inverse = np.linalg.pinv(design.T @ (design * weights[:, None]) + penalty, hermitian=True)
        coefficients = inverse @ (design.T @ (weights * part))
        inside = np.clip(coefficients[0] + coefficients[1:], _CLOSEST_TO_CERTAIN, 1 - _CLOSEST_TO_CERTAIN)
    leverage = np.sum((design @ inverse) * design, axis=1) * weights
    # What the clients tell about τ², less what the classes' accuracies have used up of it.
    information = 0.5 * np.sum((reach**2 * weights) ** 2 * (1 - np.minimum(leverage, 0.99)))
    reach = mixes @ (inside * (1 - inside)) if len(chosen) < len(sizes) else reach
    everyone = np.zeros(len(sizes))  # a client that was not fitted has no leverage
    everyone[chosen] = leverage
    return (
        variance,
        float(1 / information),
        curve - coefficients[0] - mixes @ coefficients[1:],
        np.sqrt(1 - np.minimum(everyone, _MOST_LEVERAGE)),
        reach * effect / sizes,
        reach,
    )


def _deviances(curve: Floats, mixes: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The least restricted deviance over the classes' variance, and that variance, for each row of weights."""
    weighted = weights[:, :, None] * mixes
    values, vectors = np.linalg.eigh(mixes.T @ weighted)
    across = vectors.transpose(0, 2, 1)
    ones = (across @ weighted.sum(axis=1)[:, :, None])[:, :, 0]
    cross = (across @ (curve @ weighted)[:, :, None])[:, :, 0]
    scaled = _CLASS_GRID[:, None] * np.maximum(values, 0.0)[:, None, :]  # rows x class variances x directions
    shrink = _CLASS_GRID[:, None] / (1 + scaled)
    left = weights.sum(axis=1)[:, None] - (shrink @ (ones**2)[:, :, None])[:, :, 0]
    rest = (weights @ curve)[:, None] - (shrink @ (ones * cross)[:, :, None])[:, :, 0]
    deviance = (weights @ curve**2)[:, None] - (shrink @ (cross**2)[:, :, None])[:, :, 0] - rest**2 / left
    deviance += np.log1p(scaled).sum(axis=2) + np.log(left) - np.log(weights).sum(axis=1)[:, None]
    index = np.argmin(deviance, axis=1)
    return deviance[np.arange(len(index)), index], _CLASS_GRID[index]


def _effects_of_totals(
    federation: ReportedClients, pooled: Floats, spread: Floats, design_effects: Floats
) -> tuple[Floats, Floats]:
    """τ² from the residuals c - p·L with L the classes' pooled accuracies, by weighted moments.

    With one effect per client the residuals are A·effects + noise, where A takes away what the client itself did to
    the pooled accuracies; E residual² = noise + τ² (A Aᵀ) on the diagonal, exactly, for any number of clients.
    """
    sizes, mixes, curves = federation.sizes, federation.mixes, federation.certified_accuracy
    examples = np.where(federation.labels > 0, federation.labels, 1.0)
    share = federation.label_counts / examples
    together = share.T @ share
    residuals = curves - mixes @ pooled
    variances, uncertain = [], []
    for index in range(len(federation.radii)):
        reach = mixes * spread[:, index]
        noise = (reach.sum(axis=1) / sizes - (mixes * reach) @ (1 / examples)) * design_effects[:, index]
        whole, own = reach.sum(axis=1), np.sum(reach * share, axis=1)
        moved = whole**2 - 2 * whole * own + np.sum((reach @ together) * reach, axis=1)
        told = (noise > 1e-12) & (moved > 1e-12)
        noise, moved, square = noise[told], moved[told], residuals[told, index] ** 2
        variance = 0.1
        for _ in range(30):
            weights = moved / (noise + variance * moved) ** 2
            variance = max(float(weights @ (square - noise)) / max(float(weights @ moved), 1e-300), 0.0)
        information = 0.5 * np.sum((moved / (noise + variance * moved)) ** 2)
        variances.append(variance)
        uncertain.append(1 / max(float(information), 1e-300))
    return np.array(variances), np.array(uncertain)


def _freedom(total: Floats, moved: Floats, uncertain: Floats) -> Floats:
    """Satterthwaite: 2 (se²)² / Var(se²), where only τ² is uncertain."""
    freedom = 2 * total**2 / np.maximum(moved**2 * uncertain, 1e-300)
    return np.asarray(np.maximum(freedom, _FEWEST_FREEDOM), dtype=np.float64)
