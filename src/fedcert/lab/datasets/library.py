"""Data sets by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fedcert._schema.registry import Registry
from fedcert.errors import CallError
from fedcert.lab.datasets.cifar import CIFAR10, CIFAR100, read_cifar
from fedcert.lab.datasets.dataset import Dataset
from fedcert.lab.datasets.digits import read_digits
from fedcert.lab.datasets.idx import read_idx


@dataclass(frozen=True)
class DatasetSource:
    """Where a data set comes from.

    Attributes:
        read: reads and checks it; called with its folder, or without arguments where it needs none.
        in_folder: whether its files are in a folder that users name.
    """

    read: Callable[..., Dataset]
    in_folder: bool = True


DATASETS: Registry[DatasetSource] = Registry(
    DatasetSource,
    {
        "cifar10": DatasetSource(partial(read_cifar, layout=CIFAR10)),
        "cifar100": DatasetSource(partial(read_cifar, layout=CIFAR100)),
        "mnist": DatasetSource(partial(read_idx, expected="MNIST")),
        "idx": DatasetSource(read_idx),
        "digits": DatasetSource(read_digits, in_folder=False),
    },
)
"""idx is any data set in MNIST's format; digits come with scikit-learn."""


def read_dataset(name: str, folder: Path | None) -> Dataset:
    """A data set by its name.

    Args:
        name: one of `DATASETS`.
        folder: where its files are, unless it needs none.

    Raises:
        CallError: there is no data set of that name, or its folder is not there.
        FileProblem: a file cannot be read.
        DataProblem: a file has the wrong content.
    """
    if name not in DATASETS:
        raise CallError(f"the data set must be one of {', '.join(DATASETS)}, but is {name!r}")
    source = DATASETS[name]
    if not source.in_folder:
        return source.read()
    if folder is None:
        raise CallError(f"the data set {name} is read from a folder: name it (--folder)")
    return source.read(folder)
