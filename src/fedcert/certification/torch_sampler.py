"""The hot loop for torch modules: noise, prediction and counting stay on the module's device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from fedcert.certification.fusing import alike, fused, mostly_fused
from fedcert.certification.noise import Noise, Streams, block_size
from fedcert.certification.sampler import (
    NAN_SCORES,
    Counts,
    Draw,
    Images,
    Spent,
    Unit,
    ahead,
    batches,
    check_width,
    fitting_batch,
    guarded,
    nobody,
    noisy_batch,
)
from fedcert.errors import DeviceProblem, FedcertWarning, ModelProblem

_DEVICE_BATCH = 16_000
"""Samples per call on a GPU, where memory allows: enough to fill it, and a multiple of both 100 and 128."""
_DEVICE_FLOATS = 2**26
_ALIGNMENT = 64
_COMPARED = 64


@dataclass
class TorchSampler:
    """Samples a torch module, in the mode in which it is (put it into evaluation mode before).

    On a GPU every call has the same number of samples, the last one filled up, so that what an example gets does not
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
    noise: Noise
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
        if self.device.type != "cuda" or self.precision == "float32":
            return
        dtype = torch.bfloat16 if self.precision == "bfloat16" else torch.float32
        made = fused(self.module, dtype)
        if made is None:
            return
        chance = torch.randn(images[:_COMPARED].shape, generator=torch.Generator().manual_seed(0))
        batch = (torch.from_numpy(images[:_COMPARED]) + self.noise.sigma * chance).to(self.device)
        batch = _channels_last(batch)
        try:
            if alike(scores_of(self.module, batch), scores_of(made, batch)):
                self._forward, self._fused, self._mostly_fused = made, True, mostly_fused(made)
        except ModelProblem:  # the network as it is says what is wrong with it, if anything is
            return

    @torch.inference_mode()
    def compile(self, images: Images) -> None:
        """Have torch compile the module for batches of such images; where that fails, go on without."""
        compiled = torch.compile(self._forward, dynamic=False)
        shape = images.shape[1:]
        batch = _channels_last(torch.zeros((self._batch(shape), *shape), device=self.device))
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
    def counts(self, images: Images, draws: Sequence[Draw], spent: Spent = nobody) -> Counts:
        """See `sampler.Sampler.counts`."""
        if self.device.type == "cpu":
            return self._on_cpu(images, draws, spent)
        with working(self.device):
            return self._on_device(images, draws, spent)

    def _on_cpu(self, images: Images, draws: Sequence[Draw], spent: Spent) -> Counts:
        counts = np.zeros(len(draws) * self.classes, dtype=np.int64)
        batch_size = self._cpu_batch(images)
        work = batches(draws, batch_size, block_size(images.shape[1:]))
        for noisy, owners in ahead(lambda units: noisy_batch(images, units, self.noise, self.streams), work):
            for start in range(0, len(noisy), batch_size):
                scores = self._scores(_channels_last(torch.from_numpy(noisy[start : start + batch_size])))
                if bool(scores.isnan().any()):
                    raise ModelProblem(NAN_SCORES)
                cells = owners[start : start + batch_size] * self.classes + scores.argmax(dim=1).numpy()
                counts += np.bincount(cells, minlength=len(counts))
                spent(len(scores))
        return counts.reshape(len(draws), self.classes)

    def _cpu_batch(self, images: Images) -> int:
        """The batch on a CPU: activations that fit into its caches, and into memory that is used again."""
        if self.batch_size is None:
            shape = images.shape[1:]
            self.batch_size = fitting_batch(shape, largest_activation(self.module, torch.from_numpy(images[:1])))
        return self.batch_size

    def _on_device(self, images: Images, draws: Sequence[Draw], spent: Spent) -> Counts:
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
        scores = self._scores(_channels_last(noisy))
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


@contextmanager
def working(device: torch.device) -> Iterator[None]:
    """Say in one sentence what a device's own failure means.

    Raises:
        DeviceProblem: the device failed; memory that runs out is not meant.
    """
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError as error:
        text = str(error)
        if type(error).__name__ != "AcceleratorError" and "CUDA error" not in text and "cuDNN error" not in text:
            raise
        raise DeviceProblem(
            f"the device {str(device)!r} failed: {(text.splitlines() or ['no message'])[0][:200]}; see whether it is "
            "still there (nvidia-smi), then run the same again, or with another --device (device=)"
        ) from None


def _channels_last(batch: torch.Tensor) -> torch.Tensor:
    """Images with their channels last in memory, as convolutions like them on any device."""
    return batch.contiguous(memory_format=torch.channels_last) if batch.ndim == 4 else batch


def largest_activation(module: torch.nn.Module, example: torch.Tensor) -> int:
    """Numbers in the largest tensor that the parts of a module make of an example; 0 where that cannot be seen."""
    sizes = [0]

    def see(_part: torch.nn.Module, _given: object, made: object) -> None:
        if isinstance(made, torch.Tensor):
            sizes.append(made.numel())

    handles = []
    try:
        handles = [part.register_forward_hook(see) for part in module.modules()]
        scores_of(module, _channels_last(example))
    except RuntimeError:  # scripted modules may refuse hooks
        return 0
    finally:
        for handle in handles:
            handle.remove()
    return max(sizes)


def scores_of(module: Callable[[torch.Tensor], Any], batch: torch.Tensor) -> torch.Tensor:
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
def as_certified(module: torch.nn.Module, device: torch.device, precision: str = "float32") -> Iterator[None]:
    """Run a module as its certificate says: in evaluation mode, in the stated arithmetic.

    By default cuDNN rounds the operands of float32 convolutions to 10 bits (TF32), and a surrounding autocast would
    round everything: that is another classifier. All modes are put back afterwards.

    Args:
        module: the module.
        device: where it is.
        precision: "float32", "tf32" (GPUs: operands of matrix products rounded to 10 bits) or "bfloat16" (autocast).
    """
    modes = {part: part.training for part in module.modules()}
    module.eval()
    low = precision == "bfloat16"
    try:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=low), _rounding(device, precision == "tf32"):
            yield
    finally:
        for part, training in modes.items():
            part.training = training


@contextmanager
def _rounding(device: torch.device, tf32: bool) -> Iterator[None]:
    """Switch TF32 on or off on a GPU; torch has two ways to say so, which must not be mixed."""
    if device.type != "cuda":
        yield
        return
    backends: tuple[Any, ...] = (torch.backends.cudnn, torch.backends.cuda.matmul)
    name: str = "allow_tf32"
    wanted: Any = tf32
    try:
        before: list[Any] = [getattr(backend, name) for backend in backends]
    except RuntimeError:  # the program uses the newer way
        backends = (torch.backends.cudnn.conv, torch.backends.cudnn.rnn, torch.backends.cuda.matmul)  # type: ignore[attr-defined]
        name, wanted = "fp32_precision", "tf32" if tf32 else "ieee"
        before = [getattr(backend, name) for backend in backends]
    for backend in backends:
        setattr(backend, name, wanted)
    try:
        yield
    finally:
        for backend, value in zip(backends, before, strict=True):
            setattr(backend, name, value)
