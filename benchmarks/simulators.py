"""The same federated training in three simulators: fedcert's, Flower's and pfl's.

A client shuffles its images, adds noise to each, takes steps of plain SGD on full batches, and the server takes the
mean of the clients' weights, weighted by their images. Each simulator is used as its own guides do it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from fedcert.lab.networks import small_network
from fedcert.lab.training.rounds import FederatedTraining
from fedcert.lab.training.settings import Training

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, Context, Message

CHANNELS, SIDE, CLASSES = 3, 32, 10


@dataclass(frozen=True)
class Work:
    """What every simulator has to do.

    Attributes:
        rounds: of training, warm-up included.
        clients: in all.
        clients_per_round: that take part in each, drawn without repetition.
        images: of each client; a multiple of the batch size, so that all simulators take the same steps.
        epochs: local passes in a round.
        batch_size: of a step.
        learning_rate: of SGD.
        sigma: of the noise on every image.
        processes: that train clients at the same time.
        threads: of torch in each process.
    """

    rounds: int
    clients: int = 100
    clients_per_round: int = 10
    images: int = 512
    epochs: int = 1
    batch_size: int = 32
    learning_rate: float = 0.01
    sigma: float = 0.5
    processes: int = 1
    threads: int = 1

    @property
    def steps(self) -> int:
        """Of a client in a round."""
        return self.epochs * self.images // self.batch_size


@dataclass(frozen=True)
class Outcome:
    """What came of it.

    Attributes:
        seconds: of each round.
        weights: of the server's network at the end, in a row.
    """

    seconds: np.ndarray
    weights: np.ndarray


class Clock:
    """Notes when each round ended."""

    def __init__(self) -> None:
        self._times = [time.perf_counter()]

    def note(self) -> None:
        """A round ended."""
        self._times.append(time.perf_counter())

    def start(self) -> None:
        """The first round begins now."""
        self._times = [time.perf_counter()]

    def seconds(self) -> np.ndarray:
        """Of each round."""
        return np.diff(self._times)


@lru_cache(maxsize=1)
def images_and_labels(clients: int, images: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random bytes as images, client after client, and random labels; each process makes its own once."""
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (clients * images, CHANNELS, SIDE, SIDE), dtype=np.uint8)
    return torch.from_numpy(pixels), torch.from_numpy(generator.integers(0, CLASSES, clients * images))


@lru_cache(maxsize=1)
def network() -> nn.Module:
    """The network as it is before training, one in each process."""
    torch.manual_seed(0)
    return small_network(CHANNELS, SIDE, SIDE, CLASSES).train()


def row(weights: list[torch.Tensor]) -> np.ndarray:
    """Weights one after the other."""
    return torch.cat([part.detach().flatten() for part in weights]).numpy()


