"""What is done with an example, sample by sample: CERTIFY, or right answers counted for population certificates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from fedcert._arrays import Integers
from fedcert.certification.certificate import ExampleState, InFlight
from fedcert.certification.certify import certify_counts
from fedcert.certification.sequential import SamplingPolicy
from fedcert.certification.streams import Phase
from fedcert.report import Smoothing


class Procedure(Protocol):
    """How many samples an example needs, and what becomes of it when they are drawn."""

    def most_needed(self, state: ExampleState) -> int:
        """Samples that an example in this state may still need."""

    def plan_samples(self, example: InFlight, most: int) -> None:
        """Decide which samples of an example are to be drawn next.

        Args:
            example: is changed.
            most: samples to draw at most, in whole blocks; a first step may take more.
        """

    def advance(self, examples: Sequence[InFlight], counts: Integers) -> list[ExampleState]:
        """The states of examples after the samples that were planned.

        Args:
            examples: each with the samples that were drawn of it.
            counts: how often each class was predicted, examples x classes.
        """


@dataclass(frozen=True)
class Certify:
    """CERTIFY: select a class, then bound its probability (`certify_counts`).

    Attributes:
        policy: how many samples are drawn, and when they are enough.
    """

    policy: SamplingPolicy

    def most_needed(self, state: ExampleState) -> int:
        """See `Procedure.most_needed`."""
        return self.policy.n - state.drawn + (0 if state.has_selection else self.policy.n0)

    def plan_samples(self, example: InFlight, most: int) -> None:
        """See `Procedure.plan_samples`."""
        state = example.state
        if not state.has_selection:
            example.phase, example.first, example.samples = Phase.SELECTION, 0, self.policy.n0
            return
        # A look may be far: part of the way is better than an iteration that takes for ever.
        to_next_look = self.policy.looks.sizes[state.look] - state.drawn
        example.phase, example.first, example.samples = Phase.ESTIMATION, state.drawn, min(to_next_look, most)

    def advance(self, examples: Sequence[InFlight], counts: Integers) -> list[ExampleState]:
        """See `Procedure.advance`."""
        return certify_counts(examples, counts, self.policy)


@dataclass(frozen=True)
class CountCorrect:
    """Population certificates: count how many of n noisy copies are predicted right.

    Guarantee: given the example, the count is binomial(n, p), p the probability that the model predicts the example's
    label under the perturbation, and independent of all other examples' counts.

    Attributes:
        n: noisy copies of each example.
    """

    n: int

    def most_needed(self, state: ExampleState) -> int:
        """See `Procedure.most_needed`."""
        return self.n - state.drawn

    def plan_samples(self, example: InFlight, most: int) -> None:
        """See `Procedure.plan_samples`."""
        drawn = example.state.drawn
        example.phase, example.first, example.samples = Phase.COUNTING, drawn, min(self.n - drawn, most)

    def advance(self, examples: Sequence[InFlight], counts: Integers) -> list[ExampleState]:
        """See `Procedure.advance`."""
        return [self._counted(example, row) for example, row in zip(examples, counts, strict=True)]

    def _counted(self, example: InFlight, counts: Integers) -> ExampleState:
        state, drawn = example.state, example.state.drawn + example.samples
        assert example.label is not None  # noqa: S101 (a client's examples have labels)
        correct = state.correct + int(counts[example.label])
        return replace(state, drawn=drawn, samples=drawn, correct=correct, done=drawn == self.n)


def procedure_of(smoothing: Smoothing, radii: Sequence[float], block: int) -> Procedure:
    """The procedure that settings name.

    Args:
        smoothing: the settings.
        radii: increasing radii.
        block: samples that are drawn at a time.
    """
    if smoothing.is_population:
        return CountCorrect(smoothing.n)
    return Certify(SamplingPolicy.of(smoothing, radii, block))
