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
from fedcert.certification.streams import LARGEST_BLOCK, Stream, Streams, block_size

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
    """The blocks of noise of some examples, in batches of as many as `batch_size` has room for, or of one.

    Args:
        examples: each with the samples that are to be drawn of it.
        streams: the keys of the noise.
        batch_size: the most samples of a batch.
        block: samples of a block; one with fewer takes as much room.
    """
    batch: list[NoiseBlock] = []
    for row, example in enumerate(examples):
        for start in range(0, example.samples, block):
            if batch and (len(batch) + 1) * block > batch_size:
                yield batch
                batch = []
            stream = streams.stream(example.key, example.phase, (example.first + start) // block)
            batch.append(NoiseBlock(row, stream, min(block, example.samples - start)))
    if batch:
        yield batch


class NoisyBatch(NamedTuple):
    """Perturbed images for calls of one size, in which every block begins at a multiple of the block's size.

    Attributes:
        images: with fillers.
        live: the places of those that are no fillers.
        rows: the position of the example that each of these belongs to.
    """

    images: Images
    live: Integers
    rows: Integers


def noisy_batch(
    examples: Sequence[InFlight], blocks: Sequence[NoiseBlock], perturbation: Perturbation, call: int, block: int
) -> NoisyBatch:
    """The perturbed images of some blocks.

    Args:
        examples: the examples.
        blocks: of their noise.
        perturbation: what is done to them.
        call: samples of a call of the model.
        block: samples of a block at most.
    """
    shape = examples[0].image.shape
    starts, size = _places(len(blocks), block, call)
    noisy = np.empty((size, *shape), dtype=np.float32)
    fills = np.ones(size, dtype=np.bool_)
    for each, start, end in zip(blocks, starts, [*starts[1:], size], strict=True):
        image, filled = examples[each.row].image, start + each.samples
        perturbation.perturb(image, each.stream, noisy[start:filled])
        fills[start:filled] = False
        noisy[filled:end] = image  # the company of a block that has a call to itself is its own
    rows = np.repeat(np.array([each.row for each in blocks], dtype=np.int64), [each.samples for each in blocks])
    return NoisyBatch(noisy, np.flatnonzero(~fills), rows)


def _places(blocks: int, block: int, call: int) -> tuple[list[int], int]:
    """Where each block begins, and how many samples all calls have: blocks beside each other, or calls for each."""
    if call < block:
        several = -(-block // call) * call
        return [number * several for number in range(blocks)], blocks * several
    beside = call // block
    return [number // beside * call + number % beside * block for number in range(blocks)], -(-blocks // beside) * call


def filled_up(batch: Images, multiple: int) -> Images:
    """A copy of a batch, which a model may write to, with its first image behind it, up to a multiple."""
    return np.concatenate([batch, np.repeat(batch[:1], -len(batch) % multiple, axis=0)])


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


def fitting_batch(shape: tuple[int, ...], largest: int = 0, largest_block: int = LARGEST_BLOCK) -> int:
    """A batch size that keeps the noisy inputs of one call, and the largest array between layers, around 16 MB.

    It is computed from sizes, not by timing: another batch may round differently, and runs are to repeat.

    Args:
        shape: of an example.
        largest: floats of the largest array that the model makes of an example, where that is known.
        largest_block: see `Streams`.
    """
    most = max(1, min(_LARGEST_BATCH, _FLOATS_PER_BATCH // max(1, int(np.prod(shape)), largest)))
    block = block_size(shape, largest_block)
    # Whole blocks; or one of them split evenly: 100 samples as two times 50, not as 64 and 36.
    return most // block * block if most >= block else -(-block // -(-block // most))
