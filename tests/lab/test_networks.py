"""Networks: as large as published, normalised inside, and ready for the command line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from fedcert.certification.models.loading import load_classifier
from fedcert.lab import networks
from fedcert.lab.networks import Normalised

FACTORIES = [
    networks.resnet18_cifar10, networks.resnet18_cifar100, networks.mobilenet_v2_cifar10, networks.mobilenet_v2_cifar100,
]  # fmt: skip


def parameters(network: nn.Module) -> int:
    """How many numbers are trained."""
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("factory", "classes", "count"),
    [
        # ResNet-18's published 11,173,962 for 10 classes; the last layer has 513 per class.
        (networks.resnet18_cifar10, 10, 11_173_962),
        (networks.resnet18_cifar100, 100, 11_173_962 + 90 * 513),
        # torchvision's MobileNetV2 has 3,504,872 with 1,000 classes, of 1,281 parameters each.
        (networks.mobilenet_v2_cifar10, 10, 3_504_872 - 990 * 1281),
        (networks.mobilenet_v2_cifar100, 100, 3_504_872 - 900 * 1281),
    ],
)
def test_sizes_are_the_published_ones(factory: Callable[[], Normalised], classes: int, count: int) -> None:
    network = factory().eval()
    assert parameters(network) == count
    with torch.inference_mode():
        assert network(torch.rand(2, 3, 32, 32)).shape == (2, classes)


@pytest.mark.parametrize(("factory", "end"), [(networks.resnet18_cifar10, 4), (networks.mobilenet_v2_cifar10, 4)])
def test_an_image_ends_as_four_by_four(factory: Callable[[], Normalised], end: int) -> None:
    network = factory().eval()
    assert isinstance(network.layers, nn.Sequential)
    with torch.inference_mode():
        assert network.layers[:-2](torch.rand(1, 3, 32, 32)).shape[2:] == (end, end)
        assert network.layers[:1](torch.rand(1, 3, 32, 32)).shape[2:] == (32, 32)


@pytest.mark.parametrize("factory", FACTORIES)
def test_normalisation_is_inside_and_part_of_the_weights(factory: Callable[[], Normalised]) -> None:
    network = factory().eval()
    mean, deviation = networks.CIFAR10_COLOURS if "100" not in factory.__name__ else networks.CIFAR100_COLOURS
    assert network.state_dict()["mean"].flatten().tolist() == pytest.approx(mean)
    assert network.state_dict()["deviation"].flatten().tolist() == pytest.approx(deviation)
    seen: list[torch.Tensor] = []
    network.layers.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    colour = torch.tensor(mean) + 2 * torch.tensor(deviation)
    with torch.inference_mode():
        network(colour[None, :, None, None].expand(1, 3, 8, 8))
    assert torch.allclose(seen[0], torch.full((1, 3, 8, 8), 2.0), atol=1e-5)


@pytest.mark.parametrize("factory", [networks.resnet18_cifar10, networks.mobilenet_v2_cifar10])
def test_channels_last_gives_the_same_scores_and_stays_so(factory: Callable[[], Normalised]) -> None:
    torch.manual_seed(0)
    network = factory().eval()
    batch = torch.rand(2, 3, 32, 32)
    layouts: list[bool] = []
    with torch.inference_mode():
        plain = network(batch)
        network.to(memory_format=torch.channels_last)
        for part in network.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.register_forward_pre_hook(
                    lambda _, inputs: layouts.append(inputs[0].is_contiguous(memory_format=torch.channels_last))
                )
        other = network(batch.contiguous(memory_format=torch.channels_last))
    assert torch.allclose(plain, other, atol=1e-4 * float(plain.abs().max()))
    assert len(layouts) >= 20
    assert all(layouts)


def test_the_scores_of_an_untrained_network_neither_vanish_nor_explode() -> None:
    torch.manual_seed(0)
    for factory in (networks.resnet18_cifar10, networks.mobilenet_v2_cifar10):
        network = factory().train()
        scores = network(torch.rand(8, 3, 32, 32))
        assert 0.01 < float(scores.detach().std()) < 10


@pytest.mark.parametrize("factory", FACTORIES)
def test_the_command_line_can_make_them(factory: Callable[[], Normalised]) -> None:
    made = load_classifier(f"fedcert.lab.networks:{factory.__name__}", weights=None, model_id=None, device="cpu")
    assert made.identity.startswith("sha256:")
