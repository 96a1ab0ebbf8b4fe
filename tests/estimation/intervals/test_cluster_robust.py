"""Intervals for clients that differ: used when label shift is rejected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from factories import RADII, World, dirichlet, federation, limited, ordinary, pareto, reports_of
from fedcert import Report, estimate, what_if
from fedcert.estimation.intervals.cluster_robust import effects_of
from fedcert.estimation.intervals.half_widths import folded_quantile
from fedcert.estimation.intervals.statement import make_interval
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.settings import Settings


def differing(labels: np.ndarray, accuracy: np.ndarray, effect: float, generator: np.random.Generator) -> np.ndarray:
    """Certified counts per client and class, each client moved by a normal effect of its own on the logit scale."""
    logit = special.logit(np.clip(accuracy, 1e-9, 1 - 1e-9))
    return np.stack([
        World(np.minimum.accumulate(special.expit(logit + effect * generator.normal()), axis=1)).draw(row, generator)
        for row in labels
    ])  # fmt: skip


def average(accuracy: np.ndarray, effect: float) -> np.ndarray:
    """The classes' accuracies on average over such clients, by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    logit = special.logit(np.clip(accuracy, 1e-9, 1 - 1e-9))
    moved = np.minimum.accumulate(special.expit(logit[..., None] + effect * nodes), axis=1)
    return np.asarray(moved @ weights / weights.sum())


def reports_that_differ(seed: int, mode: str, effect: float = 1.0) -> list[Report]:
    """Made-up reports whose clients differ."""
    generator = np.random.default_rng(seed)
    reports = reports_of(seed, mode)
    labels = np.array([report.label_counts for report in reports])
    cells = differing(labels, ordinary(5, generator).accuracy, effect, generator)
    return [
        Report(
            **{
                **{name: getattr(report, name) for name in Report.field_types()},
                "certified_counts": cell.sum(axis=0),
                "class_certified_counts": cell if report.class_certified_counts is not None else None,
            }
        )
        for report, cell in zip(reports, cells, strict=True)
    ]


@pytest.mark.parametrize("mode", ["closed", "open", "partly open"])
@pytest.mark.parametrize("method", ["auto", "blup", "minimax", "vw", "ga"])
@pytest.mark.parametrize("options", [{}, {"interval": "asymptotic", "simultaneous": True, "target_examples": 500}])
def test_where_clients_differ_the_interval_allows_for_it(mode: str, method: str, options: dict[str, Any]) -> None:
    made = estimate(reports_that_differ(1, mode), "uniform", method, **options)
    assert made.interval is not None
    assert made.interval.kind == "cluster-robust"
    assert made.guarantee.startswith(
        "Approximate: the clients differ by more than their class mixes and chance explain"
    )
    check = {check.name: check for check in made.checks}["label shift"]
    assert check.verdict == "warning"
    assert "The interval allows for clients that differ at random" in check.sentence
    plain = estimate(reports_of(1, mode), "uniform", method, **options)
    assert plain.interval is not None
    assert plain.interval.kind == options.get("interval", "finite-sample")
    if method not in ("vw", "ga") and not options:  # elsewhere a mismatch or the target set is most of the interval
        assert np.mean(np.subtract(made.upper, made.lower)) > 1.2 * np.mean(np.subtract(plain.upper, plain.lower))
    assert np.all(np.array(made.lower) <= made.certified_accuracy)
    assert np.all(np.array(made.upper) >= made.certified_accuracy)


@pytest.mark.parametrize("mode", ["closed", "open", "partly open"])
def test_what_ifs_and_classes_allow_for_it_too(mode: str) -> None:
    reports = reports_that_differ(1, mode)
    rows = what_if(reports, {"plain": "uniform", "only b": {"b": 1}})
    assert rows.interval.kind == "cluster-robust"
    assert {check.name: check.verdict for check in rows.checks}["label shift"] == "warning"
    made = estimate(reports, "uniform")
    assert made.by_class is not None
    assert rows.targets[1].upper == pytest.approx(made.by_class.upper[1], abs=1e-9)
    narrow = what_if(reports_of(1, mode), ["uniform"]).targets[0]
    wide = rows.targets[0]
    assert np.mean(np.subtract(wide.upper, wide.lower)) > 1.2 * np.mean(np.subtract(narrow.upper, narrow.lower))


def test_the_folded_student_quantile_is_one() -> None:
    for freedom in (2.0, 7.5, 1e9):
        for shift in (0.0, 0.4, 3.0):
            found = folded_quantile(np.array([shift]), 0.95, np.array([freedom]))[0]
            inside = stats.t.cdf(found - shift, freedom) - stats.t.cdf(-found - shift, freedom)
            assert inside == pytest.approx(0.95, abs=1e-9)


def test_how_much_clients_differ_is_found() -> None:
    for opens in (False, True):
        found = []
        for seed in range(10):
            generator = np.random.default_rng(seed)
            labels = dirichlet(1.0)(5, generator) * 5
            cells = differing(labels, ordinary(5, generator).accuracy, 0.5, generator)
            found.append(np.sqrt(effects_of(federation(labels, cells, opens), opens).variance[4]))  # type: ignore[attr-defined]
        assert np.mean(found) == pytest.approx(0.5, abs=0.07)


CASES: dict[str, tuple[Any, int, float]] = {
    "100 clients, Dirichlet 0.5, 0.3": (dirichlet(0.5), 100, 0.3),
    "100 clients, class-limited, 0.6": (limited(0.4), 100, 0.6),
    "30 clients, Dirichlet 0.1, 0.6": (dirichlet(0.1), 30, 0.6),
    "30 clients, Pareto 3, 0.3": (pareto(3.0), 30, 0.3),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["minimax", "vw", "poststratified"])
@pytest.mark.parametrize("name", CASES)
def test_cluster_robust_intervals_cover_where_others_fail(name: str, method: str) -> None:
    """300 replications, effects drawn anew in each; a binomial test at 0.001 against 93%."""
    partition, clients, effect = CASES[name]
    covered = plain = 0
    runs = 300
    settings = Settings(interval="asymptotic")
    for seed in range(runs):
        generator = np.random.default_rng(seed)
        labels = partition(10, generator)[:clients]
        labels = labels[labels.sum(axis=1) > 0]
        accuracy = ordinary(10, generator).accuracy
        made = federation(labels, differing(labels, accuracy, effect, generator), method == "poststratified")
        pool = labels.sum(axis=0) / labels.sum()
        target = pool if method == "vw" else generator.dirichlet(np.ones(10))
        truth = (target @ average(accuracy, effect))[4]
        uncertainty = estimator(method)(made, target, settings).uncertainty
        assert uncertainty is not None
        wide = make_interval(uncertainty, target, made, settings, effects_of(made, method == "poststratified"))
        narrow = make_interval(uncertainty, target, made, settings)
        covered += int(wide.lower[4] <= truth <= wide.upper[4])
        plain += int(narrow.lower[4] <= truth <= narrow.upper[4])
    assert stats.binomtest(covered, runs, 0.93, alternative="less").pvalue > 0.001, covered / runs
    assert plain < 0.9 * runs
    assert len(RADII) == 21
