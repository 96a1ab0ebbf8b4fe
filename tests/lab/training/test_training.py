"""Federated training: the algorithms against each other, against plain SGD and against their formulas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedcert import CallError, DataProblem, FileProblem, InvalidValue
from fedcert.lab.training.algorithms import Scaffold, algorithm_of
from fedcert.lab.training.batches import ClientBatches, chosen_clients, pictures
from fedcert.lab.training.checkpoint import load_checkpoint, save_checkpoint
from fedcert.lab.training.replica import Task
from fedcert.lab.training.rounds import FederatedTraining
from fedcert.lab.training.settings import Training
from fedcert.lab.training.simulator import PlainSimulator, ThreadSimulator
from fedcert.lab.training.state_layout import StateLayout

RANDOM = np.random.default_rng(0)
IMAGES = torch.from_numpy(RANDOM.integers(0, 256, size=(90, 3, 8, 8), dtype=np.uint8))
LABELS = torch.from_numpy(RANDOM.integers(0, 4, size=90))
PARTS = [np.arange(0, 30), np.arange(30, 37), np.zeros(0, dtype=np.int64), np.arange(37, 90)]
SMALL: dict[str, Any] = {
    "rounds": 3, "clients_per_round": 2, "epochs": 2, "batch_size": 8, "learning_rate": 0.05, "sigma": 0.3, "padding": 1,
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """With several threads sums are in another order, and nothing is equal to the bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def network(seed: int = 0) -> nn.Module:
    """A small network with everything that matters: convolutions, BatchNorm, a linear layer."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3, stride=2), nn.Flatten(),
        nn.Linear(36, 4),
    )  # fmt: skip


def trained(parts: list[np.ndarray] | None = None, *, still: bool = False, **changes: Any) -> FederatedTraining:
    """A federation after its last round; `still` holds SCAFFOLD's variates at zero."""
    federation = FederatedTraining(network(), IMAGES, LABELS, parts or PARTS, Training(**{**SMALL, **changes}))
    if still:
        assert isinstance(federation.algorithm, Scaffold)
        federation.algorithm.still = True
    for _ in federation.rounds():
        pass
    return federation


def test_a_row_holds_a_networks_state_and_gives_it_back() -> None:
    first, second = network(0), network(1)
    layout = StateLayout.of(first)
    row = layout.read(first, torch.device("cpu"))
    assert len(row) == layout.size == sum(t.numel() for t in first.state_dict().values() if t.is_floating_point())
    layout.write(row, second)
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name])
    view = layout.views(row, layout.parameters)["0.weight"]
    view += 1
    assert torch.equal(layout.views(row, layout.parameters)["0.weight"], first.state_dict()["0.weight"] + 1)


@pytest.mark.parametrize("extra", [{}, {"momentum": 0.9}, {"momentum": 0.9, "weight_decay": 0.01}])
def test_fedavg_with_one_client_is_sgd_to_the_bit(extra: dict[str, float]) -> None:
    """Against torch's own SGD on the same pictures, one round of many steps."""
    part = np.arange(90)
    settings = Training(**{**SMALL, "rounds": 1, "epochs": 3, **extra})
    federation = trained([part], **{"rounds": 1, "epochs": 3, **extra})
    plain = network().to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    course = ClientBatches.of(settings, part, 0, 1)
    generator = torch.Generator().manual_seed(course.seed)
    optimizer = torch.optim.SGD(
        plain.parameters(), settings.learning_rate, settings.momentum, weight_decay=settings.weight_decay
    )
    for examples, shifts in zip(course.examples, course.shifts, strict=True):
        noise = torch.zeros(8, 3, 8, 8).normal_(0.0, settings.sigma, generator=generator)
        loss = nn.functional.cross_entropy(plain(pictures(IMAGES, examples, shifts, 1, noise)), LABELS[examples])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert course.steps == 33
    for name, tensor in plain.state_dict().items():
        if tensor.is_floating_point():
            assert torch.equal(tensor, federation.network.state_dict()[name]), name


def test_algorithms_that_correct_nothing_are_fedavg() -> None:
    plain = trained()
    assert torch.equal(plain.row, trained(algorithm="fedprox", figures={"proximal": 0.0}).row)
    assert torch.equal(plain.row, trained(algorithm="scaffold", still=True).row)
    assert not torch.equal(plain.row, trained(algorithm="scaffold").row)


def test_fedprox_pulls_towards_the_server() -> None:
    start = StateLayout.of(network()).read(network(), torch.device("cpu"))
    free, pulled = trained(), trained(algorithm="fedprox", figures={"proximal": 5.0})
    own = free.layout.trained
    assert (pulled.row - start)[:own].norm() < 0.9 * (free.row - start)[:own].norm()


