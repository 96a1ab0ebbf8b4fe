"""Whether an estimate depends on clients that screening would leave out or cut: what liars can do to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from fedcert._arrays import Floats
from fedcert.errors import preview
from fedcert.estimation.clients import ReportedClients
from fedcert.estimation.diagnostics.checks import UNRELIABLE, Check
from fedcert.estimation.diagnostics.screening import ASYMMETRIC, Screened, screen
from fedcert.estimation.intervals.ingredients import Uncertainty
from fedcert.estimation.methods.registry import AUTO, METHODS
from fedcert.estimation.prepared import PreparedClients
from fedcert.estimation.settings import Settings

_MOVED = 0.7
"""Standard errors by which clients that screening leaves out may move the estimate, on average over the radii: with
more, its root mean squared error would be some 1.5 times that of the others alone."""
_CHANCE = 3.9
"""The same for clients that are cut to size, who may well be right: a quantile of 99.99%."""
_LEAST = 0.005
"""A difference that would change no decision, whatever chance says of it."""
_MOST_COMPARED, _LARGEST_COMPARED = 20_000, 100
"""Clients at random, and the largest ones, that are looked at: a second, however many there are."""
_MOST_NAMED = 5
"""Clients that a sentence names."""


class _EstimatedCurve(NamedTuple):
    """An estimate and its standard errors, at each radius."""

    values: Floats
    errors: Floats

    @classmethod
    def of(cls, clients: ReportedClients, mix: Floats, settings: Settings) -> _EstimatedCurve:
        point = METHODS[AUTO].estimator()(clients, mix, settings)
        assert point.uncertainty is not None  # noqa: S101 (the automatic methods have one)
        return cls(point.certified_accuracy, _standard_errors(point.uncertainty))


def _standard_errors(uncertainty: Uncertainty) -> Floats:
    variance = uncertainty.example_variance
    if variance is None or uncertainty.class_variance_weights is None:
        return np.sqrt(uncertainty.sum_squared_weights / 4)
    return np.asarray(np.sqrt(np.sum(uncertainty.class_variance_weights * variance, axis=0)), dtype=np.float64)


def depends_on_odd_clients(prepared: PreparedClients, mix: Floats) -> Check | None:
    """Compare the estimate with that of a screened federation, where no screening was asked for.

    None where clients that screening would leave out move the estimate by less than 0.7 standard errors, and cutting
    huge ones to size moves it by no more than chance. Where clients differ in general and to both sides, so that the
    odd ones are no exception, both are held to chance alone. Otherwise some clients decide the result, and whether they
    are right cannot be known from the counts. The estimates that are compared are the automatic ones, whatever method
    was asked for: it is the clients that are in doubt. Of more than 20,000 clients some at random and the largest are
    looked at.

    Args:
        prepared: the clients, not screened.
        mix: the target's class mix.
    """
    tested = prepared if prepared.tested_by is None else prepared.tested_by
    if tested.screened is not None or not isinstance(tested.clients, ReportedClients):
        return None
    clients = _some_of(tested.clients, tested.settings.seed)
    screened = screen(clients, tested.settings.seed, frozenset(tested.settings.trusted))
    if not screened.dropped and not screened.reduced:
        return None
    plain = _EstimatedCurve.of(clients, mix, tested.settings)
    trusted = frozenset(tested.settings.trusted)
    odd: Mapping[str, str] = {
        client: why for client, why in {**screened.dropped, **screened.reduced}.items() if client not in trusted
    }
    known = np.array([client in trusted for client in screened.federation.clients])
    factors = np.where(known, 1.0, screened.factors)  # who is trusted may be large
    others = _EstimatedCurve.of(clients.part(screened.stays, {}, factors), mix, tested.settings)
    apart, scale = np.abs(plain.values - others.values), np.sqrt(screened.spread)
    decided = bool(np.any((apart > _CHANCE * scale * others.errors) & (apart >= _LEAST)))
    if not decided and (screened.asymmetry > ASYMMETRIC or not _differ_without(tested, screened)):
        others = _EstimatedCurve.of(clients.part(screened.stays, {}, screened.uncut), mix, tested.settings)
        apart = np.abs(plain.values - others.values)
        allowed = _MOVED * scale * np.linalg.norm(others.errors)
        decided = bool(np.linalg.norm(apart) > allowed and apart.max() >= _LEAST)
    if not decided:
        return None
    worst = int(np.argmax(apart))
    sentence = (
        f"Some clients decide the result: the automatic estimate at radius {clients.radii[worst]:g} is "
        f"{plain.values[worst]:.1%} with all, and {others.values[worst]:.1%} without what screening leaves out or cuts "
        f"({_named(odd)}). Check their reports, or use --screen."
    )
    return Check("single clients", UNRELIABLE, float(apart[worst]), sentence)


def _differ_without(tested: PreparedClients, screened: Screened) -> bool:
    """Whether clients differ without those that screening leaves out: then these are no exception."""
    return tested.clients_differ and PreparedClients(screened.kept, tested.settings, None).clients_differ


def _some_of(clients: ReportedClients, seed: int) -> ReportedClients:
    """Of very many clients some at random and the largest ones: single small clients decide nothing."""
    if clients.count <= _MOST_COMPARED:
        return clients
    chosen = np.zeros(clients.count, dtype=np.bool_)
    chosen[np.random.default_rng(seed).choice(clients.count, _MOST_COMPARED, replace=False)] = True
    chosen[np.argsort(-clients.sizes, kind="stable")[:_LARGEST_COMPARED]] = True
    return clients.part(chosen, {})


def _named(clients: Collection[str]) -> str:
    named = ", ".join(preview(client) for client in list(clients)[:_MOST_NAMED])
    return named + (f" and {len(clients) - _MOST_NAMED} more" if len(clients) > _MOST_NAMED else "")
