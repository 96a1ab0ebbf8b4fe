"""Federated averaging: one client is plain SGD, and the mean is weighted by examples."""

from __future__ import annotations

import copy

import torch
from torch import nn

from fedcert.lab.fedavg import Training, train

SETTINGS = Training(rounds=1, epochs=2, batch_size=4, learning_rate=0.1, momentum=0.0, sigma=0.1)


def data(seed: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random examples of three classes."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(size, 5, generator=generator), torch.randint(0, 3, (size,), generator=generator)


def test_with_one_client_it_is_sgd_to_the_bit() -> None:
    network = nn.Linear(5, 3)
    plain = copy.deepcopy(network)
    images, labels = data(0, 10)
    list(train(network, [(images, labels)], SETTINGS, torch.Generator().manual_seed(1)))
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.SGD(plain.parameters(), 0.1)
    for _ in range(2):
        order = torch.randperm(10, generator=generator)
        for batch in order.split(4):
            noisy = images[batch] + torch.randn(len(batch), 5, generator=generator) * 0.1
            optimizer.zero_grad()
            nn.functional.cross_entropy(plain(noisy), labels[batch]).backward()
            optimizer.step()
    assert all(torch.equal(one, other) for one, other in zip(network.parameters(), plain.parameters(), strict=True))


def test_clients_weigh_as_much_as_they_have_examples_and_empty_ones_nothing() -> None:
    network = nn.Linear(5, 3)
    before = copy.deepcopy(network)
    clients = [data(0, 3), data(1, 9), (torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64))]
    list(train(network, clients, SETTINGS, torch.Generator().manual_seed(1)))
    generator = torch.Generator().manual_seed(1)
    states = []
    for images, labels in clients[:2]:
        local = copy.deepcopy(before)
        list(train(local, [(images, labels)], SETTINGS, generator))
        states.append(local.weight.detach())
    assert torch.allclose(network.weight, 0.25 * states[0] + 0.75 * states[1], atol=1e-6)


def test_buffers_are_averaged_too_and_counters_stay_whole() -> None:
    network = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 3))
    list(train(network, [data(0, 6), data(1, 10)], SETTINGS, torch.Generator().manual_seed(1)))
    assert network[0].num_batches_tracked.dtype == torch.int64
    assert network[0].num_batches_tracked > 0
    assert torch.isfinite(network[0].running_mean).all()
