"""The plain simulator: one client after the other."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fedcert.lab.training.batches import ClientBatches
from fedcert.lab.training.replica import Replica, Task
from fedcert.lab.training.simulator import ClientUpdate, train_client


class PlainSimulator:
    """One client after the other, in the simplest way; on any device."""

    def __init__(self, task: Task) -> None:
        self.replica = Replica(task)
        self.algorithm = task.algorithm

    def run(self, start: torch.Tensor, clients: Sequence[int], batches: Sequence[ClientBatches]) -> list[ClientUpdate]:
        """See `simulator.Simulator.run`."""
        return [
            train_client(self.replica, start, own.to(start.device), self.algorithm.correction(client))
            for client, own in zip(clients, batches, strict=True)
        ]
