"""A client's examples certified one after the other, many in flight, within the time that there is."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Images
from fedcert.certification.certificate import ExampleState
from fedcert.certification.data.local_data import LocalData
from fedcert.certification.journal import Journal
from fedcert.certification.plan import CertificationPlan
from fedcert.certification.procedures import procedure_of
from fedcert.certification.progress import ProgressListener, duration
from fedcert.certification.samplers.protocol import Sampler
from fedcert.certification.samplers.warmup import warm_up
from fedcert.certification.scheduler import CertificationScheduler
from fedcert.certification.streams import ExampleKey
from fedcert.errors import CallError

_STRIDES = (0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15)
"""Order in which 16 interleaved strides are visited under a time budget, so that the examples that are done when time
runs out are an even sample of the data: the numbers from 0 to 15 with their bits reversed."""
_LONG = 10.0
"""Seconds from which on people want to know how long it will typically take."""
_FIRST = 20
"""Examples from which the typical time is forecast: their mean is then known to a fourth of their spread."""


@dataclass
class ExampleLoop:
    """One pass over the data, within its time.

    Attributes:
        plan: what to do.
        sampler: counts the model's noisy predictions.
        data: the client's test examples.
        keys: of the noise of the examples that are to be certified, by index.
        progress: called as the work goes on.
        journal: where how far examples are is recorded; None where it is not.
        deadline: when to stop, by `time.monotonic`.
    """

    plan: CertificationPlan
    sampler: Sampler
    data: LocalData
    keys: dict[int, ExampleKey]
    progress: ProgressListener
    journal: Journal | None
    deadline: float

    def states(self) -> list[ExampleState]:
        """The final state of each example, or, where time runs out, of those before the first that is not done.

        Raises:
            CallError: the time is too short for a report about enough examples.
        """
        self._done: list[ExampleState] = []
        self._forecast_due = False
        begun: list[int] = []
        scheduler: CertificationScheduler | None = None
        for index, image, piece in self._examples():
            if scheduler is None:
                scheduler = self._scheduler(piece)
                self._check_time(scheduler)
            recalled = scheduler.recall(index, self.keys[index])
            if recalled is None:
                self._make_room(scheduler)
                # Examples are begun only if they can be finished: hard ones take longer, and must not drop out.
                if not scheduler.can_finish_another(self._seconds_left):
                    break
                scheduler.admit(index, self.keys[index], image, int(self.data.labels[index]))
            else:
                self._finish([recalled])
            begun.append(index)
            self._forecast(scheduler, begun)
        while scheduler is not None and scheduler.is_busy and self._seconds_left > 0:
            self._finish(scheduler.advance(self._seconds_left))
            self._forecast(scheduler, begun)
        wanted = len(self.keys)
        if scheduler is None or len(self._done) == wanted:
            return self._done
        finished = _before_the_first_unfinished(begun, self._done)
        if len(finished) < self._fewest:
            raise CallError(
                f"the time budget (--time-budget) of {_seconds(self.plan.time_budget or 0)} is used up after "
                f"{len(finished)} of {wanted:,} examples, and a report needs at least {self._fewest} "
                f"(--minimum-examples){self._kept()}; give more time"
            )
        earlier = {index for index, key in self.keys.items() if scheduler.recall(index, key) is not None}
        done = earlier | {state.index for state in self._done}
        self.progress.late(len(finished), wanted, len(done) - len(finished))
        return finished

    @property
    def _fewest(self) -> int:
        """Examples that a report is about at least."""
        return min(self.plan.minimum_examples, len(self.keys))

    def _kept(self) -> str:
        return "" if self.journal is None else "; what was done is kept"

    def _check_time(self, scheduler: CertificationScheduler) -> None:
        """Check, before any work, that the time can be enough.

        Raises:
            CallError: it is too short for one example at its longest, or for the fewest at what each takes.
        """
        if self.plan.time_budget is None:
            return
        smoothing = self.plan.smoothing
        recalled = sum(scheduler.recall(index, key) is not None for index, key in self.keys.items())
        needed = self._fewest - recalled
        if needed <= 0:
            return
        longest = smoothing.most_samples / scheduler.rate
        examples = 1 if smoothing.procedure == "sequential" else needed
        usable = max(scheduler.usable(self._seconds_left), 0.0)
        if examples * longest <= usable:
            return
        count = "one example" if examples == 1 else f"{examples} examples"
        raise CallError(
            f"the time budget (--time-budget) of {_seconds(self.plan.time_budget)} is too short: at "
            f"{scheduler.rate:,.0f} samples a second, {count} may need up to {_seconds(examples * longest)}, and after "
            f"getting started and with a reserve {_seconds(usable)} can be used; give more time, or a smaller n; "
            "nothing was certified"
        )

    def _make_room(self, scheduler: CertificationScheduler) -> None:
        """Advance the examples in flight until another can be admitted and finished, or time runs out."""
        while scheduler.is_busy and self._seconds_left > 0:
            if scheduler.has_room and scheduler.can_finish_another(self._seconds_left):
                return
            self._finish(scheduler.advance(self._seconds_left))

    def _finish(self, states: Sequence[ExampleState]) -> None:
        self._done.extend(states)
        self.progress.finished(len(states))

    def _forecast(self, scheduler: CertificationScheduler, begun: Sequence[int]) -> None:
        """Say how long the rest will typically take, once the first examples are done.

        Which ones these are was fixed before they were certified: the first that were begun, hard or easy.
        """
        first = begun[:_FIRST]
        if not self._forecast_due or len(first) < _FIRST:
            return
        done = {state.index: state.samples for state in self._done}
        if not all(index in done for index in first):
            return
        self._forecast_due = False
        samples = np.array([done[index] for index in first], dtype=np.float64)
        error = 2 * samples.std(ddof=1) / math.sqrt(_FIRST)
        left = (len(self.keys) - len(self._done)) / scheduler.rate
        self.progress.forecast_typical(
            left * max(samples.mean() - error, samples.min()), left * (samples.mean() + error)
        )

    @property
    def _seconds_left(self) -> float:
        return self.deadline - time.monotonic()

    def _examples(self) -> Iterator[tuple[int, Images, Images]]:
        """Each example's index and image, and the piece of data that it came with."""
        offsets = (0,) if self.plan.time_budget is None else _STRIDES
        for offset in offsets:
            for indices, images in self.data.pieces_on(self.plan.smoothing.lattice, len(offsets), offset):
                for index, image in zip(indices, images, strict=True):
                    if index in self.keys:
                        yield index, image, images

    def _scheduler(self, images: Images) -> CertificationScheduler:
        """A scheduler whose sampler is ready and timed on some images."""
        smoothing = self.plan.smoothing
        known = {} if self.journal is None else self.journal.states
        examples = sum(not (index in known and known[index].done) for index in self.keys)
        sequential = smoothing.procedure == "sequential"
        most = examples * smoothing.most_samples
        rate = warm_up(self.sampler, images, most, sequential=sequential, compile=self.plan.compile)
        if not examples:
            pass  # an earlier run certified all of them
        elif sequential:
            self._forecast_due = most / rate >= _LONG
            self.progress.forecast_at_most(most, rate, examples)
        else:
            self.progress.forecast(most, rate)
        procedure = procedure_of(smoothing, self.plan.radii, self.sampler.streams.block_size(images.shape[1:]))
        return CertificationScheduler(self.sampler, procedure, rate, self.journal, self.progress.advance)


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < _LONG else duration(seconds)


def _before_the_first_unfinished(begun: Sequence[int], done: Sequence[ExampleState]) -> list[ExampleState]:
    """The examples that are done, up to the first, in the order in which they were begun, that is not.

    Hard examples take longer. So which examples count must not depend on how long each took itself.
    """
    states = {state.index: state for state in done}
    return [states[index] for index in itertools.takewhile(states.__contains__, begun)]
