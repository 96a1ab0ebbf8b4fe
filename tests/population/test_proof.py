"""Proofs by subdivision: what is true and has room is proven, what is false never is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx

from balls import halved
from fedcert.population.bernstein import binomial_probabilities, halves
from fedcert.population.proof import LARGEST_SCORE, MOST_SCORES, ROUNDING, excess_above


def identity(p: np.ndarray, complement: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return p, complement


def test_what_is_below_is_proven() -> None:
    assert excess_above(np.linspace(0, 1, 9) - 1e-5, identity) == 0
    assert excess_above(np.full(5, -1e-9), identity) == 0


def test_what_is_above_is_never_proven() -> None:
    assert excess_above(np.linspace(0, 1, 9) + 1e-9, identity) > 0
    generator = np.random.default_rng(5)
    p = np.linspace(0, 1, 2001)
    above = 0
    for _ in range(200):
        scores = np.sort(generator.uniform(-0.2, 1, size=8)) - generator.uniform(0, 0.2)
        over = np.max(binomial_probabilities(7, p, 1 - p) @ scores - p)
        above += over > 0
        assert (excess_above(scores, identity) > 0) == (over > 0)
    assert 20 < above < 180


def test_what_touches_is_not_proven() -> None:
    """An identity has no room for rounding errors."""
    assert 0 < excess_above(np.linspace(0, 1, 9), identity) <= 2 * ROUNDING


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -2.5])
def test_scores_that_are_no_numbers_or_far_away_are_not_proven(wrong: float) -> None:
    scores = np.full(5, -0.1)
    scores[2] = wrong
    assert excess_above(scores, identity) == math.inf


def test_too_many_scores_are_not_proven() -> None:
    assert excess_above(np.full(MOST_SCORES, -0.1), identity) == 0
    assert excess_above(np.full(MOST_SCORES + 1, -0.1), identity) == math.inf


def test_a_curve_that_is_no_number_proves_nothing() -> None:
    assert excess_above(np.full(3, -0.1), lambda p, complement: (p * math.nan, p)) > 0


def test_a_proof_that_would_take_too_long_is_none() -> None:
    def steps(p: np.ndarray, complement: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return p + 2e-10, complement

    assert excess_above(np.linspace(0, 1, 3), steps) == ROUNDING


@pytest.mark.parametrize("n", [32, 100, 400])
def test_fifty_halvings_round_by_less_than_the_proof_allows_for(n: int) -> None:
    """Against ball arithmetic on the same way down, for scores of both signs and of the largest size."""
    precision, ctx.prec = ctx.prec, 500
    try:
        generator = np.random.default_rng(n)
        floats = generator.uniform(-LARGEST_SCORE, LARGEST_SCORE, size=(1, n + 1))
        exact = [arb(float(score)) for score in floats[0]]
        halvings = 50
        for turn in generator.random(halvings) < 0.5:
            floats = halves(floats)[:, int(turn)]
            exact = halved(exact)[int(turn)]
        error = max(abs(float(arb(float(score)) - ball)) for score, ball in zip(floats[0], exact, strict=True))
        assert error < halvings * (2 * n + 3) * 2.0**-53 * LARGEST_SCORE < ROUNDING / 4
    finally:
        ctx.prec = precision
