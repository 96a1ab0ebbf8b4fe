"""Clients prepared for estimates: screened, and tested for label shift, once for all methods and targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial

import numpy as np

from fedcert._arrays import Floats
from fedcert.errors import EstimationProblem
from fedcert.estimation.clients import AggregatedClients, Clients, ReportedClients
from fedcert.estimation.clients.readings import VoteReadings, check_readable_again, named_readings, vote_readings
from fedcert.estimation.diagnostics.class_outliers import suspected_by_class
from fedcert.estimation.diagnostics.label_shift import ShiftTest, label_shift_test
from fedcert.estimation.diagnostics.screening import Screened, suspected
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
        vote: how right answers are read, and what the interval is made of, for population certificates; else None.
        tested_by: the clients by whose test of label shift these abide: both ends of an interval by one.
    """

    clients: Clients
    settings: Settings
    screened: Screened | None
    vote: VoteEnds | None = None
    tested_by: PreparedClients | None = None

    @classmethod
    def of(cls, clients: Clients, settings: Settings) -> PreparedClients:
        """Clients, their right answers read as the settings ask, and screened where they ask for it.

        Raises:
            CallError: radii or votes are chosen for CERTIFY's counts, which cannot be read otherwise.
            EstimationProblem: sums are to be screened.
        """
        check_readable_again(clients.smoothing, settings.votes, settings.radii)
        if not clients.smoothing.is_population:
            return cls._screened(clients, settings)
        named = clients.sums.radii if isinstance(clients, AggregatedClients) else clients.radii
        readings = vote_readings(clients.smoothing, named, settings.votes, settings.radii)
        # Who stays and whether clients differ is decided at what the request names, whatever is asked about.
        tested = cls._screened(clients.rounded(named_readings(clients.smoothing, named).lower_end, "lower"), settings)
        sides = (clients.rounded(readings.lower_end, "lower"), clients.rounded(readings.upper_end, "upper"))
        lower, upper = (
            EndOfInterval(
                cls(tested.after_screening(side), settings, tested.screened, tested_by=tested),
                reading.low,
                reading.width,
            )
            for side, reading in zip(sides, (readings.lower_end, readings.upper_end), strict=True)
        )
        point = tested.after_screening(clients.read(readings.lower))
        return cls(point, settings, tested.screened, VoteEnds(readings, lower, upper), tested_by=tested)

    def after_screening(self, clients: Clients) -> Clients:
        """The same clients with other counts, after the screening of these."""
        if self.screened is None:
            return clients
        assert isinstance(clients, ReportedClients)  # noqa: S101 (sums cannot be screened)
        return self.screened.applied(clients)

    @classmethod
    def _screened(cls, clients: Clients, settings: Settings) -> PreparedClients:
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
        if self.tested_by is not None:
            return self.tested_by.shift_test
        return label_shift_test(self.whole, self.settings.seed) if isinstance(self.whole, ReportedClients) else None

    @cached_property
    def suspects(self) -> Mapping[str, str]:
        """Clients whose curves the others do not explain, and why; none where clients do not differ or are screened."""
        if self.tested_by is not None:
            return self.tested_by.suspects
        if self.screened is not None or not self.clients_differ or not isinstance(self.clients, ReportedClients):
            return {}
        assert self.shift_test is not None  # noqa: S101 (it rejects)
        by_class = suspected_by_class(self.clients, self.shift_test.radius)
        return {**by_class, **suspected(self.clients, self.settings.seed)}

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


@dataclass(frozen=True, eq=False)
class EndOfInterval:
    """What one end of a vote's interval is computed from.

    Attributes:
        prepared: the clients with whole numbers of examples that count, by shares of the scores' range.
        low, width: that range at each radius.
    """

    prepared: PreparedClients
    low: Floats
    width: Floats

    def lower(self, share: Floats, unheld: float) -> Floats:
        """The end in accuracies. Of classes that no client holds, of which nothing is known, the vote keeps 0 at least.

        Args:
            share: the lower end in shares of the range, in which these classes have 0.
            unheld: these classes' share of the target.
        """
        return np.asarray(self.low * (1 - unheld) + self.width * share, dtype=np.float64)

    def upper(self, share: Floats, unheld: float) -> Floats:
        """The end in accuracies; the vote keeps at most all of the classes that no client holds."""
        return np.asarray(self.low * (1 - unheld) + self.width * (share - unheld) + unheld, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class VoteEnds:
    """The ends of the interval of what a vote keeps.

    Attributes:
        readings: how right answers are read.
        lower: from scores that are proven to be below what the vote keeps.
        upper: from scores that are proven to be above.
    """

    readings: VoteReadings
    lower: EndOfInterval
    upper: EndOfInterval
