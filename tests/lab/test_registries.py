"""A data set, a network, an algorithm, a partition: each is registered in one place, and then works everywhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from fedcert import CallError, InvalidValue
from fedcert._schema.field_types import FieldType, Number
from fedcert.cli.main import run
from fedcert.lab.architectures import NETWORKS, Architecture
from fedcert.lab.datasets.dataset import Dataset
from fedcert.lab.datasets.digits import read_digits
from fedcert.lab.datasets.library import DATASETS, DatasetSource
from fedcert.lab.experiment import Experiment
from fedcert.lab.populations.partition import PARTITIONS, Iid, Partition, PartitionForm, Shares, partition_of
from fedcert.lab.training.algorithms import Algorithm, algorithm_of
from fedcert.lab.training.settings import ALGORITHMS, AlgorithmEntry, Training

BASE = {"data": "digits", "network": "small", "partition": "iid"}


def linear(data: Dataset) -> torch.nn.Module:
    pixels = int(np.prod(data.train_images.shape[1:]))
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(pixels, len(data.classes)))


@dataclass
class Damped(Algorithm):
    """FedAvg whose server takes a part of each step."""

    part: float = 0.5
    HYPERPARAMETERS: ClassVar[dict[str, FieldType]] = {"part": Number(above=0, most=1)}

    def merge(self, start: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
        return start + self.part * (mean - start)


@dataclass(frozen=True)
class FirstTakes(Partition):
    """The first client gets a share of each class, the others the rest."""

    share: float
    NAME: ClassVar[str] = "first"

    def shares(self, classes: int, clients: int, generator: np.random.Generator) -> Shares:
        row = np.full(clients, (1 - self.share) / (clients - 1))
        row[0] = self.share
        return np.tile(row, (classes, 1))

    def __str__(self) -> str:
        return f"{self.NAME}:{self.share:g}"


def written(path: Path, training: str = "", **changes: str) -> Path:
    lines = [f'{name} = "{value}"' for name, value in {**BASE, **changes}.items()]
    text = "\n".join(
        [*lines, "clients = 4", "[training]", "rounds = 1", "clients_per_round = 2", "padding = 0", training]
    )
    path.write_text(text + "\n")
    return path


def trained(folder: Path, settings: Path) -> None:
    assert run(["lab", "train", str(settings), "--out", str(folder / "out"), "--device", "cpu"]) == 0
    assert (folder / "out" / "model.safetensors").exists()


def test_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    settings = written(tmp_path / "e.toml", network="linear")
    assert run(["lab", "train", str(settings), "--out", str(tmp_path / "out")]) == 1
    assert "network must be 'resnet18', 'mobilenet_v2' or 'small', but is 'linear'" in capsys.readouterr().err
    monkeypatch.setitem(NETWORKS, "linear", Architecture(linear))
    trained(tmp_path, settings)
    with pytest.raises(InvalidValue, match="network must be 'resnet18', 'mobilenet_v2', 'small' or 'linear', but"):
        Experiment(network="none")


def test_a_training_algorithm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALGORITHMS, "damped", AlgorithmEntry(lambda: Damped))
    trained(tmp_path, written(tmp_path / "e.toml", training='algorithm = "damped"\nfigures = { part = 0.25 }'))
    assert algorithm_of("damped", part=0.25) == Damped(0.25)
    with pytest.raises(InvalidValue, match="figures.part must be a finite number above 0 and of at most 1, but is 2"):
        algorithm_of("damped", part=2)
    with pytest.raises(InvalidValue, match="algorithm must be 'fedavg', 'fedprox', 'scaffold' or 'damped', but"):
        Training(algorithm="sgd")


def test_a_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form = PartitionForm(FirstTakes, "first:0.5", (("share", Number(above=0, below=1)),))
    monkeypatch.setitem(PARTITIONS, "first", form)
    trained(tmp_path, written(tmp_path / "e.toml", partition="first:0.7"))
    parts = partition_of("first:0.7").divide(np.zeros(100, dtype=np.int64), 4, np.random.default_rng(0))
    assert [len(part) for part in parts] == [70, 10, 10, 10]
    with pytest.raises(
        CallError, match="partition must be iid, dirichlet:0.1, pareto:3, limited:2:1.5 or first:0.5, but"
    ):
        partition_of("none")


def test_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(DATASETS, "digits again", DatasetSource(read_digits, in_folder=False))
    trained(tmp_path, written(tmp_path / "e.toml", data="digits again"))
    assert run(["lab", "data", "digits again"]) == 0
    assert "1,198 training" in capsys.readouterr().out


def test_the_help_lists_what_is_registered() -> None:
    script = """
from fedcert.lab.datasets.library import DATASETS, DatasetSource
DATASETS["ward"] = DatasetSource(lambda folder: None)
from fedcert.cli.main import run
raise SystemExit(run(["lab", "data", "--help"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "cifar10, cifar100, mnist, idx, digits or ward." in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("registry", "entry", "wanted"),
    [
        (NETWORKS, linear, "Architecture"),
        (ALGORITHMS, Damped, "AlgorithmEntry"),
        (PARTITIONS, FirstTakes, "PartitionForm"),
        (DATASETS, read_digits, "DatasetSource"),
    ],
)
def test_what_is_not_a_whole_entry_is_refused(registry: dict[str, Any], entry: Any, wanted: str) -> None:
    with pytest.raises(TypeError, match=f"'half' must be registered as {wanted}, but is "):
        registry["half"] = entry
    assert "half" not in registry


@pytest.mark.parametrize(
    "half",
    [
        Architecture,
        AlgorithmEntry,
        DatasetSource,
        PartitionForm,
        partial(PartitionForm, FirstTakes),
        partial(PartitionForm, FirstTakes, "first", (("share", Number()),)),
        partial(PartitionForm, Iid, "iid:1"),
    ],
)
def test_an_entry_that_lacks_something_cannot_be_made(half: Callable[[], object]) -> None:
    with pytest.raises(TypeError):
        half()


class Undeclared(Algorithm):
    HYPERPARAMETERS: ClassVar[dict[str, FieldType]] = {"rate": Number()}


@pytest.mark.parametrize(
    ("half", "words"),
    [
        (lambda: None, "the algorithm half must be registered with a class of Algorithm, but is None"),
        (lambda: Undeclared, "the algorithm half declares rate, which its constructor does not take"),
    ],
)
def test_an_algorithm_registered_in_part_is_refused(
    monkeypatch: pytest.MonkeyPatch, half: Callable[[], Any], words: str
) -> None:
    monkeypatch.setitem(ALGORITHMS, "half", AlgorithmEntry(half))
    with pytest.raises(TypeError, match=words):
        algorithm_of("half")


@pytest.mark.parametrize("name", PARTITIONS)
def test_the_example_of_a_partition_is_one(name: str) -> None:
    assert str(partition_of(PARTITIONS[name].example)) == PARTITIONS[name].example
    assert PARTITIONS[name].example.split(":")[0] == name
