"""Federated algorithms: how a client's gradients are corrected, and how the server merges the clients' states.

A new one is a class here and a line in `settings.ALGORITHMS`.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import ClassVar

import torch

from fedcert._schema.field_types import FieldType, Number
from fedcert.errors import CallError
from fedcert.lab.training.settings import ALGORITHMS

Tensors = list[torch.Tensor]


class Algorithm:
    """The steps of FedAvg, which other algorithms correct.

    Each client starts from the server's weights and takes steps of SGD; the server takes the mean of their states,
    weighted by their training examples, BatchNorm's statistics included.
    """

    HYPERPARAMETERS: ClassVar[dict[str, FieldType]] = {}
    """Arguments of the constructor that settings may give."""
    ANCHORED: ClassVar[bool] = False
    """Whether steps refer to the weights from which the client started."""
    CORRECTED: ClassVar[bool] = False
    """Whether each client has a correction of its own, which its steps add to the gradient."""

    def prepare(self, clients: int, trained: int, device: torch.device) -> None:
        """Before the first round: how many clients and parameters there are, and where."""

    def correction(self, client: int) -> torch.Tensor | None:  # noqa: ARG002
        """The correction that a client adds to its gradients in this round."""
        return None

    def adjust(self, gradients: Tensors, weights: Tensors, anchor: Tensors, correction: Tensors) -> None:
        """Change a step's gradients in place. A step may be recorded and replayed: only tensors may change it."""

    def finish(self, client: int, start: torch.Tensor, end: torch.Tensor, steps: int, learning_rate: float) -> None:
        """After a client's last step: the parameters it started from and ended with."""

    def merge(self, start: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """The server's new state, from its old one and the clients' mean, both float64."""
        return mean

    def close_round(self) -> None:
        """After the server's step."""

    def state(self) -> dict[str, torch.Tensor]:
        """The tensors that a later run needs to continue."""
        return {}

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Continue from an earlier run's state."""


@dataclass
class FedAvg(Algorithm):
    """Federated averaging (McMahan et al. 2017)."""


@dataclass
class FedProx(Algorithm):
    """FedAvg with a pull towards the server's weights (Li et al. 2020).

    Attributes:
        proximal: μ, the weight of ½‖w - w_server‖² in the clients' loss.
    """

    proximal: float = 0.01
    HYPERPARAMETERS: ClassVar[dict[str, FieldType]] = {"proximal": Number(least=0, most=1e6)}
    ANCHORED: ClassVar[bool] = True

    def adjust(self, gradients: Tensors, weights: Tensors, anchor: Tensors, correction: Tensors) -> None:  # noqa: ARG002
        """Add μ(w - w_server)."""
        if self.proximal:
            torch._foreach_add_(gradients, weights, alpha=self.proximal)
            torch._foreach_add_(gradients, anchor, alpha=-self.proximal)


class Scaffold(Algorithm):
    """FedAvg with control variates against client drift (Karimireddy et al. 2020, option II).

    Gradients are corrected by c - c_i. After K steps of rate η a client sets c_i to c_i - c + (start - end)/(Kη), and
    the server adds the mean change of the variates, over all clients, to c.

    Args:
        global_step: the server's step towards the clients' mean; BatchNorm's statistics are that mean, whatever it is,
            since a step beyond it could make variances negative.
        still: hold all variates at zero, which is FedAvg.
    """

    HYPERPARAMETERS: ClassVar[dict[str, FieldType]] = {"global_step": Number(above=0, most=1e6)}
    CORRECTED: ClassVar[bool] = True

    def __init__(self, global_step: float = 1.0, *, still: bool = False) -> None:
        self.global_step, self.still = global_step, still

    def prepare(self, clients: int, trained: int, device: torch.device) -> None:
        """Begin with variates of zero."""
        self._trained = trained
        self._own = torch.zeros((clients, trained), device=device)
        self._common = torch.zeros(trained, device=device)
        self._change = torch.zeros(trained, device=device)

    def correction(self, client: int) -> torch.Tensor:
        """c - c_i."""
        return self._common - self._own[client]

    def adjust(self, gradients: Tensors, weights: Tensors, anchor: Tensors, correction: Tensors) -> None:  # noqa: ARG002
        """Add the correction."""
        torch._foreach_add_(gradients, correction)

    def finish(self, client: int, start: torch.Tensor, end: torch.Tensor, steps: int, learning_rate: float) -> None:
        """The client's new variate."""
        if self.still:
            return
        change = (start - end) / (steps * learning_rate) - self._common
        self._own[client] += change
        self._change += change / len(self._own)

    def merge(self, start: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
        """A step of the parameters towards the mean."""
        parameters = start[: self._trained] + self.global_step * (mean - start)[: self._trained]
        return torch.cat([parameters, mean[self._trained :]])

    def close_round(self) -> None:
        """The server's variate moves."""
        self._common += self._change
        self._change.zero_()

    def state(self) -> dict[str, torch.Tensor]:
        """All variates."""
        return {"own": self._own, "common": self._common}

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Restore all variates."""
        self._own.copy_(state["own"])
        self._common.copy_(state["common"])


def algorithm_of(name: str, **hyperparameters: float) -> Algorithm:
    """An algorithm by its name.

    Raises:
        CallError: there is none of that name, or it has no such hyperparameters.
        InvalidValue: a hyperparameter is out of its range.
        TypeError: the algorithm is registered in part.
    """
    if name not in ALGORITHMS:
        raise CallError(f"algorithm must be one of {', '.join(ALGORITHMS)}, but is {name!r}")
    algorithm = ALGORITHMS[name].load()
    _check_whole(name, algorithm)
    known = algorithm.HYPERPARAMETERS
    unknown = sorted(set(hyperparameters) - set(known))
    if unknown:
        has = f"{', '.join(known)} alone" if known else "none"
        raise CallError(f"the algorithm {name} has no figure {unknown[0]!r}, it has {has}; leave it out of figures")
    return algorithm(
        **{each: known[each].validate(value, f"figures.{each}") for each, value in hyperparameters.items()}
    )


def _check_whole(name: str, algorithm: type[Algorithm]) -> None:
    if not isinstance(algorithm, type) or not issubclass(algorithm, Algorithm):
        raise TypeError(f"the algorithm {name} must be registered with a class of Algorithm, but is {algorithm!r}")
    foreign = set(algorithm.HYPERPARAMETERS) - set(inspect.signature(algorithm).parameters)
    if foreign:
        raise TypeError(
            f"the algorithm {name} declares {', '.join(sorted(foreign))}, which its constructor does not take"
        )
