"""What a site says at each step of a secure sum, whatever carried the question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fedcert.errors import Refused
from fedcert.privacy.identity import Identity
from fedcert.privacy.keyring import Keyring
from fedcert.privacy.memory import Memory
from fedcert.privacy.messages import (
    Confirmations,
    Confirmed,
    Delivery,
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
        self._site = Site(request, identity, keyring, memory, fewest=fewest)
        self._layout, self._report, self._memory = Layout(request), report, memory
        self.request = request

    def join(self) -> str:
        """The first message; before it the site certifies, so that its numbers are there when they are asked for."""
        self._numbers()
        return self._site.join().dumps()

    def reply(self, text: str | bytes) -> str:
        """What this site says to what it is told.

        Raises:
            Refused: it does not go on; the sentence says why.
            FileProblem: what it was told is no message.
            InvalidValue: what it was told is no message.
        """
        told = read_message(text, (*TOLD, Totals), "what the server tells")
        if isinstance(told, Totals):
            return self._second(told).join().dumps()
        site, pack = self._site, self._layout.pack
        if told.session != site.session:
            kept = self._memory.get(self._name_of_second)
            if kept is None:
                raise Refused(f"the {told.NOUN} is of another sum")
            totals = Totals.from_json(kept)
            site, pack = self._second(totals), _about(totals).pack
        said: Mapping[type[Passed], Callable[[Any], Message]] = {
            Keys: site.share,
            Delivery: lambda delivery: site.mask(delivery, pack(self._numbers())),
            Survivors: site.confirm,
            Confirmations: site.reveal,
        }
        return said[type(told)](told).dumps()

    @property
    def _name_of_second(self) -> str:
        return f"second-{self.request.nonce}"

    def _second(self, totals: Totals) -> Site:
        """This site in the second sum; there is one for each request, about one target.

        Raises:
            Refused: no second sum was asked for, the first is not done, or another second one was begun.
        """
        private = self.request.private
        if private is None or not private.spread:
            raise Refused("the request asks for no second sum")
        if not self._site.done:
            raise Refused("a second sum comes after the first, which is not done")
        about = _about(totals)
        if totals.session != session_of(self.request, about.purpose):
            raise Refused("the totals of the first sum are of another request, or were changed")
        about.pack(self._numbers())  # what cannot be is found out before anybody waits
        kept = self._memory.get(self._name_of_second)
        if kept is None:
            self._memory.put(self._name_of_second, totals.to_json())
        elif Totals.from_json(kept) != totals:
            raise Refused("this site has begun a second sum with other totals, or for another target")
        return self._site.again(about.purpose)

    def _numbers(self) -> Report:
        """This site's report: the same at every step, however often the program starts anew."""
        name = f"report-{self._site.session}"
        kept = self._memory.get(name)
        if kept is None:
            report = self._report()
            self._layout.pack(report)  # what cannot be summed is found out before anybody waits
            kept = report.to_json()
            self._memory.put(name, kept)
        return Report.from_json(kept)


def _about(totals: Totals) -> SpreadOf:
    return SpreadOf(totals.label_counts, totals.certified_counts, totals.target)
