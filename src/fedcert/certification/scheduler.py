"""Many examples on their way to a certificate at a time, so that the device stays full.

Each iteration draws a few seconds' worth of samples: of examples that wait for selection, and of those that need more
for their next look. Examples that are done leave, others take their place.
"""

from __future__ import annotations

import math
import time
import zlib
from collections import deque
from dataclasses import dataclass, field

from fedcert._arrays import Images
from fedcert.certification.certificate import ExampleState, InFlight
from fedcert.certification.journal import Journal
from fedcert.certification.procedures import Procedure
from fedcert.certification.samplers.protocol import OnSamples, Sampler, ignore
from fedcert.certification.streams import ExampleKey

_SECONDS_PER_ITERATION = 3.0
"""What a kill can cost: long enough to keep a device full, short enough to be done again."""
_WINDOW = 2048
"""Examples in flight at most: some ten batches of a GPU at a block of 100 each, and four at 32."""
_FEWEST_SAMPLES = 100
"""Of an iteration, however slow the model: a block."""
_SHARE_OF_TIME = 0.9
"""Of the time that is left, what examples may need at most: speed is not that even."""


@dataclass(eq=False)
class CertificationScheduler:
    """Certifies examples, some at a time.

    Attributes:
        sampler: counts the model's noisy predictions.
        procedure: what is done with an example.
        rate: samples per second, as measured; corrected on the way.
        journal: where to record how far examples are.
        on_samples: called with the number of samples that were drawn, as they are.
    """

    sampler: Sampler
    procedure: Procedure
    rate: float
    journal: Journal | None = None
    on_samples: OnSamples = ignore
    _waiting: deque[InFlight] = field(init=False, default_factory=deque)
    _still_needed: int = field(init=False, default=0)

    @property
    def has_room(self) -> bool:
        """Whether more examples would make the next iteration fuller."""
        samples = len(self._waiting) * self._block(self._waiting[0]) if self._waiting else 0
        return len(self._waiting) < _WINDOW and samples < self._allowance

    @property
    def is_busy(self) -> bool:
        """Whether any example is in flight."""
        return bool(self._waiting)

    @property
    def _allowance(self) -> float:
        """Samples of an iteration."""
        return max(_FEWEST_SAMPLES, self.rate * _SECONDS_PER_ITERATION)

    def can_finish_another(self, seconds: float) -> bool:
        """Whether one more example could be done in some seconds, even if all in flight need their most samples."""
        another = self.procedure.most_needed(ExampleState(0))
        return self._still_needed + another <= self.rate * self.usable(seconds)

    def usable(self, seconds: float) -> float:
        """Of the seconds that are left, those that examples may need: speed is not that even."""
        return seconds * _SHARE_OF_TIME

    def recall(self, index: int, key: ExampleKey) -> ExampleState | None:
        """The state of an example that an earlier run finished, if it is still the same."""
        state = self._recorded_state(index, key)
        return state if state is not None and state.done else None

    def _recorded_state(self, index: int, key: ExampleKey) -> ExampleState | None:
        state = self.journal.states.get(index) if self.journal is not None else None
        return state if state is not None and state.key == zlib.crc32(key) else None

    def admit(self, index: int, key: ExampleKey, image: Images, label: int) -> None:
        """Take an example in, where an earlier run left it."""
        state = self._recorded_state(index, key)
        if state is None:
            state = ExampleState(index, key=zlib.crc32(key) if self.journal is not None else 0)
        self._still_needed += self.procedure.most_needed(state)
        self._waiting.append(InFlight(image, state, key, label))

    def _block(self, example: InFlight) -> int:
        return self.sampler.streams.block_size(example.image.shape)

    def advance(self, seconds: float = math.inf) -> list[ExampleState]:
        """Draw samples for a few seconds, or for the given time if that is less; gives the examples that are done."""
        examples = self._next_examples(min(self._allowance, max(self.rate * seconds, 1)))
        before = time.perf_counter()
        counts = self.sampler.counts(examples, self.on_samples)
        elapsed = max(time.perf_counter() - before, 1e-6)
        self.rate = 0.5 * self.rate + 0.5 * sum(example.samples for example in examples) / elapsed
        states = self.procedure.advance(examples, counts)
        for example, state in zip(examples, states, strict=True):
            example.state = state
        if self.journal is not None:
            self.journal.write(states)
        # Those that were first stay first: what is begun is finished before more is begun.
        self._waiting.extendleft(example for example in reversed(examples) if not example.state.done)
        self._still_needed = sum(self.procedure.most_needed(example.state) for example in self._waiting)
        return [state for state in states if state.done]

    def _next_examples(self, left: float) -> list[InFlight]:
        """Examples for the next iteration, each with the samples to draw of it, within the allowance."""
        examples: list[InFlight] = []
        while self._waiting and (left > 0 or not examples):
            example = self._waiting.popleft()
            block = self._block(example)
            self.procedure.plan_samples(example, max(int(left) // block, 1) * block)
            examples.append(example)
            left -= example.samples
        return examples
