"""Binomial bounds against scipy, closed forms, and their guarantee computed exactly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fedcert import CallError
from fedcert.certification.bounds import error_upper_bound, lower_bound
from fedcert.certification.perturbation import Gaussian


@pytest.mark.parametrize("failure_probability", [1e-9, 0.001, 0.05, 0.5])
@pytest.mark.parametrize("trials", [1, 2, 17, 1000])
def test_the_bound_is_scipys(trials: int, failure_probability: float) -> None:
    successes = np.unique(np.linspace(0, trials, 12).astype(int))
    expected = [
        stats.binomtest(int(k), trials, alternative="greater")
        .proportion_ci(1 - failure_probability, method="exact")
        .low
        for k in successes
    ]
    assert lower_bound(successes, trials, failure_probability) == pytest.approx(expected, rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("failure_probability", [0.001, 0.05])
@pytest.mark.parametrize("trials", [1, 10, 100, 1000])
def test_the_bound_exceeds_p_no_more_often_than_it_may(trials: int, failure_probability: float) -> None:
    """Exactly: the probability of the outcomes whose bound is above p, for a fine grid of p."""
    bounds = lower_bound(np.arange(trials + 1), trials, failure_probability)
    for p in np.concatenate([np.linspace(0.001, 0.999, 333), bounds[1:] - 1e-12]):
        wrong = np.flatnonzero(bounds > p)
        chance = stats.binom.sf(wrong[0] - 1, trials, p) if len(wrong) else 0.0
        assert chance <= failure_probability * (1 + 1e-9)


def test_the_two_tails_agree() -> None:
    k = np.arange(1001)
    assert lower_bound(k, 1000, 0.001) + error_upper_bound(k, 1000, 0.001) == pytest.approx(np.ones(1001), abs=1e-12)


def test_the_tail_keeps_its_digits_where_all_samples_agree() -> None:
    trials, failure_probability = 10**9, 0.001
    assert float(error_upper_bound(trials, trials, failure_probability)) == pytest.approx(
        -np.log(0.001) / trials, rel=1e-8
    )
    # The neighbour has no closed form; it must be continuous with the end: (1-p)^n + n p (1-p)^(n-1) ~ e^-x (1+x).
    x = float(error_upper_bound(trials - 1, trials, failure_probability)) * trials
    assert np.exp(-x) * (1 + x) == pytest.approx(failure_probability, rel=1e-6)


def test_no_success_certifies_nothing() -> None:
    assert float(lower_bound(0, 5, 0.05)) == 0.0
    assert float(error_upper_bound(0, 5, 0.05)) == 1.0


@pytest.mark.parametrize(("successes", "trials"), [(-1, 5), (6, 5), (0, 0), (2.5, 5)])
def test_impossible_counts_are_refused(successes: float, trials: int) -> None:
    with pytest.raises(CallError, match="successes must be whole numbers from 0 to trials, and trials at least 1"):
        lower_bound(successes, trials, 0.05)


@pytest.mark.parametrize("failure_probability", [0.0, 1.0, -0.1, np.nan])
def test_impossible_probabilities_are_refused(failure_probability: float) -> None:
    with pytest.raises(CallError, match="failure_probability must be above 0 and below 1"):
        error_upper_bound(1, 2, failure_probability)


def test_the_radius_is_the_normal_quantile_and_zero_where_half_is_not_reached() -> None:
    miss = np.array([1e-300, 1e-9, 0.1, 0.4999, 0.5, 0.7, 1.0])
    radius = Gaussian(0.25).radius(miss)
    assert radius[:4] == pytest.approx(0.25 * stats.norm.isf(miss[:4]))
    assert np.all(radius[:4] > 0)
    assert np.all(radius[4:] == 0)
