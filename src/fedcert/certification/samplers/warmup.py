"""A sampler made ready for its work: layers fused, compiled where that pays, and its speed measured."""

from __future__ import annotations

import time
import warnings

from fedcert.certification.perturbation import Phase
from fedcert.certification.samplers.protocol import Images, Sampler, draws_of
from fedcert.errors import FedcertWarning

_LONG_ENOUGH = 0.2
"""Seconds from which on a trial tells the speed."""
_LARGEST_SHARE = 0.05
"""The most that a trial may take of the work itself."""
_WORTH_COMPILING = 120.0
"""Seconds of work from which on half a minute of compiling pays."""
_SEQUENTIAL_SHARE = 0.2
"""About the share of its most samples that the sequential procedure takes."""


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
    if hasattr(sampler, "fuse"):
        sampler.fuse(images)
    rate = measured_rate(sampler, images, most)
    if not hasattr(sampler, "compile"):
        if compile:
            warnings.warn("only torch modules on a GPU are compiled; going on without", FedcertWarning, stacklevel=3)
        return rate
    if compile is False:
        return rate
    seconds = most / rate * (_SEQUENTIAL_SHARE if sequential else 1.0)
    if compile or (seconds > _WORTH_COMPILING and getattr(sampler, "pays_to_compile", False)):
        sampler.compile(images)
        rate = measured_rate(sampler, images, most)
    return rate


def measured_rate(sampler: Sampler, images: Images, most: int) -> float:
    """Samples per second. The first call pays for caches and kernels; the following, ever longer, tell the speed.

    It begins with a single sample (with a batch on a GPU): some models take seconds for one.
    """
    full = sampler.trial(images.shape[1:]) if hasattr(sampler, "trial") else None
    size = max(1, min(most, full or 1))
    sampler.counts(images[:1], draws_of([0], Phase.FORECAST, size))
    while True:
        start = time.perf_counter()
        sampler.counts(images[:1], draws_of([0], Phase.FORECAST, size))
        seconds = max(time.perf_counter() - start, 1e-9)
        if seconds >= _LONG_ENOUGH or 4 * size > most * _LARGEST_SHARE:
            return size / seconds
        size *= 4
