"""The model and the data: handwritten digits, unevenly spread over the clients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

CLASSES = [str(digit) for digit in range(10)]


def make_network() -> nn.Module:
    """A small convolutional network for 8 x 8 pixels in [0, 1]."""
    with torch.random.fork_rng(devices=[]):  # everybody starts alike, and nobody's noise is reset
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(128, 10),
        )  # fmt: skip


def load_data(node_config: dict[str, object]) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """This client's training and test examples.

    In deployment a node's configuration names a file of its own (`data`, an .npz with x and y). In simulation a
    client takes its part of scikit-learn's digits, by its partition's number.
    """
    if "data" in node_config:
        with np.load(Path(str(node_config["data"])), allow_pickle=False) as file:
            x, y = file["x"].astype(np.float32), file["y"].astype(np.int64)
    else:
        x, y = _partition(int(str(node_config["partition-id"])), int(str(node_config["num-partitions"])))
    cut = int(0.7 * len(y))
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


def _partition(number: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    x, y = (digits.images[:, None] / 16).astype(np.float32), digits.target
    generator = np.random.default_rng(0)
    owner = np.empty(len(y), dtype=int)
    for digit in range(10):  # each digit is shared out by a Dirichlet draw of its own
        places = generator.permutation(np.flatnonzero(y == digit))
        shares = generator.dirichlet(np.full(count, 0.5))
        ends = np.round(np.r_[0, shares.cumsum()] * len(places)).astype(int)
        owner[places] = np.repeat(np.arange(count), np.diff(ends))
    mine = generator.permutation(len(y))
    mine = mine[owner[mine] == number]
    return x[mine], y[mine]
