"""Networks to train and certify."""

from __future__ import annotations

import torch
from torch import nn


class DigitsNetwork(nn.Module):
    """A small convolutional network for 8 x 8 digits, with its normalisation inside.

    Noise is added before normalisation, so that sigma and the radii are in units of pixels in [0, 1].
    """

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


def digits_network() -> DigitsNetwork:
    """An untrained network for digits: the factory that `fedcert certify` is given in the demo."""
    return DigitsNetwork()
