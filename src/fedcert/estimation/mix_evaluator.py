"""All that an estimate for any other class mix needs, whatever the number of clients.

Post-stratified estimates need the totals of each class. BLUP and its interval need sums of the size of classes x
classes, a few for each radius where clients' examples come in groups or clients differ: every variance in an interval
is a quadratic form in the mix, or in the coefficients that give the clients their weights. Whoever has a basis, such as
a page in a browser, gives for any mix what `estimate` gives for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.assembly import shift_test
from fedcert.estimation.clients.aggregated import AggregatedClients
from fedcert.estimation.clients.protocol import curves_of, evidence_of, examples
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.clients.statistics import SufficientStatistics
from fedcert.estimation.intervals.cluster_robust import ClassEffects, CurveEffects, effects_of
from fedcert.estimation.intervals.half_lengths import FINITE
from fedcert.estimation.intervals.ingredients import away_from_certain, grouping_factor
from fedcert.estimation.intervals.statement import interval_statement
from fedcert.estimation.methods.linear_model import Fit, fit
from fedcert.estimation.methods.linear_weights import MixEigenbasis
from fedcert.estimation.methods.minimax import deviations_for
from fedcert.estimation.methods.registry import Settings

MOST_CLASSES = 200
"""With more of them, weights of clients are not found at once."""


@dataclass(frozen=True)
class ByClass:
    """For estimates that weigh classes.

    Attributes:
        labels: examples of each class.
        certified: certified ones, classes x radii.
        factor: how much groups inflate variances, at each radius.
        noise: variances of noise in what is certified and in what is not, at each radius; None where there is none.
        drowned: the likeliest curve of a class whose count is within the noise; None where there is none.
    """

    labels: Floats
    certified: Floats
    factor: Floats
    noise: Floats | None
    drowned: Floats | None


@dataclass(frozen=True)
class ByClient:
    """For estimates that weigh clients, or all that is told, by a formula.

    Attributes:
        clients, examples: how many are weighed.
        labels_labels, labels_certified, rounding: see `SufficientStatistics`.
        values, vectors, ones: see `MixEigenbasis`.
        deviations: how many times sqrt(Σ a²/n) chance may cost.
        class_accuracy: the model's accuracy of each class, classes x radii.
        known: whether the clients are known, so that nothing is rounded.
        factor: how much groups inflate variances, at each radius.
        squares: quadratic forms of Σ a²/n at each radius, design effects included; None where `factor` tells all.
        variance: those of the estimated variance; None where squares stand for it.
        labels: examples of each class, where classes are weighed and nothing else; None where not.
    """

    clients: int
    examples: float
    labels_labels: Floats
    labels_certified: Floats
    rounding: float
    values: Floats
    vectors: Floats
    ones: Floats
    deviations: float
    class_accuracy: Floats
    known: bool
    factor: Floats
    squares: Floats | None
    variance: Floats | None
    labels: Floats | None


@dataclass(frozen=True)
class Differing:
    """How clients differ, where they do: see `clustered`.

    Attributes:
        variance, uncertain: of the clients' effects, at each radius.
        moved, noise, moves: quadratic forms at each radius, of what a client's effect moves, of chance and of what
            clients add to the error; in the mix where classes are weighed, else in the coefficients.
    """

    variance: Floats
    uncertain: Floats
    moved: Floats
    noise: Floats
    moves: Floats


@dataclass(frozen=True)
class MixEvaluator:
    """What estimates for all mixes are made of.

    Attributes:
        method: "poststratified" or "blup".
        interval: whether the interval follows from it too; False for those that are simulated.
        kind: of interval, as it says of itself.
        guarantee: what holds of the intervals, in words.
        settings: confidence, interval, simultaneous and target_examples.
        failure_probability: of certificates.
        pool: the clients' own class mix.
        parts: by class or by client.
        differing: how clients differ, where the interval allows for that.
    """

    method: str
    interval: bool
    kind: str
    guarantee: str
    settings: Settings
    failure_probability: float
    pool: Floats
    parts: ByClass | ByClient
    differing: Differing | None


def mix_evaluator(
    pool: ReportedClients | AggregatedClients,
    method: str,
    settings: Settings,
    whole: ReportedClients | AggregatedClients | None = None,
) -> MixEvaluator | None:
    """The basis of estimates; None where there are too many classes to weigh clients at once.

    Guarantee: for any mix, what follows from it is what `estimate` gives with the same method and settings, but for
    sums whose second sum allows for clients that differ on one target alone, and for non-negative weights.

    Args:
        pool: what is known of the clients, after screening.
        method: "poststratified" or "blup".
        settings: of the intervals.
        whole: the clients that screening kept, as they reported; the pool where None.
    """
    closed = method == "poststratified" and pool.open_count == pool.count
    if not closed and len(pool.classes) > MOST_CLASSES:
        return None
    test = shift_test(pool if whole is None else whole, settings)
    differing = isinstance(pool, ReportedClients) and test is not None and test.rejects
    parts = _by_class(pool) if closed else _by_client(pool, settings, differing)
    simulated = settings.simultaneous and (
        differing or (settings.interval != FINITE and _has_loads(parts) and getattr(pool, "noise", None) is None)
    )
    promised = interval_statement(pool, settings, differing)
    return MixEvaluator(
        method=method,
        interval=not simulated,
        kind=promised.kind,
        guarantee=promised.guarantee,
        settings=settings,
        failure_probability=pool.smoothing.failure_probability,
        pool=pool.labels / pool.labels.sum(),
        parts=parts,
        differing=_differing(pool, closed, settings.seed) if differing and isinstance(pool, ReportedClients) else None,
    )


def _has_loads(parts: ByClass | ByClient) -> bool:
    return isinstance(parts, ByClass) or parts.known or parts.labels is not None


def _by_class(pool: ReportedClients | AggregatedClients) -> ByClass:
    assert pool.class_totals is not None  # noqa: S101
    labels, certified = pool.class_totals
    noise, drowned = getattr(pool, "noise", None), getattr(pool, "drowned", None)
    return ByClass(labels, certified, grouping_factor(pool), noise, drowned)


def _by_client(pool: ReportedClients | AggregatedClients, settings: Settings, differing: bool) -> ByClient:
    fitted = fit(evidence_of(pool))
    known = isinstance(pool, ReportedClients) and (differing or pool.class_totals is None)
    weighed = curves_of(pool) if known else fitted.evidence
    spectrum = MixEigenbasis.of(weighed)
    factor, labels, squares, variance = np.ones(len(pool.radii)), None, None, None
    if isinstance(pool, ReportedClients) and known:
        squares, variance = _forms(pool, settings, fitted)
    else:
        curves = weighed is pool.curves
        factor = pool.effects if curves else np.maximum(pool.effects, grouping_factor(pool))
        labels = weighed.labels if not curves and pool.open_count == pool.count else None
    return ByClient(
        weighed.clients, _examples(pool, weighed), weighed.labels_labels, weighed.labels_certified, weighed.rounding,
        spectrum.values, spectrum.vectors, spectrum.ones, deviations_for(settings, len(pool.radii)),
        fitted.class_accuracy, known, factor, squares, variance, labels,
    )  # fmt: skip


def _examples(pool: ReportedClients | AggregatedClients, weighed: SufficientStatistics) -> float:
    return weighed.examples if weighed.examples else float(examples(pool))


def _forms(federation: ReportedClients, settings: Settings, fitted: Fit) -> tuple[Floats | None, Floats | None]:
    """Σ l lᵀ/n with design effects, and with each client's variance at each radius."""
    effects = federation.design_effects
    squares = None if effects is None else _quadratic(federation, effects / federation.sizes[:, None])
    if settings.interval == FINITE:
        return squares, None
    accuracy = away_from_certain(fitted.class_accuracy)
    each = federation.mixes @ (accuracy * (1 - accuracy)) / federation.sizes[:, None]
    return squares, _quadratic(federation, each if effects is None else each * effects)


def _quadratic(federation: ReportedClients, factors: Floats) -> Floats:
    """Σ l lᵀ f over the clients, for each radius: radii x classes x classes."""
    labels = federation.label_counts
    return np.stack([labels.T @ (labels * column[:, None]) for column in factors.T])


def _differing(federation: ReportedClients, closed: bool, seed: int) -> Differing:
    effects = effects_of(federation, closed, seed)
    if isinstance(effects, CurveEffects):
        moves = (effects.residuals / effects.kept) ** 2
        forms = (_quadratic(federation, one) for one in (effects.reach**2, effects.noise, moves))
        return Differing(effects.variance, effects.uncertain, *forms)
    assert isinstance(effects, ClassEffects)  # noqa: S101
    share = federation.label_counts / effects.examples
    together = share.T @ share
    spread, noise = effects.spread_of.T, effects.noise.T
    moved = together * spread[:, :, None] * spread[:, None, :]
    diagonal = np.stack([np.diag(row) for row in noise])
    return Differing(effects.variance, effects.uncertain, moved, diagonal, effects.moves())
