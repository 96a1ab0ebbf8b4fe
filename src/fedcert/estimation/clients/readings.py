"""How right answers are read: scores of the count K of an example's right answers, at each radius.

A client's histogram of K gives, for any radius and any number of votes, the sum of proven scores over its examples
(`population`): the lower ones for the estimate and the lower end of its interval, the upper ones for the upper end. An
interval for examples that count or do not needs whole numbers. So the scores, as shares of their range, are rounded at
random: an example of share s counts with probability s. The expectation stays, and examples stay independent.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats
from fedcert.errors import CallError, preview
from fedcert.population.design import Design
from fedcert.population.tables import designs_for
from fedcert.report import Report, Smoothing
from fedcert.report.fields import RADIUS_DIGITS

Whole = npt.NDArray[np.int64]

STEPS_PER_SIGMA = 20
"""Radii that are chosen after the counts were seen are on offer in such steps: finer than what curves show."""
FARTHEST_OFFERED = 3.0
"""In units of sigma, of these radii: 100 passes reach 2.4."""
MOST_VOTES_OFFERED = 31
"""Odd numbers up to this one are on offer where the votes are chosen afterwards; more where more are asked for."""
_ROUNDING = 1e-9
"""A radius so close to another, in units of sigma, is the same but for rounding."""


@dataclass(frozen=True, eq=False)
class Reading:
    """Scores of the number of right answers at each radius.

    Attributes:
        radii: increasing radii.
        scores: radii x (n + 1).
    """

    radii: tuple[float, ...]
    scores: Floats

    @property
    def low(self) -> Floats:
        """The least score at each radius."""
        return np.asarray(self.scores.min(axis=1), dtype=np.float64)

    @property
    def width(self) -> Floats:
        """The range of the scores at each radius; 1 where all are equal."""
        width = self.scores.max(axis=1) - self.low
        return np.where(width > 0, width, 1.0)

    @property
    def shares(self) -> Floats:
        """The scores as shares of their range, radii x (n + 1)."""
        return np.asarray(np.clip((self.scores - self.low[:, None]) / self.width[:, None], 0.0, 1.0), dtype=np.float64)

    def as_shares(self) -> Reading:
        """The same radii with the shares as scores."""
        return Reading(self.radii, self.shares)


@dataclass(frozen=True, eq=False)
class VoteReadings:
    """What is read of the counts for one estimate.

    Attributes:
        votes: noisy copies that vote on an answer.
        lower: proven to be below what the vote keeps, on average; the estimate.
        lower_end: the same, for the interval's lower end.
        upper_end: proven to be above.
        offered: pairs of a radius and a number of votes among which these were chosen after the counts were seen; None
            where they were named before.
        named: radii that the request names.
        designs: at each radius of the estimate.
    """

    votes: int
    lower: Reading
    lower_end: Reading
    upper_end: Reading
    offered: int | None
    named: int
    designs: tuple[Design, ...]

    @property
    def radii(self) -> tuple[float, ...]:
        """Increasing radii."""
        return self.lower.radii


def vote_readings(
    smoothing: Smoothing, named: Sequence[float], votes: int | None = None, radii: Sequence[float] | None = None
) -> VoteReadings:
    """The readings of an estimate.

    Radii and votes that were named before anything was counted have an interval of the stated confidence each. Others
    are chosen by someone who may have seen the counts. Their interval holds for all radii in steps of sigma/20 and all
    odd numbers of votes up to 31 at once; at a radius between steps its lower end is that of the next larger one, and
    its upper end that of the next smaller one, since the vote's accuracy falls with the radius.

    Args:
        smoothing: of the reports.
        named: radii that the request names.
        votes: those that the request names where None.
        radii: the named ones where None.
    """
    assert smoothing.votes is not None  # noqa: S101 (population certificates have votes)
    chosen = votes or smoothing.votes
    wanted = tuple(named if radii is None else radii)
    known = {round(radius, RADIUS_DIGITS) for radius in named}
    ratios = np.array(wanted) / smoothing.sigma
    designs = designs_for(smoothing.noise, smoothing.n, chosen, ratios.tolist())
    lower, upper = (np.array([getattr(design, side) for design in designs]) for side in ("lower", "upper"))
    point = Reading(wanted, lower)
    if chosen == smoothing.votes and all(round(radius, RADIUS_DIGITS) in known for radius in wanted):
        return VoteReadings(chosen, point, point, Reading(wanted, upper), None, len(named), designs)
    steps = ratios * STEPS_PER_SIGMA
    above, below = np.ceil(steps - _ROUNDING) / STEPS_PER_SIGMA, np.floor(steps + _ROUNDING) / STEPS_PER_SIGMA
    lower_end, upper_end = _scores(smoothing, chosen, above, "lower"), _scores(smoothing, chosen, below, "upper")
    offered = _offered(smoothing, chosen, above)
    return VoteReadings(
        chosen, point, Reading(wanted, lower_end), Reading(wanted, upper_end), offered, len(named), designs
    )


def _scores(smoothing: Smoothing, votes: int, ratios: Floats, side: str) -> Floats:
    designs = designs_for(smoothing.noise, smoothing.n, votes, ratios.tolist())
    return np.array([getattr(design, side) for design in designs])


def _offered(smoothing: Smoothing, votes: int, ratios: Floats) -> int:
    """How many pairs of a radius and votes are on offer."""
    farthest = max(FARTHEST_OFFERED, float(ratios.max()))
    radii = math.floor(farthest * STEPS_PER_SIGMA + _ROUNDING) + 1
    return radii if votes == smoothing.votes else radii * ((max(votes, MOST_VOTES_OFFERED) + 1) // 2)


def check_readable_again(smoothing: Smoothing, votes: int | None, radii: Sequence[float] | None) -> None:
    """Check that radii and votes can be chosen anew.

    Raises:
        CallError: they cannot: CERTIFY counted at its radii, and is about no vote.
    """
    if smoothing.is_population:
        return
    for name, value in (("radii", radii), ("votes", votes)):
        if value is not None:
            why = "counted at the radii of its request" if name == "radii" else "is about no vote"
            raise CallError(
                f"{name} (--{name}) must be left out for CERTIFY's reports ({smoothing.procedure}), as it {why}, but "
                f"is {preview(value)}; population certificates (--procedure population) can be read at any"
            )


def rounded_counts(histograms: npt.NDArray[np.integer], shares: Floats, generator: np.random.Generator) -> Whole:
    """Examples that count at each radius, each by chance: one with K right answers with probability shares[:, K].

    Guarantee: given the right answers, examples count independently of each other; at one radius each with its share.
    An example has the same random number at all radii.

    Args:
        histograms: rows x (n + 1).
        shares: radii x (n + 1), from 0 to 1.
        generator: of the chances.

    Returns:
        Rows x radii.
    """
    counts = np.zeros((len(histograms), len(shares)), dtype=np.int64)
    for cell in range(histograms.shape[1]):
        rows = np.flatnonzero(histograms[:, cell])
        if not len(rows):
            continue
        order = np.argsort(shares[:, cell], kind="stable")
        between = np.diff(shares[order, cell], prepend=0.0, append=1.0)
        drawn = generator.multinomial(histograms[rows, cell].astype(np.int64), between / between.sum())
        counts[np.ix_(rows, order)] += np.cumsum(drawn[:, :-1], axis=1)
    return counts


def rounding_generator(side: str, *histograms: npt.NDArray[Any]) -> np.random.Generator:
    """The generator of the rounding for one end of the interval, which follows from what is rounded.

    The same counts are rounded alike, so that nothing is gained by trying again. Others have chances of their own: with
    one seed for all, the rounding would err to the same side in nearly all samples from a population, and the end
    with it.
    """
    digest = hashlib.sha256(side.encode())
    for counts in histograms:
        digest.update(str(counts.shape).encode() + np.ascontiguousarray(counts, dtype="<i8").tobytes())
    return np.random.default_rng(np.frombuffer(digest.digest(), dtype="<u4").astype(np.uint32))


@lru_cache(maxsize=8)
def named_readings(smoothing: Smoothing, named: tuple[float, ...]) -> VoteReadings:
    """The readings at what the request names."""
    return vote_readings(smoothing, named)


def own_curve(report: Report, votes: int | None = None, radii: Sequence[float] | None = None) -> tuple[float, ...]:
    """The certified accuracy of a client's own examples; with population certificates what is proven of the vote.

    Args:
        report: the client's.
        votes, radii: as of an estimate.

    Raises:
        CallError: radii or votes are chosen for CERTIFY's counts, which cannot be read otherwise.
    """
    check_readable_again(report.smoothing, votes, radii)
    if not report.smoothing.is_population:
        return report.certified_accuracy
    readings = vote_readings(report.smoothing, report.radii, votes, radii)
    means = readings.lower.scores @ np.array(report.procedure_counts) / max(report.examples, 1)
    return tuple(np.clip(means, 0.0, 1.0).tolist())
