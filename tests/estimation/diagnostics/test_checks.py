"""Checks: verdicts by hand, and the label-shift test's size and power."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from factories import World, dirichlet, federation, limited, ordinary, pareto
from fedcert import Report, estimate
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.diagnostics.label_shift import _placed, label_shift_test


def verdicts(*arguments: Any, **more: Any) -> dict[str, str]:
    """Name -> verdict of an estimate's checks."""
    return {check.name: check.verdict for check in estimate(*arguments, **more).checks}


def test_thin_classes_are_named(make_report: Callable[..., Report]) -> None:
    reports = [make_report(f"s{index}", [40, 2], [30]) for index in range(5)]
    check = {check.name: check for check in estimate(reports).checks}["examples per class"]
    assert (check.verdict, check.figure) == ("warning", 10.0)
    assert (
        check.sentence
        == "Fewer than 30 test examples across all clients: 'class 1' (10). Little is known about these classes."
    )
    assert verdicts(reports, {"class 0": 1})["examples per class"] == "ok"


def test_one_client_that_decides_is_named(make_report: Callable[..., Report]) -> None:
    reports = [make_report(f"s{index}", [10, 10], [15]) for index in range(6)] + [
        make_report("giant", [900, 900], [1500])
    ]
    check = {check.name: check for check in estimate(reports, "uniform", "vw").checks}["dominance"]
    assert check.verdict == "warning"
    assert "Largest single influence: 'giant', 94% of the total absolute weight. Check its report." in check.sentence


