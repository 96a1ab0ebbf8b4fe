"""A mix evaluator as arrays: what the page's script evaluates any class mix from.

Post-stratified estimates need the totals of each class. BLUP and its interval need matrices of classes x classes, a few
for each radius where clients' examples come in groups or clients differ: every variance in an interval is a quadratic
form in the mix, or in the coefficients that give the clients their weights. These do not grow with the clients; the
label counts of each client, which the finite-sample interval of curves needs besides, do.

Guarantee: for any mix, what follows from the arrays is what `MixEvaluator.at` gives with the same method and settings,
but for sums whose second sum allows for client effects on one target alone, and for non-negative weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats
from fedcert.estimation.clients import (
    Clients,
    ReportedClients,
    examples,
    overall_statistics_of,
    pooled_mix,
    statistics_of,
)
from fedcert.estimation.intervals import ingredients
from fedcert.estimation.intervals.cluster_robust import ClassEffects, CurveEffects
from fedcert.estimation.intervals.least_favourable.segments import class_rows
from fedcert.estimation.intervals.registry import interval_kind
from fedcert.estimation.methods.linear_model import Fit, fit
from fedcert.estimation.methods.minimax import deviations_for
from fedcert.estimation.methods.registry import METHODS
from fedcert.estimation.mix_evaluator import MixEvaluator, weighs_classes
from fedcert.estimation.prepared import PreparedClients
from fedcert.estimation.settings import OF_INTERVALS, Settings

MOST_CLASSES = 200
"""Of more classes, clients are not weighed in the browser: the arrays would be 6 MB and a solve would take seconds."""
MOST_CELLS = 200_000
"""Clients times classes of which the page carries the label counts: some 270 KB, where most are below 128."""


@dataclass(frozen=True)
class ClassCells:
    """Cells by class: see `ClassRows`.

    Attributes:
        group_sizes: how many examples' weight an example of each row has.
        examples: rows x classes.
        smooth: 1 for rows of independent examples, else 0.
    """

    group_sizes: Floats
    examples: Floats
    smooth: Floats


@dataclass(frozen=True)
class ClientCells:
    """Cells by client: see `client_rows`.

    Attributes:
        labels: examples, clients x classes.
        group_sizes: each client's largest group.
        smooth: 1 for clients that count in full, else 0.
    """

    labels: Floats
    group_sizes: Floats
    smooth: Floats


@dataclass(frozen=True)
class NoiseForms:
    """Noise for privacy in the classes' counts: see `NoisyTotals`, of which this is all but the counts themselves.

    Attributes:
        sizes: those that choose and weigh classes; 0 where a class is not held.
        sizes_variance, labels_variance: of the noise in these sizes, and in the examples of each class.
        certified_variance, covariance: of the noise in certified examples, and of both counts' noise, at each radius.
    """

    sizes: Floats
    sizes_variance: float
    labels_variance: float
    certified_variance: Floats
    covariance: Floats


@dataclass(frozen=True)
class ByClass:
    """For estimates that weigh classes.

    Attributes:
        labels: examples of each class.
        certified: certified ones, classes x radii.
        inflation: how much groups inflate the variance of each class.
        cells: of the least-favourable interval; None with noise for privacy, which has an interval of its own.
        noise: that noise; None where counts are exact.
        fallback_curve: see `Clients.fallback_curve`.
    """

    labels: Floats
    certified: Floats
    inflation: Floats
    cells: ClassCells | None
    noise: NoiseForms | None
    fallback_curve: Floats | None


@dataclass(frozen=True)
class ByClient:
    """For estimates that weigh clients, or everything that is disclosed, by a formula.

    Attributes:
        clients, examples: how many are weighed.
        labels_labels, labels_certified, rounding: see `SufficientStatistics`.
        values, vectors, ones: see `MixEigenbasis`.
        deviations: how many times sqrt(Σ a²/n) chance may cost.
        class_accuracy: the model's accuracy of each class, classes x radii.
        known: whether the clients are known one by one, so that nothing is rounded.
        factor: how much groups inflate variances, at each radius.
        squares: quadratic forms of Σ a²/n at each radius, groups included; None where `factor` is enough.
        variance: those of the estimated variance; None where squares stand for it.
        asymmetry: the same with each class's variance times 1 - 2L, L its accuracy.
        labels: examples of each class, where classes are weighed and nothing else; None where not.
        inflation: how much groups inflate the variance of each class, in the same case.
        client_cells, class_cells: of the least-favourable interval; None where there are none of the kind. With neither
            one, it is Hoeffding's.
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
    asymmetry: Floats | None
    labels: Floats | None
    inflation: Floats | None
    client_cells: ClientCells | None
    class_cells: ClassCells | None


