"""What a site says at each step of a secure sum, whatever carried the question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedcert._files.documents import kind_of
from fedcert._files.strict_json import parse
from fedcert._schema.encoding import decoded_numbers
from fedcert._schema.record import Record
from fedcert.errors import ConfidentialRefusal, FedcertError, ModelProblem, Refused, preview
from fedcert.privacy.dp.ledger import spend
from fedcert.privacy.keys.identity import Identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.keys.signing import signer
from fedcert.privacy.policy import Policy
from fedcert.privacy.state_store import StateStore
from fedcert.report import Report, Request
from fedcert.secagg.class_support import ClassSupport, holding
from fedcert.secagg.client import FEWEST, HOLDERS, SecAggClient
from fedcert.secagg.masks import Vector
from fedcert.secagg.messages import (
    ClientMessage,
    Confirmations,
    Confirmed,
    Delivery,
    Holders,
    Join,
    Keys,
    Masked,
    Revealed,
    ServerMessage,
    Shares,
    Survivors,
    Totals,
)
from fedcert.secagg.second_sum import SecondSum
from fedcert.secagg.vectors import VectorLayout

SERVER_MESSAGES: tuple[type[ServerMessage], ...] = (Keys, Delivery, Survivors, Confirmations)
CLIENT_MESSAGES: tuple[type[ClientMessage], ...] = (Join, Shares, Masked, Confirmed, Revealed)


def read_message(text: str | bytes, kinds: Iterable[type[Record]], place: str) -> Any:
    """A message of one of some kinds.

    Raises:
        FileProblem: it is no JSON.
        InvalidValue: it is of another kind, or breaks a rule.
    """
    document = parse(text, place)
    return kind_of(document, place, kinds).from_json(document, place)


class _Sum(NamedTuple):
    """One of a request's sums: this site in it, what it adds, and what was summed before."""

    site: SecAggClient
    pack: Callable[[Report], Vector]
    held: ClassSupport | None = None


