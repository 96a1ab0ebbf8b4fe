"""The hot loop for torch modules on a GPU: noise, prediction and counting stay there."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from fedcert.certification.models.torch_module import channels_last, scores_of, working
from fedcert.certification.perturbation import Perturbation, Streams, block_size
from fedcert.certification.samplers.fusion import fused, mostly_fused, scores_match
from fedcert.certification.samplers.protocol import (
    NAN_SCORES,
    Counts,
    Draw,
    Images,
    OnSamples,
    Unit,
    batches,
    check_width,
    ignore,
)
from fedcert.errors import FedcertWarning, ModelProblem

_DEVICE_BATCH = 16_000
"""Samples per call on a GPU, where memory allows: enough to fill it, and a multiple of both 100 and 128."""
_DEVICE_FLOATS = 2**26
_ALIGNMENT = 64
_COMPARED = 64


@dataclass
class DeviceSampler:
    """Samples a torch module on a GPU, in the mode in which it is (put it into evaluation mode before).

    Every call has the same number of samples, the last one filled up, so that what an example gets does not
    depend on its company.

    Attributes:
        module: float32 batch -> scores, one column per class.
        classes: number of classes.
        noise: what is added to the input.
        streams: where it is drawn from.
        device: where the module is.
        batch_size: samples per call; found by itself where None, and halved when memory runs out.
        precision: the arithmetic in which it is running; below float32, layers are fused on a GPU.
    """

    module: torch.nn.Module
    classes: int
    noise: Perturbation
    streams: Streams
    device: torch.device
    batch_size: int | None = None
    precision: str = "float32"
    _forward: Callable[[torch.Tensor], Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._forward = self.module
        self._fused = self._mostly_fused = False

    @property
    def pays_to_compile(self) -> bool:
        """Whether compiling makes long work shorter here: not where fused kernels do most of it already."""
        return self.device.type == "cuda" and not self._mostly_fused

    @torch.inference_mode()
    def fuse(self, images: Images) -> None:
        """Fuse the layers of a convolutional network, where that gives the same scores on some images."""
        if self.precision == "float32":
            return
        dtype = torch.bfloat16 if self.precision == "bfloat16" else torch.float32
        made = fused(self.module, dtype)
        if made is None:
            return
        chance = torch.randn(images[:_COMPARED].shape, generator=torch.Generator().manual_seed(0))
        batch = (torch.from_numpy(images[:_COMPARED]) + self.noise.sigma * chance).to(self.device)
        batch = channels_last(batch)
        try:
            if scores_match(scores_of(self.module, batch), scores_of(made, batch)):
                self._forward, self._fused, self._mostly_fused = made, True, mostly_fused(made)
        except ModelProblem:  # the network as it is says what is wrong with it, if anything is
            return

    @torch.inference_mode()
    def compile(self, images: Images) -> None:
        """Have torch compile the module for batches of such images; where that fails, go on without."""
        compiled = torch.compile(self._forward, dynamic=False)
        shape = images.shape[1:]
        batch = channels_last(torch.zeros((self._batch(shape), *shape), device=self.device))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compiled(batch)
        except torch.cuda.OutOfMemoryError:
            self._take_less(shape)
            self.compile(images)
        except Exception as error:  # noqa: BLE001 (a compiler may fail in any way, and nothing is lost by going without)
            reason = str(error).strip().splitlines()[:1]
            warnings.warn(
                f"torch could not compile the model ({type(error).__name__}: {reason[0][:100] if reason else ''}); "
                "going on without",
                FedcertWarning,
                stacklevel=2,
            )
        else:
            self._forward = compiled

    @torch.inference_mode()
    def counts(self, images: Images, draws: Sequence[Draw], spent: OnSamples = ignore) -> Counts:
        """See `sampler.Sampler.counts`."""
        with working(self.device):
            return self._counted(images, draws, spent)

    def _counted(self, images: Images, draws: Sequence[Draw], spent: OnSamples) -> Counts:
        clean = torch.from_numpy(images).to(self.device)
        counts = torch.zeros(len(draws) * self.classes + 1, dtype=torch.int64, device=self.device)
        # A flag on the device: looking at it once per call keeps the device from waiting for the host.
        unusable = torch.zeros((), dtype=torch.bool, device=self.device)
        shape = images.shape[1:]
        while True:
            try:
                for units in batches(draws, self._batch(shape), block_size(shape)):
                    self._count(clean, units, counts, unusable)
                    spent(sum(unit.samples for unit in units))
                break
            except torch.cuda.OutOfMemoryError:
                # What was counted of this call is thrown away, and drawn again with less at a time.
                self._take_less(shape)
                counts.zero_()
        if bool(unusable):
            raise ModelProblem(NAN_SCORES)
        return np.asarray(counts[:-1].view(len(draws), self.classes).cpu(), dtype=np.int64)

    def _take_less(self, shape: tuple[int, ...]) -> None:
        """Halve the batch, after the device's memory ran out."""
        before = self._batch(shape)
        if before <= 1:
            raise ModelProblem(
                "the device's memory does not hold one noisy example and the model; use a larger device or the CPU"
            )
        torch.cuda.empty_cache()
        self.batch_size = max(1, before // 2)
        warnings.warn(
            f"the device's memory does not hold {before} samples at a time; going on with {self.batch_size}",
            FedcertWarning,
            stacklevel=2,
        )

    def trial(self, shape: tuple[int, ...]) -> int | None:
        """Samples that tell the speed: a full batch on a GPU."""
        return self._batch(shape) if self.device.type == "cuda" else None

    def _batch(self, shape: tuple[int, ...]) -> int:
        if self.batch_size is None:
            most = _DEVICE_FLOATS // max(1, int(np.prod(shape)))
            self.batch_size = max(1, min(_DEVICE_BATCH, most // _ALIGNMENT * _ALIGNMENT or most))
        return self.batch_size

    def _count(self, clean: torch.Tensor, units: Sequence[Unit], counts: torch.Tensor, unusable: torch.Tensor) -> None:
        filled = sum(unit.samples for unit in units)
        size = max(self._batch(tuple(clean.shape[1:])), filled)
        rows, owners = self._owners(units, filled, size, len(counts) - 1)
        noisy = torch.empty((size, *clean.shape[1:]), dtype=torch.float32, device=self.device)
        start = 0
        for unit in units:
            part = noisy[start : start + unit.samples]
            self.noise.fill_tensor(self.streams.stream(unit.example, unit.phase, unit.block), part)
            start += unit.samples
        noisy[start:].zero_()
        noisy += clean[rows]
        scores = self._scores(channels_last(noisy))
        live = torch.arange(size, device=self.device) < filled
        unusable |= (scores.isnan().any(dim=1) & live).any()
        # Fillers are counted beyond the last draw.
        cells = torch.where(live, owners + scores.argmax(dim=1), owners)
        counts.index_add_(0, cells, torch.ones_like(cells))

    def _owners(self, units: Sequence[Unit], filled: int, size: int, beyond: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The image of each sample, and the first cell of its draw; the host does not wait for the device here."""
        fillers = ((0, beyond, size - filled),)
        table = torch.tensor([*((unit.row, unit.draw * self.classes, unit.samples) for unit in units), *fillers])
        if self.device.type == "cuda":
            table = table.pin_memory()
        table = table.to(self.device, non_blocking=True)
        each = torch.repeat_interleave(table[:, :2], table[:, 2], dim=0, output_size=size)
        return each[:, 0], each[:, 1]

    def _scores(self, batch: torch.Tensor) -> torch.Tensor:
        scores = scores_of(self._forward, batch)
        check_width(scores.shape[1], self.classes)
        return scores
