"""What certification needs of a sampler: noisy predictions, counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from fedcert._arrays import Images, Integers
from fedcert.certification.certificate import InFlight
from fedcert.certification.perturbation import Perturbation
from fedcert.certification.streams import Streams

OnSamples = Callable[[int], None]


def ignore(samples: int) -> None:
    """Default callback: do nothing."""


class Sampler(Protocol):
    """Counts what a classifier predicts under a perturbation; it can be made ready and timed beforehand.

    Samplers that run a model as it is, neither fused nor compiled, derive from this and have `counts` alone.
    """

    perturbation: Perturbation
    streams: Streams

    @property
    def can_compile(self) -> bool:
        """Whether `compile` does anything."""
        return False

    @property
    def pays_to_compile(self) -> bool:
        """Whether compiling makes long work shorter."""
        return False

    def counts(self, examples: Sequence[InFlight], on_samples: OnSamples = ignore) -> Integers:
        """How often each class is predicted.

        Args:
            examples: each with the samples that are to be drawn of it.
            on_samples: called after each call of the model with the number of samples that it took.

        Returns:
            One row per example, one column per class; each row adds up to the samples of its example.
        """

    def labels(self, batch: Images) -> Integers:
        """What is predicted for each image of a batch, as it is, by calls of the same shape as in `counts`."""

    def fuse(self, images: Images) -> None:  # noqa: ARG002
        """Fuse the model's layers where that gives the same scores on some images; not all samplers can."""
        return

    def compile(self, images: Images) -> None:  # noqa: ARG002
        """Compile the model for such images; not all samplers can."""
        return

    def trial_size(self, shape: tuple[int, ...]) -> int:
        """Samples of an example of that shape that a first timing takes."""
