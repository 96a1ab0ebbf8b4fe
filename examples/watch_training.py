"""Federated training on handwritten digits, certified every few rounds: robustness watched like a loss."""

import copy

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import fedcert
from fedcert.show.tracking import tensorboard

CLASSES = [str(digit) for digit in range(10)]
CLIENTS, EVERY, SIGMA = 5, 4, 0.25


def network():
    """A small convolutional network for 8 x 8 pixels in [0, 1]."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip


def shared_out(generator):
    """Each client's training and test examples; each digit is shared out by a Dirichlet draw of its own."""
    digits = load_digits()
    images = torch.from_numpy((digits.images[:, None] / 16).astype(np.float32))
    labels = torch.from_numpy(digits.target)
    owner = np.empty(len(labels), dtype=int)
    for digit in range(10):
        places = np.flatnonzero(digits.target == digit)
        owner[places] = generator.choice(CLIENTS, len(places), p=generator.dirichlet(np.full(CLIENTS, 0.5)))
    for client in range(CLIENTS):
        mine = np.flatnonzero(owner == client)
        train, test = mine[::2], mine[1::2][:40]
        yield TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def trained(model, examples):
    """A client's model after two epochs of SGD under noise, which is what makes it robust."""
    model = copy.deepcopy(model)
    steps = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(2):
        for images, labels in DataLoader(examples, batch_size=16, shuffle=True):
            noisy = images + SIGMA * torch.randn_like(images)
            steps.zero_grad()
            nn.functional.cross_entropy(model(noisy), labels).backward()
            steps.step()
    return model.state_dict()


def main(rounds=8):
    """Train by FedAvg, certify, log."""
    torch.manual_seed(0)
    parts = list(shared_out(np.random.default_rng(0)))
    sizes = torch.tensor([len(train) for train, _ in parts], dtype=torch.float32)
    model = network()
    with tensorboard("runs/digits", radii=[0.0, 0.25]) as log:
        for number in range(1, rounds + 1):
            states = [trained(model, train) for train, _ in parts]
            shares = sizes / sizes.sum()
            names = states[0]
            mean = {name: sum(s * state[name] for s, state in zip(shares, states, strict=True)) for name in names}
            model.load_state_dict(mean)
            if number % EVERY:
                continue
            reports = [
                fedcert.certify(model, DataLoader(test, batch_size=64), sigma=SIGMA, client=f"client-{client}",
                                classes=CLASSES, class_counts=True)
                for client, (_, test) in enumerate(parts)
            ]  # fmt: skip
            estimate = fedcert.estimate(reports, target="uniform")
            log(estimate, step=number)
            print(f"round {number}: {estimate.votes} votes at radius 0.25: {estimate.at(0.25):.3f}")


if __name__ == "__main__":
    main()
