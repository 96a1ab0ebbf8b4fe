"""The hot loop for torch modules on a CPU: a worker for each core, each with its own batches."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import MethodType
from typing import Any

import numpy as np
import torch

from fedcert._arrays import Images, Integers
from fedcert.certification.certificate import InFlight
from fedcert.certification.models.answers import NAN_SCORES, check_width
from fedcert.certification.models.torch_module import channels_last, largest_activation, scores_of
from fedcert.certification.perturbation import Perturbation
from fedcert.certification.samplers.blocks import NoiseBlock, ahead, batches, filled_up, fitting_batch, noisy_batch
from fedcert.certification.samplers.protocol import OnSamples, Sampler, ignore
from fedcert.certification.streams import Streams
from fedcert.errors import ModelProblem


@dataclass
class CpuSampler(Sampler):
    """Samples a torch module on a CPU, in the mode in which it is (put it into evaluation mode before).

    Each worker does whole batches alone, noise and counting included, with one thread and a copy of the module: no
    worker waits for others in the middle of a layer, and results do not depend on the number of cores. A module whose
    copies would share more than weights (hooks, functions that remember) has one worker, with all of torch's threads.
    State in global variables cannot be detected: a module that has some needs one thread (OMP_NUM_THREADS=1).

    Attributes:
        module: float32 batch -> scores, one column per class.
        classes: number of classes.
        perturbation: what is done to the input.
        streams: the seeds of what is drawn.
        batch_size: samples per call; computed from the module's activations where None.
        precision: the arithmetic in which it is running.
    """

    module: torch.nn.Module
    classes: int
    perturbation: Perturbation
    streams: Streams
    batch_size: int | None = None
    precision: str = "float32"
    _own: threading.local = field(init=False, repr=False, default_factory=threading.local)

    def counts(self, examples: Sequence[InFlight], on_samples: OnSamples = ignore) -> Integers:
        """See `Sampler.counts`."""
        counts = np.zeros(len(examples) * self.classes, dtype=np.int64)
        image = examples[0].image
        work = batches(examples, self.streams, self._batch(image), self.streams.block_size(image.shape))
        with self._workers() as workers:
            for cells in ahead(lambda blocks: self._cells(examples, blocks), work, workers):
                counts += np.bincount(cells, minlength=len(counts))
                on_samples(len(cells))
        return counts.reshape(len(examples), self.classes)

    @torch.inference_mode()
    def _batch(self, image: Images) -> int:
        """Samples per call, so that activations fit into caches, and into memory that is used again."""
        if self.batch_size is None:
            activation = largest_activation(self.module, torch.from_numpy(image[None].copy()))
            self.batch_size = fitting_batch(image.shape, activation, self.streams.largest_block)
        return self.batch_size

    def _cells(self, examples: Sequence[InFlight], blocks: Sequence[NoiseBlock]) -> Integers:
        """Example and prediction of each sample of a batch, as one number."""
        image = examples[0].image
        block = self.streams.block_size(image.shape)
        noisy = noisy_batch(examples, blocks, self.perturbation, self._batch(image), block)
        return noisy.rows * self.classes + self._labels(noisy.images)[noisy.live]

    def trial_size(self, shape: tuple[int, ...]) -> int:
        """A call's samples: fewer are filled up, and take as long."""
        return self._batch(np.zeros(shape, dtype=np.float32))

    def labels(self, batch: Images) -> Integers:
        """See `Sampler.labels`."""
        with self._workers():
            return self._labels(filled_up(batch, self._batch(batch[0])))[: len(batch)]

    def _labels(self, noisy: Images) -> Integers:
        """What the module predicts, by calls of one size."""
        module, size = self._module(), self.batch_size or len(noisy)
        labels = np.empty(len(noisy), dtype=np.int64)
        # The modes of torch are a thread's own.
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bfloat16"):
            for start in range(0, len(noisy), size):
                part = slice(start, start + size)
                scores = scores_of(module, channels_last(torch.from_numpy(noisy[part])))
                check_width(scores.shape[1], self.classes)
                if bool(scores.isnan().any()):
                    raise ModelProblem(NAN_SCORES)
                labels[part] = scores.argmax(dim=1).numpy()
        return labels

    def _module(self) -> torch.nn.Module:
        """This worker's own copy, for modules that keep state while they run; the weights are shared."""
        if not self._copies:
            return self.module
        if not hasattr(self._own, "module"):
            torch.set_num_threads(1)
            self._own.module = _copy(self.module)
        module: torch.nn.Module = self._own.module
        return module

    @contextmanager
    def _workers(self) -> Iterator[int]:
        """As many workers as torch has threads, or one with all of them; torch's setting is put back afterwards."""
        threads = torch.get_num_threads()
        try:
            yield threads if self._copies else 1
        finally:
            torch.set_num_threads(threads)

    @cached_property
    def _copies(self) -> bool:
        """Whether each worker can have a module of its own."""
        if any(map(_shares_state, self.module.modules())):
            return False
        try:
            _copy(self.module)
        except Exception:  # noqa: BLE001 (attributes of a module may fail to be copied in any way)
            return False
        return True


def _shares_state(part: torch.nn.Module) -> bool:
    """Whether copies of a module would share state: functions are not copied, and some remember things."""
    hooks = (part._forward_hooks, part._forward_pre_hooks)
    return any(hooks) or any(map(_remembers, [*vars(part).values(), getattr(type(part), "forward", None)]))


def _remembers(held: object) -> bool:
    return isinstance(held, partial | MethodType) or bool(getattr(held, "__closure__", None))


def _copy(module: torch.nn.Module) -> torch.nn.Module:
    shared: dict[int, Any] = {id(tensor): tensor for tensor in module.parameters()}
    return copy.deepcopy(module, shared)
