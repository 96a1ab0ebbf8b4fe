"""How right answers are read: scores of the count K of an example's right answers, at each radius.

A client's histogram of K gives, for any radius and any number of votes, the sum of proven scores over its examples
(`population`): the lower ones for the estimate and the lower end of its interval, the upper ones for the upper end. An
interval for examples that count or do not needs whole numbers. So the scores, as shares of their range, are rounded at
random: an example of share s counts with probability s. The expectation stays, and examples stay independent.
"""

from __future__ import annotations

import hashlib
import struct
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
"""Odd numbers up to this one are on offer where the votes are chosen afterwards."""
_MOST_DRAWN = 2**23
"""Random numbers of one cell that are held at once, in 64 MB; larger cells are drawn radius by radius."""
_FARTHEST_RATIO = 1e300
"""Of a radius to sigma: nothing is proven so far out, and a larger one may not be a number."""
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
    def range(self) -> tuple[Floats, Floats]:
        """Where the scores begin, and their range."""
        return self.low, self.width

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
        offered: one over the share of the error that each radius has, where radii or votes were chosen after the counts
            were seen; None where they were named before.
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
    are chosen by someone who may have seen the counts. Their interval holds for all radii to 3 sigma in steps of
    sigma/20 and all odd numbers of votes up to 31 at once; at a radius between steps its lower end is that of the next
    larger one, and its upper end that of the next smaller one, since the vote's accuracy falls with the radius.

    Args:
        smoothing: of the reports.
        named: radii that the request names.
        votes: those that the request names where None.
        radii: the named ones where None.

    Raises:
        CallError: radii or votes are beyond those on offer.
    """
    assert smoothing.votes is not None  # noqa: S101 (population certificates have votes)
    chosen = votes or smoothing.votes
    wanted = tuple(named if radii is None else radii)
    known = {round(radius, RADIUS_DIGITS) for radius in named}
    with np.errstate(over="ignore"):
        ratios = np.minimum(np.array(wanted) / smoothing.sigma, _FARTHEST_RATIO)
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
    """One over the share of the error that a pair of a radius and votes has, which was chosen afterwards.

    The pairs on offer are fixed: all radii to 3 sigma in steps, with the votes that were named, which have half of the
    error, and with all other odd numbers up to 31, which have the other half.

    Raises:
        CallError: a pair is not on offer.
    """
    radii = round(FARTHEST_OFFERED * STEPS_PER_SIGMA) + 1
    if float(ratios.max()) > FARTHEST_OFFERED + _ROUNDING:
        raise CallError(
            f"radii (--radii) that the request does not name must be at most {FARTHEST_OFFERED:g} sigma "
            f"({FARTHEST_OFFERED * smoothing.sigma:g}), but are up to {float(ratios.max()) * smoothing.sigma:g}; name "
            "larger ones in a request"
        )
    if votes == smoothing.votes:
        return 2 * radii
    if votes > MOST_VOTES_OFFERED:
        raise CallError(
            f"votes (--votes) that the request does not name must be at most {MOST_VOTES_OFFERED}, but are {votes}; "
            "name more in a request"
        )
    others = (MOST_VOTES_OFFERED + 1) // 2 - ((smoothing.votes or 0) <= MOST_VOTES_OFFERED)
    return 2 * radii * others


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


def rounded_counts(histograms: npt.NDArray[np.integer], shares: Floats, key: bytes) -> Whole:
    """Examples that count at each radius, each by chance: one with K right answers with probability shares[:, K].

    Guarantee: given the right answers, examples count independently of each other; at one radius each with its share.
    What is drawn at a radius depends on the key, the right answers and the shares of that radius alone, so that asking
    about other radii beside it changes nothing. An example has the same random number at all radii.

    Args:
        histograms: rows x (n + 1).
        shares: radii x (n + 1), from 0 to 1.
        key: of the chances (`rounding_key`).

    Returns:
        Rows x radii.
    """
    counts = np.zeros((len(histograms), len(shares)), dtype=np.int64)
    for cell in range(histograms.shape[1]):
        held = histograms[:, cell].astype(np.int64)
        if not held.any():
            continue
        if held.sum(dtype=np.float64) > _MOST_DRAWN:
            for radius, share in enumerate(shares[:, cell].tolist()):
                counts[:, radius] += _generator(key, cell, share).binomial(held, share)
            continue
        order = np.argsort(shares[:, cell], kind="stable")
        between = np.searchsorted(shares[order, cell], _generator(key, cell).random(int(held.sum())), side="right")
        # An example counts at the radii whose share is above its random number: at all behind its place.
        places = np.repeat(np.arange(len(held)), held) * (len(shares) + 1) + between
        drawn = np.bincount(places, minlength=len(held) * (len(shares) + 1)).reshape(len(held), -1)
        counts[:, order] += np.cumsum(drawn[:, :-1], axis=1)
    return counts


def _generator(key: bytes, cell: int, share: float | None = None) -> np.random.Generator:
    """The chances of the examples with so many right answers; of one radius alone where a share is given."""
    name = key + struct.pack("<q", cell) + (b"" if share is None else struct.pack("<d", share))
    return np.random.default_rng(np.frombuffer(hashlib.sha256(name).digest(), dtype="<u4").astype(np.uint32))


def rounding_key(side: str, salt: str, *histograms: npt.NDArray[Any]) -> bytes:
    """The key of the rounding for one end of the interval, which follows from what is rounded.

    The same reports are rounded alike, so that nothing is gained by trying again. Others have chances of their own:
    with one key for all, the rounding would err to the same side in nearly all samples from a population.

    Args:
        side: of the interval.
        salt: random, and independent of the counts: of the request's nonce and of the sites' secret seeds. It makes the
            chances independent of the counts even where a population allows few of these.
        histograms: what is rounded.
    """
    digest = hashlib.sha256(f"{side} {salt}".encode())
    for counts in histograms:
        digest.update(str(counts.shape).encode() + np.ascontiguousarray(counts, dtype="<i8").tobytes())
    return digest.digest()


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
