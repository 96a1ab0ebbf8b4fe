"""The hot loop for torch modules: noise, prediction and counting stay on the module's device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fedcert.certification.noise import Gaussian, Phase, Streams, block_size, fill_normal
from fedcert.certification.sampler import (
    NAN_SCORES,
    Counts,
    Images,
    Spent,
    Unit,
    batches,
    check_width,
    fitting_batch,
    guarded,
    nobody,
)
from fedcert.errors import ModelProblem


@dataclass(frozen=True)
class TorchSampler:
    """Samples a torch module, in the mode in which it is (put it into evaluation mode before).

    Attributes:
        module: float32 batch -> scores, one column per class.
        classes: number of classes.
        noise: what is added to the input.
        streams: where it is drawn from.
        device: where the module is.
        batch_size: samples per call; found from the example's size where None.
    """

    module: torch.nn.Module
    classes: int
    noise: Gaussian
    streams: Streams
    device: torch.device
    batch_size: int | None = None

    @torch.inference_mode()
    def counts(
        self, images: Images, indices: Sequence[int], phase: Phase, samples: int, spent: Spent = nobody
    ) -> Counts:
        """See `sampler.Sampler.counts`."""
        clean = torch.from_numpy(images).to(self.device)
        counts = torch.zeros(len(images) * self.classes, dtype=torch.int64, device=self.device)
        # A flag on the device: looking at it once per call keeps the device from waiting for the host.
        unusable = torch.zeros((), dtype=torch.bool, device=self.device)
        batch_size = self.batch_size or fitting_batch(images.shape[1:])
        for units in batches(indices, samples, batch_size, block_size(images.shape[1:])):
            noisy, owners = self._noisy(clean, units, phase)
            for start in range(0, len(noisy), batch_size):
                part = noisy[start : start + batch_size]
                scores = scores_of(self.module, part)
                check_width(scores.shape[1], self.classes)
                unusable |= scores.isnan().any()
                cells = owners[start : start + batch_size] * self.classes + scores.argmax(dim=1)
                counts.index_add_(0, cells, torch.ones_like(cells))
                spent(len(part))
        if bool(unusable):
            raise ModelProblem(NAN_SCORES)
        return np.asarray(counts.view(len(images), self.classes).cpu(), dtype=np.int64)

    def _noisy(self, clean: torch.Tensor, units: Sequence[Unit], phase: Phase) -> tuple[torch.Tensor, torch.Tensor]:
        sizes = torch.tensor([unit.samples for unit in units])
        rows = torch.tensor([unit.row for unit in units]).repeat_interleave(sizes).to(self.device)
        noisy = torch.empty((len(rows), *clean.shape[1:]), dtype=torch.float32, device=self.device)
        start = 0
        for unit in units:
            part = noisy[start : start + unit.samples]
            self._fill(part, self.streams.stream(unit.example, phase, unit.block))
            part += clean[unit.row]
            start += unit.samples
        return noisy, rows

    def _fill(self, part: torch.Tensor, stream: int) -> None:
        if self.device.type == "cpu":
            fill_normal(stream, part.numpy())
            part *= self.noise.sigma
        else:
            generator = torch.Generator(self.device).manual_seed(stream)
            part.normal_(0.0, self.noise.sigma, generator=generator)


def scores_of(module: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """A module's scores, one row per example.

    Raises:
        ModelProblem: it raises an error, or answers something else.
    """
    scores = guarded(lambda: module(batch), tuple(batch.shape))
    usable = isinstance(scores, torch.Tensor) and scores.is_floating_point()
    if not isinstance(scores, torch.Tensor) or not usable or scores.ndim != 2 or len(scores) != len(batch):
        came = (
            f"{scores.dtype} of shape {tuple(scores.shape)}"
            if isinstance(scores, torch.Tensor)
            else type(scores).__name__
        )
        raise ModelProblem(
            f"the module must answer {len(batch)} examples with floating-point scores of shape "
            f"({len(batch)}, classes), but gave {came}; wrap it in one that does"
        )
    return scores


@contextmanager
def as_certified(module: torch.nn.Module, device: torch.device) -> Iterator[None]:
    """Run a module as its certificate says: in evaluation mode, in real float32.

    By default cuDNN rounds the operands of float32 convolutions to 10 bits (TF32), and a surrounding autocast would
    round everything: that is another classifier. All modes are put back afterwards.
    """
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with torch.autocast(device.type, enabled=False), _real_float32(device):
            yield
    finally:
        for part, training in modes.items():
            part.training = training


@contextmanager
def _real_float32(device: torch.device) -> Iterator[None]:
    """Switch TF32 off on a GPU; torch has two ways to say so, which must not be mixed."""
    if device.type != "cuda":
        yield
        return
    backends: tuple[Any, ...] = (torch.backends.cudnn, torch.backends.cuda.matmul)
    name, off = "allow_tf32", False
    try:
        before: list[Any] = [getattr(backend, name) for backend in backends]
    except RuntimeError:  # the program uses the newer way
        backends = (torch.backends.cudnn.conv, torch.backends.cudnn.rnn, torch.backends.cuda.matmul)  # type: ignore[attr-defined]
        name, off = "fp32_precision", "ieee"  # type: ignore[assignment]
        before = [getattr(backend, name) for backend in backends]
    for backend in backends:
        setattr(backend, name, off)
    try:
        yield
    finally:
        for backend, value in zip(backends, before, strict=True):
            setattr(backend, name, value)
