"""One client's network at work: its state is a row of its own, its step a fixed sequence of tensor operations."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import nn
from torch.func import functional_call

from fedcert.lab.training.algorithms import Algorithm
from fedcert.lab.training.batches import ClientBatches, pictures
from fedcert.lab.training.settings import Training
from fedcert.lab.training.state_layout import StateLayout

State = dict[str, torch.Tensor]
Network = Callable[[torch.Tensor], torch.Tensor]
Loss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Of all images, all labels, and a batch's examples, shifts and noise."""
LossOfState = Callable[[State, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Task:
    """What the clients train, and how.

    Attributes:
        network: the architecture; its own weights are not used.
        images: all training images, N x C x H x W bytes, on the device.
        labels: their classes, on the device.
        settings: of training.
        algorithm: what corrects the gradients.
    """

    network: nn.Module
    images: torch.Tensor
    labels: torch.Tensor
    settings: Training
    algorithm: Algorithm

    @cached_property
    def layout(self) -> StateLayout:
        """The layout of the network's state."""
        return StateLayout.of(self.network)


def loss_of(network: Network, settings: Training) -> Loss:
    """The objective of a step: the mean loss of a network on a batch."""

    def loss(
        images: torch.Tensor, labels: torch.Tensor, examples: torch.Tensor, shifts: torch.Tensor, noise: torch.Tensor
    ) -> torch.Tensor:
        moved = shifts if settings.padding or settings.flip else None
        batch = pictures(images, examples, moved, settings.padding, noise)
        with torch.autocast(images.device.type, torch.bfloat16, enabled=settings.bfloat16):
            scores = network(batch)
        return nn.functional.cross_entropy(scores.float(), labels[examples])

    return loss


def loss_of_state(network: nn.Module, settings: Training) -> LossOfState:
    """The same as a function of the network's state too: one that is compiled once can serve many replicas."""
    bare = _without_counters(network)

    def loss(state: State, *inputs: torch.Tensor) -> torch.Tensor:
        return loss_of(lambda batch: functional_call(bare, state, (batch,)), settings)(*inputs)

    return loss


def _without_counters(network: nn.Module) -> nn.Module:
    """A copy for training whose BatchNorm layers do not count batches.

    Training does not use the counters, and each costs a kernel.
    """
    bare = copy.deepcopy(network).train()
    for module in bare.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.momentum is not None:
            module.num_batches_tracked = None
    return bare


def _with_state(network: nn.Module, state: State) -> nn.Module:
    """A copy of a network whose parameters and buffers are given tensors: to change these is to change the network."""
    replaced = _without_counters(network)
    own = dict([*replaced.named_parameters(), *replaced.named_buffers()])
    given = {id(tensor): state[name] for name, tensor in own.items() if name in state}
    for module in replaced.modules():  # tensors that a network has in several places are given to all of them
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            if id(tensor) in given:
                setattr(module, name, given[id(tensor)])
    return replaced


class Replica:
    """A client's network.

    A step reads its inputs from buffers that stay where they are (`examples`, `shifts`, `noise`), so that it can be
    recorded once and replayed.

    Args:
        task: what it trains.
        loss: the loss as a function of the state, where it is not to have a network of its own.
    """

    def __init__(self, task: Task, loss: LossOfState | None = None) -> None:
        layout, settings, algorithm = task.layout, task.settings, task.algorithm
        self.layout, self.settings, self.algorithm = layout, settings, algorithm
        images = self.images = task.images
        self.labels = task.labels
        device, size = images.device, settings.batch_size
        self.row = torch.zeros(layout.size, device=device)
        self.loss = torch.zeros((), device=device)
        self._velocity = torch.zeros(layout.trained if settings.momentum else 0, device=device)
        self._anchor = torch.zeros(layout.trained if algorithm.ANCHORED else 0, device=device)
        self._correction = torch.zeros(layout.trained if algorithm.CORRECTED else 0, device=device)
        self.examples = torch.zeros(size, dtype=torch.int64, device=device)
        self.shifts = torch.zeros((size, 3), dtype=torch.int64, device=device)
        self.noise = torch.zeros((size, *images.shape[1:]), device=device)
        self.generator = torch.Generator(device)
        places = layout.parameters
        # Leaves that share the row's memory: a step changes the row in place.
        weights = {name: nn.Parameter(view) for name, view in layout.views(self.row, places).items()}
        state = {**weights, **layout.views(self.row, layout.buffers)}
        self._weights: list[torch.Tensor] = list(weights.values())
        self._loss = loss_of(_with_state(task.network, state), settings) if loss is None else partial(loss, state)
        self._velocities = list(layout.views(self._velocity, places).values()) if settings.momentum else []
        self._anchors = list(layout.views(self._anchor, places).values()) if algorithm.ANCHORED else []
        self._corrections = list(layout.views(self._correction, places).values()) if algorithm.CORRECTED else []

    @torch.no_grad()
    def begin(self, start: torch.Tensor, batches: ClientBatches, correction: torch.Tensor | None) -> None:
        """Start a round from the server's row."""
        self.row.copy_(start)
        self.batches = batches
        self.generator.manual_seed(batches.seed)
        self.loss.zero_()
        self._velocity.zero_()
        if self.algorithm.ANCHORED:
            self._anchor.copy_(start[: self.layout.trained])
        if correction is not None:
            self._correction.copy_(correction)

    @torch.no_grad()
    def feed(self, step: int) -> None:
        """Put a step's inputs where it reads them."""
        self.examples.copy_(self.batches.examples[step])
        self.shifts.copy_(self.batches.shifts[step])
        self.noise.normal_(0.0, self.settings.sigma, generator=self.generator)

    def step(self) -> None:
        """One step of SGD on the batch that was fed."""
        settings, weights = self.settings, self._weights
        loss = self._loss(self.images, self.labels, self.examples, self.shifts, self.noise)
        gradients = list(torch.autograd.grad(loss, weights))
        with torch.no_grad():
            if settings.weight_decay:
                torch._foreach_add_(gradients, weights, alpha=settings.weight_decay)
            self.algorithm.adjust(gradients, weights, self._anchors, self._corrections)
            if settings.momentum:
                torch._foreach_mul_(self._velocities, settings.momentum)
                torch._foreach_add_(self._velocities, gradients)
                gradients = self._velocities
            torch._foreach_add_(weights, gradients, alpha=-settings.learning_rate)
            self.loss += loss.detach()
