"""Designs, proven again by a second computation: cells that cover [0, 1], in ball arithmetic, by other formulas."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb

from balls import is_between, kept, polynomial
from fedcert.population.design import make_design, unbiased_scores
from fedcert.population.tables import designs_for
from fedcert.population.vote import VoteCurve


@pytest.mark.parametrize(("n", "votes", "ratio"), [(16, 11, 1.8), (16, 31, 2.4), (32, 11, 2.0)])
def test_shipped_designs_hold_in_balls(n: int, votes: int, ratio: float) -> None:
    (design,) = designs_for("gaussian", n, votes, [ratio])
    assert is_between(design.lower, design.upper, votes, ratio, "gaussian")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "votes", "ratio"),
    [
        *[(16, 1, 0.4), (32, 1, 2.0), (64, 1, 2.4)],
        *[(16, 31, 0.0), (32, 11, 0.4), (32, 31, 1.2), (64, 11, 2.4), (64, 31, 2.0), (100, 11, 2.4), (100, 31, 2.4)],
    ],
)
def test_more_shipped_designs_hold_in_balls(n: int, votes: int, ratio: float) -> None:
    """Each in up to half a minute: with one vote the curve is nearly a polynomial, and the room is small."""
    (design,) = designs_for("gaussian", n, votes, [ratio])
    assert is_between(design.lower, design.upper, votes, ratio, "gaussian")


def test_designs_for_uniform_noise_and_moved_ones_hold_in_balls() -> None:
    design = make_design(VoteCurve("uniform", 5, 0.9), 12)
    assert is_between(design.lower, design.upper, 5, 0.9, "uniform")
    for ratio in (2.3 + 4e-7, 2.3 - 4e-7):
        (design,) = designs_for("gaussian", 16, 31, [ratio])
        assert is_between(design.lower, design.upper, 31, ratio, "gaussian")


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_balls_find_a_design_that_does_not_hold(side: str) -> None:
    (design,) = designs_for("gaussian", 16, 11, [1.0])
    scores = {"lower": design.lower.copy(), "upper": design.upper.copy()}
    place, change = (0, 1e-4) if side == "lower" else (16, -1e-4)
    scores[side][place] += change
    assert not is_between(scores["lower"], scores["upper"], 11, 1.0, "gaussian")


@pytest.mark.parametrize(("n", "votes"), [(16, 11), (32, 31), (100, 31), (400, 101), (5, 5)])
def test_unbiased_scores_have_the_votes_accuracy_to_the_last_digit(n: int, votes: int) -> None:
    scores = [arb(float(score)) for score in unbiased_scores(n, votes)]
    for p in np.linspace(0.01, 0.99, 15).tolist():
        error = polynomial(scores, arb(p)) - kept(p, votes, 0.0, "uniform")[0]
        assert abs(float(error)) < 2.0**-53
