"""Messages between a server and its Flower nodes, as a round's replies."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, Message
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from fedcert._schema.field_types import Text
from fedcert.engines.client import PRIVATE, REPORT
from fedcert.engines.flower.client import ARRAYS, KIND, content_of, record_of
from fedcert.errors import InvalidValue, Refused
from fedcert.privacy.keys.name_proof import check_name, new_challenge
from fedcert.report import Request
from fedcert.rounds import Reply
from fedcert.rounds.requests import seconds_left

if TYPE_CHECKING:
    from fedcert.privacy.keys.keyring import Keyring

_LOG = logging.getLogger("fedcert")
_MOST_CALLS = 3
"""Times that a node is asked for its name: one that fails three times has no handler for it."""
_PATIENCE = 120.0
"""Seconds for which a node that is lost, or a name that two nodes claim, may still turn out well: SuperNodes reconnect
within a minute, and Flower takes as long to forget a node that is gone."""
_LAST_SECONDS = 2.0
"""Seconds before the deadline at which lost clients are reported, so that the round still hears why."""
_SHORTEST_STAGE = 60.0
"""Seconds that a message after the first stage lives at least, though the request's deadline may have passed."""
_CONFLICT = "two nodes call themselves so, and which one is right is unknown"


@dataclass
class _Node:
    """A node of Flower's.

    Attributes:
        calls: times that it was asked for its name.
        name: that it gave; None before.
        challenge: of the question for its name, while it is being asked; None else.
    """

    calls: int = 0
    name: str | None = None
    challenge: str | None = None


@dataclass
class _Client:
    """A client, by its name, in the current stage.

    Attributes:
        nodes: that claim the name.
        sent_to: the node that was sent its message.
        answered: whether its answer was delivered to the round.
        lost: since when it is waited for, by the clock, and why.
        reported: whether its loss, or a conflict over its name, was reported to the round.
    """

    nodes: set[int] = field(default_factory=set)
    sent_to: int | None = None
    answered: bool = False
    lost: tuple[float, str] | None = None
    reported: bool = False


