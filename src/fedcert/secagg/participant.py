"""What a client answers at each step of a private sum, however the question came."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fedcert._files.documents import kind_of, parse
from fedcert._schema.record import Record
from fedcert.errors import ConfidentialRefusal, FedcertError, ModelProblem, Refused, preview
from fedcert.privacy.dp.ledger import spend
from fedcert.privacy.keys.identity import Identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.keys.signing import signer
from fedcert.privacy.policy import Policy
from fedcert.privacy.state_store import StateStore
from fedcert.report import Report, Request
from fedcert.secagg.client import HOLDERS, MIN_CLIENTS, SecAggClient
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
from fedcert.secagg.sum_chain import ChainedSum, SumChain

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


class Participant:
    """A client that takes part in private sums.

    Args:
        request: the coordinator's.
        identity: the client's keys.
        keyring: whom it trusts: all clients on the roster, and who signed the request.
        memory: what it remembers.
        report: gives this client's report when it joins; it stays here.
        policy: this client's rules about what leaves it.
        fewest: the fewest clients that it lets a sum be over.

    Raises:
        Refused: the client does not take part; the sentence says why.
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
        fewest: int = MIN_CLIENTS,
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
        support = request.private is not None and request.private.fewest_holders is not None
        checked = support or (request.private is not None and request.private.spread)
        purpose = HOLDERS if support else "counts"
        self._first = SecAggClient(request, identity, keyring, memory, purpose=purpose, checked=checked, fewest=fewest)
        self._chain = SumChain(self._first, memory)
        self._make_report, self._memory = report, memory
        self.request = request

    @property
    def session(self) -> str:
        """Of the first of the request's secure aggregations."""
        return self._first.session

    @property
    def begun(self) -> Report | None:
        """The report that this client has begun with; it stays the same to the end."""
        kept = self._memory.get(f"report-{self._first.session}")
        return None if kept is None else Report.from_json(kept)

    def join(self) -> str:
        """The first message; before it the client certifies, so that its numbers are there when they are needed."""
        self._report()
        return self._first.join().dumps()

    def reply(self, text: str | bytes) -> str:
        """This client's answer to a message of the server.

        Raises:
            Refused: it does not go on; the sentence says why.
            FileProblem: it is no message.
            InvalidValue: it is no message.
        """
        message = read_message(text, (*SERVER_MESSAGES, Holders, Totals), "what the server tells")
        if isinstance(message, Holders):
            return self._chain.open_counts(message).join().dumps()
        if isinstance(message, Totals):
            return self._chain.open_second(message).join().dumps()
        begun = self._chain.sum_of(message)
        return self._answer(begun, message).dumps()

    def _answer(self, begun: ChainedSum, message: ServerMessage) -> ClientMessage:
        if isinstance(message, Keys):
            return begun.client.share(message)
        if isinstance(message, Delivery):
            return begun.client.mask(message, begun.pack(self._report()))
        if isinstance(message, Survivors):
            self._chain.check_survivors(begun, message)
            return begun.client.confirm(message)
        assert isinstance(message, Confirmations)  # noqa: S101 (`read_message` takes no other)
        return begun.client.reveal(message)

    def _report(self) -> Report:
        """This client's report: the same at every step, however often the program starts anew."""
        report = self.begun
        if report is None:
            try:
                report = self._make_report()
                self._policy.check_private(report, self.request)
                self._chain.layout.pack(report)  # what cannot be summed shows before the others wait for it
            except ModelProblem:
                raise
            except FedcertError as error:
                raise ConfidentialRefusal(str(error)) from None
            budget = self.request.private.budget if self.request.private is not None else None
            if budget is not None:
                spend(self._memory, self.request.nonce, budget, self._policy.total_epsilon)
            self._memory.put(f"report-{self._first.session}", report.to_json())
        return report


def public_reason(error: Exception) -> str:
    """What others may know of an error at this client in a private sum: nothing that depends on its data."""
    if isinstance(error, ConfidentialRefusal) or not isinstance(error, FedcertError):
        return ConfidentialRefusal.PUBLIC_REASON
    return str(error)
