"""Data sets by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedcert.errors import CallError
from fedcert.lab.datasets.cifar import CIFAR10, CIFAR100, read_cifar
from fedcert.lab.datasets.dataset import Dataset
from fedcert.lab.datasets.digits import read_digits
from fedcert.lab.datasets.idx import read_idx

_READERS: dict[str, Callable[[Path], Dataset]] = {
    "cifar10": lambda folder: read_cifar(folder, CIFAR10),
    "cifar100": lambda folder: read_cifar(folder, CIFAR100),
    "mnist": lambda folder: read_idx(folder, expected="MNIST"),
    "idx": read_idx,
}
NAMES = (*_READERS, "digits")


def read_dataset(name: str, folder: Path | None) -> Dataset:
    """A data set by its name.

    Args:
        name: "cifar10", "cifar100", "mnist", "idx" (anything in MNIST's format) or "digits".
        folder: where its files are; digits come with scikit-learn.

    Raises:
        CallError: there is no data set of that name, or its folder is not there.
        FileProblem: a file cannot be read.
        DataProblem: a file has the wrong content.
    """
    if name == "digits":
        return read_digits()
    if name not in _READERS:
        raise CallError(f"the data set must be one of {', '.join(NAMES)}, but is {name!r}")
    if folder is None:
        raise CallError(f"the data set {name} is read from a folder: name it (--folder)")
    return _READERS[name](folder)
