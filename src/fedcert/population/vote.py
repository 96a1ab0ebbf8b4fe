"""The vote that is deployed, and how often it is right at worst.

A deployed classifier draws `votes` noisy copies of its input and answers with the most frequent label. If a copy is
right with probability q, the vote is right with probability at least h(q) = P(Binomial(votes, q) > votes/2): a strict
majority is enough. Where a copy of the unchanged input is right with probability p, that q is at least the noise's
`Shift` of p. So h(shift(p)) is what a vote keeps, whatever an attacker does within the radius.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from fedcert._arrays import Floats
from fedcert.errors import CallError, preview
from fedcert.report.noises import NOISES, Shift


def vote_accuracy(probability: Floats, complement: Floats, votes: int) -> tuple[Floats, Floats]:
    """P(Binomial(votes, q) > votes/2) and one minus it, each with its own digits.

    Args:
        probability: q.
        complement: 1 - q.
        votes: odd.

    Examples:
        >>> right, wrong = vote_accuracy(np.array([0.5, 0.9]), np.array([0.5, 0.1]), 3)
        >>> right.round(3).tolist(), wrong.round(3).tolist()
        ([0.5, 0.972], [0.5, 0.028])
    """
    half = (votes + 1) // 2
    right = special.betainc(half, half, probability)
    wrong = special.betainc(half, half, complement)
    return np.asarray(right, dtype=np.float64), np.asarray(wrong, dtype=np.float64)


@dataclass(frozen=True)
class VoteCurve:
    """How often a vote is right within a radius at worst, as a function of p: it rises from 0 to 1.

    Attributes:
        noise: the name of the noise.
        votes: odd.
        ratio: the radius in units of sigma.
        mirrored: whether it is 1 - t(1 - p) in place of t(p), by which what is above a curve becomes what is below one.
    """

    noise: str
    votes: int
    ratio: float
    mirrored: bool = False

    def __call__(self, probability: Floats, complement: Floats) -> tuple[Floats, Floats]:
        """The accuracy and one minus it."""
        if self.mirrored:
            right, wrong = self._kept(complement, probability)
            return wrong, right
        return self._kept(probability, complement)

    def mirror(self) -> VoteCurve:
        """1 - t(1 - p), which rises as t does: scores g are above t if 1 - g, in reverse, are below this."""
        return replace(self, mirrored=not self.mirrored)

    def _kept(self, probability: Floats, complement: Floats) -> tuple[Floats, Floats]:
        return vote_accuracy(*shift_of(self.noise).least(probability, complement, self.ratio), self.votes)

    @property
    def steepest(self) -> float:
        """The most that the accuracy falls per unit of the ratio, at any p.

        The derivative of h is largest at ½: votes·C(votes - 1, (votes - 1)/2)/2^(votes - 1).
        """
        half = (self.votes - 1) // 2
        logarithm = special.gammaln(self.votes + 1) - 2 * special.gammaln(half + 1) - (self.votes - 1) * np.log(2)
        return float(np.exp(logarithm)) * shift_of(self.noise).steepest


def shift_of(noise: str) -> Shift:
    """What a noise's population certificates rest on.

    Raises:
        CallError: there is no such noise, or nothing is known of what changes of the input do to probabilities.
    """
    known = NOISES.get(noise)
    if known is None or known.shift is None:
        able = ", ".join(name for name, each in NOISES.items() if each.shift is not None)
        raise CallError(
            f"population certificates need a noise whose shift is known ({able}), but the noise is {preview(noise)}; "
            "use --procedure sequential, or register the noise with its shift"
        )
    return known.shift
