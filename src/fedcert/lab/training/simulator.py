"""The interface of simulators, the plain one, and the one for CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

import torch

from fedcert.lab.training.batches import ClientBatches
from fedcert.lab.training.replica import Replica, Task


@dataclass(frozen=True)
class ClientUpdate:
    """A client's state after its steps of a round.

    Attributes:
        row: its state.
        loss: mean training loss over its steps.
    """

    row: torch.Tensor
    loss: float


class Simulator(Protocol):
    """Runs the clients of a round."""

    def run(self, start: torch.Tensor, clients: Sequence[int], batches: Sequence[ClientBatches]) -> list[ClientUpdate]:
        """Train clients, all from the same state.

        Args:
            start: the server's row.
            clients: their numbers.
            batches: what each trains on.

        Returns:
            Their updates, in order.
        """
        ...


def train_client(
    replica: Replica, start: torch.Tensor, batches: ClientBatches, correction: torch.Tensor | None
) -> ClientUpdate:
    """Train a replica on a client's batches, starting from the server's row."""
    replica.begin(start, batches, correction)
    for number in range(batches.steps):
        replica.feed(number)
        replica.step()
    return ClientUpdate(replica.row.clone(), float(replica.loss) / batches.steps)


class PlainSimulator:
    """One client after the other, in the simplest way; on any device."""

    def __init__(self, task: Task) -> None:
        self.replica = Replica(task)
        self.algorithm = task.algorithm

    def run(self, start: torch.Tensor, clients: Sequence[int], batches: Sequence[ClientBatches]) -> list[ClientUpdate]:
        """See `Simulator.run`."""
        return [
            train_client(self.replica, start, own.to(start.device), self.algorithm.correction(client))
            for client, own in zip(clients, batches, strict=True)
        ]


class ThreadSimulator:
    """As many clients at a time as torch has threads, each with one: small networks gain nothing from several.

    It gives what `PlainSimulator` gives with one thread, to the bit.
    """

    def __init__(self, task: Task) -> None:
        self.algorithm = task.algorithm
        self.workers = max(1, min(torch.get_num_threads(), task.settings.clients_per_round))
        # Each copies the architecture: while a network is called with another state, it holds that state.
        self.replicas = [Replica(task) for _ in range(self.workers)]

    def run(self, start: torch.Tensor, clients: Sequence[int], batches: Sequence[ClientBatches]) -> list[ClientUpdate]:
        """See `Simulator.run`."""
        idle: SimpleQueue[Replica] = SimpleQueue()
        for replica in self.replicas:
            idle.put(replica)

        def train(client: int, own: ClientBatches) -> ClientUpdate:
            torch.set_num_threads(1)
            replica = idle.get()
            try:
                return train_client(replica, start, own, self.algorithm.correction(client))
            finally:
                idle.put(replica)

        threads = torch.get_num_threads()
        try:
            with ThreadPoolExecutor(self.workers, thread_name_prefix="fedcert client") as pool:
                return list(pool.map(train, clients, batches))
        finally:
            torch.set_num_threads(threads)
