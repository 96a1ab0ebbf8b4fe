"""Federated averaging with Gaussian noise, as simply as it can be written."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Training:
    """Settings of federated training.

    Attributes:
        rounds: communication rounds; every client takes part in each.
        epochs: local epochs per round.
        batch_size: of local steps.
        learning_rate: of local SGD.
        momentum: of local SGD, started anew in each round.
        sigma: standard deviation of the noise that is added to each training example.
    """

    rounds: int
    epochs: int
    batch_size: int
    learning_rate: float
    momentum: float
    sigma: float


def train(
    network: nn.Module,
    clients: Sequence[tuple[torch.Tensor, torch.Tensor]],
    settings: Training,
    generator: torch.Generator,
) -> Iterator[float]:
    """Train a network in place by FedAvg (McMahan et al. 2017), yielding each round's mean training loss.

    The server's new state is the mean of the clients' states, weighted by their examples, buffers
    included. Clients without examples are passed over.
    """
    held = [(images, labels) for images, labels in clients if len(labels)]
    total = sum(len(labels) for _, labels in held)
    for _ in range(settings.rounds):
        state = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in network.state_dict().items()}
        losses = 0.0
        for images, labels in held:
            local = copy.deepcopy(network)
            losses += _local_epochs(local, images, labels, settings, generator) * len(labels) / total
            for name, tensor in local.state_dict().items():
                state[name] += tensor.double() * (len(labels) / total)
        # Counters (BatchNorm's batches) are averaged like the rest, and rounded down to whole numbers.
        network.load_state_dict({name: mean.to(network.state_dict()[name].dtype) for name, mean in state.items()})
        yield losses


def _local_epochs(
    network: nn.Module, images: torch.Tensor, labels: torch.Tensor, settings: Training, generator: torch.Generator
) -> float:
    optimizer = torch.optim.SGD(network.parameters(), settings.learning_rate, settings.momentum)
    network.train()
    losses: list[float] = []
    for _ in range(settings.epochs):
        order = torch.randperm(len(labels), generator=generator)
        for start in range(0, len(order), settings.batch_size):
            batch = order[start : start + settings.batch_size]
            noise = torch.randn(images[batch].shape, generator=generator) * settings.sigma
            loss = nn.functional.cross_entropy(network(images[batch] + noise), labels[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
    return sum(losses) / len(losses)