class FlowerTransport:
    """Asks nodes for their names, and sends clients their messages; a node may come late, or come back.

    Flower forgets nodes that are gone, and answers for them in its own name. So this keeps which node was asked, and
    knows a reply by the message that it answers. A client that starts again may have a new node while the old one still
    seems to be present: a name counts when a single node that is present claims it.

    Flower knows which nodes are registered, not which client each one is. With a keyring, a node that claims a member's
    name has to prove it with that member's keys; one that does not has no name here, and takes none from others.

    Args:
        grid: Flower's.
        weights: of the model.
        clock: gives seconds.
        keyring: names that have to be proven; none where None.
    """

    def __init__(
        self,
        grid: Grid,
        weights: ArrayRecord,
        clock: Callable[[], float] = time.monotonic,
        keyring: Keyring | None = None,
    ) -> None:
        self.grid, self.weights, self.clock, self.keyring = grid, weights, clock, keyring
        self._nodes: dict[int, _Node] = {}
        self._clients: dict[str, _Client] = {}
        self._unproven: dict[str, str] = {}  # name that a node claimed in vain -> why it does not count
        self._online: set[int] = set()
        self._calls: dict[str, int] = {}  # message -> node that it asks for its name
        self._sent: dict[str, tuple[str, int]] = {}  # message -> client and node that it was sent to
        self._stage, self._messages = 0, dict[str, str]()
        self._request: Request  # of the round, from when the first messages are sent

    def names(self, seconds: float) -> tuple[set[str], bool]:
        """See `Transport.names`."""
        if seconds > 0:
            self._discover(seconds)
        return set(self._clients), not self._calls

    def send(self, request: Request, stage: int, messages: Mapping[str, str]) -> None:
        """See `Transport.send`; messages leave when they are polled for."""
        self._request, self._stage, self._messages, self._sent = request, stage, dict(messages), {}
        self._clients = {name: _Client(client.nodes) for name, client in self._clients.items()}

    def poll(self, waiting_for: Collection[str]) -> Iterator[Reply]:
        """See `Transport.poll`."""
        self._discover(self._seconds)
        yield from self._deliver(set(waiting_for))
        yield from self._conflicts()
        yield from self._replies()
        yield from self._losses()

    @property
    def _seconds(self) -> float:
        """How long a message lives."""
        left = seconds_left(self._request)
        return left if self._stage == 0 else max(left, _SHORTEST_STAGE)

    def _discover(self, seconds: float) -> None:
        """Ask nodes for their names, those that failed to give them once more, and take the names that came."""
        self._online = set(self.grid.get_node_ids())
        due = []
        for number in self._online:
            node = self._nodes.setdefault(number, _Node())
            if node.name is None and node.challenge is None and node.calls < _MOST_CALLS:
                node.calls, node.challenge = node.calls + 1, new_challenge()
                due.append((number, {"ask": "name", "challenge": node.challenge}))
        messages = [self._message(number, texts, seconds) for number, texts in due]
        self._calls |= dict(zip(self._push(messages), (number for number, _ in due), strict=True))
        for identifier, message in self._pull(self._calls):
            number = self._calls.pop(identifier)
            challenge, self._nodes[number].challenge = self._nodes[number].challenge, None
            self._take_name(number, message, challenge or "")

    def _take_name(self, number: int, message: Message, challenge: str) -> None:
        texts = record_of(message)
        try:
            name = Text().validate(texts.get("name"), "name")
        except InvalidValue as error:
            reason = message.error.reason if message.has_error() else f"{error}; has it a handler for query 'certify'?"
            _LOG.warning("node %d does not tell its name: %s", number, reason)
            return
        self._nodes[number].name = name
        try:
            if self.keyring is not None:
                check_name(self.keyring, name, texts.get("proof"), challenge, str(number))
        except Refused as refusal:
            self._unproven[name] = str(refusal)
            _LOG.warning("node %d does not count: %s", number, refusal)
            return
        self._clients.setdefault(name, _Client()).nodes.add(number)

    def _present(self, client: _Client) -> set[int]:
        return client.nodes & self._online

    def _has_conflict(self, name: str) -> bool:
        """Whether several nodes that are present claim a name; the client is then lost until one is left."""
        client = self._clients[name]
        present = self._present(client)
        if len(present) < 2:
            return False
        if client.lost is None and not client.reported:
            _LOG.warning("nodes %s all call themselves %r", ", ".join(map(str, sorted(present))), name)
            client.lost = (self.clock(), _CONFLICT)
        return True

    def _deliver(self, waiting_for: set[str]) -> Iterator[Reply]:
        """Send clients that are waited for their message: once, and again where they come back with another node."""
        due: dict[str, int] = {}
        for name in waiting_for & set(self._messages) & set(self._clients):
            if not self._has_conflict(name):
                number = next(iter(self._present(self._clients[name])), None)
                if number is not None and number != self._clients[name].sent_to:
                    due[name] = number
        messages = [self._stage_message(number, self._messages[name]) for name, number in due.items()]
        for (name, number), identifier in zip(due.items(), self._push(messages), strict=True):
            client = self._clients[name]
            self._sent[identifier] = (name, number)
            client.sent_to, client.lost = number, None
            if client.reported:
                client.reported = False
                yield Reply(name, rejoined=True)

    def _stage_message(self, number: int, text: str) -> Message:
        """The message of the stage to a node: with the weights in the first, with the request in every one."""
        texts = {"ask": REPORT if self._request.private is None else PRIVATE, "request": self._request.dumps()}
        if self._stage:
            return self._message(number, {**texts, "step": text}, self._seconds)
        return self._message(number, texts, self._seconds, **{ARRAYS: self.weights})

    def _conflicts(self) -> Iterator[Reply]:
        """Clients that have answered, and whose name another node claims since."""
        for name, client in sorted(self._clients.items()):
            if client.answered and not client.reported and len(self._present(client)) > 1:
                client.reported = True
                yield Reply(name, conflict=_CONFLICT)

    def _replies(self) -> Iterator[Reply]:
        """Answers and failures since the last call."""
        key = "report" if self._request.private is None else "answer"
        for identifier, message in self._pull(self._sent):
            name, number = self._sent.pop(identifier)
            texts = record_of(message)
            if message.has_error():
                yield from self._failed(name, number, message)
            elif self._has_conflict(name):
                self._clients[name].sent_to = None  # it is asked again, once a single node is left
            elif key in texts:
                self._clients[name].answered = True
                yield Reply(name, answer=texts[key])
            else:
                missing = "its reply holds no report" if key == "report" else "its reply holds no message"
                yield Reply(name, failure=texts.get("trouble", missing))

    def _failed(self, name: str, number: int, message: Message) -> Iterator[Reply]:
        """A node that Flower has lost may come back, with the same number where it has a key, and is asked again."""
        reason = " ".join((message.error.reason or f"code {message.error.code}").split())
        failure = f"Flower says that its node failed: {reason}"
        client, node = self._clients[name], self._nodes[number]
        if message.error.code == ErrorCode.NODE_UNAVAILABLE and node.calls < _MOST_CALLS:
            node.name = None
            client.nodes.discard(number)
            if client.sent_to == number:
                client.sent_to = None
            client.lost = (self.clock(), failure)
        else:
            yield Reply(name, failure=failure)

    def _losses(self) -> Iterator[Reply]:
        """Clients that have been lost for too long; should they turn out well after all, they are asked again."""
        at_the_end = self._stage == 0 and seconds_left(self._request) < _LAST_SECONDS
        now = self.clock()
        for name, client in self._clients.items():
            if client.lost is not None and (at_the_end or now - client.lost[0] > _PATIENCE):
                reason, client.lost, client.reported = client.lost[1], None, True
                yield Reply(name, failure=reason)
        if at_the_end:  # not before: the client itself may still come
            for name in self._unproven.keys() & self._messages.keys() - self._clients.keys():
                yield Reply(name, failure=self._unproven.pop(name))

    def _message(self, number: int, texts: dict[str, str], seconds: float, **records: Any) -> Message:
        content = content_of(texts, **records)
        return Message(content, dst_node_id=number, message_type=KIND, ttl=max(1.0, seconds), group_id="fedcert")

    def _push(self, messages: list[Message]) -> list[str]:
        return list(self.grid.push_messages(messages)) if messages else []

    def _pull(self, sent: Mapping[str, object]) -> Iterator[tuple[str, Message]]:
        for message in list(self.grid.pull_messages(list(sent))) if sent else ():
            identifier = message.metadata.reply_to_message_id
            if identifier in sent:
                yield identifier, message
