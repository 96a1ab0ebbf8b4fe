"""The curve and its interval for any class mix: one evaluator behind estimates, what-ifs, the classes' own curves and
the page, whose script is a port of it (`mix_forms` packs what that needs)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.clients import AggregatedClients, Clients, all_disclose, pooled_mix
from fedcert.estimation.clients.readings import VoteReadings
from fedcert.estimation.intervals.cluster_robust import ClientEffects, SummedEffects
from fedcert.estimation.intervals.ingredients import Uncertainty
from fedcert.estimation.intervals.registry import interval_kind
from fedcert.estimation.intervals.statement import (
    IntervalResult,
    IntervalStatement,
    allowed_interval,
    interval_ends,
    interval_statement,
    make_interval,
)
from fedcert.estimation.methods.minimax import shortest_of_curves
from fedcert.estimation.methods.point_estimate import PointEstimate
from fedcert.estimation.methods.registry import METHODS, Method, check_knows
from fedcert.estimation.prepared import EndOfInterval, PreparedClients, VoteEnds
from fedcert.estimation.settings import Settings

_SAME_MIX = 1e-9
"""Shares that differ by no more than this are the same: a target is written down in decimals."""


@dataclass(frozen=True)
class MixEstimate:
    """The estimate for one class mix.

    Attributes:
        mix: the class mix.
        point: what the method gave.
        curve: certified accuracy at each radius, within the interval.
        interval: None for methods without one.
        effects: the client effects that the interval allows for; None where it allows for none.
    """

    mix: Floats
    point: PointEstimate
    curve: Floats
    interval: IntervalResult | None
    effects: ClientEffects | None


@dataclass(frozen=True)
class MixEvaluator:
    """Estimates of one method for any class mix.

    Attributes:
        prepared: the clients.
        method: how to estimate.
    """

    prepared: PreparedClients
    method: Method

    def __post_init__(self) -> None:
        check_knows(self.method, self.prepared.clients)

    def at(self, mix: Floats) -> MixEstimate:
        """The estimate for a class mix.

        Guarantee: the interval's own, for this mix by itself; the weights behind it look at labels alone.

        Raises:
            CallError: the method cannot be loaded.
            EstimationProblem: the method needs more than is known.
        """
        return self._at(mix, self.prepared.settings)

    def _at(self, mix: Floats, settings: Settings) -> MixEstimate:
        clients = self.prepared.clients
        point = self.method.estimator()(clients, mix, settings)
        if point.uncertainty is None:
            curve = np.clip(point.certified_accuracy, 0.0, 1.0)  # a weighted mean may be outside by rounding
            return MixEstimate(mix, point, curve, None, None)
        name = self.method.name if point.chosen is None else point.chosen.method
        if self.prepared.vote is not None:
            method = self.method if point.chosen is None else METHODS[name]
            interval, effects = self._interval_of_vote(self.prepared.vote, method, mix, settings)
        else:
            uncertainty, effects = _allowing_for_effects(self.prepared, name, point.uncertainty, mix)
            interval = make_interval(uncertainty, mix, clients, settings, effects)
        curve = np.clip(np.clip(point.certified_accuracy, *interval.point_range), 0.0, 1.0)
        return MixEstimate(mix, point, curve, interval, effects)

    def _interval_of_vote(
        self, vote: VoteEnds, method: Method, mix: Floats, settings: Settings
    ) -> tuple[IntervalResult, ClientEffects | None]:
        """The interval of what a vote keeps: each end by scores that are proven on its side of it."""
        readings, unheld = vote.readings, unheld_share(self.prepared.clients, mix)
        tested = settings_for_votes(settings, readings)
        (share, _), effects, single_cells = self._ends(vote.lower, method, mix, tested)
        (_, other), _, _ = self._ends(vote.upper, method, mix, tested)
        statement = interval_statement(self.prepared.clients, settings, effects is not None, single_cells, readings)
        lower, upper = vote.lower.lower(share, unheld), vote.upper.upper(other, unheld)
        at_once = settings.simultaneous or readings.offered is not None
        return allowed_interval(lower, upper, statement, 0.0, at_once), effects

    def _ends(
        self, end: EndOfInterval, method: Method, mix: Floats, settings: Settings
    ) -> tuple[tuple[Floats, Floats], ClientEffects | None, bool]:
        """Both ends in shares of the scores' range, the client effects in them, and whether single cells are known."""
        clients = end.prepared.clients
        uncertainty = method.estimator()(clients, mix, settings).uncertainty
        assert uncertainty is not None  # noqa: S101 (the same method gave one before)
        uncertainty, effects = _allowing_for_effects(end.prepared, method.name, uncertainty, mix)
        if isinstance(effects, SummedEffects):
            effects = self._in_shares(effects, end)
        single_cells = uncertainty.segments is not None or clients.noisy_totals is not None
        return interval_ends(uncertainty, mix, clients, settings, effects), effects, single_cells

    def _in_shares(self, effects: SummedEffects, end: EndOfInterval) -> SummedEffects | None:
        """Client effects of a second sum, which are of scores at what the request names; None for anything else."""
        vote, clients = self.prepared.vote, self.prepared.clients
        if vote is None or vote.readings.offered is not None or not isinstance(clients, AggregatedClients):
            return None
        places = [clients.sums.radii.index(radius) for radius in clients.radii if radius in clients.sums.radii]
        if len(places) < len(clients.radii):
            return None
        covariance = effects.covariance[np.ix_(places, places)] / np.outer(end.width, end.width)
        return replace(effects, covariance=covariance)

    def by_class(self) -> list[MixEstimate]:
        """The estimates for targets of one class each.

        Guarantee: each interval's own, for its class by itself, and not for a class that is picked by its estimate.
        With the setting `all_classes`, the confidence 1 - q holds for all M classes at once, by a union over intervals
        of confidence 1 - q/M.
        """
        classes, settings = len(self.prepared.clients.classes), self.prepared.settings
        if settings.all_classes:
            settings = replace(settings, confidence=1 - (1 - settings.confidence) / classes)
        return [self._at(mix, settings) for mix in np.eye(classes)]

    @property
    def statement(self) -> IntervalStatement:
        """What all of its intervals say of themselves, but for those of a mix that a second sum was made for."""
        clients, settings = self.prepared.clients, self.prepared.settings
        uncertainty = self.method.estimator()(clients, pooled_mix(clients), settings).uncertainty
        known = uncertainty is None or uncertainty.segments is not None
        single_cells = known or clients.noisy_totals is not None
        readings = None if self.prepared.vote is None else self.prepared.vote.readings
        return interval_statement(clients, settings, self.prepared.clients_differ, single_cells, readings)


