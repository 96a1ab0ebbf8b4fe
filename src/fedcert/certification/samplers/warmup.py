"""A sampler made ready for its work: layers fused, compiled where that pays, and its speed measured."""

from __future__ import annotations

import time
import warnings

import numpy as np

from fedcert._arrays import Images, Integers
from fedcert.certification.certificate import in_flight
from fedcert.certification.samplers.protocol import Sampler
from fedcert.certification.streams import Phase, Stream, key_of
from fedcert.errors import FedcertWarning, ModelProblem

_COMPARED = 64
"""Images on which answers are compared: some of each class of most data."""
_BY_THEMSELVES = 4
"""Of these, images that get a call of their own: a model that answers for the batch fails at the first of another
class than most."""
_LONG_ENOUGH = 0.2
"""Seconds from which on a trial shows the speed: shorter ones mostly show the overhead of a call."""
_LARGEST_SHARE = 0.05
"""The most that a trial may take of the work itself."""
_WORTH_COMPILING = 120.0
"""Seconds of work from which on half a minute of compiling pays."""
_SEQUENTIAL_SHARE = 0.2
"""About the share of its most samples that the sequential procedure takes: between the 1/8 measured on CIFAR-10 with
n = 100,000 and the 1/2 on digits with n = 10,000 (docs/benchmarks.md)."""


def warm_up(sampler: Sampler, images: Images, most: int, *, sequential: bool, compile: bool | None) -> float:
    """Make a sampler ready, and measure it.

    Args:
        sampler: the sampler.
        images: some of the examples that it is for.
        most: samples that are to be drawn at most.
        sequential: whether by the sequential procedure.
        compile: whether to compile; where it pays, if None.

    Returns:
        Samples per second.
    """
    sampler.fuse(images)
    check_own_answers(sampler, images)
    rate = measured_rate(sampler, images, most)
    if compile and not sampler.can_compile:
        warnings.warn("only torch modules on a GPU are compiled; going on without", FedcertWarning, stacklevel=3)
    seconds = most / rate * (_SEQUENTIAL_SHARE if sequential else 1.0)
    if compile is None:
        compile = seconds > _WORTH_COMPILING and sampler.pays_to_compile
    if not compile or not sampler.can_compile:
        return rate
    sampler.compile(images)
    return measured_rate(sampler, images, most)


def check_own_answers(sampler: Sampler, images: Images) -> None:
    """Check, on some noisy images, that each answer depends on its own input alone: a certificate is about a function.

    They are given once more: half of them in another order, with other fillers; where several blocks share a call, at
    the place of another block; each beside an image of the largest value, which moves all statistics over a batch; and
    a few each in a batch of its own copies, as the noisy copies of one example are.

    Raises:
        ModelProblem: an answer depends on what else is in the batch, or on what came before.
    """
    some = _noisy(sampler, images[_spread(len(images), _COMPARED)])
    labels, half, block = sampler.labels(some), -(-len(some) // 2), sampler.streams.block_size(some.shape[1:])
    _check_same(labels[:half], sampler.labels(some[:half][::-1])[::-1])
    if sampler.trial_size(some.shape[1:]) > block:
        later = np.concatenate([np.repeat(some[:1], block, axis=0), some])
        _check_same(labels, sampler.labels(later)[-len(some) :])
    beside = np.stack([some, np.full_like(some, some.max())], axis=1).reshape(-1, *some.shape[1:])
    _check_same(labels, sampler.labels(beside)[::2])
    alone = _spread(len(some), _BY_THEMSELVES)
    _check_same(labels[alone], np.array([sampler.labels(some[index : index + 1])[0] for index in alone]))


def _check_same(labels: Integers, again: Integers) -> None:
    changed = int(np.count_nonzero(labels != again))
    if changed:
        raise ModelProblem(
            f"the model gives another answer to {changed} of {len(labels)} inputs when they are batched differently: "
            "its answer must depend on the input alone; look for randomness (dropout), memory, or statistics over the "
            "batch (batch normalisation in training mode)"
        )


def _spread(examples: int, most: int) -> Integers:
    """Indices of some examples, spread evenly: data may be sorted by class."""
    return np.linspace(0, examples - 1, min(examples, most)).astype(np.int64)


def _noisy(sampler: Sampler, images: Images) -> Images:
    """One perturbed copy of each image."""
    noisy = np.empty_like(images)
    for number, image in enumerate(images):
        stream = Stream(key_of(number))
        sampler.perturbation.perturb(image, stream, noisy[number : number + 1])
    return noisy


def measured_rate(sampler: Sampler, images: Images, most: int) -> float:
    """Samples per second. The first call pays for caches and kernels; the following, ever longer, show the speed.

    Args:
        sampler: the sampler.
        images: some of the examples that it is for.
        most: samples that are to be drawn at most.
    """

    def draw(samples: int) -> None:
        sampler.counts(in_flight(images[:1], [0], Phase.FORECAST, samples))

    size = max(1, min(most, sampler.trial_size(images.shape[1:])))
    draw(size)
    while True:
        start = time.perf_counter()
        draw(size)
        seconds = max(time.perf_counter() - start, 1e-9)
        if seconds >= _LONG_ENOUGH or 4 * size > most * _LARGEST_SHARE:
            return size / seconds
        size *= 4