@dataclass(frozen=True)
class EffectForms:
    """Client effects, where clients differ: see `cluster_robust`.

    Attributes:
        variance, variance_error: τ² at each radius, and the variance of that estimate.
        moved, noise, scores: quadratic forms at each radius, of the effects' part of the variance over τ², of chance
            and of the sandwich; in the mix where classes are weighed, else in the coefficients.
    """

    variance: Floats
    variance_error: Floats
    moved: Floats
    noise: Floats
    scores: Floats


@dataclass(frozen=True)
class MixForms:
    """An evaluator as arrays.

    Attributes:
        method: its name.
        no_interval: why the interval does not follow too, in words; None where it does.
        kind: of interval, as it says of itself.
        guarantee: what holds of the intervals, in words.
        settings: confidence, interval, simultaneous and target_examples.
        failure_probability: of certificates.
        pooled_mix: the clients' own class mix.
        by_class, by_client: for estimates that weigh the former or the latter; the other one is None.
        client_effects: where the interval allows for them.
    """

    method: str
    no_interval: str | None
    kind: str
    guarantee: str
    settings: Mapping[str, Any]
    failure_probability: float
    pooled_mix: Floats
    by_class: ByClass | None
    by_client: ByClient | None
    client_effects: EffectForms | None


def poststratified_forms(prepared: PreparedClients) -> MixForms | None:
    """Of post-stratified estimates; None where no client discloses counts per class, or some and classes are many."""
    return None if prepared.clients.class_totals is None else _forms(prepared, "poststratified")


def blup_forms(prepared: PreparedClients) -> MixForms | None:
    """Of BLUP; None where totals alone are known, with noise, non-negative weights or too many classes."""
    clients = prepared.clients
    if clients.statistics is None or clients.noisy_totals is not None or prepared.settings.non_negative:
        return None
    return _forms(prepared, "blup")


def _forms(prepared: PreparedClients, method: str) -> MixForms | None:
    clients, settings = prepared.clients, prepared.settings
    by_class = weighs_classes(clients, method)
    if not by_class and len(clients.classes) > MOST_CLASSES:
        return None
    classes = _by_class(clients) if by_class else None
    each = None if by_class else _by_client(clients, settings, prepared.clients_differ)
    statement = MixEvaluator(prepared, METHODS[method]).statement
    return MixForms(
        method, _no_interval(prepared, each), statement.kind, statement.guarantee, settings.used(*OF_INTERVALS),
        clients.smoothing.failure_probability, pooled_mix(clients), classes, each, _effect_forms(prepared, by_class),
    )  # fmt: skip


def _no_interval(prepared: PreparedClients, by_client: ByClient | None) -> str | None:
    """Why the interval does not follow from the arrays; None where it does."""
    kind, clients = interval_kind(prepared.settings.interval), prepared.clients
    if not kind.scripted:
        return f"The page's script does not have the interval {kind.title!r}."
    if by_client is not None and isinstance(clients, ReportedClients):
        if kind.needs_cells is not None and clients.label_counts.size > MOST_CELLS and by_client.labels is None:
            return (
                f"It rests on the label counts of single clients, and the page carries no more than {MOST_CELLS:,} of "
                f"them: here are {clients.count:,} clients with {len(clients.classes):,} classes."
            )
        if clients.largest_groups is not None and not by_client.known and by_client.labels is None:
            return (  # which of two statistics is shorter would have to be decided for each mix
                "Examples come in groups and only some clients disclose counts per class, which the page's script "
                "does not know."
            )
    by_variance = by_client is None or by_client.known or by_client.labels is not None
    simulated = kind.simulated and by_variance and clients.noisy_totals is None
    if prepared.settings.simultaneous and (simulated or prepared.clients_differ):
        return "For all radii at once its quantiles are simulated, which the page's script does not do."
    return None


def _by_class(clients: Clients) -> ByClass:
    assert clients.class_totals is not None  # noqa: S101
    inflation, noisy = ingredients.class_inflation(clients), clients.noisy_totals
    if noisy is None:
        return ByClass(*clients.class_totals, inflation, _class_cells(clients), None, clients.fallback_curve)
    noise = NoiseForms(
        noisy.sizes, noisy.sizes_variance, noisy.labels_variance, noisy.certified_variance, noisy.covariance
    )
    return ByClass(noisy.labels, noisy.certified, inflation, None, noise, clients.fallback_curve)


