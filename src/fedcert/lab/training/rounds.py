"""Federated training, round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fedcert.errors import DataProblem
from fedcert.lab.training.algorithms import Algorithm, algorithm_of
from fedcert.lab.training.batches import ClientBatches, chosen_clients
from fedcert.lab.training.graph_simulator import GraphSimulator
from fedcert.lab.training.replica import Task
from fedcert.lab.training.settings import Training
from fedcert.lab.training.simulator import PlainSimulator, Simulator, ThreadSimulator
from fedcert.lab.training.state_layout import StateLayout


@dataclass(frozen=True)
class TrainingRound:
    """The result of a round.

    Attributes:
        number: from 1.
        clients: who took part.
        loss: their mean training loss, weighted by their examples.
        seconds: what it took.
    """

    number: int
    clients: tuple[int, ...]
    loss: float
    seconds: float


class FederatedTraining:
    """A server and its clients.

    Args:
        network: the global model, trained in place; on the images' device.
        images: all training images, N x C x H x W bytes.
        labels: their classes.
        parts: the training examples of each client; one may have none.
        settings: how to train.

    Raises:
        DataProblem: no client has any training example.
    """

    def __init__(
        self,
        network: nn.Module,
        images: torch.Tensor,
        labels: torch.Tensor,
        parts: Sequence[np.ndarray],
        settings: Training,
    ) -> None:
        if not any(len(part) for part in parts):
            raise DataProblem("no client has any example to train on; give more data, or use fewer clients")
        self.network, self.parts, self.settings = network, parts, settings
        self.sizes = np.array([len(part) for part in parts])
        self.layout = StateLayout.of(network)
        self.row = self.layout.read(network, images.device)
        self.algorithm: Algorithm = algorithm_of(settings.algorithm, **settings.figures)
        self.algorithm.prepare(len(parts), self.layout.trained, images.device)
        self.simulator: Simulator = simulator_for(Task(network, images, labels, settings, self.algorithm))
        self.done = 0
        self.settled = True
        """Whether the state is that after a round: only then may it be kept."""

    def rounds(self) -> Iterator[TrainingRound]:
        """Train until the last round, yielding after each; the network then has the server's state."""
        while self.done < self.settings.rounds:
            yield self._round(self.done + 1)

    @torch.no_grad()
    def _merge(self, rows: Sequence[torch.Tensor], weights: Sequence[float]) -> None:
        mean = torch.zeros_like(self.row, dtype=torch.float64)
        for row, weight in zip(rows, weights, strict=True):
            mean.add_(row, alpha=weight)
        self.row.copy_(self.algorithm.merge(self.row.double(), mean))
        self.algorithm.close_round()

    def _round(self, number: int) -> TrainingRound:
        began = time.perf_counter()
        clients = chosen_clients(self.settings, self.sizes, number)
        batches = [ClientBatches.of(self.settings, self.parts[client], client, number) for client in clients]
        updates = self.simulator.run(self.row, clients, batches)
        trained = self.layout.trained
        self.settled = False
        for client, own, update in zip(clients, batches, updates, strict=True):
            rate = self.settings.learning_rate
            with torch.no_grad():
                self.algorithm.finish(client, self.row[:trained], update.row[:trained], own.steps, rate)
        weights = (self.sizes[clients] / self.sizes[clients].sum()).tolist()
        self._merge([update.row for update in updates], weights)
        self.layout.write(self.row, self.network)
        self.done = number
        self.settled = True
        loss = sum(update.loss * weight for update, weight in zip(updates, weights, strict=True))
        return TrainingRound(number, tuple(clients), loss, time.perf_counter() - began)


def simulator_for(task: Task) -> Simulator:
    """The simulator for a task's device: graphs on a GPU, a client for each core on a CPU, the plain one elsewhere."""
    kinds: dict[str, Callable[[Task], Simulator]] = {"cuda": GraphSimulator, "cpu": ThreadSimulator}
    return kinds.get(task.images.device.type, PlainSimulator)(task)
