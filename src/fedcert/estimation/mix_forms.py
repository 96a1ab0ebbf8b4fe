"""A mix evaluator as arrays (`mix_arrays`), made of clients that are prepared.

Guarantee: for any mix, what follows from the arrays is what `MixEvaluator.at` gives with the same method and settings,
but for sums whose second sum allows for client effects on one target alone, and for non-negative weights.
"""

from __future__ import annotations

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
from fedcert.estimation.mix_arrays import (
    ByClass,
    ByClient,
    ClassCells,
    ClientCells,
    EffectForms,
    EndForms,
    MixForms,
    NoiseForms,
    VoteForms,
)
from fedcert.estimation.mix_evaluator import MixEvaluator, settings_for_votes, weighs_classes
from fedcert.estimation.prepared import EndOfInterval, PreparedClients, VoteEnds
from fedcert.estimation.settings import OF_INTERVALS, Settings

MOST_CLASSES = 200
"""Of more classes, clients are not weighed in the browser: the arrays would be 6 MB and a solve would take seconds."""
MOST_CELLS = 200_000
"""Clients times classes of which the page carries the label counts: some 270 KB, where most are below 128."""

_UNKNOWN = 0.5
"""What the point has for a class that no client holds: see `poststratified`."""


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
    clients, settings, ends = prepared.clients, prepared.settings, prepared.vote
    by_class = weighs_classes(clients, method)
    if not by_class and len(clients.classes) > MOST_CLASSES:
        return None
    classes = each = effects = vote = None
    if ends is None:
        classes, each, effects = _arrays(prepared, settings, by_class)
        no_interval = _no_interval(prepared, settings, each)
    else:
        vote = _vote_forms(prepared, ends, by_class)
        classes = None if clients.noisy_totals is None else _by_class(clients)
        tested = settings_for_votes(settings, ends.readings)
        no_interval = _no_interval(ends.lower.prepared, tested, vote.lower.by_client)
    statement = MixEvaluator(prepared, METHODS[method]).statement
    return MixForms(
        method, no_interval, statement.kind, statement.guarantee, settings.used(*OF_INTERVALS),
        clients.smoothing.failure_probability or 0.0, pooled_mix(clients), classes, each, effects, vote,
    )  # fmt: skip


def _arrays(
    prepared: PreparedClients, settings: Settings, by_class: bool
) -> tuple[ByClass | None, ByClient | None, EffectForms | None]:
    """What curves and intervals follow from, with these settings of the intervals."""
    classes = _by_class(prepared.clients) if by_class else None
    each = None if by_class else _by_client(prepared, settings)
    return classes, each, _effect_forms(prepared, by_class)


def _vote_forms(prepared: PreparedClients, ends: VoteEnds, by_class: bool) -> VoteForms:
    tested = settings_for_votes(prepared.settings, ends.readings)

    def forms(end: EndOfInterval) -> EndForms:
        return EndForms(end.low, end.width, tested.used(*OF_INTERVALS), *_arrays(end.prepared, tested, by_class))

    clients, noisy = prepared.clients, prepared.clients.noisy_totals
    held = (clients.labels if noisy is None else noisy.sizes) > 0  # as `unheld_share` has it
    at_once = prepared.settings.simultaneous or ends.readings.offered is not None
    accuracy = _class_accuracy(clients, by_class)
    return VoteForms(accuracy, held.astype(np.float64), at_once, forms(ends.lower), forms(ends.upper))


def _class_accuracy(clients: Clients, by_class: bool) -> Floats | None:
    """What the mix is multiplied with for the point, before it is made to fall; None with noise for privacy."""
    if clients.noisy_totals is not None:
        return None
    if not by_class:
        return fit(statistics_of(clients)).class_accuracy
    assert clients.class_totals is not None  # noqa: S101
    labels, certified = clients.class_totals[0][:, None], clients.class_totals[1]
    return np.divide(certified, labels, out=np.full_like(certified, _UNKNOWN), where=labels > 0)


def _no_interval(prepared: PreparedClients, settings: Settings, by_client: ByClient | None) -> str | None:
    """Why the interval does not follow from the arrays; None where it does."""
    kind, clients = interval_kind(settings.interval), prepared.clients
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
    if settings.simultaneous and (simulated or prepared.clients_differ):
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


def _by_client(prepared: PreparedClients, settings: Settings) -> ByClient:
    clients, differ = prepared.clients, prepared.clients_differ
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
    # Where client effects are why curves are weighed in spite of counts per class, `MixEvaluator` has its own settings.
    weighing = prepared.settings if known and clients.class_totals is not None else settings
    return ByClient(
        weighed.clients, weighed.examples or float(examples(clients)), weighed.labels_labels, weighed.labels_certified,
        weighed.rounding, directions.values, directions.vectors, directions.ones,
        deviations_for(weighing, len(clients.radii)), fitted.class_accuracy, known, factor, squares, variance,
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
