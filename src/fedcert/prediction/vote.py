"""What the counts of a vote mean: the most frequent label, or PREDICT's test of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from fedcert._arrays import Floats, Integers

ABSTAIN = -1
"""PREDICT's answer where the test does not reject: class indices begin at 0."""


@dataclass(frozen=True, eq=False)
class Vote:
    """How noisy copies of some inputs were classified, and what is answered.

    Attributes:
        labels: the answer for each input: the class index, or -1 where PREDICT abstains.
        counts: how many copies of each input were given each class; inputs x classes.

    Examples:
        >>> import fedcert, numpy
        >>> classifier = fedcert.smooth(lambda batch: (batch[:, 0] > 0.5).astype(int), sigma=0.1, votes=11)
        >>> vote = classifier.vote(numpy.array([[0.0, 1.0], [1.0, 1.0]]))
        >>> vote.labels.tolist(), vote.counts.tolist(), vote.shares.tolist()
        ([0, 1], [[11, 0], [0, 11]], [1.0, 1.0])
    """

    labels: Integers
    counts: Integers

    def __post_init__(self) -> None:
        for array in (self.labels, self.counts):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def votes(self) -> Integers:
        """How many copies of each input were given its most frequent class, which is the answer if there is one."""
        return np.asarray(self.counts.max(axis=1, initial=0), dtype=np.int64)

    @property
    def shares(self) -> Floats:
        """The share of the most frequent class among the copies of each input: 1 is a unanimous vote."""
        return np.asarray(self.votes / np.maximum(self.counts.sum(axis=1), 1), dtype=np.float64)

    @property
    def abstains(self) -> Integers:
        """The inputs that have no answer, by their places."""
        return np.flatnonzero(self.labels == ABSTAIN)


def most_frequent(counts: Integers) -> Integers:
    """The most frequent class of each row; ties go to the lowest index.

    With an odd number of votes, two classes cannot tie; three or more can. The majority of certificates is a strict
    one, so it does not depend on how ties are broken.

    Guarantee: if a copy is given the right class with probability q, the answer is right with probability at least
    P(Binomial(votes, q) > votes/2).
    """
    return np.asarray(counts.argmax(axis=1), dtype=np.int64)


def predicted_or_abstained(counts: Integers, level: float) -> Integers:
    """PREDICT of Cohen et al. (2019): the most frequent class of each row where it leads significantly, else -1.

    The counts of the two most frequent classes are tested for equal probabilities, by the two-sided binomial test; the
    class is the answer where its p-value is at most `level`.

    Guarantee: for each input, the answer is a class that the smoothed classifier does not give with probability at most
    `level` over the noise.

    Args:
        counts: noisy samples by class, a row for each input.
        level: above 0, below 1.
    """
    if counts.shape[1] < 2:  # one class was seen, and no other is known
        counts = np.pad(counts, ((0, 0), (0, 2 - counts.shape[1])))
    second, first = np.partition(counts, (-2, -1), axis=1)[:, -2:].T
    return np.where(_p_values(first, second) <= level, most_frequent(counts), ABSTAIN)


def _p_values(first: Integers, second: Integers) -> Floats:
    """Of the two-sided test of ½: twice the upper tail at the larger count, which is I_½(first, second + 1)."""
    return np.asarray(np.minimum(1.0, 2 * special.betainc(np.maximum(first, 1), second + 1, 0.5)), dtype=np.float64)