def test_scaffold_follows_its_formulas() -> None:
    """Two rounds against the algorithm written out with plain autograd."""
    settings = Training(**{**SMALL, "rounds": 2, "algorithm": "scaffold"})
    federation = FederatedTraining(network(), IMAGES, LABELS, PARTS, settings)
    layout = federation.layout
    server, common = federation.row.double().clone(), torch.zeros(layout.trained)
    own = torch.zeros(len(PARTS), layout.trained)
    for number in (1, 2):
        clients = chosen_clients(settings, federation.sizes, number)
        ends, changes = [], []
        for client in clients:
            local = network().to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
            layout.write(server.float(), local)
            course = ClientBatches.of(settings, PARTS[client], client, number)
            generator = torch.Generator().manual_seed(course.seed)
            correction = layout.views(common - own[client], layout.parameters)
            for examples, shifts in zip(course.examples, course.shifts, strict=True):
                noise = torch.zeros(8, 3, 8, 8).normal_(0.0, settings.sigma, generator=generator)
                batch = pictures(IMAGES, examples, shifts, 1, noise)
                local.zero_grad()
                nn.functional.cross_entropy(local(batch), LABELS[examples]).backward()
                with torch.no_grad():
                    for name, weight in local.named_parameters():
                        assert weight.grad is not None
                        weight -= settings.learning_rate * (weight.grad + correction[name])
            end = layout.read(local, torch.device("cpu"))
            way = server.float()[: layout.trained] - end[: layout.trained]
            changes.append((client, way / (course.steps * settings.learning_rate) - common))
            ends.append(end.double() * len(PARTS[client]))
        server = sum(ends) / sum(len(PARTS[client]) for client in clients)
        for client, change in changes:
            own[client] += change
        common = common + sum(change for _, change in changes) / len(PARTS)
    for _ in federation.rounds():
        pass
    assert torch.allclose(federation.row, server.float(), atol=1e-5)
    assert torch.allclose(federation.algorithm.state()["common"], common, atol=1e-3)


def test_the_server_takes_the_weighted_mean_of_all_clients_batchnorm_included() -> None:
    federation = FederatedTraining(network(), IMAGES, LABELS, PARTS, Training(**{**SMALL, "clients_per_round": 9}))
    clients = chosen_clients(federation.settings, federation.sizes, 1)
    assert clients == [0, 1, 3]  # the third has nothing to train on
    courses = [ClientBatches.of(federation.settings, PARTS[client], client, 1) for client in clients]
    answers = federation.simulator.run(federation.row.clone(), clients, courses)
    mean = sum(len(PARTS[client]) / 90 * answer.row.double() for client, answer in zip(clients, answers, strict=True))
    next(federation.rounds())
    assert torch.allclose(federation.row.double(), mean, atol=1e-7)
    assert not torch.equal(network().state_dict()["1.running_mean"], federation.network.state_dict()["1.running_mean"])


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox", "scaffold"])
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(tmp_path: Path, algorithm: str) -> None:
    settings = {**SMALL, "rounds": 5, "algorithm": algorithm}
    whole = FederatedTraining(network(), IMAGES, LABELS, PARTS, Training(**settings))
    for _ in whole.rounds():
        pass
    first = FederatedTraining(network(), IMAGES, LABELS, PARTS, Training(**settings))
    for made in first.rounds():
        save_checkpoint(first, tmp_path / "c.safetensors")
        if made.number == 2:
            break
    second = FederatedTraining(network(3), IMAGES, LABELS, PARTS, Training(**settings))
    load_checkpoint(second, tmp_path / "c.safetensors")
    assert [made.number for made in second.rounds()] == [3, 4, 5]
    assert torch.equal(whole.row, second.row)
    for name, tensor in whole.network.state_dict().items():
        if tensor.is_floating_point():
            assert torch.equal(tensor, second.network.state_dict()[name])


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    save_checkpoint(trained(rounds=1), tmp_path / "c.safetensors")
    other = FederatedTraining(network(), IMAGES, LABELS, PARTS, Training(**{**SMALL, "learning_rate": 0.1}))
    with pytest.raises(CallError, match="is the checkpoint of a run with other settings, data, clients or network"):
        load_checkpoint(other, tmp_path / "c.safetensors")
    # As many examples for each client, but others: what is held out now may have been trained on.
    swapped = [part[::-1] for part in PARTS]
    for parts, subject in ((swapped, ""), (PARTS, "other data")):
        again = FederatedTraining(network(), IMAGES, LABELS, parts, Training(**{**SMALL, "rounds": 1}))
        with pytest.raises(CallError, match="other settings, data, clients or network"):
            load_checkpoint(again, tmp_path / "c.safetensors", subject)
    (tmp_path / "d.safetensors").write_bytes(b"no")
    with pytest.raises(FileProblem, match="cannot read the checkpoint"):
        load_checkpoint(other, tmp_path / "d.safetensors")


