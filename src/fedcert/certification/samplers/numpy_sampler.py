"""The hot loop for models that take numpy arrays: ONNX sessions, and any callable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Images, Integers
from fedcert.certification.certificate import InFlight
from fedcert.certification.perturbation import Perturbation
from fedcert.certification.samplers.blocks import ahead, batches, fitting_batch, noisy_batch
from fedcert.certification.samplers.protocol import OnSamples, Sampler, ignore
from fedcert.certification.streams import Streams, block_size


@dataclass(frozen=True)
class ArraySampler(Sampler):
    """Samples a function from a batch of arrays to labels.

    Attributes:
        predict: float32 batch -> label of each example.
        classes: number of classes.
        perturbation: what is done to the input.
        streams: the seeds of what is drawn.
        batch_size: samples per call; computed from the example's size where None.
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
        batch_size = self.batch_size or fitting_batch(shape)
        work = batches(examples, self.streams, batch_size, block_size(shape))
        for noisy, rows in ahead(lambda blocks: noisy_batch(examples, blocks, self.perturbation), work):
            for start in range(0, len(noisy), batch_size):
                labels = self.predict(noisy[start : start + batch_size])
                cells = rows[start : start + batch_size] * self.classes + labels
                counts += np.bincount(cells, minlength=len(counts))
                on_samples(len(labels))
        return counts.reshape(len(examples), self.classes)
