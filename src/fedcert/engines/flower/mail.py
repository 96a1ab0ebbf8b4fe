"""Messages under way between a server and its nodes, as a round's replies."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid

from fedcert.engines.flower.messages import ARRAYS, KIND, content_of, record_of
from fedcert.errors import InvalidValue
from fedcert.report import Request
from fedcert.report.kinds import Text
from fedcert.rounds import Reply

_LOG = logging.getLogger("fedcert")
_MOST_CALLS = 3
_CONTESTED = "two nodes call themselves so, and which one is right is unknown"


class Mail:
    """Asks nodes for their names, and those of a roster for their reports; a node may come late.

    Flower forgets nodes that are gone, and answers for them in its own name. So this keeps who was asked, and knows a
    reply by the message that it answers.

    Args:
        grid: Flower's.
        weights: of the model.
    """

    def __init__(self, grid: Grid, weights: ArrayRecord) -> None:
        self.grid, self.weights = grid, weights
        self._names: dict[int, str] = {}
        self._nodes: dict[str, int] = {}
        self._asked_name: dict[str, int] = {}
        self._asked_report: dict[str, str] = {}
        self._calls: dict[int, int] = {}
        self._online: set[int] = set()
        self._contested: dict[str, bool] = {}  # names that two nodes claim, and whether the round was told
        self._done: set[str] = set()

    def names(self, seconds: float) -> tuple[set[str], bool]:
        """See `Transport.names`."""
        if seconds > 0:
            self._call_roll(seconds)
        return set(self._nodes), not self._asked_name

    def poll(self, request: Request, missing: set[str]) -> Iterator[Reply]:
        """See `Transport.poll`."""
        self._call_roll(seconds_left(request))
        self._ask(request, missing)
        yield from self._replies()

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
            name = Text().take(said, "name")
        except InvalidValue as error:
            why = message.error.reason if message.has_error() else f"{error}; has it a handler for query 'certify'?"
            _LOG.warning("node %d does not tell its name: %s", node, why)
            return
        other = self._nodes.get(name)
        self._names[node] = name
        if other is None or other not in self._online:  # a site that came back has a node of another number
            self._nodes[name] = node
            self._done.discard(name)
        else:
            _LOG.warning("nodes %d and %d both call themselves %r", other, node, name)
            self._contested[name] = False

    def _ask(self, request: Request, missing: set[str]) -> None:
        """Ask those who are missing, have a node, and were not asked yet."""
        due = [name for name in self._nodes if name in missing - self._done - set(self._contested)]
        self._done.update(due)
        seconds = seconds_left(request)
        texts = {"ask": "report", "request": request.dumps()}
        messages = [self._message(self._nodes[name], texts, seconds, **{ARRAYS: self.weights}) for name in due]
        for name, number in zip(due, self._push(messages), strict=True):
            self._asked_report[number] = name

    def _replies(self) -> Iterator[Reply]:
        """Reports and troubles that came since the last call."""
        for name in [name for name, told in self._contested.items() if not told]:
            self._contested[name] = True
            yield Reply(name, trouble=_CONTESTED)
        for number, message in self._pull(self._asked_report):
            name = self._asked_report.pop(number)
            texts = record_of(message)
            if message.has_error():
                reason = message.error.reason or f"code {message.error.code}"
                yield Reply(name, trouble=f"Flower says that its node failed: {' '.join(reason.split())}")
            elif name in self._contested:
                continue
            elif "report" in texts:
                yield Reply(name, answer=texts["report"])
            else:
                yield Reply(name, trouble=texts.get("trouble", "its reply holds no report"))

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
