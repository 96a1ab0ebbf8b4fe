"""Numbers at the ends of what a report may say, among ordinary clients: an answer or a sentence, no numpy warning."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from factories import make_report, population_report
from fedcert import FedcertError, FedcertWarning, Report, estimate
from fedcert.estimation.clients.statistics import MixEigenbasis

ROWS = np.array([[1, 2, 3, 6, 12], [2, 2, 4, 6, 6]])


def ordinary(count: int = 4, **changes: Any) -> list[Report]:
    return [population_report(f"site {index}", ROWS + index, **changes) for index in range(count)]


def answered(reports: list[Report], **settings: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FedcertWarning)
        try:
            made = estimate(reports, **settings)
        except FedcertError as error:
            assert "\n" not in str(error)
        else:
            assert np.isfinite(made.certified_accuracy).all()


@pytest.mark.parametrize("sigma", [5e-324, 1e-300, 1e12])
@pytest.mark.parametrize("radii", [[0.0, 0.25], [0.0, 1e308]])
def test_radii_far_out_in_units_of_sigma(sigma: float, radii: list[float]) -> None:
    """A radius of 0.25 over a sigma of 5e-324 is more than a number."""
    answered(ordinary(smoothing={"sigma": sigma}, radii=radii))


@pytest.mark.parametrize("examples", [2**31, 2**52])
@pytest.mark.parametrize("method", ["auto", "vw", "blup", "minimax", "poststratified"])
@pytest.mark.parametrize("interval", ["finite-sample", "asymptotic"])
def test_one_client_beside_which_the_others_are_rounding(examples: int, method: str, interval: str) -> None:
    giant = np.zeros((2, 5), dtype=np.int64)
    giant[:, 4], giant[0, 2] = examples // 2 - 8, 8
    answered([population_report("giant", giant), *ordinary()], method=method, interval=interval)
    others = [make_report(f"site {index}", [12 + index, 8], [10, 4]) for index in range(4)]
    answered([make_report("giant", [examples - 8, 8], [18, 10]), *others], method=method, interval=interval)


def test_weights_of_which_rounding_leaves_nothing_stay_as_they_are() -> None:
    """Along the directions that clients have, these weights add up to 0: there is nothing to scale them by."""
    basis = MixEigenbasis.of(np.diag([1.0, 0.0]), 0.0)
    assert basis.projected(np.array([0.0, 1.0])).tolist() == [0.0, 1.0]
    assert basis.projected(np.array([2.0, 1.0])).tolist() == [1.0, 0.0]
