"""The fast simulator against the plain one. These tests run wherever torch finds a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from fedcert.lab.networks import resnet18_cifar10
from fedcert.lab.training.batches import ClientBatches
from fedcert.lab.training.graph_simulator import GraphSimulator
from fedcert.lab.training.replica import Task
from fedcert.lab.training.rounds import FederatedTraining
from fedcert.lab.training.settings import Training
from fedcert.lab.training.simulator import PlainSimulator

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU on this machine")

RANDOM = np.random.default_rng(0)
LABELS = RANDOM.integers(0, 10, size=800)
# Pictures from which something can be learned: brightness tells the class.
IMAGES = (RANDOM.integers(0, 100, size=(800, 3, 32, 32)) + 15 * LABELS[:, None, None, None]).astype(np.uint8)
PARTS = np.array_split(np.arange(800), 5)
SMALL: dict[str, Any] = {"rounds": 3, "clients_per_round": 4, "epochs": 2, "batch_size": 32, "sigma": 0.1}


@pytest.fixture(autouse=True)
def float32() -> Iterator[None]:
    """TF32 off: its rounding would hide what is compared here."""
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


def federation(fast: bool, **changes: Any) -> FederatedTraining:
    """A federation on the GPU, not yet trained."""
    torch.manual_seed(0)
    images, labels = torch.from_numpy(IMAGES).cuda(), torch.from_numpy(LABELS).cuda()
    network = resnet18_cifar10().cuda()
    made = FederatedTraining(network, images, labels, PARTS, Training(**{**SMALL, **changes}))
    assert isinstance(made.simulator, GraphSimulator)
    if not fast:
        made.simulator = PlainSimulator(Task(network, images, labels, made.settings, made.algorithm))
    return made


def trained(fast: bool, **changes: Any) -> torch.Tensor:
    """The server's row after the last round."""
    made = federation(fast, **changes)
    for _ in made.rounds():
        pass
    return made.row


def distance(first: torch.Tensor, second: torch.Tensor) -> float:
    return float((first - second).norm() / first.norm())


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox", "scaffold"])
def test_after_one_step_both_simulators_agree(algorithm: str) -> None:
    rows = []
    for fast in (True, False):
        made = federation(fast, algorithm=algorithm, momentum=0.9)
        courses = [ClientBatches.of(made.settings, PARTS[client], client, 1) for client in range(4)]
        short = [ClientBatches(course.examples[:1], course.shifts[:1], course.seed) for course in courses]
        rows.append([answer.row for answer in made.simulator.run(made.row, range(4), short)])
    for fast_row, plain_row in zip(*rows, strict=True):
        assert (fast_row - plain_row).abs().max() < 1e-5


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold"])
def test_after_three_rounds_they_differ_no_more_than_summation_orders_do(algorithm: str) -> None:
    plain = trained(False, algorithm=algorithm)
    before = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    try:
        other = trained(False, algorithm=algorithm)
    finally:
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = before
    fast = trained(True, algorithm=algorithm)
    assert distance(plain, fast) <= max(2 * distance(plain, other), 1e-4)


def test_rounds_of_fewer_clients_and_clients_of_other_sizes_work() -> None:
    made = federation(True, clients_per_round=5)
    courses = [ClientBatches.of(made.settings, PARTS[0][:size], 0, 1) for size in (3, 40)]
    answers = made.simulator.run(made.row, [0, 1], courses)
    assert len(answers) == 2
    assert all(torch.isfinite(answer.row).all() for answer in answers)


def test_bfloat16_learns() -> None:
    made = federation(True, bfloat16=True, rounds=6, learning_rate=0.05)
    losses = [one.loss for one in made.rounds()]
    assert losses[-1] < 0.8 * losses[0]
