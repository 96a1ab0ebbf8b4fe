"""What counts mean: the most frequent label, and PREDICT against scipy's test and its own guarantee."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from fedcert import Vote
from fedcert.prediction.vote import most_frequent, predicted_or_abstained


def compositions(total: int, parts: int) -> npt.NDArray[np.int64]:
    """All ways to write a total as an ordered sum."""
    bars = itertools.combinations(range(total + parts - 1), parts - 1)
    return np.array([np.diff([-1, *bar, total + parts - 1]) - 1 for bar in bars], dtype=np.int64)


@pytest.mark.parametrize("level", [0.001, 0.05, 0.3])
def test_predict_is_the_two_sided_binomial_test(level: float) -> None:
    for row in [*compositions(40, 2), *compositions(14, 3), np.array([1000, 0]), np.array([447, 553])]:
        second, first = np.sort(row)[-2:]
        p_value = stats.binomtest(int(first), int(first + second), 0.5).pvalue
        expected = int(row.argmax()) if p_value <= level else -1
        assert predicted_or_abstained(row[None], level).tolist() == [expected], row


def test_predict_needs_553_of_1000_at_level_0_001() -> None:
    counts = np.array([[447, 553], [448, 552], [1000, 0]])
    assert predicted_or_abstained(counts, 0.001).tolist() == [1, -1, 0]


def test_predict_with_one_class_alone() -> None:
    assert predicted_or_abstained(np.array([[11]]), 0.001).tolist() == [0]
    assert predicted_or_abstained(np.array([[5]]), 0.001).tolist() == [-1]


@pytest.mark.parametrize("level", [0.05, 0.2])
def test_predict_is_wrong_with_probability_at_most_its_level(level: float) -> None:
    """By summing over all counts of 15 samples of three classes, for many distributions and the worst one, a tie."""
    counts = compositions(15, 3)
    answers = predicted_or_abstained(counts, level)
    ways = np.array([math.factorial(15) / math.prod(map(math.factorial, row)) for row in counts.tolist()])
    mixes = [*np.random.default_rng(0).dirichlet(np.ones(3), 300), np.array([0.5, 0.5, 0.0])]
    worst = 0.0
    for mix in mixes:
        probabilities = ways * np.prod(mix**counts, axis=1)
        assert probabilities.sum() == pytest.approx(1.0)
        wrong = (answers != -1) & (answers != mix.argmax())
        worst = max(worst, float(probabilities[wrong].sum()))
        assert worst <= level
    assert worst > level / 20  # the test is no empty one


def test_ties_go_to_the_lowest_index() -> None:
    assert most_frequent(np.array([[3, 4, 4], [5, 1, 5], [0, 0, 11]])).tolist() == [1, 0, 2]


def test_how_clear_a_vote_was() -> None:
    vote = Vote(np.array([1, -1, 0]), np.array([[1, 10, 0], [5, 4, 2], [11, 0, 0]]))
    assert len(vote) == 3
    assert vote.votes.tolist() == [10, 5, 11]
    assert vote.shares.tolist() == [10 / 11, 5 / 11, 1.0]
    assert vote.abstains.tolist() == [1]
    for array in (vote.labels, vote.counts):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
