"""Clients that seem to have certified the same file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedcert import Report, estimate
from fedcert.estimation.diagnostics.same_data import equal_histograms


def test_two_clients_with_one_histogram_are_named(make_report: Callable[..., Report]) -> None:
    sizes = {"a": [120, 33, 71], "b": [40, 95, 12], "c": [18, 77, 140], "d": [120, 33, 71], "e": [66, 61, 30]}
    reports = [make_report(name, counts, [sum(counts) // 2]) for name, counts in sizes.items()]
    (check,) = [check for check in estimate(reports).checks if check.name == "separate data"]
    assert (check.verdict, check.figure) == ("warning", 2.0)
    assert check.sentence == (
        "'a' and 'd' have the same number of examples of every class (120, 33, 71). If they certified the same file, "
        "it counts twice: withdraw all but one."
    )
    assert "separate data" not in {check.name for check in estimate(reports[:3]).checks}


def test_data_that_is_divided_evenly_is_no_mistake() -> None:
    even = np.tile([100.0, 50.0, 25.0], (10, 1))
    assert equal_histograms([f"s{index}" for index in range(10)], even) is None


def test_chance_is_no_mistake() -> None:
    """False alarms are as rare as is said: at most one federation in a hundred, where counts are Poisson."""
    generator = np.random.default_rng(0)
    alarms = 0
    for _ in range(2000):
        counts = generator.poisson(generator.uniform(1, 60, size=3), size=(12, 3)).astype(float)
        alarms += equal_histograms([f"s{index}" for index in range(12)], counts) is not None
    assert alarms <= 37  # of a binomial with 2,000 and 0.01, exceeded with probability 0.0002


def test_a_million_clients_take_seconds() -> None:
    counts = np.random.default_rng(0).integers(0, 30, size=(1_000_000, 10)).astype(float)
    counts[[3, 999_999]] = 1000.0
    count, sentence = equal_histograms([f"s{index}" for index in range(1_000_000)], counts) or (0, "")
    assert count == 2
    assert sentence.startswith("'s3' and 's999999' have the same number of examples of every class (1,000, 1,000,")
