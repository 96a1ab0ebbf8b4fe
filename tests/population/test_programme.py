"""The programmes of designs, against other solvers."""

from __future__ import annotations

import cvxpy
import numpy as np
import pytest
from scipy.optimize import linprog

from fedcert.population import design as designs
from fedcert.population.design import make_design, prior_mean, prior_moments
from fedcert.population.programme import minimise
from fedcert.population.tables import designs_for
from fedcert.population.vote import VoteCurve


@pytest.mark.parametrize(
    ("noise", "n", "votes", "ratio"),
    [("gaussian", 20, 11, 0.4), ("gaussian", 20, 11, 2.0), ("gaussian", 32, 11, 1.2), ("uniform", 16, 3, 1.0)],
)
def test_the_first_step_finds_the_linear_optimum(noise: str, n: int, votes: int, ratio: float) -> None:
    curve = VoteCurve(noise, votes, ratio)
    rows, most = designs._constraints(curve, n)
    first, second = prior_moments(n)
    ours = minimise(np.zeros_like(second), -first, rows, most, np.zeros(n + 1))
    theirs = linprog(-first, A_ub=rows, b_ub=most, bounds=[(None, None)] * (n + 1), method="highs")
    # HiGHS meets its constraints to 1e-7.
    assert first @ ours == pytest.approx(-theirs.fun, abs=3e-7)
    # What is given up for less variance, and a rounding error, is all that the design loses of it.
    given_up = -theirs.fun - first @ make_design(curve, n).lower
    assert -3e-7 < given_up < 1.01 * designs._GIVEN_UP


@pytest.mark.parametrize("ratio", [0.8, 1.6])
def test_the_second_step_is_the_least_variance(ratio: float) -> None:
    n = 32
    rows, most = designs._constraints(VoteCurve("gaussian", 11, ratio), n)
    first, second = prior_moments(n)
    best = minimise(np.zeros_like(second), -first, rows, most, np.zeros(n + 1))
    spread = np.diag(first) - second
    nearly, least = np.vstack([rows, -first]), np.append(most, designs._GIVEN_UP - float(first @ best))
    ours = minimise(2 * spread, np.zeros(n + 1), nearly, least, best)
    variable = cvxpy.Variable(n + 1)
    objective = cvxpy.Minimize(cvxpy.quad_form(variable, cvxpy.psd_wrap(spread)))
    problem = cvxpy.Problem(objective, [nearly @ variable <= least])
    problem.solve(solver=cvxpy.CLARABEL)
    assert ours @ spread @ ours == pytest.approx(problem.value, abs=2e-6)
    assert np.max(nearly @ ours - least) < 1e-9
    # It is worth it: the vertices of a linear programme oscillate.
    assert ours @ spread @ ours < 0.8 * (best @ spread @ best)


def test_a_programme_that_cannot_be_solved_still_gives_numbers() -> None:
    rows, most = np.array([[1.0], [-1.0]]), np.array([-1.0, -1.0])  # x <= -1 and x >= 1
    assert np.isfinite(minimise(np.zeros((1, 1)), np.ones(1), rows, most, np.zeros(1))).all()
    none = np.zeros((2, 1))
    assert np.isfinite(minimise(np.zeros((1, 1)), np.ones(1), none, most, np.zeros(1))).all()  # unbounded


@pytest.mark.parametrize(("n", "until", "most"), [(16, 1.0, 0.25), (32, 1.6, 0.25), (64, 2.0, 0.25), (100, 2.4, 0.25)])
def test_how_far_passes_reach(n: int, until: float, most: float) -> None:
    """In points, over the designs' own mixture, with 11 votes: 0.03 of it is given up for less variance."""
    ratios = np.arange(1, round(until * 10) + 1) / 10
    losses = [design.loss for design in designs_for("gaussian", n, 11, ratios.tolist())]
    assert min(losses) > 0.9 * designs._GIVEN_UP
    assert 100 * max(losses) < most


def test_the_mean_over_the_mixture_is_the_scores_own() -> None:
    """At radius 0 scores are unbiased: two ways to compute the same mean."""
    curve = VoteCurve("gaussian", 11, 0.0)
    assert prior_mean(curve) == pytest.approx(prior_moments(32)[0] @ make_design(curve, 32).lower, abs=1e-6)
