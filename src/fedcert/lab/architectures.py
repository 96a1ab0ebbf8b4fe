"""Networks by name, for a data set. Nothing here needs torch before a network is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedcert._schema.registry import Registry
from fedcert.errors import CallError
from fedcert.lab.datasets.dataset import Dataset

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Architecture:
    """A kind of network.

    Attributes:
        build: a network with new weights for a data set, of which it uses the size and the number of classes.
        channels: of the images that it takes; None for any number.
    """

    build: Callable[[Dataset], nn.Module]
    channels: int | None = None


def _for_colours(name: str) -> Callable[[Dataset], nn.Module]:
    """Builds a network of `networks` for images of three colours; all but CIFAR-100's are normalised as CIFAR-10's."""

    def build(data: Dataset) -> nn.Module:
        from fedcert.lab import networks

        colours = networks.CIFAR100_COLOURS if len(data.classes) == 100 else networks.CIFAR10_COLOURS
        network: nn.Module = getattr(networks, name)(len(data.classes), colours)
        return network

    return build


def _small(data: Dataset) -> nn.Module:
    from fedcert.lab.networks import small_network

    channels, height, width = data.train_images.shape[1:]
    return small_network(channels, height, width, len(data.classes))


NETWORKS: Registry[Architecture] = Registry(
    Architecture,
    {
        "resnet18": Architecture(_for_colours("resnet18"), channels=3),
        "mobilenet_v2": Architecture(_for_colours("mobilenet_v2"), channels=3),
        "small": Architecture(_small),
    },
)


def build_network(name: str, data: Dataset) -> nn.Module:
    """A network for a data set, with new weights.

    Args:
        name: one of `NETWORKS`.
        data: the data set.

    Raises:
        CallError: the network is not for such images, or there is none of that name.
    """
    if name not in NETWORKS:
        raise CallError(f"the network must be one of {', '.join(NETWORKS)}, but is {name!r}")
    architecture, channels = NETWORKS[name], data.train_images.shape[1]
    if architecture.channels not in (None, channels):
        raise CallError(
            f"the network {name} takes images of {architecture.channels} channels, but those of {data.name} have "
            f"{channels}; use 'small'"
        )
    return architecture.build(data)
