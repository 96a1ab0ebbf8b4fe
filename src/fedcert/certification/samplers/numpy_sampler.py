"""The hot loop for models that take numpy arrays: ONNX sessions, and any callable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Images, Integers
from fedcert.certification.certificate import InFlight
from fedcert.certification.perturbation import Perturbation
from fedcert.certification.samplers.blocks import ahead, batches, filled_up, fitting_batch, noisy_batch
from fedcert.certification.samplers.protocol import OnSamples, Sampler, ignore
from fedcert.certification.streams import Streams


@dataclass(frozen=True)
class ArraySampler(Sampler):
    """Samples a function from a batch of arrays to labels.

    Attributes:
        predict: float32 batch -> label of each example.
        classes: number of classes.
        perturbation: what is done to the input.
        streams: the seeds of what is drawn.
        batch_size: samples per call, the last one filled up; a block where None, for what a function takes is unknown.
    """

    predict: Callable[[Images], Integers]
    classes: int
    perturbation: Perturbation
    streams: Streams
    batch_size: int | None = None

    def counts(self, examples: Sequence[InFlight], on_samples: OnSamples = ignore) -> Integers:
        """See `Sampler.counts`."""
        counts = np.zeros(len(examples) * self.classes, dtype=np.int64)
        shape = examples[0].image.shape
        size = self._batch(shape)
        block = self.streams.block_size(shape)
        together = fitting_batch(shape, largest_block=block)
        work = batches(examples, self.streams, max(size, together // size * size), block)
        for noisy in ahead(lambda blocks: noisy_batch(examples, blocks, self.perturbation, size, block), work):
            cells = noisy.rows * self.classes + self._labels(noisy.images, size)[noisy.live]
            counts += np.bincount(cells, minlength=len(counts))
            on_samples(len(cells))
        return counts.reshape(len(examples), self.classes)

    def trial_size(self, shape: tuple[int, ...]) -> int:
        """A call's samples: fewer are filled up, and take as long."""
        return self._batch(shape)

    def labels(self, batch: Images) -> Integers:
        """See `Sampler.labels`."""
        size = self._batch(batch.shape[1:])
        return self._labels(filled_up(batch, size), size)[: len(batch)]

    def _labels(self, batch: Images, size: int) -> Integers:
        return np.concatenate([self.predict(batch[start : start + size]) for start in range(0, len(batch), size)])

    def _batch(self, shape: tuple[int, ...]) -> int:
        block = self.streams.block_size(shape)
        return self.batch_size or min(block, fitting_batch(shape, largest_block=block))
