"""The interface of simulators, and the training of one client, which they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from fedcert.lab.training.batches import ClientBatches
from fedcert.lab.training.replica import Replica


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
