"""Networks to train and certify.

Each normalises its input inside. So noise is added before normalisation, and sigma and the radii are in units of
pixels in [0, 1].
"""

from __future__ import annotations

import torch
from torch import nn

Colours = tuple[float, float, float]

# Mean and standard deviation of the training pixels.
CIFAR10_COLOURS: tuple[Colours, Colours] = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
CIFAR100_COLOURS: tuple[Colours, Colours] = ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))

# Width of the four stages of ResNet-18; all but the first halve the image.
_RESNET_STAGES = (64, 128, 256, 512)

# Expansion, channels, blocks and first stride of MobileNetV2's stages (its paper's Table 2), with stride 1 instead of
# 2 in the stem and the second stage: a picture of 32 x 32 ends as 4 x 4 instead of 1 x 1.
_MOBILENET_STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


class DigitsNetwork(nn.Module):
    """A small convolutional network for 8 x 8 digits."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(),
            nn.Conv2d(8, 24, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(),
            nn.Linear(24 * 4 * 4, 64), nn.ReLU(),
            nn.Linear(64, 10),
        )  # fmt: skip

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Scores of the ten digits."""
        scores: torch.Tensor = self.layers((batch - 0.3) / 0.4)
        return scores


class Normalised(nn.Module):
    """Layers behind a normalisation of the three colours.

    Mean and deviation are buffers: they belong to the classifier, and so to its weights' file and digest.
    """

    mean: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, colours: tuple[Colours, Colours], layers: nn.Module) -> None:
        super().__init__()
        for name, values in zip(("mean", "deviation"), colours, strict=True):
            self.register_buffer(name, torch.tensor(values).view(3, 1, 1))
        self.layers = layers

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Scores of a batch of images, N x 3 x H x W in [0, 1] plus noise."""
        scores: torch.Tensor = self.layers((batch - self.mean) / self.deviation)
        return scores


class Residual(nn.Module):
    """The sum of a branch and a shortcut, with or without a rectifier behind it."""

    def __init__(self, branch: nn.Module, shortcut: nn.Module, *, rectified: bool) -> None:
        super().__init__()
        self.branch, self.shortcut = branch, shortcut
        self.rectified = rectified

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """The block's answer."""
        total: torch.Tensor = self.branch(batch) + self.shortcut(batch)
        return total.relu() if self.rectified else total


class MeanOfImage(nn.Module):
    """Each channel's mean over the image."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """N x C x H x W -> N x C."""
        return batch.mean(dim=(2, 3))


def small_network(channels: int, height: int, width: int, classes: int) -> nn.Module:
    """A small convolutional network for small images: two convolutions that halve, two linear layers."""
    inner = 32 * (-(-height // 4)) * (-(-width // 4))
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(),
        nn.Linear(inner, 64), nn.ReLU(),
        nn.Linear(64, classes),
    )  # fmt: skip


def resnet18(classes: int, colours: tuple[Colours, Colours]) -> Normalised:
    """ResNet-18 (He et al. 2016) for images of 32 x 32: a stem of 3 x 3 without pooling."""
    width = _RESNET_STAGES[0]
    layers: list[nn.Module] = [_convolution(3, width), nn.BatchNorm2d(width), nn.ReLU()]
    for stage, channels in enumerate(_RESNET_STAGES):
        for stride in (1 if stage == 0 else 2, 1):
            layers.append(_basic_block(width, channels, stride))
            width = channels
    return Normalised(colours, nn.Sequential(*layers, MeanOfImage(), nn.Linear(width, classes)))


def mobilenet_v2(classes: int, colours: tuple[Colours, Colours]) -> Normalised:
    """MobileNetV2 (Sandler et al. 2018) for images of 32 x 32: it halves them three times instead of five."""
    width, last = 32, 1280
    layers: list[nn.Module] = [_convolution(3, width), nn.BatchNorm2d(width), nn.ReLU6()]
    for expansion, channels, blocks, first_stride in _MOBILENET_STAGES:
        for number in range(blocks):
            layers.append(_inverted_residual(width, channels, expansion, first_stride if number == 0 else 1))
            width = channels
    layers += [_convolution(width, last, size=1), nn.BatchNorm2d(last), nn.ReLU6()]
    return Normalised(colours, nn.Sequential(*layers, MeanOfImage(), nn.Linear(last, classes)))


def _basic_block(width: int, channels: int, stride: int) -> nn.Module:
    branch = nn.Sequential(
        _convolution(width, channels, stride=stride), nn.BatchNorm2d(channels), nn.ReLU(),
        _convolution(channels, channels), nn.BatchNorm2d(channels),
    )  # fmt: skip
    if stride == 1 and width == channels:
        return Residual(branch, nn.Identity(), rectified=True)
    projection = nn.Sequential(_convolution(width, channels, size=1, stride=stride), nn.BatchNorm2d(channels))
    return Residual(branch, projection, rectified=True)


def _inverted_residual(width: int, channels: int, expansion: int, stride: int) -> nn.Module:
    inner = width * expansion
    expand = [_convolution(width, inner, size=1), nn.BatchNorm2d(inner), nn.ReLU6()] if expansion > 1 else []
    branch = nn.Sequential(
        *expand,
        _convolution(inner, inner, stride=stride, groups=inner), nn.BatchNorm2d(inner), nn.ReLU6(),
        _convolution(inner, channels, size=1), nn.BatchNorm2d(channels),
    )  # fmt: skip
    return Residual(branch, nn.Identity(), rectified=False) if stride == 1 and width == channels else branch


def _convolution(width: int, channels: int, *, size: int = 3, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    layer = nn.Conv2d(width, channels, size, stride, padding=size // 2, groups=groups, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


def digits_network() -> DigitsNetwork:
    """An untrained network for digits: the factory that `fedcert certify` is given in the demo."""
    return DigitsNetwork()


def resnet18_cifar10() -> Normalised:
    """An untrained ResNet-18 for CIFAR-10: `fedcert certify fedcert.lab.networks:resnet18_cifar10 --weights …`."""
    return resnet18(10, CIFAR10_COLOURS)


def resnet18_cifar100() -> Normalised:
    """An untrained ResNet-18 for CIFAR-100."""
    return resnet18(100, CIFAR100_COLOURS)


def mobilenet_v2_cifar10() -> Normalised:
    """An untrained MobileNetV2 for CIFAR-10."""
    return mobilenet_v2(10, CIFAR10_COLOURS)


def mobilenet_v2_cifar100() -> Normalised:
    """An untrained MobileNetV2 for CIFAR-100."""
    return mobilenet_v2(100, CIFAR100_COLOURS)
