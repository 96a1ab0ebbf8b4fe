"""What a client answers at each step of a private sum, however the question came."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fedcert._schema.encoding import Encoded, decoded_numbers, encoded_numbers
from fedcert._schema.record import Record
from fedcert.errors import ConfidentialRefusal, FedcertError, FileProblem, ModelProblem, Refused, preview
from fedcert.privacy.dp.accounting import Account, spend
from fedcert.privacy.keys.identity import Identity, read_identity
from fedcert.privacy.keys.keyring import Keyring, read_keyring
from fedcert.privacy.keys.signing import signer
from fedcert.privacy.policy import Policy, read_policy
from fedcert.privacy.state_store import FolderStore, State, StateStore
from fedcert.report import Report, Request
from fedcert.report.privacy import PrivacyBudget
from fedcert.secagg import messages
from fedcert.secagg.client import HOLDERS, MIN_CLIENTS, SecAggClient
from fedcert.secagg.masks import Vector
from fedcert.secagg.sum_chain import ChainedSum, SumChain

_LOG = logging.getLogger("fedcert")
_File = str | Path


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
        private, roster = messages.sum_asked(request)
        asker = signer(request, keyring)
        if asker is None:
            raise Refused("the request is not signed by anybody in the keyring: a private sum starts with trust")
        if asker in roster:
            raise Refused(
                f"{preview(asker)} signed the request and is on its roster: who adds up must not be among those that "
                "are added up"
            )
        support = private.fewest_holders is not None
        purpose, checked = HOLDERS if support else "counts", support or private.spread
        least = max(fewest, self._policy.fewest_apart(request))
        self._first = SecAggClient(
            request, identity, keyring, memory, purpose=purpose, checked=checked, fewest=fewest, apart=least
        )
        self._chain = SumChain(self._first, memory)
        self._make_report, self._memory, self._budget, self.request = report, memory, private.budget, request
        self.account: Account | None = None

    @property
    def session(self) -> str:
        """Of the first of the request's secure aggregations."""
        return self._first.session

    @property
    def begun(self) -> Report | None:
        """The report that this client has begun with; it stays the same to the end."""
        kept = self._kept()
        return Report.from_json(kept.get("report")) if kept else None

    def join(self) -> str:
        """The first message; before it the client certifies, so that its numbers are there when they are needed.

        Where the sum has noise, `account` has what this client's releases come to from now on.
        """
        self._report()
        if self._budget is not None:
            self.account = self._spend(self._budget, note=False)
            _LOG.info("%s", self.account)
        return self._first.join().dumps()

    def reply(self, text: str | bytes) -> str:
        """This client's answer to a message of the server.

        Raises:
            Refused: it does not go on; the sentence says why.
            FileProblem: it is no message.
            InvalidValue: it is no message.
        """
        kinds: tuple[type[Record], ...] = (*messages.SERVER_MESSAGES, messages.Holders, messages.Totals)
        message = messages.read_message(text, kinds, "what the server tells")
        if isinstance(message, messages.Holders):
            return self._chain.open_counts(message).join().dumps()
        if isinstance(message, messages.Totals):
            return self._chain.open_second(message).join().dumps()
        begun = self._chain.sum_of(message)
        if isinstance(message, messages.Keys):
            return begun.client.share(message).dumps()
        if isinstance(message, messages.Delivery):
            return begun.client.mask(message, self._numbers(begun)).dumps()
        if isinstance(message, messages.Survivors):
            self._chain.check_survivors(begun, message)
            return begun.client.confirm(message).dumps()
        return begun.client.reveal(message).dumps()

    def _report(self) -> Report:
        """This client's report: the same at every step, however often the program starts anew."""
        report = self.begun
        if report is None:
            try:
                report = self._make_report()
                self._policy.check_private(report, self.request)
                packed = self._chain.layout.pack(report)  # what cannot be summed shows before the others wait for it
            except ModelProblem:
                raise
            except FedcertError as error:
                raise ConfidentialRefusal(str(error)) from None
            kept: State = {"report": report.to_json()}
            if self._budget is not None:
                self._spend(self._budget, note=False)
                # Drawn once: the same numbers with other noise would disclose the numbers.
                kept["noisy"] = encoded_numbers(packed)
            self._memory.put(f"report-{self._first.session}", kept)
        return report

    def _spend(self, budget: PrivacyBudget, *, note: bool) -> Account:
        policy = self._policy
        return spend(self._memory, self.request.nonce, budget, policy.total_epsilon, policy.total_delta, note=note)

    def _numbers(self, begun: ChainedSum) -> Vector:
        """What this client adds: with the noise that it drew when it began, where there is any."""
        report = self._report()
        if self._budget is None:
            return begun.pack(report)
        text = self._kept().get("noisy", "")
        kept = decoded_numbers(text, self._chain.layout.length) if Encoded().accepts(text) else None
        if kept is None:
            raise FileProblem("the memory of this sum is not as fedcert wrote it: ask for a new sum")
        self._spend(self._budget, note=True)  # now it leaves, and not before: a round that ends early costs nothing
        return kept

    def _kept(self) -> State:
        return self._memory.get(f"report-{self._first.session}") or {}


@dataclass(frozen=True)
class ParticipantConfig:
    """A client's keys, memory and rules.

    Attributes:
        identity: its keys.
        keyring: whom it trusts: the other clients and the coordinator.
        memory: a folder of its own, for what it must remember.
        fewest: the fewest clients that it lets a sum be over.
        policy: its rules about what leaves it.
    """

    identity: Identity
    keyring: Keyring
    memory: Path
    fewest: int = MIN_CLIENTS
    policy: Policy = field(default_factory=Policy)

    @classmethod
    def read(
        cls, keys: _File, trusted: _File, memory: _File, fewest: int = MIN_CLIENTS, policy: _File | None = None
    ) -> ParticipantConfig:
        """From the files that `fedcert keys` made, and the client's rules (.json).

        Raises:
            CallError: a file is not there, or secret keys can be read by others.
            FileProblem: a file cannot be read.
            InvalidValue: it holds something else.
        """
        rules = read_policy(None if policy is None else Path(policy))
        return cls(read_identity(Path(keys)), read_keyring(Path(trusted)), Path(memory), fewest, rules)

    @contextmanager
    def at_work(self, request: Request, report: Callable[[], Report]) -> Iterator[Participant]:
        """The client in a sum; its memory is held meanwhile.

        Raises:
            Refused: it does not take part; the sentence says why.
        """
        with closing(FolderStore(self.memory)) as memory:
            yield Participant(
                request, self.identity, self.keyring, memory, report, policy=self.policy, fewest=self.fewest
            )


def public_reason(error: Exception) -> str:
    """What others may know of an error at this client in a private sum: nothing that depends on its data."""
    if isinstance(error, ConfidentialRefusal) or not isinstance(error, FedcertError):
        return ConfidentialRefusal.PUBLIC_REASON
    return str(error)
