"""Plain central training with Gaussian noise (Cohen et al. 2019); data and batches stay on the device."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from fedcert._schema.declare import Checked, defaulting, required
from fedcert._schema.field_types import Flag, Number, Whole
from fedcert.lab.accuracy import check_images
from fedcert.lab.training.batches import shifted


@dataclass(frozen=True, kw_only=True)
class CentralTraining(Checked):
    """Settings of central training by SGD with Nesterov momentum.

    Attributes:
        epochs: passes over the data.
        sigma: standard deviation of the noise on every training example, in units of pixels in [0, 1].
        batch_size: of a step; what is left over at the end of an epoch waits for the next one.
        learning_rate: the highest; it rises linearly to it, then falls to 0 along half a cosine.
        warmup: share of the steps in which it rises.
        momentum: Nesterov's.
        weight_decay: the L2 penalty on all parameters.
        padding: black pixels on each side, of which a random crop takes some in; 0 for none.
        flip: whether every other picture, by chance, is mirrored.
        bfloat16: whether to compute in bfloat16 where autocast holds that to be safe.
        channels_last: whether images and weights lie in memory with their channels last, as tensor cores like it.
        compiled: whether torch.compile makes kernels for the network: half a minute at the start, on a GPU only.
    """

    epochs: int = required(Whole(least=1))
    sigma: float = required(Number(least=0))
    batch_size: int = defaulting(Whole(least=1), 512)
    learning_rate: float = defaulting(Number(above=0), 0.2)
    warmup: float = defaulting(Number(least=0, below=1), 0.25)
    momentum: float = defaulting(Number(above=0, below=1), 0.9)
    weight_decay: float = defaulting(Number(least=0), 5e-4)
    padding: int = defaulting(Whole(), 4)
    flip: bool = defaulting(Flag(), True)
    bfloat16: bool = defaulting(Flag(), False)
    channels_last: bool = defaulting(Flag(), False)
    compiled: bool = defaulting(Flag(), False)

    def rate_at(self, share: float) -> float:
        """The learning rate when that share of the steps is done.

        Examples:
            >>> settings = CentralTraining(epochs=1, sigma=0.25, learning_rate=0.2, warmup=0.5)
            >>> [round(settings.rate_at(share), 3) for share in (0, 0.25, 0.5, 0.75, 1)]
            [0.0, 0.1, 0.2, 0.1, 0.0]
        """
        if share < self.warmup:
            return self.learning_rate * share / self.warmup
        return self.learning_rate * (1 + math.cos(math.pi * (share - self.warmup) / (1 - self.warmup))) / 2


@dataclass(frozen=True)
class Epoch:
    """The result of an epoch.

    Attributes:
        number: from 1.
        loss: mean cross-entropy on the noisy training examples, while the weights changed.
        accuracy: share of them that was classified right.
        seconds: what it took.
    """

    number: int
    loss: float
    accuracy: float
    seconds: float


def train_centrally(
    network: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    settings: CentralTraining,
    generator: torch.Generator,
) -> Iterator[Epoch]:
    """Train a network in place, yielding after each epoch.

    Args:
        network: on its device; from images in [0, 1] to scores.
        images: N x C x H x W bytes, on the network's device.
        labels: N class indices, on the network's device.
        settings: how.
        generator: of that device; source of order, crops, flips and noise.

    Raises:
        DataProblem: the images are no bytes, or are not as many as the labels, or are none.
    """
    check_images(images, labels)
    network.train()
    if settings.channels_last:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    forward: Callable[[torch.Tensor], torch.Tensor] = torch.compile(network) if settings.compiled else network
    optimizer = torch.optim.SGD(
        network.parameters(),
        settings.learning_rate,
        settings.momentum,
        weight_decay=settings.weight_decay,
        nesterov=True,
        fused=images.is_cuda,
    )
    size = min(settings.batch_size, len(images))
    steps = len(images) // size
    for epoch in range(settings.epochs):
        start = time.perf_counter()
        order = torch.randperm(len(images), generator=generator, device=images.device)
        # Sums on the device: asking for each step's loss would make the device wait for the host.
        sums = torch.zeros(2, device=images.device)
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = settings.rate_at((epoch * steps + step + 1) / (settings.epochs * steps))
            chosen = order[step * size : (step + 1) * size]
            batch, wanted = augmented_batch(images[chosen], settings, generator), labels[chosen]
            with torch.autocast(images.device.type, torch.bfloat16, enabled=settings.bfloat16):
                scores = forward(batch)
            loss = nn.functional.cross_entropy(scores.float(), wanted)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            sums += torch.stack([loss.detach(), (scores.detach().argmax(dim=1) == wanted).float().mean()])
        loss_sum, right = sums.tolist()
        yield Epoch(epoch + 1, loss_sum / steps, right / steps, time.perf_counter() - start)


def augmented_batch(images: torch.Tensor, settings: CentralTraining, generator: torch.Generator) -> torch.Tensor:
    """A batch as training sees it: cropped and mirrored at random, in [0, 1] plus noise.

    Args:
        images: N x C x H x W bytes.
        settings: padding, flip, sigma and channels_last are used.
        generator: of the images' device.
    """
    cropped = random_crop(images, settings.padding, flip=settings.flip, generator=generator)
    batch = cropped.float().div_(255)
    if settings.channels_last:
        batch = batch.contiguous(memory_format=torch.channels_last)
    return batch.add_(torch.empty_like(batch).normal_(generator=generator), alpha=settings.sigma)


def random_crop(images: torch.Tensor, padding: int, *, flip: bool, generator: torch.Generator) -> torch.Tensor:
    """Shift each image by up to `padding` pixels each way, black coming in, and mirror it or not, all by chance."""
    count, device = len(images), images.device
    top, left = torch.randint(0, 2 * padding + 1, (2, count, 1), generator=generator, device=device)
    mirrored = torch.zeros((count, 1), dtype=torch.int64, device=device)
    if flip:
        mirrored = torch.randint(0, 2, (count, 1), generator=generator, device=device)
    return shifted(images, torch.cat([top, left, mirrored], dim=1), padding)