def _class_cells(clients: Clients) -> ClassCells:
    rows = class_rows(clients, np.ones(len(clients.classes)))
    return ClassCells(rows.weights[:, 0], rows.examples, rows.smooth.astype(np.float64))


def _client_cells(clients: ReportedClients, settings: Settings, chosen: npt.NDArray[np.bool_]) -> ClientCells | None:
    """Of the chosen clients; None where there are none, or where the interval does not need or does not have them."""
    needed = interval_kind(settings.interval).needs_cells and clients.label_counts.size <= MOST_CELLS
    if not needed or not chosen.any():
        return None
    count = int(chosen.sum())
    groups = np.ones(count) if clients.largest_groups is None else clients.largest_groups[chosen].astype(np.float64)
    whole = np.ones(count) if clients.factors is None else (clients.factors[chosen] >= 1).astype(np.float64)
    return ClientCells(clients.label_counts[chosen], groups, whole)


def _by_client(clients: Clients, settings: Settings, differ: bool) -> ByClient:
    fitted = fit(statistics_of(clients))
    weighed, factor = fitted.statistics, np.ones(len(clients.radii))
    squares = variance = asymmetry = labels = inflation = client_cells = class_cells = None
    known = isinstance(clients, ReportedClients) and (differ or clients.class_totals is None)
    if isinstance(clients, ReportedClients) and known:
        weighed = overall_statistics_of(clients)
        squares, variance, asymmetry = _variance_forms(clients, settings, fitted)
        client_cells = _client_cells(clients, settings, np.ones(clients.count, dtype=np.bool_))
    elif ingredients.weighs_classes_alone(clients, weighed):
        labels, inflation, class_cells = weighed.labels, ingredients.class_inflation(clients), _class_cells(clients)
    elif isinstance(clients, ReportedClients):
        client_cells, class_cells = _client_cells(clients, settings, ~clients.has_class_counts), _class_cells(clients)
    else:
        factor = clients.largest_design_effects
        if weighed is not clients.overall_statistics:
            factor = np.full(len(factor), float(clients.largest_group))
    directions = weighed.eigenbasis
    return ByClient(
        weighed.clients, weighed.examples or float(examples(clients)), weighed.labels_labels, weighed.labels_certified,
        weighed.rounding, directions.values, directions.vectors, directions.ones,
        deviations_for(settings, len(clients.radii)), fitted.class_accuracy, known, factor, squares, variance,
        asymmetry, labels, inflation, client_cells, class_cells,
    )  # fmt: skip


def _variance_forms(
    federation: ReportedClients, settings: Settings, fitted: Fit
) -> tuple[Floats | None, Floats | None, Floats | None]:
    """Σ l lᵀ/n with design effects, with each client's variance at each radius, and with its asymmetry."""
    effects = federation.design_effects
    squares = None if effects is None else _quadratic(federation, effects / federation.sizes[:, None])
    if not interval_kind(settings.interval).uses_variances:
        return squares, None, None
    accuracy = ingredients.away_from_certain(fitted.class_accuracy)
    scale = (1.0 if effects is None else effects) / federation.sizes[:, None]
    spread = accuracy * (1 - accuracy)
    variance = _quadratic(federation, federation.mixes @ spread * scale)
    return squares, variance, _quadratic(federation, federation.mixes @ (spread * (1 - 2 * accuracy)) * scale)


def _quadratic(federation: ReportedClients, factors: Floats) -> Floats:
    """Σ l lᵀ f over the clients, for each radius: radii x classes x classes."""
    labels = federation.label_counts
    return np.stack([labels.T @ (labels * column[:, None]) for column in factors.T])


def _effect_forms(prepared: PreparedClients, by_class: bool) -> EffectForms | None:
    clients, effects = prepared.clients, prepared.client_effects(by_class)
    if effects is None:
        return None
    assert isinstance(clients, ReportedClients)  # noqa: S101
    if isinstance(effects, CurveEffects):
        scores = (effects.residuals / effects.kept) ** 2
        forms = (_quadratic(clients, factors) for factors in (effects.sensitivity**2, effects.noise, scores))
        return EffectForms(effects.variance, effects.variance_error, *forms)
    assert isinstance(effects, ClassEffects)  # noqa: S101
    share = clients.label_counts / effects.examples
    together = share.T @ share
    sensitivity = effects.sensitivity.T
    moved = together * sensitivity[:, :, None] * sensitivity[:, None, :]
    diagonal = np.stack([np.diag(row) for row in effects.noise.T])
    return EffectForms(effects.variance, effects.variance_error, moved, diagonal, effects.score_products())
