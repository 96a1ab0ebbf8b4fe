"""The plain simulator: one client after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from fedcert.lab.training.batches import ClientBatches
from fedcert.lab.training.replica import Replica, Task


@dataclass(frozen=True)
class ClientUpdate:
    """What came of a client's steps.

    Attributes:
        row: its state.
        loss: mean training loss over its steps.
    """

    row: torch.Tensor
    loss: float


class Simulator(Protocol):
    """Runs the clients of a round."""

    def run(self, start: torch.Tensor, clients: Sequence[int], courses: Sequence[ClientBatches]) -> list[ClientUpdate]:
        """Let clients start from a row and follow their courses.

        Args:
            start: the server's row.
            clients: their numbers.
            courses: what each sees.

        Returns:
            Their answers, in order.
        """
        ...


class PlainSimulator:
    """One client after the other, in the simplest way; on any device."""

    def __init__(self, task: Task) -> None:
        self.replica = Replica(task)
        self.algorithm = task.algorithm

    def run(self, start: torch.Tensor, clients: Sequence[int], courses: Sequence[ClientBatches]) -> list[ClientUpdate]:
        """See `Simulator.run`."""
        return [
            follow(self.replica, start, course.to(start.device), self.algorithm.correction(client))
            for client, course in zip(clients, courses, strict=True)
        ]


def follow(
    replica: Replica, start: torch.Tensor, course: ClientBatches, correction: torch.Tensor | None
) -> ClientUpdate:
    """Let a replica follow a client's course from a row on."""
    replica.begin(start, course, correction)
    for number in range(course.steps):
        replica.feed(number)
        replica.step()
    return ClientUpdate(replica.row.clone(), float(replica.loss) / course.steps)
