"""Intervals of single classes: each by itself, and all at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

from factories import RADII, drawn_reports, federation
from fedcert import Estimate, estimate
from fedcert.estimation.methods.registry import METHODS
from fedcert.estimation.mix_evaluator import MixEvaluator
from fedcert.estimation.prepared import PreparedClients
from fedcert.estimation.settings import Settings

CLASSES, EXAMPLES, RUNS = 100, 50, 60


def coverage(interval: str, all_classes: bool) -> tuple[int, int]:
    """How often the class of the lowest estimate is covered, and all classes at once, of equal accuracies."""
    generator = np.random.default_rng(0)
    settings = Settings(interval=interval, all_classes=all_classes)
    labels = np.full((1, CLASSES), EXAMPLES)
    made = federation(labels, np.zeros((1, CLASSES, len(RADII)), int), True)
    lowest = everywhere = 0
    for _ in range(RUNS):
        cells = generator.binomial(EXAMPLES, 0.5, size=(1, CLASSES, 1))
        clients = replace(made, radii=(0.0,), certified_counts=cells.sum(axis=1).astype(float), class_rows=cells)
        prepared = PreparedClients.of(clients, settings)
        prepared.__dict__["shift_test"] = None  # one client has no test, and its bootstrap takes most of the time
        results = MixEvaluator(prepared, METHODS["poststratified"]).by_class()
        inside = [bool(each.interval and each.interval.lower[0] <= 0.5 <= each.interval.upper[0]) for each in results]
        lowest += inside[int(np.argmin([each.curve[0] for each in results]))]
        everywhere += all(inside)
    return lowest, everywhere


@pytest.mark.slow
@pytest.mark.parametrize(("interval", "nominal"), [("finite-sample", 0.95), ("asymptotic", 0.94)])
def test_all_classes_at_once_cover_the_weakest_too(interval: str, nominal: float) -> None:
    for covered in coverage(interval, True):
        assert stats.binomtest(covered, RUNS, nominal, alternative="less").pvalue > 0.001
    lowest, everywhere = coverage(interval, False)
    assert stats.binomtest(lowest, RUNS, nominal, alternative="less").pvalue < 0.001
    assert everywhere <= lowest


@pytest.mark.parametrize("simultaneous", [False, True])
def test_intervals_of_all_classes_have_a_closed_form(simultaneous: bool) -> None:
    reports = drawn_reports(tells=1.0, classes=5, radii=4, examples=2000, seed=1)
    labels = np.sum([report.label_counts for report in reports], axis=0)
    rows = np.sum([report.class_certified_counts for report in reports], axis=0)
    result, exact = (
        estimate(reports, method="poststratified", interval=kind, simultaneous=simultaneous, all_classes=True)
        for kind in ("hoeffding", "finite-sample")
    )
    assert result.by_class is not None
    assert exact.by_class is not None
    at_once = 4 if simultaneous else 1
    half = np.sqrt(np.log(2 * 5 * at_once / 0.05) / 2 / labels)[:, None]
    upper = np.clip(rows / labels[:, None] + half, 0, 1)
    assert np.array(result.by_class.upper) == pytest.approx(np.minimum.accumulate(upper, axis=1))
    # Examples of one class weigh the same: the finite-sample interval is Clopper and Pearson's, but for one failure.
    tail = 0.05 / (2 * 5 * at_once)
    pearson = special.betaincinv(rows + 1, np.maximum(labels[:, None] - rows, 1e-9), 1 - tail)
    many = labels[:, None] - rows > 1
    upper = np.where(many, pearson, 1.0)
    assert np.array(exact.by_class.upper)[many] == pytest.approx(np.minimum.accumulate(upper, axis=1)[many])


def test_all_classes_leave_the_estimate_as_it_is_and_are_recorded() -> None:
    reports = drawn_reports(tells=1.0, classes=5, radii=4, seed=1)
    each, together = (estimate(reports, all_classes=wanted) for wanted in (False, True))
    assert (each.lower, each.upper, each.confidence) == (together.lower, together.upper, together.confidence)
    assert each.by_class is not None
    assert together.by_class is not None
    assert np.all(np.array(together.by_class.upper) >= np.array(each.by_class.upper))
    assert "scope" not in each.to_json()["by_class"]
    assert "all_classes" not in each.settings
    assert together.to_json()["by_class"]["scope"] == "all classes at once"
    assert together.settings["all_classes"] is True
    assert Estimate.from_json(together.to_json()) == together
