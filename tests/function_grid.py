"""A Flower grid whose nodes are functions, and what they certify. Needs Flower."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid
from torch import nn

from fedcert import Smoothing
from fedcert.engines.flower import answer
from fedcert.engines.flower.client import name_of

RANDOM = np.random.default_rng(0)
CLASSES = ["low", "high"]
DATA = {
    f"client-{number}": (RANDOM.random((10, 3), dtype=np.float32), RANDOM.integers(0, 2, 10)) for number in range(3)
}
FOUR = {**DATA, "client-3": (RANDOM.random((10, 3), dtype=np.float32), RANDOM.integers(0, 2, 10))}
SMOOTHING = Smoothing(sigma=0.25, n=200, procedure="sequential", tolerance=0.005)
RIGHT_ANSWERS = Smoothing(sigma=0.25, procedure="population")
Handler = Callable[[Message, Context], Message]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).eval()


def context(node: int) -> Context:
    return Context(1, node, {"partition-id": node - 100, "num-partitions": 3}, RecordDict(), {})


def honest(message: Message, where: Context) -> Message:
    return answer(message, where, network(), FOUR[name_of(where)], class_counts=True)


class FunctionGrid(Grid):
    """A grid whose nodes are functions; messages are answered when they are asked for."""

    def __init__(self, nodes: dict[int, Handler | None]) -> None:
        self.nodes = nodes
        self.waiting: dict[str, Message] = {}
        self.asked: list[tuple[int, str]] = []

    def set_run(self, run: Any) -> None: ...

    @property
    def run(self) -> Any:
        return None

    def create_message(self, *_: Any, **__: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        numbers = []
        for message in messages:
            number = f"message-{len(self.asked)}"
            message.metadata.__dict__["_message_id"] = number
            self.waiting[number] = message
            node = message.metadata.dst_node_id
            self.asked.append((node, str(message.content.config_records["fedcert"]["ask"])))
            numbers.append(number)
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = []
        for number in message_ids:
            message = self.waiting[number]
            handler = self.nodes.get(message.metadata.dst_node_id)
            if handler is None:
                continue
            del self.waiting[number]
            reply = handler(message, context(message.metadata.dst_node_id))
            reply.metadata.__dict__["_reply_to_message_id"] = number
            replies.append(reply)
        return replies

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        raise NotImplementedError
