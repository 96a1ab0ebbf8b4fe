"""Checks: verdicts by hand, and the label-shift test's size and power."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedcert import Report, estimate
from fedcert.estimation.federation import Federation
from fedcert.estimation.label_shift import label_shift_test
from fedcert.estimation.linear_model import fit
from simulation import World, dirichlet, federation, limited, ordinary, pareto


def verdicts(*arguments: Any, **more: Any) -> dict[str, str]:
    """Name -> verdict of an estimate's checks."""
    return {check.name: check.verdict for check in estimate(*arguments, **more).checks}


def test_thin_classes_are_named(make_report: Callable[..., Report]) -> None:
    reports = [make_report(f"s{index}", [40, 2], [30]) for index in range(5)]
    check = {check.name: check for check in estimate(reports).checks}["thin classes"]
    assert (check.verdict, check.figure) == ("look", 10.0)
    assert check.sentence == "Few test examples, all clients together, of 'class 1' (10): little is known about them."
    assert verdicts(reports, {"class 0": 1})["thin classes"] == "ok"


def test_one_client_that_decides_is_named(make_report: Callable[..., Report]) -> None:
    reports = [make_report(f"s{index}", [10, 10], [15]) for index in range(6)] + [
        make_report("giant", [900, 900], [1500])
    ]
    check = {check.name: check for check in estimate(reports, "uniform", "vw").checks}["influence"]
    assert check.verdict == "look"
    assert "'giant' alone carries 94% of the weight" in check.sentence


@pytest.mark.parametrize(("size", "verdict"), [(1000, "ok"), (100, "look"), (10, "don't rely on it")])
def test_little_information_is_said(make_report: Callable[..., Report], size: int, verdict: str) -> None:
    assert verdicts([make_report("a", [size // 2, size // 2], [size // 2])], "uniform", "vw")["information"] == verdict


def shifted_federation(seed: int, partition: Any, effect: float) -> Federation:
    """Clients whose accuracies differ by a normal effect on the logit scale."""
    generator = np.random.default_rng(seed)
    labels = partition(10, generator)
    labels = labels[labels.sum(axis=1) > 0]
    world = ordinary(10, generator)
    if not effect:
        return federation(labels, world.draw(labels, generator), False)
    logit = np.log((world.accuracy + 1e-9) / (1 - world.accuracy + 1e-9))
    cells = []
    for row in labels:
        moved = 1 / (1 + np.exp(-(logit + effect * generator.normal())))
        cells.append(World(np.minimum.accumulate(moved, axis=1)).draw(row, generator))
    return federation(labels, np.stack(cells), False)


def probability(made: Federation) -> float:
    found = label_shift_test(made, fit(made.evidence)).probability
    assert found is not None
    return found


def test_too_few_clients_are_not_tested(make_report: Callable[..., Report]) -> None:
    assert verdicts([make_report("a", [50, 50], [60]), make_report("b", [60, 40], [60])])["label shift"] == "look"


def test_clients_that_differ_are_noticed() -> None:
    assert probability(shifted_federation(0, dirichlet(0.5), 1.0)) < 0.01
    assert probability(shifted_federation(0, dirichlet(0.5), 0.0)) > 0.03


PARTITIONS = {
    "Dirichlet 0.1": dirichlet(0.1),
    "Dirichlet 1": dirichlet(1.0),
    "Pareto 2": pareto(2.0),
    "class-limited": limited(0.2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTITIONS)
def test_the_size_of_the_label_shift_check_is_at_most_5_percent(name: str) -> None:
    rejected = sum(probability(shifted_federation(seed, PARTITIONS[name], 0.0)) < 0.03 for seed in range(400))
    assert stats.binomtest(rejected, 400, 0.05, alternative="greater").pvalue > 0.001


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTITIONS)
def test_its_power_at_an_effect_of_0_3_is_at_least_75_percent(name: str) -> None:
    rejected = sum(probability(shifted_federation(seed, PARTITIONS[name], 0.3)) < 0.03 for seed in range(80))
    assert rejected / 80 >= 0.75
