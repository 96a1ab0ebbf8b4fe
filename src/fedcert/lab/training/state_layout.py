"""A network's state as one row of numbers, so that copying, averaging and correcting it are single steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Place:
    """Where a tensor lies in a row.

    Attributes:
        start: its first number.
        shape: its shape.
        channels_last: whether its channels lie last in memory (weights of convolutions).
    """

    start: int
    shape: tuple[int, ...]
    channels_last: bool

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return torch.Size(self.shape).numel()

    def view(self, row: torch.Tensor) -> torch.Tensor:
        """The tensor itself: it shares the row's memory."""
        part = row[self.start : self.start + self.size]
        if not self.channels_last:
            return part.view(self.shape)
        outer, channels, height, width = self.shape
        return part.view(outer, height, width, channels).permute(0, 3, 1, 2)


@dataclass(frozen=True)
class StateLayout:
    """The order of a network's tensors in a row: parameters first, then floating-point buffers.

    Whole-number buffers (BatchNorm's counters of batches) are left out: nothing in training depends on them.

    Attributes:
        parameters: places by name.
        buffers: places by name.
    """

    parameters: Mapping[str, Place]
    buffers: Mapping[str, Place]

    @classmethod
    def of(cls, network: nn.Module) -> StateLayout:
        """The layout of a network's tensors."""
        start = 0
        places: list[dict[str, Place]] = [{}, {}]
        for tensors, kind in zip((network.named_parameters(), network.named_buffers()), places, strict=True):
            for name, tensor in tensors:
                if tensor.is_floating_point():
                    kind[name] = Place(start, tuple(tensor.shape), tensor.ndim == 4)
                    start += tensor.numel()
        return cls(*places)

    @property
    def trained(self) -> int:
        """Numbers that training changes by its steps: the parameters."""
        return sum(place.size for place in self.parameters.values())

    @property
    def size(self) -> int:
        """All numbers."""
        return self.trained + sum(place.size for place in self.buffers.values())

    def views(self, row: torch.Tensor, places: Mapping[str, Place]) -> dict[str, torch.Tensor]:
        """Tensors by name that share a row's memory."""
        return {name: place.view(row) for name, place in places.items()}

    @torch.no_grad()
    def read(self, network: nn.Module, device: torch.device) -> torch.Tensor:
        """A row with a network's state."""
        row = torch.empty(self.size, device=device)
        state = network.state_dict()
        for name, place in {**self.parameters, **self.buffers}.items():
            place.view(row).copy_(state[name])
        return row

    @torch.no_grad()
    def write(self, row: torch.Tensor, network: nn.Module) -> None:
        """Give a network the state of a row."""
        state = network.state_dict()
        for name, place in {**self.parameters, **self.buffers}.items():
            state[name].copy_(place.view(row))
