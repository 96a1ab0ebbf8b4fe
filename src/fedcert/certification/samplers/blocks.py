"""Noisy samples in blocks and batches: what all samplers draw, whatever the model runs on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np

from fedcert._arrays import Images, Integers
from fedcert.certification.certificate import InFlight
from fedcert.certification.perturbation import Perturbation
from fedcert.certification.streams import Stream, Streams, block_size

Item = TypeVar("Item")
Result = TypeVar("Result")

_FLOATS_PER_BATCH = 2**22
"""16 MB of float32: about what the caches of a CPU hold, and memory that is used again."""
_LARGEST_BATCH = 1_000
"""However small the example: the demo's network is no faster with more, and calls are filled up to so many."""


class NoiseBlock(NamedTuple):
    """Noisy samples of one example that come from one stream: the piece of work that is never split.

    Attributes:
        row: the example's position among those that are sampled.
        stream: the key of the noise.
        samples: how many.
    """

    row: int
    stream: Stream
    samples: int


def batches(examples: Sequence[InFlight], streams: Streams, batch_size: int, block: int) -> Iterator[list[NoiseBlock]]:
    """The blocks of noise of some examples, in batches of at most `batch_size` samples, or of one block.

    Args:
        examples: each with the samples that are to be drawn of it.
        streams: the seeds.
        batch_size: the most samples of a batch.
        block: samples of a block.
    """
    batch: list[NoiseBlock] = []
    filled = 0
    for row, example in enumerate(examples):
        for start in range(0, example.samples, block):
            size = min(block, example.samples - start)
            if batch and filled + size > batch_size:
                yield batch
                batch, filled = [], 0
            stream = streams.stream(example.key, example.phase, (example.first + start) // block)
            batch.append(NoiseBlock(row, stream, size))
            filled += size
    if batch:
        yield batch


def noisy_batch(
    examples: Sequence[InFlight], blocks: Sequence[NoiseBlock], perturbation: Perturbation, multiple: int
) -> tuple[Images, Integers]:
    """Perturbed images, filled up to a multiple; and the position of the example that each belongs to, without fillers.

    Args:
        examples: the examples.
        blocks: of their noise.
        perturbation: what is done to them.
        multiple: samples of a call of the model.
    """
    sizes = [block.samples for block in blocks]
    filled = sum(sizes)
    noisy = np.empty((-(-filled // multiple) * multiple, *examples[0].image.shape), dtype=np.float32)
    start = 0
    for block in blocks:
        perturbation.perturb(examples[block.row].image, block.stream, noisy[start : start + block.samples])
        start += block.samples
    noisy[filled:] = examples[0].image
    return noisy, np.repeat(np.array([block.row for block in blocks], dtype=np.int64), sizes)


def filled_up(batch: Images, multiple: int) -> Images:
    """A batch with copies of its first image behind it, up to a multiple."""
    missing = -len(batch) % multiple
    return batch if not missing else np.concatenate([batch, np.repeat(batch[:1], missing, axis=0)])


def ahead(make: Callable[[Item], Result], items: Iterable[Item], workers: int = 1) -> Iterator[Result]:
    """Map a function over items in threads, in order and ahead: noise is drawn while the model has the last batch.

    Args:
        make: the function.
        items: its arguments.
        workers: how many run at a time; about as many more results wait to be taken.
    """
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="fedcert") as pool:
        try:
            for item in items:
                pending.append(pool.submit(make, item))
                if len(pending) > 2 * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:  # the consumer may stop early, or fail
            for future in pending:
                future.cancel()


def fitting_batch(shape: tuple[int, ...], largest: int = 0) -> int:
    """A batch size that keeps the noisy inputs of one call, and the largest array between layers, around 16 MB.

    It is computed from sizes, not by timing: another batch may round differently, and runs are to repeat.

    Args:
        shape: of an example.
        largest: floats of the largest array that the model makes of an example, where that is known.
    """
    most = max(1, min(_LARGEST_BATCH, _FLOATS_PER_BATCH // max(1, int(np.prod(shape)), largest)))
    block = block_size(shape)
    # A block is split evenly: 100 samples as two times 50, not as 64 and 36.
    return most if most >= block else -(-block // -(-block // most))