@pytest.mark.parametrize(("held", "steps"), [(0, 0), (1, 1), (7, 1), (8, 2), (30, 7), (53, 13)])
def test_a_courses_batches_are_full_and_every_example_comes_as_often_as_any_other(held: int, steps: int) -> None:
    course = ClientBatches.of(Training(**SMALL), np.arange(100, 100 + held), 1, 1)
    assert course.examples.shape == (steps, 8)
    if held >= 8:
        seen = np.bincount(course.examples.flatten().numpy() - 100, minlength=held)
        assert set(seen.tolist()) <= {1, 2}
    again = ClientBatches.of(Training(**SMALL), np.arange(100, 100 + held), 1, 1)
    assert torch.equal(course.examples, again.examples)
    assert course.seed == again.seed != ClientBatches.of(Training(**SMALL), np.arange(100, 100 + held), 1, 2).seed


def test_pictures_are_moved_mirrored_and_noisy() -> None:
    image = torch.arange(9, dtype=torch.uint8).reshape(1, 1, 3, 3) * 20
    examples = torch.zeros(4, dtype=torch.int64)
    shifts = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 0], [2, 2, 0]])
    made = (255 * pictures(image, examples, shifts, 1, torch.zeros(4, 1, 3, 3))).round().int()[:, 0]
    plain = image[0, 0].int()
    assert torch.equal(made[0], plain)
    assert torch.equal(made[1], plain.flip(1))
    assert torch.equal(made[2], torch.cat([torch.zeros(1, 3).int(), plain[:2]]))
    assert torch.equal(made[3][:2, :2], plain[1:, 1:])
    unmoved = pictures(image, examples, None, 1, torch.zeros(4, 1, 3, 3))
    assert torch.equal((255 * unmoved).round().int()[:, 0], plain.expand(4, 3, 3))
    noise = torch.full((4, 1, 3, 3), 0.5)
    assert torch.allclose(pictures(image, examples, shifts, 1, noise), made[:, None] / 255 + 0.5)


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox", "scaffold"])
def test_clients_at_the_same_time_end_as_one_after_the_other_to_the_bit(algorithm: str) -> None:
    settings = Training(**{**SMALL, "clients_per_round": 3, "algorithm": algorithm})
    plain = FederatedTraining(network(), IMAGES, LABELS, PARTS, settings)
    plain.simulator = PlainSimulator(Task(plain.network, IMAGES, LABELS, settings, plain.algorithm))
    for _ in plain.rounds():
        pass
    for threads in (1, 3):
        torch.set_num_threads(threads)
        federation = FederatedTraining(network(), IMAGES, LABELS, PARTS, settings)
        assert isinstance(federation.simulator, ThreadSimulator)
        assert len(federation.simulator.replicas) == threads
        for _ in federation.rounds():
            pass
        assert torch.get_num_threads() == threads
        assert torch.equal(federation.row, plain.row)


def test_training_learns() -> None:
    bright = (LABELS[:, None, None, None] * 60 + IMAGES.int() // 8).to(torch.uint8)
    settings = Training(**{**SMALL, "rounds": 12, "clients_per_round": 3, "sigma": 0.05, "learning_rate": 0.1})
    federation = FederatedTraining(network(), bright, LABELS, PARTS, settings)
    losses = [made.loss for made in federation.rounds()]
    assert losses[-1] < 0.6 * losses[0]


def test_what_cannot_be_trained_is_refused() -> None:
    with pytest.raises(DataProblem, match="no client has any example to train on"):
        FederatedTraining(network(), IMAGES, LABELS, [np.zeros(0, dtype=np.int64)], Training())
    with pytest.raises(CallError, match="algorithm must be one of fedavg, fedprox, scaffold, but is 'sgd'"):
        algorithm_of("sgd")
    with pytest.raises(CallError, match="the algorithm fedavg has no figure 'proximal', it has none"):
        algorithm_of("fedavg", proximal=1.0)
    with pytest.raises(CallError, match="the algorithm scaffold has no figure 'still', it has global_step alone"):
        algorithm_of("scaffold", still=1.0)
    for name, figures in (("fedprox", {"proximal": -1.0}), ("scaffold", {"global_step": 0.0})):
        with pytest.raises(InvalidValue, match="figures.*must be a finite number"):
            algorithm_of(name, **figures)


def test_a_global_step_is_one_of_the_parameters_alone() -> None:
    """BatchNorm's statistics stay the clients' mean: a step beyond it could make variances negative."""
    algorithm = algorithm_of("scaffold", global_step=3.0)
    algorithm.prepare(2, 2, torch.device("cpu"))
    start, mean = torch.tensor([1.0, 1.0, 1.0, 1.0]).double(), torch.tensor([2.0, 0.0, 0.5, 0.1]).double()
    assert algorithm.merge(start, mean).tolist() == pytest.approx([4.0, -2.0, 0.5, 0.1])