class Participant:
    """A site that takes part in secure sums.

    Args:
        request: the coordinator's.
        identity: the site's keys.
        keyring: whom it trusts: everybody on the roster, and who signed the request.
        memory: what it remembers.
        report: gives this site's report when it joins; it stays here.
        policy: this site's rules about what leaves it.
        fewest: the fewest sites that it lets a sum be over.

    Raises:
        Refused: the site does not take part; the sentence says why.
    """

    def __init__(
        self,
        request: Request,
        identity: Identity,
        keyring: Keyring,
        memory: StateStore,
        report: Callable[[], Report],
        *,
        policy: Policy | None = None,
        fewest: int = FEWEST,
    ) -> None:
        self._policy = policy or Policy()
        self._policy.check_asked(request)
        asker = signer(request, keyring)
        if asker is None:
            raise Refused("the request is not signed by anybody in the keyring: a private sum starts with trust")
        if asker in (request.roster or ()):
            raise Refused(
                f"{preview(asker)} signed the request and is on its roster: who adds up must not be among those "
                "that are "
                "added up"
            )
        self._holders = request.private is not None and request.private.fewest_holders is not None
        purpose = HOLDERS if self._holders else "counts"
        self._spread = request.private is not None and request.private.spread
        checked = self._holders or self._spread
        self._first = SecAggClient(request, identity, keyring, memory, purpose=purpose, checked=checked, fewest=fewest)
        self._layout, self._report, self._memory = VectorLayout(request), report, memory
        self.request = request

    @property
    def session(self) -> str:
        """Of the first of the request's sums."""
        return self._first.session

    @property
    def begun(self) -> Report | None:
        """The report that this site has begun the sum with; it stays the same to the end."""
        kept = self._memory.get(f"report-{self._first.session}")
        return None if kept is None else Report.from_json(kept)

    def join(self) -> str:
        """The first message; before it the site certifies, so that its numbers are there when they are asked for."""
        self._numbers()
        return self._first.join().dumps()

    def reply(self, text: str | bytes) -> str:
        """What this site says to what it is told.

        Raises:
            Refused: it does not go on; the sentence says why.
            FileProblem: what it was told is no message.
            InvalidValue: what it was told is no message.
        """
        told = read_message(text, (*SERVER_MESSAGES, Holders, Totals), "what the server tells")
        if isinstance(told, Holders):
            return self._counting(told).join().dumps()
        if isinstance(told, Totals):
            return self._spreading(told).join().dumps()
        sum_ = self._sum_of(told)
        said: Mapping[type[ServerMessage], Callable[[Any], ClientMessage]] = {
            Keys: sum_.site.share,
            Delivery: lambda delivery: sum_.site.mask(delivery, sum_.pack(self._numbers())),
            Survivors: lambda survivors: self._confirm(sum_, survivors),
            Confirmations: sum_.site.reveal,
        }
        return said[type(told)](told).dumps()

    def _sum_of(self, told: ServerMessage) -> _Sum:
        """Which of the request's sums a message is of.

        Raises:
            Refused: none that was begun.
        """
        for sum_ in self._begun():
            if told.session == sum_.site.session:
                return sum_
        raise Refused(f"the {told.NOUN} is of another sum")

    def _begun(self) -> Iterator[_Sum]:
        """The sums that this site has begun: of holders, where few must not be told apart, of counts, of errors."""
        if self._holders:
            yield _Sum(self._first, holding)
        counts = self._counts()
        if counts is not None:
            yield counts
        totals = self._memory.get(f"second-{self.request.nonce}")
        if totals is not None:
            about = self._about(Totals.from_json(totals))
            yield _Sum(self._first.again(about.purpose), lambda report: about.pack(self._told_of(report)))

    def _counts(self) -> _Sum | None:
        """The sum of counts, once it is known over which classes."""
        if not self._holders:
            return _Sum(self._first, self._layout.pack)
        held = self._held()
        if held is None:
            return None
        return _Sum(self._counting_site(held), lambda report: self._layout.pack(held.restricted(report)), held)

    def _counting_site(self, held: ClassSupport) -> SecAggClient:
        return self._first.again(held.purpose, checked=self._spread)

    def _held(self) -> ClassSupport | None:
        kept = self._memory.get(f"holders-{self.request.nonce}")
        return None if kept is None else self._held_of(Holders.from_json(kept))

    def _held_of(self, told: Holders) -> ClassSupport:
        total = np.array(told.holders, dtype=np.uint64)
        return ClassSupport.of(self.request, total, len(self._first.over))

    def _told_of(self, report: Report) -> Report:
        """What of a report is in the sum of counts."""
        held = self._held() if self._holders else None
        return report if held is None else held.restricted(report)

    def _confirm(self, sum_: _Sum, survivors: Survivors) -> ClientMessage:
        if sum_.held is not None:
            sum_.held.check_without(len(set(self._first.over) - set(survivors.survivors)))
        return sum_.site.confirm(survivors)

    def _counting(self, told: Holders) -> SecAggClient:
        """This site in the sum of counts, over classes that enough sites hold.

        Raises:
            Refused: no such sum was asked for, holders are not summed yet, or the server does not tell the truth.
        """
        if not self._holders:
            raise Refused("the request asks for no number of holders")
        if not self._first.done:
            raise Refused("counts come after the sum of holders, which is not done")
        tags = decoded_numbers(told.tags, len(told.holders))
        if not self._first.holds(np.array(told.holders, dtype=np.uint64), tags):
            raise Refused("the server tells another number of holders than the sites have summed")
        held = self._held_of(told)
        site = self._counting_site(held)
        if told.session != site.session:
            raise Refused("the number of holders is of another request")
        self._memory.put(f"holders-{self.request.nonce}", told.to_json())
        return site

    def _spreading(self, totals: Totals) -> SecAggClient:
        """This site in the sum of errors; there is one for each request, about one target.

        Raises:
            Refused: none was asked for, the sum of counts is not done, or another one was begun.
        """
        if not self._spread:
            raise Refused("the request asks for no second sum")
        counts = self._counts()
        if counts is None or not counts.site.done:
            raise Refused("a second sum comes after the first, which is not done")
        length = self._layout.length
        if not counts.site.holds(decoded_numbers(totals.total, length), decoded_numbers(totals.tags, length)):
            raise Refused("the server tells other totals than the sites have summed")
        about = self._about(totals)
        site = self._first.again(about.purpose)
        if totals.session != site.session:
            raise Refused("the totals of the first sum are of another request")
        self._memory.put(f"second-{self.request.nonce}", totals.to_json())
        return site

    def _about(self, totals: Totals) -> SecondSum:
        """What the sum of errors is about: totals that were checked, and the request's own target."""
        counts, total = self._counts(), decoded_numbers(totals.total, self._layout.length)
        assert counts is not None  # noqa: S101
        assert total is not None  # noqa: S101
        return SecondSum.asked(self.request, self._layout.sums(total, len(counts.site.over)))

    def _numbers(self) -> Report:
        """This site's report: the same at every step, however often the program starts anew."""
        begun = self.begun
        if begun is None:
            try:
                begun = report = self._report()
                self._policy.check_private(report, self.request)
                self._layout.pack(report)  # what cannot be summed is found out before anybody waits
            except ModelProblem:
                raise
            except FedcertError as error:
                raise ConfidentialRefusal(str(error)) from None
            budget = self.request.private.budget if self.request.private is not None else None
            if budget is not None:
                spend(self._memory, self.request.nonce, budget, self._policy.total_epsilon)
            self._memory.put(f"report-{self._first.session}", report.to_json())
        return begun


def public_reason(error: Exception) -> str:
    """What others are told about an error at this site in a private sum: nothing that depends on its data."""
    return (
        ConfidentialRefusal.PUBLIC_REASON
        if isinstance(error, ConfidentialRefusal) or not isinstance(error, FedcertError)
        else str(error)
    )
