"""Other ways to certify, as they are usually run: the published loop, and IBM's Adversarial Robustness Toolbox."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch


def published(
    module: torch.nn.Module, images: np.ndarray, sigma: float, n: int, batch: int, device: str
) -> dict[str, Any]:
    """The loop of Cohen et al.'s code: one image at a time, float32 as torch runs it by default, counted on the host.

    Args:
        module: in evaluation mode, on its device.
        images: what to certify, one after the other; a first, short run on the first of them is not timed.
        sigma: of the noise.
        n: samples for each image.
        batch: samples per call.
        device: where the module is.
    """
    module.eval()
    _sampled(module, images[0], sigma, min(n, 2 * batch), batch, device)
    start = time.perf_counter()
    for image in images:
        _sampled(module, image, sigma, n, batch, device)
    return _rate(len(images) * n, time.perf_counter() - start, len(images))


def _sampled(module: torch.nn.Module, image: np.ndarray, sigma: float, n: int, batch: int, device: str) -> np.ndarray:
    clean = torch.from_numpy(image).to(device)
    counts = np.zeros(1000, dtype=int)
    left = n
    with torch.no_grad():
        while left > 0:
            size = min(batch, left)
            left -= size
            noisy = clean.repeat((size, *[1] * clean.ndim))
            predictions = module(noisy + torch.randn_like(noisy, device=device) * sigma).argmax(1)
            for label in predictions.cpu().numpy():
                counts[label] += 1
    return counts


def toolbox(
    module: torch.nn.Module, images: np.ndarray, sigma: float, n: int, batch: int, classes: int, device: str
) -> dict[str, Any] | None:
    """ART's own CERTIFY; None where it is not installed. Arguments as `published`."""
    try:
        import art
        from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing
    except ImportError:
        return None
    smoothed = PyTorchRandomizedSmoothing(
        model=module, loss=torch.nn.CrossEntropyLoss(), input_shape=images.shape[1:], nb_classes=classes,
        sample_size=100, scale=sigma, alpha=0.001, device_type="cpu" if device == "cpu" else "gpu",
    )  # fmt: skip
    smoothed.certify(images[:1], n=min(n, 2 * batch), batch_size=batch)
    start = time.perf_counter()
    smoothed.certify(images, n=n, batch_size=batch)
    return {**_rate(len(images) * (n + 100), time.perf_counter() - start, len(images)), "version": art.__version__}


def _rate(samples: int, seconds: float, images: int) -> dict[str, Any]:
    return {"samples_per_second": samples / seconds, "seconds": seconds, "samples": samples, "images": images}
