"""What a site says at each step of a secure sum, whatever carried the question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedcert.errors import Refused
from fedcert.privacy.encoding import decoded
from fedcert.privacy.holders import PURPOSE, Held, holding
from fedcert.privacy.identity import Identity
from fedcert.privacy.keyring import Keyring
from fedcert.privacy.masks import Vector
from fedcert.privacy.memory import Memory
from fedcert.privacy.messages import (
    Confirmations,
    Confirmed,
    Delivery,
    Holders,
    Join,
    Keys,
    Masked,
    Message,
    Passed,
    Revealed,
    Shares,
    Survivors,
    Totals,
    session_of,
)
from fedcert.privacy.signing import signer
from fedcert.privacy.site import FEWEST, Site
from fedcert.privacy.spread import SpreadOf
from fedcert.privacy.vectors import Layout
from fedcert.report import Report, Request
from fedcert.report.parsing import parse
from fedcert.report.reading import kind_of
from fedcert.report.value import Value

TOLD: tuple[type[Passed], ...] = (Keys, Delivery, Survivors, Confirmations)
SAID: tuple[type[Message], ...] = (Join, Shares, Masked, Confirmed, Revealed)


def read_message(text: str | bytes, kinds: Iterable[type[Value]], place: str) -> Any:
    """A message of one of some kinds.

    Raises:
        FileProblem: it is no JSON.
        InvalidValue: it is of another kind, or breaks a rule.
    """
    document = parse(text, place)
    return kind_of(document, place, kinds).from_json(document, place)


class _Sum(NamedTuple):
    """One of a request's sums: this site in it, what it adds, and what was summed before."""

    site: Site
    pack: Callable[[Report], Vector]
    held: Held | None = None


class PrivateSite:
    """A site that takes part in secure sums.

    Args:
        request: the coordinator's.
        identity: the site's keys.
        keyring: whom it trusts: everybody on the roster, and who signed the request.
        memory: what it remembers.
        report: gives this site's report when it joins; it stays here.
        fewest: the fewest sites that it lets a sum be over.

    Raises:
        Refused: the site does not take part; the sentence says why.
    """

    def __init__(
        self,
        request: Request,
        identity: Identity,
        keyring: Keyring,
        memory: Memory,
        report: Callable[[], Report],
        *,
        fewest: int = FEWEST,
    ) -> None:
        if signer(request, keyring) is None:
            raise Refused("the request is not signed by anybody in the keyring: a private sum starts with trust")
        self._holders = request.private is not None and request.private.fewest_holders is not None
        purpose = PURPOSE if self._holders else "counts"
        self._first = Site(request, identity, keyring, memory, purpose=purpose, checked=self._holders, fewest=fewest)
        self._layout, self._report, self._memory = Layout(request), report, memory
        self.request = request

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
        told = read_message(text, (*TOLD, Holders, Totals), "what the server tells")
        if isinstance(told, Holders):
            return self._counting(told).join().dumps()
        if isinstance(told, Totals):
            return self._spreading(told).join().dumps()
        sum_ = self._sum_of(told)
        said: Mapping[type[Passed], Callable[[Any], Message]] = {
            Keys: sum_.site.share,
            Delivery: lambda delivery: sum_.site.mask(delivery, sum_.pack(self._numbers())),
            Survivors: lambda survivors: self._confirm(sum_, survivors),
            Confirmations: sum_.site.reveal,
        }
        return said[type(told)](told).dumps()

    def _sum_of(self, told: Passed) -> _Sum:
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
            about = _about(Totals.from_json(totals))
            yield _Sum(self._first.again(about.purpose), lambda report: about.pack(self._told_of(report)))

    def _counts(self) -> _Sum | None:
        """The sum of counts, once it is known over which classes."""
        if not self._holders:
            return _Sum(self._first, self._layout.pack)
        held = self._held()
        if held is None:
            return None
        return _Sum(self._first.again(held.purpose), lambda report: self._layout.pack(held.restricted(report)), held)

    def _held(self) -> Held | None:
        kept = self._memory.get(f"holders-{self.request.nonce}")
        return None if kept is None else self._held_of(Holders.from_json(kept))

    def _held_of(self, told: Holders) -> Held:
        total = np.array(told.holders, dtype=np.uint64)
        return Held.of(self.request, total, len(self._first.over))

    def _told_of(self, report: Report) -> Report:
        """What of a report is in the sum of counts."""
        held = self._held() if self._holders else None
        return report if held is None else held.restricted(report)

    def _confirm(self, sum_: _Sum, survivors: Survivors) -> Message:
        if sum_.held is not None:
            sum_.held.check_without(len(set(self._first.over) - set(survivors.survivors)))
        return sum_.site.confirm(survivors)

    def _counting(self, told: Holders) -> Site:
        """This site in the sum of counts, over classes that enough sites hold.

        Raises:
            Refused: no such sum was asked for, holders are not summed yet, or the server does not tell the truth.
        """
        if not self._holders:
            raise Refused("the request asks for no number of holders")
        if not self._first.done:
            raise Refused("counts come after the sum of holders, which is not done")
        tags = np.frombuffer(decoded(told.tags)[: 8 * len(told.holders)], dtype="<u8").astype(np.uint64)
        if not self._first.holds(np.array(told.holders, dtype=np.uint64), tags):
            raise Refused("the server tells another number of holders than the sites have summed")
        held = self._held_of(told)
        site = self._first.again(held.purpose)
        if told.session != site.session:
            raise Refused("the number of holders is of another request")
        self._layout.pack(held.restricted(self._numbers()))  # what cannot be is found out before anybody waits
        self._memory.put(f"holders-{self.request.nonce}", told.to_json())
        return site

    def _spreading(self, totals: Totals) -> Site:
        """This site in the sum of errors; there is one for each request, about one target.

        Raises:
            Refused: none was asked for, the sum of counts is not done, or another one was begun.
        """
        private = self.request.private
        if private is None or not private.spread:
            raise Refused("the request asks for no second sum")
        counts = self._counts()
        if counts is None or not counts.site.done:
            raise Refused("a second sum comes after the first, which is not done")
        about = _about(totals)
        if totals.session != session_of(self.request, about.purpose):
            raise Refused("the totals of the first sum are of another request, or were changed")
        about.pack(self._told_of(self._numbers()))  # what cannot be is found out before anybody waits
        name = f"second-{self.request.nonce}"
        kept = self._memory.get(name)
        if kept is None:
            self._memory.put(name, totals.to_json())
        elif Totals.from_json(kept) != totals:
            raise Refused("this site has begun a second sum with other totals, or for another target")
        return self._first.again(about.purpose)

    def _numbers(self) -> Report:
        """This site's report: the same at every step, however often the program starts anew."""
        name = f"report-{self._first.session}"
        kept = self._memory.get(name)
        if kept is None:
            report = self._report()
            self._layout.pack(report)  # what cannot be summed is found out before anybody waits
            kept = report.to_json()
            self._memory.put(name, kept)
        return Report.from_json(kept)


def _about(totals: Totals) -> SpreadOf:
    return SpreadOf(totals.label_counts, totals.certified_counts, totals.target)
