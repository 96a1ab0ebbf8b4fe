"""Examples on their way to a certificate: many at a time, so that the device stays full.

Each iteration draws a few seconds' worth of samples: of examples that wait for selection, and of those that need more
for their next look. Examples that are done leave, others take their place.
"""

from __future__ import annotations

import math
import time
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedcert.certification.journal import ExampleState, Journal
from fedcert.certification.perturbation import Perturbation, Phase, block_size, perturbation_of
from fedcert.certification.samplers.protocol import Draw, Images, OnSamples, Sampler, ignore
from fedcert.certification.sequential import LookSchedule, StoppingRule
from fedcert.report import Smoothing

_SECONDS_PER_ITERATION = 3.0
"""What a kill can cost: long enough to keep a device full, short enough to be done again."""
_WINDOW = 2048
"""Examples under way at most."""
_FEWEST_SAMPLES = 100
_SHARE_OF_TIME = 0.9
"""Of the time that is left, what examples may need at most: speed is not that even."""


@dataclass(frozen=True)
class SamplingPolicy:
    """How samples are spent on an example.

    Attributes:
        smoothing: n0, n, failure probability, sigma.
        noise: what is added to the input.
        aim: looks and radii.
        skips_wrong: whether an example whose selected class is wrong is done at once.
        stops_early: whether looks before the last may end it.
    """

    smoothing: Smoothing
    noise: Perturbation
    aim: StoppingRule
    skips_wrong: bool
    stops_early: bool

    @classmethod
    def of(cls, smoothing: Smoothing, radii: Sequence[float], step: int) -> SamplingPolicy:
        """The course of the settings' procedure.

        Args:
            smoothing: the settings.
            radii: increasing radii.
            step: samples that are drawn at a time.
        """
        noise, failure = perturbation_of(smoothing), smoothing.failure_probability
        if smoothing.procedure == "fixed":
            looks = LookSchedule((smoothing.n,), (failure,))
            return cls(smoothing, noise, StoppingRule(looks, noise, tuple(radii), 0.0), False, False)
        looks = LookSchedule.of(smoothing.n, failure, step)
        return cls(smoothing, noise, StoppingRule(looks, noise, tuple(radii), smoothing.tolerance or 0.0), True, True)


@dataclass(frozen=True)
class Certificate:
    """What became of an example.

    Attributes:
        index: its index in the client's data.
        selected: the class that selection chose.
        radius: the certified radius; 0 where nothing is certified.
        samples: noisy samples spent.
        estimated: whether anything was bounded.
    """

    index: int
    selected: int
    radius: float
    samples: int
    estimated: bool


@dataclass
class InFlight:
    """An example under way."""

    image: npt.NDArray[np.float32]
    label: int
    standing: ExampleState | None
    index: int
    checksum: int


