"""Clients prepared for estimates: screened, and tested for label shift, once for all methods and targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property, partial

from fedcert.errors import EstimationProblem
from fedcert.estimation.clients import AggregatedClients, Clients, ReportedClients
from fedcert.estimation.diagnostics.label_shift import ShiftTest, label_shift_test
from fedcert.estimation.diagnostics.screening import Screened
from fedcert.estimation.diagnostics.screening import screen as screen_clients
from fedcert.estimation.intervals.cluster_robust import ClientEffects, effects_of
from fedcert.estimation.settings import Settings
from fedcert.report import LoadedReports, load
from fedcert.report.load import Source


def clients_of(reports: Source | Iterable[Source] | LoadedReports) -> Clients:
    """Clients from their reports; with sums among these, from sums alone.

    Raises:
        CannotCombine: the reports do not belong together.
        EstimationProblem: no client has any test example.
    """
    loaded = reports if isinstance(reports, LoadedReports) else load(reports)
    if loaded.reports is not None and loaded.sums is None:
        return ReportedClients.of(loaded.reports)
    return AggregatedClients(loaded.whole)


@dataclass(frozen=True, eq=False)
class PreparedClients:
    """Clients, and what is computed of them once.

    Attributes:
        clients: after screening.
        settings: of all estimates from them.
        screened: the result of screening; None where the settings ask for none.
    """

    clients: Clients
    settings: Settings
    screened: Screened | None

    @classmethod
    def of(cls, clients: Clients, settings: Settings) -> PreparedClients:
        """Clients, screened where the settings ask for it.

        Raises:
            EstimationProblem: sums are to be screened.
        """
        if not settings.screen:
            return cls(clients, settings, None)
        if not isinstance(clients, ReportedClients):
            raise EstimationProblem("sums cannot be screened: they tell no client apart; give the clients' reports")
        screened = screen_clients(clients, settings.seed, frozenset(settings.trusted))
        return cls(screened.federation, settings, screened)

    @property
    def whole(self) -> Clients:
        """The clients that screening kept, with all of their examples."""
        return self.clients if self.screened is None else self.screened.kept

    @cached_property
    def shift_test(self) -> ShiftTest | None:
        """The test of label shift; None where only sums are known."""
        return label_shift_test(self.whole, self.settings.seed) if isinstance(self.whole, ReportedClients) else None

    @property
    def clients_differ(self) -> bool:
        """Whether the test of label shift rejects: the intervals must allow for client effects."""
        return self.shift_test is not None and self.shift_test.rejects

    def client_effects(self, by_class: bool) -> ClientEffects | None:
        """Client effects, from counts per class or from curves; None where the clients do not differ."""
        return self._effects(by_class) if self.clients_differ else None

    @cached_property
    def _effects(self) -> Callable[[bool], ClientEffects]:
        assert isinstance(self.clients, ReportedClients)  # noqa: S101
        return cache(partial(effects_of, self.clients, seed=self.settings.seed))
