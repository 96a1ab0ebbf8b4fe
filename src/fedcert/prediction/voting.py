"""Noisy copies of inputs put before a model, and its answers counted."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Images, Integers
from fedcert.certification.data.inputs import RangeSeen, look_like_bytes
from fedcert.certification.data.local_data import LocalData, data_of
from fedcert.certification.perturbation import Perturbation
from fedcert.certification.samplers.blocks import NoiseBlock
from fedcert.certification.seeds import Seed
from fedcert.certification.streams import Stream, block_size
from fedcert.errors import DataProblem, FedcertWarning, ModelProblem
from fedcert.prediction.settings import PredictionSettings
from fedcert.prediction.vote import Vote, most_frequent, predicted_or_abstained
from fedcert.report.fields import MOST_CLASSES
from fedcert.report.input_range import worded


class NoisyLabels(Protocol):
    """What a vote needs of a model: its labels for noisy copies."""

    def batch(self, shape: tuple[int, ...]) -> int:
        """Samples that it is best given at a time, for inputs of a shape."""

    def __call__(self, images: Images, blocks: Sequence[NoiseBlock]) -> tuple[Integers, int]:
        """The label of every copy, block after block, and the number of classes, as far as the answers show it.

        Args:
            images: the inputs.
            blocks: how many copies of which of them, with which noise.
        """


class SmoothedClassifier(Protocol):
    """A model that votes over noisy copies of its input.

    Attributes:
        settings: how.
    """

    settings: PredictionSettings

    def __call__(self, x: Any) -> Any:
        """The label of each input: a class index, or -1 where PREDICT abstains."""

    def vote(self, x: Any) -> Vote:
        """The labels, with the counts that they come from."""

    def votes_on(self, data: LocalData) -> Iterator[Vote]:
        """The same for data that is read in pieces."""


def secret_key() -> Stream:
    """A key of noise that is used once: 256 bits from the system.

    Nothing is kept from which other keys follow: neither processes that were forked from one another nor copies of a
    classifier share noise, and no state that leaks reveals the noise of other answers.
    """
    return Stream(Seed.drawn().secret)


def inputs_of(x: npt.ArrayLike) -> LocalData:
    """Inputs as data without labels, checked; images of 8 bits are pixels from 0 to 1, as in `certify`.

    Raises:
        DataProblem: x holds no numbers, or has not one row for each input.
    """
    try:
        inputs = np.asarray(x)
    except (ValueError, TypeError) as error:
        raise DataProblem(f"x must be an array of numbers, all inputs of one shape: {error}") from None
    if inputs.ndim < 2 or 0 in inputs.shape[1:]:
        raise DataProblem(
            f"x must have one row per input, at least 2 axes and no empty one, but has shape {inputs.shape}; a single "
            "input goes in as x[None]"
        )
    # A data frame goes on as it is, for the names of its columns.
    return data_of(x if hasattr(x, "columns") else inputs, np.zeros(len(inputs), dtype=np.int64))


def units_checked(data: LocalData, settings: PredictionSettings) -> LocalData:
    """The same inputs, with a warning where they look like pixels from 0 to 255 and sigma is for 0 to 1."""
    seen = RangeSeen()
    for _, images in data.pieces():
        seen.add(images)
    if seen.bounds is not None and look_like_bytes(seen.bounds, settings.sigma, data.shape):
        words = (
            f"the inputs range from {worded(seen.bounds)}, but sigma {settings.sigma:g} suits pixels from 0 to 1: "
            "divide them by 255, unless they were certified like this"
        )
        warnings.warn(words, FedcertWarning, stacklevel=4)
    return data


def voted(data: LocalData, settings: PredictionSettings, model: NoisyLabels) -> Iterator[Vote]:
    """The votes on inputs, piece by piece, in order.

    Raises:
        DataProblem: an input holds NaN or infinity.
        ModelProblem: the model fails.
    """
    for _, images in data.pieces():
        counts = vote_counts(images, settings, model)
        if settings.abstain is None:
            yield Vote(most_frequent(counts), counts)
        else:
            yield Vote(predicted_or_abstained(counts, settings.abstain), counts)


def joined(votes: Iterator[Vote], settings: PredictionSettings) -> Vote:
    """The votes on all inputs as one."""
    parts = list(votes)
    width = max([settings.class_count or 0, *(part.counts.shape[1] for part in parts)])
    counts = [np.zeros((0, width), dtype=np.int64), *(_widened(part.counts, width) for part in parts)]
    labels = [np.zeros(0, dtype=np.int64), *(part.labels for part in parts)]
    return Vote(np.concatenate(labels), np.concatenate(counts))


def vote_counts(images: Images, settings: PredictionSettings, model: NoisyLabels) -> Integers:
    """How many noisy copies of each input are given each class; every input has noise of its own.

    Args:
        images: the inputs.
        settings: how many copies, and of which classes.
        model: gives the copies' labels.

    Raises:
        ModelProblem: the model fails, or answers with more classes than there can be.
    """
    counts = np.zeros((len(images), settings.class_count or 0), dtype=np.int64)
    shape = images.shape[1:]
    batch = model.batch(shape)
    for blocks in noise_batches(len(images), settings.samples, min(block_size(shape), batch), batch):
        labels, classes = model(images, blocks)
        if classes > MOST_CLASSES:
            raise ModelProblem(f"the model must have at most {MOST_CLASSES:,} classes, but answers with {classes:,}")
        counts = _widened(counts, classes)
        rows = np.repeat([block.row for block in blocks], [block.samples for block in blocks])
        np.add.at(counts, (rows, labels), 1)
    return counts


def noise_batches(inputs: int, samples: int, block: int, batch: int) -> Iterator[list[NoiseBlock]]:
    """Copies of inputs in blocks, each with a secret key of its own, as many blocks at a time as a batch holds.

    Certification gives blocks fixed places in calls of one size, so that a seed gives the same counts again. Here
    nothing is ever drawn again, and calls are no longer than they need to be.

    Args:
        inputs: how many.
        samples: copies of each.
        block: the most copies of a block; no more than a batch.
        batch: copies at a time.
    """
    blocks: list[NoiseBlock] = []
    held = 0
    for row in range(inputs):
        for start in range(0, samples, block):
            size = min(block, samples - start)
            if held + size > batch:
                yield blocks
                blocks, held = [], 0
            blocks.append(NoiseBlock(row, secret_key(), size))
            held += size
    if blocks:
        yield blocks


def noisy_copies(images: Images, blocks: Sequence[NoiseBlock], perturbation: Perturbation) -> Images:
    """The copies of some blocks, one block after the other."""
    copies = np.empty((sum(block.samples for block in blocks), *images.shape[1:]), dtype=np.float32)
    start = 0
    for block in blocks:
        perturbation.perturb(images[block.row], block.stream, copies[start : start + block.samples])
        start += block.samples
    return copies


def _widened(counts: Integers, width: int) -> Integers:
    """Counts with columns for so many classes at least."""
    missing = width - counts.shape[1]
    return np.pad(counts, ((0, 0), (0, missing))) if missing > 0 else counts