class CertificationScheduler:
    """Certifies examples, some at a time.

    Args:
        sampler: counts the model's noisy predictions.
        course: how samples are spent.
        rate: samples per second, as measured; corrected on the way.
        journal: where to remember how far examples are.
        spent: told how many samples were drawn, as they are.
    """

    def __init__(
        self,
        sampler: Sampler,
        course: SamplingPolicy,
        rate: float,
        journal: Journal | None = None,
        spent: OnSamples = ignore,
    ) -> None:
        self.sampler, self.course, self.rate = sampler, course, rate
        self.journal, self.spent = journal, spent
        self._under: deque[InFlight] = deque()
        self._needed = 0
        self._known = journal.standings if journal is not None else {}

    @property
    def has_room(self) -> bool:
        """Whether more examples would make the next iteration fuller."""
        waiting = len(self._under) * block_size(self._under[0].image.shape) if self._under else 0
        return len(self._under) < _WINDOW and waiting < self._allowance

    @property
    def busy(self) -> bool:
        """Whether any example is under way."""
        return bool(self._under)

    @property
    def _allowance(self) -> float:
        return max(_FEWEST_SAMPLES, self.rate * _SECONDS_PER_ITERATION)

    def fits(self, seconds: float) -> bool:
        """Whether one more example could be finished in some seconds, all that are under way needing their most."""
        return self._needed + self._missing(None) <= self.rate * seconds * _SHARE_OF_TIME

    def _missing(self, standing: ExampleState | None) -> int:
        smoothing = self.course.smoothing
        return smoothing.n0 + smoothing.n if standing is None else smoothing.n - standing.drawn

    def recall(self, index: int, image: npt.NDArray[np.float32]) -> Certificate | None:
        """What an earlier run made of an example, if it finished it, and its image is the same."""
        standing = self._standing(index, image)
        return self._outcome(standing) if standing is not None and standing.done else None

    def _standing(self, index: int, image: npt.NDArray[np.float32]) -> ExampleState | None:
        standing = self._known.get(index)
        return standing if standing is not None and standing.image == _checksum(image) else None

    def admit(self, index: int, image: npt.NDArray[np.float32], label: int) -> None:
        """Take an example in, where an earlier run left it."""
        checksum = _checksum(image) if self.journal is not None else 0
        standing = self._standing(index, image)
        self._needed += self._missing(standing)
        self._under.append(InFlight(image, label, standing, index, checksum))

    def advance(self, seconds: float = math.inf) -> Iterator[Certificate]:
        """Draw some seconds' worth of samples, or fewer seconds' if so given, and give the examples that are done."""
        chosen, draws = self._choose(min(self._allowance, max(self.rate * seconds, 1)))
        images: Images = np.stack([one.image for one in chosen])
        before = time.perf_counter()
        counts = self.sampler.counts(images, draws, self.spent)
        taken = max(time.perf_counter() - before, 1e-6)
        self.rate = 0.5 * self.rate + 0.5 * sum(draw.samples for draw in draws) / taken
        for one, draw, row in zip(chosen, draws, counts, strict=True):
            one.standing = self._after(one, draw, row)
        self._look(chosen)
        standings = [one.standing for one in chosen if one.standing is not None]
        if self.journal is not None:
            self.journal.write(standings)
        # Those who were first stay first: what is begun is finished before more is begun.
        self._under.extendleft(one for one in reversed(chosen) if one.standing is None or not one.standing.done)
        self._needed = sum(self._missing(one.standing) for one in self._under)
        for one in chosen:
            if one.standing is not None and one.standing.done:
                yield self._outcome(one.standing)

    def _choose(self, allowance: float) -> tuple[list[InFlight], list[Draw]]:
        """Examples for the next iteration, and what to draw of each, within the allowance."""
        chosen: list[InFlight] = []
        draws: list[Draw] = []
        left = allowance
        while self._under and (left > 0 or not chosen):
            one = self._under.popleft()
            step = block_size(one.image.shape)
            standing = one.standing
            if standing is None:
                draw = Draw(len(chosen), one.index, Phase.SELECTION, 0, self.course.smoothing.n0)
            else:
                wanted = self.course.aim.looks.sizes[standing.look] - standing.drawn
                # A look may be far: part of the way is better than an iteration that takes for ever.
                most = max(int(left) // step, 1) * step
                draw = Draw(len(chosen), one.index, Phase.ESTIMATION, standing.drawn, min(wanted, most))
            chosen.append(one)
            draws.append(draw)
            left -= draw.samples
        return chosen, draws

    def _after(self, one: InFlight, draw: Draw, counts: npt.NDArray[np.int64]) -> ExampleState:
        if draw.phase == Phase.SELECTION:
            selected = int(counts.argmax())
            wrong = self.course.skips_wrong and selected != one.label
            return ExampleState(one.index, selected, 0, 0, 0, 1.0, draw.samples, one.checksum, False, wrong)
        standing = one.standing
        assert standing is not None  # noqa: S101
        return replace(
            standing,
            drawn=standing.drawn + draw.samples,
            successes=standing.successes + int(counts[standing.selected]),
            samples=standing.samples + draw.samples,
        )

    def _look(self, chosen: Sequence[InFlight]) -> None:
        """Bound those who have reached their next look, all of one look together."""
        looks = self.course.aim.looks
        for look, size in enumerate(looks.sizes):
            there = [
                one
                for one in chosen
                if one.standing is not None
                and not one.standing.done
                and one.standing.look == look
                and one.standing.drawn == size
            ]
            if not there:
                continue
            standings = [one.standing for one in there if one.standing is not None]
            successes = np.array([standing.successes for standing in standings], dtype=np.int64)
            miss = np.minimum([standing.miss for standing in standings], looks.miss(look, successes))
            done = self.course.aim.decided(look, successes, miss)
            for one, standing, best, ends in zip(there, standings, miss, done, strict=True):
                one.standing = replace(standing, look=look + 1, miss=float(best), estimated=True, done=bool(ends))

    def _outcome(self, standing: ExampleState) -> Certificate:
        radius = float(self.course.noise.radius(standing.miss)) if standing.estimated else 0.0
        return Certificate(standing.index, standing.selected, radius, standing.samples, standing.estimated)


def _checksum(image: npt.NDArray[np.float32]) -> int:
    return zlib.crc32(image.tobytes())
