"""The truth: for linear classifiers p and the worst attack are exact, and the vote under it can be simulated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from fedcert.population.bernstein import binomial_probabilities
from fedcert.population.tables import designs_for
from fedcert.population.vote import VoteCurve

TRIALS = 40_000
FOUR_ERRORS = 4 * 0.5 / np.sqrt(TRIALS)


def share_of_right_votes(is_right: Callable[[np.ndarray], np.ndarray], noise: np.ndarray, at: np.ndarray) -> float:
    """Of votes with noise of (trials, votes, coordinates): those of which more than half of the copies are right."""
    votes = is_right(at + noise).sum(axis=1)
    return float(np.mean(votes > noise.shape[1] / 2))


@pytest.mark.parametrize("votes", [1, 11])
@pytest.mark.parametrize(("p", "radius"), [(0.6, 0.0), (0.9, 0.2), (0.9, 0.5), (0.99, 0.5), (0.4, 0.1)])
def test_the_vote_of_a_linear_classifier_under_the_worst_attack(votes: int, p: float, radius: float) -> None:
    generator = np.random.default_rng(votes)
    sigma, normal = 0.25, generator.normal(size=3)
    normal /= np.linalg.norm(normal)
    # The example lies so far on the right side of the hyperplane that its noisy copies are right with probability p.
    example = stats.norm.ppf(p) * sigma * normal + np.cross(normal, [1.0, 0, 0])
    noise = sigma * generator.normal(size=(TRIALS, votes, 3))

    def right(inputs: np.ndarray) -> np.ndarray:
        return inputs @ normal > 0

    expected = VoteCurve("gaussian", votes, radius / sigma)(np.array([p]), np.array([1 - p]))[0][0]
    attacked = share_of_right_votes(right, noise, example - radius * normal)
    assert attacked == pytest.approx(expected, abs=FOUR_ERRORS)
    # No other direction is worse.
    for _ in range(3):
        other = generator.normal(size=3)
        other *= radius / np.linalg.norm(other)
        assert share_of_right_votes(right, noise, example + other) > expected - FOUR_ERRORS


@pytest.mark.parametrize(("p", "radius"), [(0.6, 0.0), (0.9, 0.2), (0.95, 0.4), (0.3, 0.1), (0.1, 0.3)])
def test_the_vote_under_the_worst_attack_in_l1_with_uniform_noise(p: float, radius: float) -> None:
    """The classifier looks at one coordinate: its worst attack moves that one alone, and loses radius/2λ."""
    generator = np.random.default_rng(3)
    sigma, votes = 0.25, 11
    half_width = np.sqrt(3) * sigma
    example = np.array([(2 * p - 1) * half_width, 0.3])
    noise = generator.uniform(-half_width, half_width, size=(TRIALS, votes, 2))

    def right(inputs: np.ndarray) -> np.ndarray:
        return inputs[..., 0] > 0

    kept = max(0.0, p - radius / (2 * half_width))
    expected = VoteCurve("uniform", votes, radius / sigma)(np.array([p]), np.array([1 - p]))[0][0]
    assert expected == pytest.approx(stats.binom.sf(votes // 2, votes, kept), abs=1e-12)
    attacked = share_of_right_votes(right, noise, example - np.array([radius, 0]))
    assert attacked == pytest.approx(expected, abs=FOUR_ERRORS)
    assert share_of_right_votes(right, noise, example - np.array([0, radius])) > expected - FOUR_ERRORS


@pytest.mark.parametrize(("noise", "ratio"), [("gaussian", 0.8), ("gaussian", 1.6), ("uniform", 0.5)])
def test_the_mean_of_scores_is_below_the_accuracy_under_attack(
    noise: str, ratio: float, tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A population of examples and one linear classifier, from passes to a proven bound: all of it simulated."""
    monkeypatch.setenv("FEDCERT_CACHE", str(tmp_path))
    generator = np.random.default_rng(17)
    n, votes, examples = 32, 11, 20_000
    draw = generator.normal if noise == "gaussian" else (lambda size: generator.uniform(-(3**0.5), 3**0.5, size=size))
    margins = generator.normal(1.0, 1.2, size=examples)  # in units of sigma, some on the wrong side
    counts = np.bincount((margins[:, None] + draw(size=(examples, n)) > 0).sum(axis=1), minlength=n + 1)
    attacked = np.mean((margins[:, None] - ratio + draw(size=(examples, votes)) > 0).sum(axis=1) > votes / 2)
    (design,) = designs_for(noise, n, votes, [ratio])
    lower, upper = counts @ design.lower / examples, counts @ design.upper / examples
    error = 4 * 2**0.5 * 0.6 / examples**0.5
    assert lower < attacked + error
    assert upper > attacked - error
    # And it is close: what is lost is below what the data show that it may be.
    assert attacked - lower < design.most_lost(counts) + error
    if noise == "gaussian":
        assert attacked - lower < 0.003 + error
        p = stats.norm.cdf(margins)
        truth = design.curve(p, 1 - p)[0].mean()
        assert attacked == pytest.approx(truth, abs=error)
        assert (binomial_probabilities(n, p, 1 - p) @ design.lower).mean() < truth
