"""Estimates from sums alone: those from the reports, without a client's own numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from factories import reports_of
from fedcert import CannotCombine, EstimationProblem, Report, Sums, estimate
from fedcert.estimation.clients import Clients
from fedcert.estimation.clients.aggregated import AggregatedClients
from fedcert.estimation.clients.reported import ReportedClients

MODES = ("closed", "open", "partly open")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["vw", "blup", "minimax", "poststratified", "auto"])
@pytest.mark.parametrize("options", [{}, {"simultaneous": True, "target_examples": 500}])
def test_sums_give_what_the_reports_give(mode: str, method: str, options: dict[str, Any]) -> None:
    """But for the interval of curves: sums do not tell single cells, so that it is Hoeffding's."""
    reports = reports_of(1, mode)
    target = {"a": 5, "b": 3, "c": 1, "d": 1}
    if method == "poststratified" and mode == "closed":
        with pytest.raises(EstimationProblem, match="no report has counts per class"):
            estimate(Sums.of(reports), target, method)
        return
    cells_known = method == "vw" or (mode == "open" and method != "minimax")
    whole = estimate(reports, target, method, interval="finite-sample" if cells_known else "hoeffding", **options)
    parts = [Sums.of(reports[:20]), Sums.of(reports[20:45]), *reports[45:]]
    summed = estimate(parts, target, method, **options)
    for name in ("certified_accuracy", "lower", "upper"):
        assert getattr(summed, name) == pytest.approx(getattr(whole, name), abs=1e-6)  # moments are whole 2^-24ths
    assert summed.weights is None
    assert summed.weights_note is not None
    assert (summed.clients, summed.examples) == (whole.clients, whole.examples)
    assert summed.interval == whole.interval
    assert summed.guarantee == whole.guarantee
    if whole.mismatch is not None:
        assert summed.mismatch is not None
        assert summed.mismatch.tv == pytest.approx(whole.mismatch.tv, abs=1e-6)
        assert summed.effective_examples == pytest.approx(whole.effective_examples, rel=1e-6)
    checks = {check.name: check for check in summed.checks}
    assert "cannot be tested from sums" in checks["label shift"].sentence


@pytest.mark.parametrize("mode", MODES)
def test_asymptotic_intervals_from_sums_are_no_shorter(mode: str) -> None:
    reports = reports_of(2, mode)
    for method in ("vw", "blup", "minimax"):
        for simultaneous in (False, True):
            whole = estimate(reports, "uniform", method, interval="asymptotic", simultaneous=simultaneous)
            summed = estimate(Sums.of(reports), "uniform", method, interval="asymptotic", simultaneous=simultaneous)
            assert np.all(np.array(summed.upper) >= np.array(whole.upper) - 1e-6)
            assert np.all(np.array(summed.lower) <= np.array(whole.lower) + 1e-6)
            assert np.all(np.array(summed.upper) - np.array(summed.lower) < 0.35)


def test_a_pool_by_reports_and_by_sums_say_the_same() -> None:
    for mode in MODES:
        reports = reports_of(3, mode)
        federation: Clients = ReportedClients.of(reports)
        summed: Clients = AggregatedClients(Sums.of(reports))
        for name in (
            "classes",
            "radii",
            "model",
            "smoothing",
            "same_settings",
            "max_radius_range",
            "count",
            "n_with_class_counts",
            "largest_group",
        ):
            assert getattr(federation, name) == getattr(summed, name), name
        for name in ("labels", "certified", "largest_design_effects"):
            assert getattr(federation, name) == pytest.approx(getattr(summed, name))
        for name in ("overall_statistics", "statistics"):
            first, second = getattr(federation, name), getattr(summed, name)
            assert first.clients == second.clients
            for part in ("labels", "certified", "labels_labels", "labels_certified", "certified_squared"):
                assert getattr(first, part) == pytest.approx(getattr(second, part), abs=1e-4, rel=1e-9)


def test_methods_that_need_single_reports_say_so() -> None:
    sums = Sums.of(reports_of(1, "closed"))
    for method in ("ap", "ga"):
        with pytest.raises(
            EstimationProblem, match=f"the method '{method}' needs the clients' own reports, but sums are"
        ):
            estimate(sums, "uniform", method)
    with pytest.raises(EstimationProblem, match="non-negative weights need the clients' reports"):
        estimate(sums, "uniform", "minimax", non_negative=True)


def test_totals_without_moments_allow_vw_and_post_stratification() -> None:
    sums = Sums.of(reports_of(1, "open"))
    bare = Sums.from_json(
        {**sums.to_json(), "moments": None, "by_class": {**sums.to_json()["by_class"], "moments": None}}
    )
    for method in ("vw", "poststratified", "auto"):
        assert estimate(bare, "uniform", method).certified_accuracy == pytest.approx(
            estimate(sums, "uniform", method).certified_accuracy
        )
    for method in ("minimax", "blup"):
        with pytest.raises(
            EstimationProblem, match="these sums have totals but no moments, which BLUP and minimax need"
        ):
            estimate(Sums.from_json({**bare.to_json(), "by_class": None}), "uniform", method)


def test_sums_without_examples_and_of_other_models_are_refused() -> None:
    reports = reports_of(1, "closed")
    empty = Sums.of(
        [Report(client="x", **{**_parts(reports[0]), "label_counts": [0] * 5, "certified_counts": [0] * 21})]
    )
    with pytest.raises(EstimationProblem, match="no client has any test example"):
        estimate(empty)
    other = Sums.of([Report(client="x", **{**_parts(reports[0]), "model": "other"})])
    with pytest.raises(CannotCombine, match="has model 'other' where the rest has 'simulated'"):
        estimate([other, *reports])


def _parts(report: Report) -> dict[str, object]:
    return {name: getattr(report, name) for name in Report.field_types() if name != "client"}


def test_design_effects_and_settings_travel_with_the_sums() -> None:
    plain, grouped = reports_of(4, "open"), reports_of(4, "open", design_effect=[2.0] * 21)
    wide = [
        Report(**{**_parts(report), "client": report.client, "largest_group": 5 if report.examples > 5 else None})
        for report in grouped
    ]
    for method in ("vw", "minimax", "poststratified"):
        first = estimate(wide, "uniform", method, interval="hoeffding")
        second = estimate(Sums.of(wide), "uniform", method, interval="hoeffding")
        # Where classes are weighed, a report's largest group counts for its own examples; of sums, everybody's does.
        assert np.all(np.array(second.upper) >= np.array(first.upper) - 1e-6)
        assert method == "poststratified" or second.upper == pytest.approx(first.upper, abs=1e-6)
        assert np.all(np.array(second.upper) >= np.array(estimate(plain, "uniform", method).upper))
    few = [
        Report(
            **{
                **_parts(report),
                "client": f"y{index}",
                "smoothing": {"sigma": 0.5, "n": 500},
                "certified_counts": [0] * 21,
                "class_certified_counts": None,
            }
        )
        for index, report in enumerate(plain)
    ]
    mixed = Sums.of(plain).merged(Sums.of(few))
    assert not mixed.alike
    assert mixed.smoothing.n == 500
    assert "None: the clients certified with different samples" in estimate(mixed).guarantee