@pytest.mark.parametrize(("size", "verdict"), [(1000, "ok"), (100, "warning"), (10, "unreliable")])
def test_little_information_is_said(make_report: Callable[..., Report], size: int, verdict: str) -> None:
    assert (
        verdicts([make_report("a", [size // 2, size // 2], [size // 2])], "uniform", "vw")["effective sample size"]
        == verdict
    )


def shifted_federation(
    seed: int, partition: Any, effect: float, classes: int = 10, opens: bool = False, clients: int = 100
) -> ReportedClients:
    """Clients whose accuracies differ by a normal effect on the logit scale."""
    generator = np.random.default_rng(seed)
    labels = partition(classes, generator)[:clients]
    labels = labels[labels.sum(axis=1) > 0]
    world = ordinary(classes, generator)
    if not effect:
        return federation(labels, world.draw(labels, generator), opens)
    logit = np.log((world.accuracy + 1e-9) / (1 - world.accuracy + 1e-9))
    cells = []
    for row in labels:
        moved = 1 / (1 + np.exp(-(logit + effect * generator.normal())))
        cells.append(World(np.minimum.accumulate(moved, axis=1)).draw(row, generator))
    return federation(labels, np.stack(cells), opens)


def probability(made: ReportedClients) -> float:
    found = label_shift_test(made).probability
    assert found is not None
    return found


def test_too_few_clients_are_not_tested(make_report: Callable[..., Report]) -> None:
    assert verdicts([make_report("a", [50, 50], [60]), make_report("b", [60, 40], [60])])["label shift"] == "warning"


@pytest.mark.parametrize("opens", [False, True])
def test_clients_that_differ_are_noticed(opens: bool) -> None:
    for classes in (10, 100):
        assert probability(shifted_federation(0, dirichlet(0.5), 1.0, classes, opens)) < 0.01
        assert probability(shifted_federation(0, dirichlet(0.5), 0.0, classes, opens)) > 0.03
    # Fewer clients than classes are enough.
    assert probability(shifted_federation(0, dirichlet(0.5), 1.0, 100, opens, clients=60)) < 0.03


def test_the_test_is_the_same_for_the_same_seed_and_for_any_order() -> None:
    made = shifted_federation(3, dirichlet(0.5), 0.3)
    assert label_shift_test(made, 7) == label_shift_test(made, 7)
    assert label_shift_test(made, 7).clients == made.count


def test_some_who_tell_counts_per_class_are_tested_both_ways() -> None:
    made = shifted_federation(0, dirichlet(0.5), 1.0, opens=True)
    half = np.arange(made.count) % 2 == 0
    partly = replace(made, has_class_counts=half, class_rows=made.class_rows[half])
    assert probability(partly) < 0.03
    plain = shifted_federation(0, dirichlet(0.5), 0.0, opens=True)
    assert probability(replace(plain, has_class_counts=half, class_rows=plain.class_rows[half])) > 0.03


def banks(
    odd: tuple[float, float, float], seed: int, others: tuple[float, float, float] = (0.82, 0.82, 0.88)
) -> list[Report]:
    """Five banks of 200 examples each, the first with accuracies of its own."""
    generator = np.random.default_rng(seed)
    reports = []
    for name, accuracy in zip("abcde", [odd, *[others] * 4], strict=True):
        labels = generator.multinomial(200, generator.dirichlet([2, 2, 2]))
        cells = generator.binomial(labels, accuracy)
        reports.append(
            Report(
                client=f"bank-{name}", model="demo", smoothing={"sigma": 0.25, "procedure": "fixed"}, radii=[0],
                classes=["fraud", "mule", "theft"], label_counts=labels.tolist(), certified_counts=[int(cells.sum())],
                class_certified_counts=[[int(cell)] for cell in cells],
            )
        )  # fmt: skip
    return reports


def test_a_client_that_is_worse_in_one_class_and_better_in_others_is_noticed_and_named() -> None:
    """A bank that standardised by its own statistics: its classes' differences cancel in its curve."""
    for seed in range(3):
        check = {one.name: one for one in estimate(banks((0.94, 0.94, 0.55), seed)).checks}["label shift"]
        assert check.verdict == "warning"
        assert "Suspicious: 'bank-a' (its 'theft' examples are " in check.sentence
        assert "standard deviations of chance below those of the others). Check its data" in check.sentence  # no other


@pytest.mark.slow
def test_differences_that_cancel_have_power_90_percent_and_size_5_percent() -> None:
    """Both by binomial tests at 0.001."""

    def rejected(odd: tuple[float, float, float], runs: int) -> int:
        return sum(
            label_shift_test(ReportedClients.of(banks(odd, 1000 + run)), seed=run).rejects for run in range(runs)
        )

    assert stats.binomtest(rejected((0.82, 0.82, 0.88), 400), 400, 0.05, alternative="greater").pvalue > 0.001
    assert stats.binomtest(rejected((0.94, 0.94, 0.55), 200), 200, 0.9, alternative="less").pvalue > 0.001


def test_hypergeometric_placement_has_the_right_moments() -> None:
    held = np.array([3, 0, 10, 40])
    drawn = _placed(held, 60, 25, 20_000, np.random.default_rng(0))
    share = 25 / 60
    assert drawn.mean(axis=0) == pytest.approx(np.zeros(4), abs=0.05)
    expected = held * share * (1 - share) * (60 - held) / 59
    assert drawn.var(axis=0) == pytest.approx(expected, rel=0.05, abs=1e-9)


PARTITIONS = {
    "Dirichlet 0.1": dirichlet(0.1),
    "Dirichlet 0.5": dirichlet(0.5),
    "Dirichlet 3": dirichlet(3.0),
    "Pareto 2": pareto(2.0),
    "Pareto 5": pareto(5.0),
    "class-limited 0.2": limited(0.2),
    "class-limited 0.4": limited(0.4),
}
CASES = [(name, 10, opens) for name in PARTITIONS for opens in (False, True)] + [
    (name, 100, opens)
    for name in ("Dirichlet 0.1", "Dirichlet 3", "Pareto 5", "class-limited 0.4")
    for opens in (False, True)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "classes", "opens"), CASES)
def test_the_label_shift_check_has_size_5_percent_and_power_75_percent(name: str, classes: int, opens: bool) -> None:
    """Size at most 5% by a binomial test at 0.001; power at least 75% at client effects of 0.3 on the logit scale."""
    runs = 400 if classes == 10 else 150

    def rejected(effect: float, count: int) -> int:
        made = (shifted_federation(seed, PARTITIONS[name], effect, classes, opens) for seed in range(count))
        return sum(label_shift_test(one, replicates=99).rejects for one in made)

    assert stats.binomtest(rejected(0.0, runs), runs, 0.05, alternative="greater").pvalue > 0.001
    assert rejected(0.3, 40) / 40 >= 0.75
