"""Training algorithms by name. Settings know the names; the classes need torch, and are loaded when training begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from fedcert._schema.registry import Registry

if TYPE_CHECKING:
    from fedcert.lab.training.algorithms import Algorithm


@dataclass(frozen=True)
class AlgorithmEntry:
    """A training algorithm.

    Attributes:
        load: gives its class, which declares its hyperparameters.
    """

    load: Callable[[], type[Algorithm]]


def _own(name: str) -> AlgorithmEntry:
    def load() -> type[Algorithm]:
        algorithm: type[Algorithm] = getattr(import_module("fedcert.lab.training.algorithms"), name)
        return algorithm

    return AlgorithmEntry(load)


ALGORITHMS: Registry[AlgorithmEntry] = Registry(
    AlgorithmEntry, {"fedavg": _own("FedAvg"), "fedprox": _own("FedProx"), "scaffold": _own("Scaffold")}
)
