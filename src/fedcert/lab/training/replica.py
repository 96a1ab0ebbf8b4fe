"""One client's network at work: its state is a row of its own, its step a fixed sequence of tensor operations."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.func import functional_call

from fedcert.lab.training.algorithms import Algorithm
from fedcert.lab.training.batches import Course, pictures
from fedcert.lab.training.rows import Layout
from fedcert.lab.training.settings import Training

State = dict[str, torch.Tensor]
Forward = Callable[[State, torch.Tensor], torch.Tensor]


def forward_of(network: nn.Module) -> Forward:
    """A network as a function of its state and a batch."""

    def forward(state: State, batch: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = functional_call(network, state, (batch,))
        return scores

    return forward


class Replica:
    """A client's network.

    A step reads its inputs from buffers that stay where they are (`examples`, `shifts`, `noise`), so that it can be
    recorded once and replayed.

    Args:
        network: the architecture; its own weights are not used.
        layout: of its state.
        images: all training images, N x C x H x W bytes, on the device.
        labels: their classes, on the device.
        settings: of training.
        algorithm: what corrects the gradients.
        forward: the network as a function, where another one than its own is to be used.
    """

    def __init__(
        self,
        network: nn.Module,
        layout: Layout,
        images: torch.Tensor,
        labels: torch.Tensor,
        settings: Training,
        algorithm: Algorithm,
        forward: Forward | None = None,
    ) -> None:
        self.layout, self.settings, self.algorithm = layout, settings, algorithm
        self.forward = forward or forward_of(network)
        self.images, self.labels = images, labels
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
        self._weights = {name: view.detach().requires_grad_() for name, view in layout.views(self.row, places).items()}
        self._buffers = layout.views(self.row, layout.buffers)
        self._others = {name: held.clone() for name, held in network.named_buffers() if name not in self._buffers}
        self._velocities = list(layout.views(self._velocity, places).values()) if settings.momentum else []
        self._anchors = list(layout.views(self._anchor, places).values()) if algorithm.ANCHORED else []
        self._corrections = list(layout.views(self._correction, places).values()) if algorithm.CORRECTED else []

    @torch.no_grad()
    def begin(self, start: torch.Tensor, course: Course, correction: torch.Tensor | None) -> None:
        """Start a round from the server's row."""
        self.row.copy_(start)
        self.course = course
        self.generator.manual_seed(course.seed)
        self.loss.zero_()
        self._velocity.zero_()
        if self.algorithm.ANCHORED:
            self._anchor.copy_(start[: self.layout.trained])
        if correction is not None:
            self._correction.copy_(correction)

    @torch.no_grad()
    def feed(self, step: int) -> None:
        """Put a step's inputs where it reads them."""
        self.examples.copy_(self.course.examples[step])
        self.shifts.copy_(self.course.shifts[step])
        self.noise.normal_(0.0, self.settings.sigma, generator=self.generator)

    def step(self) -> None:
        """One step of SGD on the batch that was fed."""
        settings, weights = self.settings, list(self._weights.values())
        shifts = self.shifts if settings.padding or settings.flip else None
        batch = pictures(self.images, self.examples, shifts, settings.padding, self.noise)
        with torch.autocast(self.images.device.type, torch.bfloat16, enabled=settings.bfloat16):
            scores = self.forward({**self._weights, **self._buffers, **self._others}, batch)
        loss = nn.functional.cross_entropy(scores.float(), self.labels[self.examples])
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
