"""Many targets at once, and the curves of single classes."""

from __future__ import annotations

import numpy as np
import pytest

from factories import dirichlet, reports_of
from fedcert import CallError, EstimationProblem, Sums, estimate, what_if
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.clients.statistics import SufficientStatistics
from fedcert.estimation.intervals.half_widths import hoeffding_deviations
from fedcert.estimation.methods.linear_weights import ridge_rules
from fedcert.estimation.methods.minimax_solver import shortest

MIXES = {"plain": "uniform", "mostly a": {"a": 8, "b": 1, "c": 1}, "only b": {"b": 1}, "listed": [1, 2, 3, 4, 5]}


@pytest.mark.parametrize("options", [{}, {"interval": "asymptotic"}, {"simultaneous": True, "target_examples": 200}])
def test_post_stratified_rows_are_the_estimates_of_their_targets(options: dict[str, object]) -> None:
    reports = reports_of(1, "open")
    rows = what_if(reports, MIXES, **options)  # type: ignore[arg-type]
    assert rows.method == "poststratified"
    for row, (name, mix) in zip(rows.targets, MIXES.items(), strict=True):
        single = estimate(reports, mix, "poststratified", **options)  # type: ignore[arg-type]
        assert row.target.name == name
        assert row.target.distribution == single.target.distribution
        assert row.certified_accuracy == pytest.approx(single.certified_accuracy, abs=1e-12)
        assert row.lower == pytest.approx(single.lower, abs=1e-12)
        assert row.upper == pytest.approx(single.upper, abs=1e-12)
        assert (rows.interval, rows.guarantee) == (single.interval, single.guarantee)


@pytest.mark.parametrize("mode", ["closed", "partly open"])
def test_blup_rows_have_the_estimates_point_and_its_interval(mode: str) -> None:
    reports = reports_of(1, mode)
    rows = what_if(reports, MIXES)
    for row, mix in zip(rows.targets, MIXES.values(), strict=True):
        single = estimate(reports, mix)
        assert row.certified_accuracy == pytest.approx(single.certified_accuracy, abs=1e-9)
        assert row.lower == pytest.approx(single.lower, abs=1e-9)
        assert row.upper == pytest.approx(single.upper, abs=1e-9)


def test_sums_answer_the_same_questions() -> None:
    for mode in ("closed", "open", "partly open"):
        reports = reports_of(2, mode)
        for first, second in zip(
            what_if(reports, MIXES, interval="finite-sample" if mode == "open" else "hoeffding").targets,
            what_if(Sums.of(reports), MIXES).targets,
            strict=True,
        ):
            for name in ("certified_accuracy", "lower", "upper"):
                assert getattr(first, name) == pytest.approx(getattr(second, name), abs=1e-6)


def test_ridge_rules_never_beat_the_exact_weights_and_come_close_with_many_clients() -> None:
    generator = np.random.default_rng(0)
    z = hoeffding_deviations(0.95)
    for classes, most in ((10, 1.001), (60, 2.0)):
        labels = dirichlet(0.5)(classes, generator)
        labels = labels[labels.sum(axis=1) > 0]
        sizes = labels.sum(axis=1, keepdims=True)
        curves = SufficientStatistics.of_clients(labels, np.zeros((len(labels), 1)))
        mixes = generator.dirichlet(np.ones(classes), size=5)
        for mix, rule in zip(mixes, ridge_rules(curves, mixes, z), strict=True):
            weights = labels @ rule.coefficients
            assert weights.sum() == pytest.approx(1, abs=1e-9)
            assert rule.mix(curves) == pytest.approx(weights @ (labels / sizes), abs=1e-9)
            assert rule.sum_squared_weights(curves) == pytest.approx(np.sum(weights**2 / sizes[:, 0]), rel=1e-6)
            half = np.abs(mix - rule.mix(curves)).sum() / 2 + z * np.sqrt(rule.sum_squared_weights(curves))
            best = shortest(curves.labels_labels, mix, z).half_width
            assert best - 1e-9 <= half <= most * best


def test_an_estimate_tells_the_curve_of_each_class() -> None:
    reports = reports_of(3, "open")
    made = estimate(reports, "uniform")
    assert made.by_class is not None
    for index, name in enumerate(made.classes):
        single = estimate(reports, {name: 1}, "poststratified")
        assert made.by_class.certified_accuracy[index] == pytest.approx(single.certified_accuracy, abs=1e-12)
        assert made.by_class.lower[index] == pytest.approx(single.lower, abs=1e-12)
    labels, certified = ReportedClients.of(reports).class_totals or (np.zeros(5), np.zeros((5, 21)))
    assert np.array(made.by_class.certified_accuracy) == pytest.approx(certified / labels[:, None], abs=1e-12)
    assert estimate(reports_of(3, "closed"), "uniform", "ga").by_class is None
    closed = estimate(reports_of(3, "closed"), "uniform").by_class
    assert closed is not None
    assert np.array(closed.certified_accuracy) == pytest.approx(certified / labels[:, None], abs=0.15)


def test_a_class_that_nobody_holds_has_the_whole_interval() -> None:
    wider = [
        type(report)(
            **{
                **{name: getattr(report, name) for name in type(report).field_types()},
                "classes": (*report.classes, "unseen"),
                "label_counts": (*report.label_counts, 0),
                "class_certified_counts": (*(report.class_certified_counts or ()), (0,) * 21),
            }
        )
        for report in reports_of(3, "open")
    ]
    row = what_if(wider, [{"unseen": 1}]).targets[0]
    assert (row.certified_accuracy[0], row.lower[0], row.upper[0]) == (0.5, 0.0, 1.0)


def test_wrong_questions() -> None:
    reports = reports_of(1, "closed")
    with pytest.raises(CallError, match="there are no targets; give at least one"):
        what_if(reports, [])
    with pytest.raises(
        CallError, match="targets must be a list of targets or a mapping from names to them, but is 'uni"
    ):
        what_if(reports, "uniform")
    with pytest.raises(CallError, match="method must be auto, poststratified or blup for a what-if, but is 'ga'"):
        what_if(reports, ["uniform"], "ga")
    with pytest.raises(EstimationProblem, match="no report has counts per class"):
        what_if(reports, ["uniform"], "poststratified")
    with pytest.raises(CallError, match="unknown class 'z' in the target; known classes: 'a', 'b'"):
        what_if(reports, [{"z": 1}])