def shuffled(work: Work, client: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A client's images and labels in a new order."""
    images, labels = images_and_labels(work.clients, work.images)
    order = client * work.images + torch.randperm(work.images)
    return images[order], labels[order]


def noisy_loss(module: nn.Module, images: torch.Tensor, labels: torch.Tensor, sigma: float) -> torch.Tensor:
    """The loss of a batch of bytes under noise."""
    batch = images.float().div_(255)
    return nn.functional.cross_entropy(module(batch.add_(torch.randn_like(batch), alpha=sigma)), labels)


def by_fedcert(work: Work) -> Outcome:
    """fedcert: a client for each thread at a time, in this process."""
    torch.set_num_threads(work.threads)
    settings = Training(
        rounds=work.rounds, clients_per_round=work.clients_per_round, epochs=work.epochs, batch_size=work.batch_size,
        learning_rate=work.learning_rate, sigma=work.sigma, padding=0, flip=False,
    )  # fmt: skip
    parts = list(np.arange(work.clients * work.images).reshape(work.clients, work.images))
    federation = FederatedTraining(network(), *images_and_labels(work.clients, work.images), parts, settings)
    clock = Clock()
    for _ in federation.rounds():
        clock.note()
    return Outcome(clock.seconds(), row(list(network().parameters())))


def by_flower(work: Work) -> Outcome:
    """Flower: actors of Ray train, the server's application runs in a thread of this process."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "FLWR_HOME": folder, "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1", "RAY_USAGE_STATS_ENABLED": "0",
        }  # fmt: skip
        return _flower(work)


def _flower(work: Work) -> Outcome:
    from flwr.app import ArrayRecord, ConfigRecord
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    clock, server, client = Clock(), ServerApp(), ClientApp()
    client.train()(train_flower_client)
    ends: list[np.ndarray] = []

    def note(number: int, arrays: ArrayRecord) -> None:
        if number == 0:
            clock.start()
            return
        clock.note()
        if number == work.rounds:
            ends.append(row(list(arrays.to_torch_state_dict().values())))

    @server.main()
    def main(grid: Any, context: Any) -> None:  # noqa: ARG001
        strategy = FedAvg(
            fraction_train=work.clients_per_round / work.clients, fraction_evaluate=0.0,
            min_train_nodes=work.clients_per_round, min_available_nodes=work.clients,
        )  # fmt: skip
        start, config = ArrayRecord(network().state_dict()), ConfigRecord(asdict(work))
        strategy.start(grid, start, num_rounds=work.rounds, train_config=config, evaluate_fn=note)

    run_simulation(
        server, client, num_supernodes=work.clients,
        backend_config={
            "init_args": {"num_cpus": work.processes * work.threads},
            "client_resources": {"num_cpus": work.threads, "num_gpus": 0.0},
        },
    )  # fmt: skip
    return Outcome(clock.seconds(), ends[0])


def train_flower_client(message: Message, context: Context) -> Message:
    """A client's round in an actor of Ray."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

    given = dict(message.content["config"])
    given.pop("server-round")
    work = Work(**given)
    torch.set_num_threads(work.threads)
    module = network()
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(module.parameters(), lr=work.learning_rate)
    total = torch.zeros(())
    for _ in range(work.epochs):
        images, labels = shuffled(work, int(context.node_config["partition-id"]))
        for start in range(0, work.images, work.batch_size):
            batch = slice(start, start + work.batch_size)
            optimizer.zero_grad()
            loss = noisy_loss(module, images[batch], labels[batch], work.sigma)
            loss.backward()
            optimizer.step()
            total += loss.detach()
    metrics = MetricRecord({"num-examples": work.images, "loss": float(total) / work.steps})
    answer = RecordDict({"arrays": ArrayRecord(module.state_dict()), "metrics": metrics})
    return Message(content=answer, reply_to=message)


def by_pfl(work: Work) -> Outcome:
    """pfl: one client after the other in this process; where there are several, each trains its share of a round."""
    os.environ["PFL_PYTORCH_DEVICE"] = "cpu"
    torch.set_num_threads(work.threads)
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByDatapoints
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics, Weighted
    from pfl.model.pytorch import PyTorchModel

    clock = Clock()

    class Noted(TrainingProcessCallback):
        def on_train_begin(self, *, model: Any) -> Metrics:  # noqa: ARG002
            clock.start()
            return Metrics()

        def after_central_iteration(self, *args: Any, **named: Any) -> tuple[bool, Metrics]:  # noqa: ARG002
            clock.note()
            return False, Metrics()

    class Learner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def loss(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return noisy_loss(self.network, images, labels, work.sigma)

        @torch.no_grad()
        def metrics(self, images: torch.Tensor, labels: torch.Tensor) -> dict[str, Weighted]:
            """pfl wants it, and calls it in the first round only, which is not timed."""
            return {"loss": Weighted(float(self.loss(images, labels)) * len(labels), len(labels))}

    np.random.seed(0)  # noqa: NPY002  pfl draws clients by it, and all processes must draw the same
    learner = Learner()
    sampler = get_user_sampler("minimize_reuse", list(range(work.clients)))
    data = FederatedDataset(lambda client: PyTorchTensorDataset(shuffled(work, client), str(client)), sampler)
    FederatedAveraging().run(
        NNAlgorithmParams(work.rounds, 10 * work.rounds, work.clients_per_round, None),
        SimulatedBackend(data, data, [WeightByDatapoints()]),
        PyTorchModel(learner, torch.optim.SGD, torch.optim.SGD(learner.parameters(), lr=1.0)),
        NNTrainHyperParams(
            local_batch_size=work.batch_size, local_num_epochs=work.epochs, local_learning_rate=work.learning_rate
        ),
        NNEvalHyperParams(local_batch_size=work.batch_size),
        [Noted()],
        send_metrics_to_platform=False,
    )
    return Outcome(clock.seconds(), row(list(learner.parameters())))


SIMULATORS: dict[str, Callable[[Work], Outcome]] = {"fedcert": by_fedcert, "Flower": by_flower, "pfl": by_pfl}
PACKAGES: dict[str, tuple[str, ...]] = {"fedcert": (), "Flower": ("flwr", "ray"), "pfl": ("pfl",)}


def comparable(work: Work) -> Work:
    """Work whose result depends on no draw: no noise, all clients in each round, a client's images in one batch."""
    return replace(
        work, rounds=3, clients=10, clients_per_round=10, images=64, batch_size=64, epochs=3, sigma=0.0,
        learning_rate=0.03,
    )  # fmt: skip
