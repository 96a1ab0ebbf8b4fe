"""The batches of a client: example indices, augmentations, noise seed.

All of it depends on the seed, the round and the client alone, so all simulators, and a run that was resumed, see
the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch

from fedcert.lab.training.settings import Training


@dataclass(frozen=True)
class ClientBatches:
    """The batches that one client sees in one round.

    Attributes:
        examples: the example of each place in each batch, [steps, batch size].
        shifts: pixels by which each is moved down and right, and whether it is mirrored, [steps, batch size, 3].
        seed: of the noise, for the device's own generator.
    """

    examples: torch.Tensor
    shifts: torch.Tensor
    seed: int

    @classmethod
    def of(cls, settings: Training, held: np.ndarray, client: int, number: int) -> ClientBatches:
        """The batches of a client in a round.

        Args:
            settings: of training.
            held: the client's training examples.
            client: its number.
            number: the round's.
        """
        generator, noise_seed = _randomness(settings, number, str(client))
        steps = settings.steps(len(held))
        wanted = steps * settings.batch_size
        passes = -(-wanted // len(held)) if steps else 0
        stream = np.concatenate([np.zeros(0, dtype=np.int64), *(generator.permutation(held) for _ in range(passes))])
        places = (steps, settings.batch_size)
        down, right = generator.integers(0, 2 * settings.padding + 1, (2, *places))
        shifts = np.stack([down, right, generator.integers(0, 2, places) * settings.flip], axis=-1)
        return cls(torch.from_numpy(stream[:wanted].reshape(places)), torch.from_numpy(shifts), noise_seed)

    @property
    def steps(self) -> int:
        """How many steps it has."""
        return len(self.examples)

    def to(self, device: torch.device) -> ClientBatches:
        """The same on a device."""
        return ClientBatches(self.examples.to(device), self.shifts.to(device), self.seed)


def chosen_clients(settings: Training, sizes: np.ndarray, number: int) -> list[int]:
    """The clients of a round: drawn without repetition, those without training examples never."""
    generator, _ = _randomness(settings, number, "clients")
    able = np.flatnonzero(sizes)
    drawn = generator.choice(able, min(settings.clients_per_round, len(able)), replace=False)
    return [int(client) for client in np.sort(drawn)]


def _randomness(settings: Training, number: int, purpose: str) -> tuple[np.random.Generator, int]:
    """A generator for one purpose in a round, and a seed that is independent of it."""
    key = hashlib.sha256(f"{settings.seed}/{number}/{purpose}".encode()).digest()
    generator = np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "little")))
    return generator, int.from_bytes(key[16:24], "little") >> 1


def pictures(
    images: torch.Tensor, examples: torch.Tensor, shifts: torch.Tensor | None, padding: int, noise: torch.Tensor
) -> torch.Tensor:
    """A batch as a step sees it: moved, mirrored, in [0, 1] plus noise.

    Args:
        images: all training images, N x C x H x W bytes.
        examples: which of them.
        shifts: see `ClientBatches`; None where nothing is moved or mirrored.
        padding: the most that they are moved, either way.
        noise: to be added.
    """
    chosen = images[examples]
    if shifts is not None:
        chosen = shifted(chosen, shifts, padding)
    return chosen.float().div_(255).add_(noise).contiguous(memory_format=torch.channels_last)


def shifted(chosen: torch.Tensor, shifts: torch.Tensor, padding: int) -> torch.Tensor:
    """Images cropped out of a black margin, and mirrored.

    Args:
        chosen: N x C x H x W.
        shifts: see `ClientBatches`, N x 3.
        padding: width of the margin.
    """
    count, channels, height, width = chosen.shape
    if padding:
        chosen = torch.nn.functional.pad(chosen, (padding, padding, padding, padding))
    device = chosen.device
    rows = shifts[:, 0, None] + torch.arange(height, device=device)
    columns = torch.arange(width, device=device).expand(count, width)
    columns = torch.where(shifts[:, 2, None] == 1, width - 1 - columns, columns) + shifts[:, 1, None]
    which = torch.arange(count, device=device)[:, None, None, None]
    plane = torch.arange(channels, device=device)[:, None, None]
    return chosen[which, plane, rows[:, None, :, None], columns[:, None, None, :]]
