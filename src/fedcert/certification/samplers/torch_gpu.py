"""The hot loop for torch modules on a GPU: noise, prediction and counting stay there."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from fedcert._arrays import Images, Integers
from fedcert.certification.certificate import InFlight
from fedcert.certification.models.answers import NAN_SCORES, check_width
from fedcert.certification.models.torch_module import channels_last, device_errors, scores_of
from fedcert.certification.perturbation import Perturbation
from fedcert.certification.samplers.blocks import NoiseBlock, batches, filled_up
from fedcert.certification.samplers.fusion import fused, mostly_fused, scores_match
from fedcert.certification.samplers.protocol import OnSamples, ignore
from fedcert.certification.streams import Stream, Streams
from fedcert.errors import FedcertWarning, ModelProblem

_DEVICE_BATCH = 16_000
"""Samples per call on a GPU, where memory allows: enough to fill it, and a multiple of both 100 and 128."""
_DEVICE_FLOATS = 2**26
"""Numbers in the noisy inputs of a call at most: 256 MB, a small part of any GPU that certifies large images."""
_BATCH_MULTIPLE = 64
"""Matrix kernels are tiled in such numbers of rows."""
_COMPARED = 64
"""Images on which a fused network is compared with the original: one batch, and plenty to show a wrong layer."""


@dataclass
class DeviceSampler:
    """Samples a torch module on a GPU, in the mode in which it is (put it into evaluation mode before).

    Every call has the same number of samples, the last one filled up, so that the counts of an example do not depend
    on which others are sampled with it.

    Attributes:
        module: float32 batch -> scores, one column per class.
        classes: number of classes.
        perturbation: what is done to the input.
        streams: the seeds of what is drawn.
        device: where the module is.
        batch_size: samples per call; computed from the example's size where None, and halved when memory runs out.
        precision: the arithmetic in which it is running; below float32, layers are fused on a GPU.
    """

    module: torch.nn.Module
    classes: int
    perturbation: Perturbation
    streams: Streams
    device: torch.device
    batch_size: int | None = None
    precision: str = "float32"
    can_compile: ClassVar[bool] = True
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
        network = fused(self.module, dtype)
        if network is None:
            return
        noisy = np.empty_like(images[:_COMPARED])
        for row, image in enumerate(images[:_COMPARED]):
            self.perturbation.perturb(image, Stream(row.to_bytes(32, "little")), noisy[row : row + 1])
        batch = channels_last(torch.from_numpy(noisy).to(self.device))
        try:
            if scores_match(scores_of(self.module, batch), scores_of(network, batch)):
                self._forward, self._fused, self._mostly_fused = network, True, mostly_fused(network)
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
            self._halve_batch(shape)
            self.compile(images)
        except Exception as error:  # noqa: BLE001 (a compiler may fail in any way, and nothing is lost by going without)
            lines = str(error).strip().splitlines() or [""]
            failure = f"torch could not compile the model ({type(error).__name__}: {lines[0][:100]})"
            warnings.warn(f"{failure}; going on without", FedcertWarning, stacklevel=2)
        else:
            self._forward = compiled

    @torch.inference_mode()
    def counts(self, examples: Sequence[InFlight], on_samples: OnSamples = ignore) -> Integers:
        """See `Sampler.counts`."""
        with device_errors(self.device):
            clean = torch.from_numpy(np.stack([example.image for example in examples])).to(self.device)
            counts = torch.zeros(len(examples) * self.classes + 1, dtype=torch.int64, device=self.device)
            # A flag on the device: looking at it once per call keeps the device from waiting for the host.
            unusable = torch.zeros((), dtype=torch.bool, device=self.device)
            shape = examples[0].image.shape
            block = self.streams.block_size(shape)
            while True:
                try:
                    for blocks in batches(examples, self.streams, self._batch(shape), block):
                        self._count(clean, blocks, block, counts, unusable)
                        on_samples(sum(block.samples for block in blocks))
                    break
                except torch.cuda.OutOfMemoryError:
                    # The counts of this call are dropped, and drawn again with fewer samples at a time.
                    self._halve_batch(shape)
                    counts.zero_()
            if bool(unusable):
                raise ModelProblem(NAN_SCORES)
            return np.asarray(counts[:-1].view(len(examples), self.classes).cpu(), dtype=np.int64)

    @torch.inference_mode()
    def labels(self, batch: Images) -> Integers:
        """See `Sampler.labels`."""
        with device_errors(self.device):
            noisy = torch.from_numpy(filled_up(batch, self._batch(batch.shape[1:]))).to(self.device)
            size = self._batch(batch.shape[1:])
            scores = [scores_of(self._forward, channels_last(part)) for part in torch.split(noisy, size)]
            return np.asarray(torch.cat(scores).argmax(dim=1)[: len(batch)].cpu(), dtype=np.int64)

    def _halve_batch(self, shape: tuple[int, ...]) -> None:
        """Halve the batch, after the device's memory ran out."""
        before = self._batch(shape)
        if before <= 1:
            raise ModelProblem(
                "the device's memory does not hold one noisy example and the model; use a larger device or the CPU"
            )
        torch.cuda.empty_cache()
        self.batch_size = max(1, before // 2)
        full = f"the device's memory does not hold {before} samples at a time"
        warnings.warn(f"{full}; going on with {self.batch_size}", FedcertWarning, stacklevel=2)

    def trial_size(self, shape: tuple[int, ...]) -> int:
        """A full batch on a GPU: fewer samples say little about its speed."""
        return self._batch(shape) if self.device.type == "cuda" else 1

    def _batch(self, shape: tuple[int, ...]) -> int:
        if self.batch_size is None:
            most = _DEVICE_FLOATS // max(1, int(np.prod(shape)))
            self.batch_size = max(1, min(_DEVICE_BATCH, most // _BATCH_MULTIPLE * _BATCH_MULTIPLE or most))
        return self.batch_size

    def _count(
        self,
        clean: torch.Tensor,
        blocks: Sequence[NoiseBlock],
        block: int,
        counts: torch.Tensor,
        unusable: torch.Tensor,
    ) -> None:
        filled = len(blocks) * block  # each is drawn whole, and begins at a multiple of its size
        size = max(self._batch(tuple(clean.shape[1:])), filled)
        noisy = torch.empty((size, *clean.shape[1:]), dtype=torch.float32, device=self.device)
        self.perturbation.perturb_tensors(
            [clean[each.row] for each in blocks], [each.stream for each in blocks], [block] * len(blocks),
            noisy[:filled],
        )  # fmt: skip
        noisy[filled:] = clean[0]
        scores = scores_of(self._forward, channels_last(noisy))
        check_width(scores.shape[1], self.classes)
        # Fillers, and what a block has beyond its samples, are counted beyond the last example.
        first_cells = self._first_cells(blocks, block, size, len(counts) - 1)
        live = first_cells < len(counts) - 1
        unusable |= (scores.isnan().any(dim=1) & live).any()
        cells = torch.where(live, first_cells + scores.argmax(dim=1), first_cells)
        counts.index_add_(0, cells, torch.ones_like(cells))

    def _first_cells(self, blocks: Sequence[NoiseBlock], block: int, size: int, beyond: int) -> torch.Tensor:
        """The first cell of each sample's example; the host does not wait for the device here."""
        rows = [
            part
            for each in blocks
            for part in ((each.row * self.classes, each.samples), (beyond, block - each.samples))
        ]
        table = torch.tensor([*rows, (beyond, size - len(blocks) * block)])
        if self.device.type == "cuda":
            table = table.pin_memory()
        table = table.to(self.device, non_blocking=True)
        return torch.repeat_interleave(table[:, 0], table[:, 1], output_size=size)