def unheld_share(clients: Clients, mix: Floats) -> float:
    """The share of a class mix that no client is known to hold."""
    held = clients.labels > 0 if clients.noisy_totals is None else clients.noisy_totals.sizes > 0
    return float(mix[~held].sum())


def settings_for_votes(settings: Settings, readings: VoteReadings) -> Settings:
    """The settings of the tests behind a vote's interval: the error is shared by all that was on offer.

    Where radii were named before, those are on offer where the interval holds for all of them at once. How rounded
    scores hang together over the radii is not that of certificates, so that no quantile is simulated.
    """
    error, radii = 1 - settings.confidence, len(readings.radii)
    if readings.offered is not None:
        return replace(settings, confidence=1 - error / readings.offered, simultaneous=False)
    if settings.simultaneous and interval_kind(settings.interval).simulated:
        return replace(settings, confidence=1 - error / readings.named, simultaneous=False)
    return replace(settings, confidence=1 - error * (radii / readings.named if settings.simultaneous else 1.0))


def weighs_classes(clients: Clients, method: str) -> bool:
    """Whether a method weighs classes by their totals, rather than clients or all that is disclosed."""
    return method == "poststratified" and all_disclose(clients)


def _allowing_for_effects(
    prepared: PreparedClients, method: str, uncertainty: Uncertainty, mix: Floats
) -> tuple[Uncertainty, ClientEffects | None]:
    """The ingredients of an interval, with client effects where the test of label shift rejects.

    Effects of clients need weights of clients. Where counts of some clients enter by class, the interval is then that
    of the minimax weights of all clients' curves.
    """
    clients = prepared.clients
    if isinstance(clients, AggregatedClients):
        return uncertainty, _summed_effects(method, clients, mix)
    if not prepared.clients_differ:
        return uncertainty, None
    by_class = weighs_classes(clients, method)
    if uncertainty.weights is None and not by_class:
        uncertainty = shortest_of_curves(clients, mix, prepared.settings)
    return uncertainty, prepared.client_effects(by_class)


def _summed_effects(method: str, clients: AggregatedClients, mix: Floats) -> SummedEffects | None:
    """Client effects, where a second sum was made for this mix."""
    spread = clients.sums.spread
    if spread is None or method != "poststratified" or np.abs(np.subtract(spread.target, mix)).max() > _SAME_MIX:
        return None
    return SummedEffects(np.array(spread.covariance), spread.freedom)
