"""Messages under way between a server and its nodes, as a round's replies."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from flwr.app import ArrayRecord, Message
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from fedcert._schema.field_types import Text
from fedcert.engines.flower.messages import ARRAYS, KIND, content_of, record_of
from fedcert.errors import InvalidValue
from fedcert.report import Request
from fedcert.rounds import Reply

_LOG = logging.getLogger("fedcert")
_MOST_CALLS = 3
_PATIENCE = 120.0
"""Seconds for which a node that is lost, or a name that two nodes claim, may still turn out well."""
_LAST_SECONDS = 2.0
_CONTESTED = "two nodes call themselves so, and which one is right is unknown"


class FlowerTransport:
    """Asks nodes for their names, and those of a roster for their reports; a node may come late, or come back.

    Flower forgets nodes that are gone, and answers for them in its own name. So this keeps who was asked, and knows a
    reply by the message that it answers. A site that starts again may have a new node while the old one still seems to
    be there: a name counts when one node alone that is there claims it.

    Args:
        grid: Flower's.
        weights: of the model.
        clock: tells seconds.
    """

    def __init__(self, grid: Grid, weights: ArrayRecord, clock: Callable[[], float] = time.monotonic) -> None:
        self.grid, self.weights, self.clock = grid, weights, clock
        self._names: dict[int, str] = {}
        self._claims: dict[str, set[int]] = {}
        self._asked_name: dict[str, int] = {}
        self._asked_report: dict[str, tuple[str, int]] = {}
        self._calls: dict[int, int] = {}
        self._online: set[int] = set()
        self._done: dict[str, int] = {}  # name -> the node that was asked for its report
        self._answered: set[str] = set()
        self._lost: dict[str, tuple[float, str]] = {}  # name -> since when it is waited for, and why
        self._given_up: set[str] = set()

    def names(self, seconds: float) -> tuple[set[str], bool]:
        """See `Transport.names`."""
        if seconds > 0:
            self._call_roll(seconds)
        return set(self._claims), not self._asked_name

    def poll(self, request: Request, missing: set[str]) -> Iterator[Reply]:
        """See `Transport.poll`."""
        self._call_roll(seconds_left(request))
        yield from self._ask(request, missing)
        yield from self._replies()
        yield from self._over(seconds_left(request) < _LAST_SECONDS)

    def _call_roll(self, seconds: float) -> None:
        """Ask nodes for their names, those that failed to tell them once more, and hear those that answered."""
        busy = {*self._names, *self._asked_name.values()}
        self._online = set(self.grid.get_node_ids())
        new = [node for node in self._online if node not in busy and self._calls.get(node, 0) < _MOST_CALLS]
        for node in new:
            self._calls[node] = self._calls.get(node, 0) + 1
        messages = [self._message(node, {"ask": "name"}, seconds) for node in new]
        for node, number in zip(new, self._push(messages), strict=True):
            self._asked_name[number] = node
        for number, message in self._pull(self._asked_name):
            self._name(self._asked_name.pop(number), message)

    def _name(self, node: int, message: Message) -> None:
        said = record_of(message).get("name")
        try:
            name = Text().validate(said, "name")
        except InvalidValue as error:
            why = message.error.reason if message.has_error() else f"{error}; has it a handler for query 'certify'?"
            _LOG.warning("node %d does not tell its name: %s", node, why)
            return
        self._names[node] = name
        self._claims.setdefault(name, set()).add(node)

    def _node(self, name: str) -> int | None:
        """The node that is meant by a name; None where none is there, or several are."""
        there = self._claims.get(name, set()) & self._online
        if len(there) > 1:
            self._contest(name, there)
            return None
        return next(iter(there), None)

    def _contest(self, name: str, nodes: set[int]) -> None:
        if name not in self._lost and name not in self._given_up:
            _LOG.warning("nodes %s all call themselves %r", ", ".join(map(str, sorted(nodes))), name)
            self._lost[name] = (self.clock(), _CONTESTED)

    def _ask(self, request: Request, missing: set[str]) -> Iterator[Reply]:
        """Ask those who are missing, have a node, and were not asked yet, or came back with another node."""
        due: dict[str, int] = {}
        for name in missing & set(self._claims):
            node = self._node(name)
            if node is not None and self._done.get(name) != node:
                due[name] = node
        seconds, texts = seconds_left(request), {"ask": "report", "request": request.dumps()}
        messages = [self._message(node, texts, seconds, **{ARRAYS: self.weights}) for node in due.values()]
        for (name, node), number in zip(due.items(), self._push(messages), strict=True):
            self._asked_report[number] = (name, node)
            self._done[name] = node
            self._lost.pop(name, None)
            if name in self._given_up:
                self._given_up.discard(name)
                yield Reply(name, back=True)

    def _replies(self) -> Iterator[Reply]:
        """Reports and troubles that came since the last call."""
        for name in sorted(self._answered):
            there = self._claims[name] & self._online
            if len(there) > 1 and name not in self._given_up:
                self._given_up.add(name)
                yield Reply(name, contest=_CONTESTED)
        for number, message in self._pull(self._asked_report):
            name, node = self._asked_report.pop(number)
            texts = record_of(message)
            if message.has_error():
                yield from self._failed(name, node, message)
            elif len(self._claims[name] & self._online) > 1:
                self._contest(name, self._claims[name] & self._online)
                self._done.pop(name, None)  # it is asked again, once one alone is there
            elif "report" in texts:
                self._answered.add(name)
                yield Reply(name, answer=texts["report"])
            else:
                yield Reply(name, trouble=texts.get("trouble", "its reply holds no report"))

    def _failed(self, name: str, node: int, message: Message) -> Iterator[Reply]:
        """A node that Flower has lost may come back, with the same number where it has a key, and is asked again."""
        reason = " ".join((message.error.reason or f"code {message.error.code}").split())
        why = f"Flower says that its node failed: {reason}"
        if message.error.code == ErrorCode.NODE_UNAVAILABLE and self._calls.get(node, 0) < _MOST_CALLS:
            self._names.pop(node, None)
            self._claims[name].discard(node)
            if self._done.get(name) == node:
                del self._done[name]
            self._lost[name] = (self.clock(), why)
        else:
            yield Reply(name, trouble=why)

    def _over(self, at_the_end: bool) -> Iterator[Reply]:
        """Those for whom the patience is over; should they turn out well after all, they are asked again."""
        now = self.clock()
        for name, (since, why) in list(self._lost.items()):
            if at_the_end or now - since > _PATIENCE:
                del self._lost[name]
                self._given_up.add(name)
                yield Reply(name, trouble=why)

    def _message(self, node: int, texts: dict[str, str], seconds: float, **records: Any) -> Message:
        content = content_of(texts, **records)
        return Message(content, dst_node_id=node, message_type=KIND, ttl=max(1.0, seconds), group_id="fedcert")

    def _push(self, messages: list[Message]) -> list[str]:
        return list(self.grid.push_messages(messages)) if messages else []

    def _pull(self, asked: dict[str, Any]) -> Iterator[tuple[str, Message]]:
        for message in list(self.grid.pull_messages(list(asked))) if asked else ():
            number = message.metadata.reply_to_message_id
            if number in asked:
                yield number, message


def seconds_left(request: Request) -> float:
    """Until the request's deadline."""
    if request.deadline is None:
        return float("inf")
    return (datetime.fromisoformat(request.deadline) - datetime.now(UTC)).total_seconds()
