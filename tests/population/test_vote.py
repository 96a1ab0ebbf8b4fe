"""What a vote keeps: the curve, its digits and its slope."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb
from scipy import stats

from balls import accuracy_of_vote, normal_probability, normal_quantile
from fedcert.errors import CallError
from fedcert.population.vote import VoteCurve, vote_accuracy


@pytest.mark.parametrize("votes", [1, 3, 11, 101])
def test_a_vote_is_right_if_more_than_half_are(votes: int) -> None:
    q = np.linspace(0, 1, 101)
    right, wrong = vote_accuracy(q, 1 - q, votes)
    np.testing.assert_allclose(right, stats.binom.sf(votes // 2, votes, q), atol=1e-13)
    np.testing.assert_allclose(wrong, stats.binom.cdf(votes // 2, votes, q), atol=1e-13)


@pytest.mark.parametrize("noise", ["gaussian", "uniform"])
@pytest.mark.parametrize("mirrored", [False, True])
def test_curves_rise_from_0_to_1_and_fall_with_the_radius(noise: str, mirrored: bool) -> None:
    p = np.concatenate([np.arange(1000) * 2.0**-50, np.linspace(0, 1, 4001), 1 - np.arange(1000) * 2.0**-50])
    p.sort()
    before = np.full(len(p), 1.0)
    for ratio in (0.0, 0.3, 1.0, 2.4, 5.0):
        curve = VoteCurve(noise, 11, ratio, mirrored)
        value, complement = curve(p, 1 - p)
        assert np.diff(value).min() > -1e-14
        np.testing.assert_allclose(value + complement, 1, atol=1e-14)
        assert value[0] == 0 or (mirrored and noise == "uniform")
        assert (value[-1] == 1) or (not mirrored and noise == "uniform")
        assert np.all(value <= before + 1e-14) or mirrored
        before = value


def test_a_curve_has_the_errors_that_proofs_allow_for() -> None:
    """Below 1e-12, at ends of cells of every size next to 0 and 1: against ball arithmetic, by other formulas."""
    generator = np.random.default_rng(7)
    for votes in (1, 11, 31, 101, 9999):
        for ratio in (0.1, 1.3, 2.4, 5.0):
            near = np.ceil(generator.random(12) * 2.0 ** generator.integers(1, 50, 12)) * 2.0**-50
            p = np.concatenate([near, 1 - near, np.floor(generator.random(6) * 2**50) * 2.0**-50])
            p = p[(p > 0) & (p < 1)]
            curve = VoteCurve("gaussian", votes, ratio)
            values, mirrored = curve(p, 1 - p)[0], curve.mirror()(p, 1 - p)[0]
            for point, value, mirror in zip(p.tolist(), values.tolist(), mirrored.tolist(), strict=True):
                for argument, result in ((point, value), (1 - point, 1 - mirror)):
                    low, high = (
                        accuracy_of_vote(normal_probability(end - arb(ratio)), votes)
                        for end in normal_quantile(argument)
                    )
                    assert low - arb(1e-12) < arb(result) < high + arb(1e-12), (votes, ratio, argument)


def test_the_steepest_fall_is_the_largest_derivative_by_the_ratio() -> None:
    p = np.linspace(0.001, 0.999, 4001)
    for noise, votes in [("gaussian", 11), ("gaussian", 1), ("uniform", 31)]:
        falls = [
            np.max((VoteCurve(noise, votes, r)(p, 1 - p)[0] - VoteCurve(noise, votes, r + 1e-4)(p, 1 - p)[0]) / 1e-4)
            for r in np.linspace(0, 2, 21)
        ]
        steepest = VoteCurve(noise, votes, 0.5).steepest
        assert max(falls) <= steepest * (1 + 1e-6)
        assert max(falls) > 0.95 * steepest


def test_a_noise_without_a_shift_is_refused() -> None:
    with pytest.raises(
        CallError, match="population certificates need a noise whose shift is known \\(gaussian, uniform\\)"
    ):
        VoteCurve("laplace", 11, 0.5)(np.array([0.5]), np.array([0.5]))
