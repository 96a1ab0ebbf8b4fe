"""What a network makes of images: the classes that it predicts, and the share that is right."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from fedcert.errors import DataProblem


@torch.inference_mode()
def accuracy(
    network: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    *,
    sigma: float,
    generator: torch.Generator,
    batch_size: int = 1000,
    bfloat16: bool = False,
) -> float:
    """Share of images that a network in evaluation mode classifies right: clean at sigma 0, else under noise.

    Args:
        network: on its device; from images in [0, 1] to scores.
        images: N x C x H x W bytes, on the network's device.
        labels: N class indices, on the network's device.
        sigma: standard deviation of the noise; each image gets one draw.
        generator: of that device.
        batch_size: images per call.
        bfloat16: whether to compute in bfloat16 where autocast holds that to be safe.

    Raises:
        DataProblem: see `check_images`.
    """
    check_images(images, labels)
    training = network.training
    network.eval()
    right = torch.zeros((), dtype=torch.int64, device=images.device)
    for start in range(0, len(images), batch_size):
        batch, wanted = images[start : start + batch_size].float().div_(255), labels[start : start + batch_size]
        batch.add_(torch.empty_like(batch).normal_(generator=generator), alpha=sigma)
        with torch.autocast(images.device.type, torch.bfloat16, enabled=bfloat16):
            right += (network(batch).argmax(dim=1) == wanted).sum()
    network.train(training)
    return right.item() / len(images)


@torch.inference_mode()
def clean_predictions(
    network: nn.Module, batches: Iterable[npt.NDArray[np.float32]], *, bfloat16: bool = False
) -> npt.NDArray[np.int32]:
    """The classes that a network in evaluation mode predicts without noise, in one pass.

    Args:
        network: on its device; from images in [0, 1] to scores.
        batches: images in [0, 1], as many as the network is to be given at once.
        bfloat16: whether to compute in bfloat16 where autocast holds that to be safe.
    """
    training, device = network.training, next(network.parameters()).device
    network.eval()
    classes = [np.zeros(0, dtype=np.int32)]
    for batch in batches:
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            scores = network(torch.from_numpy(batch).to(device))
        classes.append(scores.argmax(dim=1).cpu().numpy().astype(np.int32))
    network.train(training)
    return np.concatenate(classes)


def check_images(images: torch.Tensor, labels: torch.Tensor) -> None:
    """Check images and labels that a network is to be trained or evaluated on.

    Raises:
        DataProblem: the images are no bytes, or are not as many as the labels, or are none.
    """
    if images.dtype != torch.uint8 or images.ndim != 4:
        raise DataProblem(
            f"images must be bytes of shape N x C x H x W, but are {images.dtype} of shape {tuple(images.shape)}; "
            "give them as they are in the file, they are scaled to [0, 1] here"
        )
    if labels.shape != (len(images),) or not len(images):
        raise DataProblem(
            f"there must be one label for each image, and at least one, but there are {len(images)} images "
            f"and labels of shape {tuple(labels.shape)}"
        )
