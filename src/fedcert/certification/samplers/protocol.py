"""Noisy predictions, counted: the only hot loop, here for models that take numpy arrays.

Its twins for torch modules are `cpu_sampler` and `device_sampler`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from fedcert.certification.perturbation import Perturbation, Phase, Streams, block_size
from fedcert.errors import FedcertError, ModelProblem

Images = npt.NDArray[np.float32]
Counts = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int64]

OnSamples = Callable[[int], None]
Made = TypeVar("Made")
Given = TypeVar("Given")

_FLOATS_PER_BATCH = 2**22
_LARGEST_BATCH = 2**12


def ignore(samples: int) -> None:
    """Nobody wants to know how many samples were drawn."""


class Draw(NamedTuple):
    """Noisy samples of one example that are wanted.

    Attributes:
        row: its position among the images.
        example: its index in the client's data, which names its noise streams.
        phase: what the noise is drawn for.
        first: how many samples of that phase were drawn before; a multiple of the block.
        samples: how many more are wanted.
    """

    row: int
    example: int
    phase: Phase
    first: int
    samples: int


class Unit(NamedTuple):
    """One block of noise for one draw: the piece of work that is never split."""

    draw: int
    row: int
    example: int
    phase: Phase
    block: int
    samples: int


class Sampler(Protocol):
    """Counts what a classifier predicts under noise."""

    def counts(self, images: Images, draws: Sequence[Draw], spent: OnSamples = ignore) -> Counts:
        """How often each class is predicted.

        Args:
            images: examples, the first axis counts them.
            draws: what is wanted of them.
            spent: told after each call of the model how many samples it took.

        Returns:
            One row per draw, one column per class; each row adds up to the samples of its draw.
        """
        ...


def draws_of(indices: Sequence[int], phase: Phase, samples: int, first: int = 0) -> list[Draw]:
    """The same number of samples of each of some examples."""
    return [Draw(row, index, phase, first, samples) for row, index in enumerate(indices)]


@dataclass(frozen=True)
class ArraySampler:
    """Samples a function from a batch of arrays to labels.

    Attributes:
        predict: float32 batch -> label of each example.
        classes: number of classes.
        noise: what is added to the input.
        streams: where it is drawn from.
        batch_size: samples per call; found from the example's size where None.
    """

    predict: Callable[[Images], Labels]
    classes: int
    noise: Perturbation
    streams: Streams
    batch_size: int | None = None

    def counts(self, images: Images, draws: Sequence[Draw], spent: OnSamples = ignore) -> Counts:
        """See `Sampler.counts`."""
        counts = np.zeros(len(draws) * self.classes, dtype=np.int64)
        batch_size = self.batch_size or fitting_batch(images.shape[1:])
        work = batches(draws, batch_size, block_size(images.shape[1:]))
        for noisy, owners in ahead(lambda units: noisy_batch(images, units, self.noise, self.streams), work):
            for start in range(0, len(noisy), batch_size):
                labels = self.predict(noisy[start : start + batch_size])
                cells = owners[start : start + batch_size] * self.classes + labels
                counts += np.bincount(cells, minlength=len(counts))
                spent(len(labels))
        return counts.reshape(len(draws), self.classes)


def noisy_batch(images: Images, units: Sequence[Unit], noise: Perturbation, streams: Streams) -> tuple[Images, Labels]:
    """Images under noise, and the draw that each belongs to."""
    sizes = [unit.samples for unit in units]
    noisy = np.empty((sum(sizes), *images.shape[1:]), dtype=np.float32)
    start = 0
    for unit in units:
        part = noisy[start : start + unit.samples]
        noise.fill(streams.stream(unit.example, unit.phase, unit.block), part)
        part += images[unit.row]
        start += unit.samples
    return noisy, np.repeat(np.array([unit.draw for unit in units], dtype=np.int64), sizes)


def ahead(make: Callable[[Given], Made], items: Iterable[Given], workers: int = 1) -> Iterator[Made]:
    """Make things ahead, in order, in threads of their own: noise is drawn while a model is busy with the last batch.

    Args:
        make: makes one.
        items: of what.
        workers: how many are made at a time; about as many more wait to be taken.
    """
    pending: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="fedcert") as pool:
        try:
            for item in items:
                pending.append(pool.submit(make, item))
                if len(pending) > 2 * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:  # whoever took them may have had enough
            for one in pending:
                one.cancel()


def batches(draws: Sequence[Draw], batch_size: int, block: int) -> Iterator[list[Unit]]:
    """Units of work for some draws, gathered into batches of at most `batch_size` samples, or one unit."""
    units: list[Unit] = []
    filled = 0
    for position, draw in enumerate(draws):
        for start in range(0, draw.samples, block):
            size = min(block, draw.samples - start)
            if units and filled + size > batch_size:
                yield units
                units, filled = [], 0
            number = (draw.first + start) // block
            units.append(Unit(position, draw.row, draw.example, draw.phase, number, size))
            filled += size
    if units:
        yield units


def fitting_batch(shape: tuple[int, ...], largest: int = 0) -> int:
    """A batch size that keeps the noisy inputs of one call, and the largest array between layers, around 16 MB.

    It is found from sizes, not by timing: another batch may round differently, and runs are to repeat.

    Args:
        shape: of an example.
        largest: floats of the largest array that the model makes of an example, where that is known.
    """
    most = max(1, min(_LARGEST_BATCH, _FLOATS_PER_BATCH // max(1, int(np.prod(shape)), largest)))
    block = block_size(shape)
    # A block is split evenly: 100 samples as two times 50, not as 64 and 36.
    return most if most >= block else -(-block // -(-block // most))


def labels_of(answer: object, examples: int, classes: int | None) -> Labels:
    """Labels from a model's answer: scores (one row per example, one column per class) or labels.

    Exact ties between scores go to the class of the lowest index. A single column of whole numbers is labels;
    a single column of scores is refused: its largest entry would always be class 0.

    Raises:
        ModelProblem: the answer is neither, holds NaN, or names a class that is not there.
    """
    output = np.asarray(answer)
    if output.ndim == 2 and output.shape[1] == 1 and output.dtype.kind in "iu":
        output = output[:, 0]
    if output.dtype.kind not in "iuf" or output.ndim not in (1, 2) or len(output) != examples:
        raise ModelProblem(
            f"the model must answer {examples} examples with scores of shape ({examples}, classes) or labels of shape "
            f"({examples},), but gave {output.dtype} of shape {output.shape}; wrap it in a function that does"
        )
    if output.ndim == 2:
        check_width(output.shape[1], classes)
        if np.isnan(output).any():
            raise ModelProblem(NAN_SCORES)
        return np.asarray(output.argmax(axis=1), dtype=np.int64)
    with np.errstate(invalid="ignore"):
        labels: Labels = output.astype(np.int64)
    wrong = (labels != output) | (labels < 0) | (labels >= (np.inf if classes is None else classes))
    if wrong.any():
        known = f"0 to {classes - 1}" if classes is not None else "whole numbers from 0"
        raise ModelProblem(
            f"the model must answer with labels from {known}, but gave {output[wrong][0]}; name all its classes"
        )
    return labels


def check_width(width: int, classes: int | None) -> None:
    """Check the number of a model's scores.

    Raises:
        ModelProblem: there is only one, or not as many as classes are named.
    """
    if width == 1:
        raise ModelProblem(
            "the model gives one score per example, whose largest is always class 0; "
            "give one score per class (two for yes and no), or labels"
        )
    if classes is not None and width != classes:
        raise ModelProblem(
            f"the model gives scores for {width} classes, but {classes} classes are named; "
            "name the classes in the order of the model's outputs"
        )


NAN_SCORES = "the model gave NaN scores under noise; look at its arithmetic (a log or a division?) and certify again"


def guarded(call: Callable[[], object], shape: tuple[int, ...]) -> object:
    """Run a user's model, and turn whatever it raises into one sentence.

    Raises:
        ModelProblem: the model raised an error.
    """
    try:
        return call()
    except FedcertError:
        raise
    except (Exception, SystemExit) as error:  # a user's model may raise anything
        if type(error).__name__ in ("OutOfMemoryError", "AcceleratorError"):  # a device's: the sampler knows what to do
            raise
        first = str(error).strip().splitlines()[:1]
        reason = f"{type(error).__name__}: {first[0][:300] if first else 'no message'}"
        raise ModelProblem(
            f"the model failed on a float32 batch of shape {shape}: {reason}; "
            "check that the data has the shape, and the model the precision (float32), that go together"
        ) from error
