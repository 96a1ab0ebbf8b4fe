"""How much one site could decide in a private sum, against a linear programme; and what the check says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from factories import make_report
from fedcert import Sums, estimate
from fedcert.estimation.diagnostics.site_sizes import largest_movement


@pytest.mark.parametrize("seed", range(20))
def test_the_movement_is_that_of_a_linear_programme(seed: int) -> None:
    generator = np.random.default_rng(seed)
    labels = generator.integers(1, 200, 6).astype(float)
    mix, most = generator.dirichlet(np.ones(6)), float(generator.integers(1, 600))
    solved = optimize.linprog(
        -mix / labels, A_ub=np.ones((1, 6)), b_ub=[most], bounds=[(0, count) for count in labels], method="highs"
    )
    assert largest_movement(labels, mix, most) == pytest.approx(-solved.fun, abs=1e-9)


@pytest.mark.parametrize(
    ("most", "verdict", "words"),
    [
        (120, "ok", "The 5 sites have 100 examples each on average, and the request allows 120. A report with false"),
        (100_000, "warning", "can have moved the estimate by up to 100%; a request with a closer bound"),
        (99, "unreliable", "some site gave false numbers, and which one cannot be known"),
    ],
)
def test_what_the_check_says(most: int, verdict: str, words: str) -> None:
    sums = Sums.of([make_report(f"site-{number}", [60, 40], [80, 40, 10]) for number in range(5)])
    assert "examples per site" not in {check.name for check in estimate(sums).checks}
    made = estimate(replace(sums, most_examples=most))
    check = next(check for check in made.checks if check.name == "examples per site")
    assert check.verdict == verdict
    assert words in check.sentence
