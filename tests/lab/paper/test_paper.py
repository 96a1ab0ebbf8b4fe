"""The paper's tables: its figures as printed, and estimators judged on a trace."""

from __future__ import annotations

import numpy as np
import pytest

from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.compare import compare
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.settings import Settings
from fedcert.estimation.target import distribution_of
from fedcert.lab.experiment import Experiment
from fedcert.lab.paper.evaluation import evaluate
from fedcert.lab.paper.published import TABLE_1, TABLE_2, TABLE_4, TABLES, settings
from fedcert.lab.populations.partition import partition_of
from fedcert.lab.traces.federations import draw_federation
from fedcert.lab.traces.trace import Examples, Trace


def made_up(classes: int = 10, partition: str = "dirichlet:0.3", size: int = 4000) -> Trace:
    """A trace whose radii differ from class to class, the same for clients and target."""
    generator = np.random.default_rng(0)
    experiment = Experiment(partition=partition, clients=40)
    scale = np.linspace(0.1, 0.9, classes)

    def examples(label: np.ndarray, client: np.ndarray) -> Examples:
        radius = np.minimum(generator.gamma(4.0, scale[label] / 4), experiment.smoothing.largest_radius)
        right = generator.random(len(label)) < 0.5 + scale[label] / 2
        predicted = np.where(right, label, (label + 1) % classes)
        count = np.arange(len(label), dtype=np.int32)
        return Examples(client, count, label.astype(np.int32), predicted.astype(np.int32), radius, count)

    labels = generator.integers(0, classes, size)
    client = np.zeros(size, dtype=np.int32)
    for number, part in enumerate(partition_of(partition).divide(labels, 40, generator)):
        client[part] = number
    target = generator.integers(0, classes, size)
    return Trace(
        experiment, tuple(map(str, range(classes))), "m", 10, {"clean": 0.5, "noisy": 0.4}, {},
        examples(labels, client), examples(target, np.full(size, -1, dtype=np.int32)),
    )  # fmt: skip


def test_the_papers_figures_are_consistent_with_each_other() -> None:
    """Rows that stand in several tables have the same figures, and nineteen settings make all of them."""
    assert len(settings()) == 19
    assert len({setting.name for setting in settings()}) == 19
    known: dict[object, object] = {}
    for table in TABLES.values():
        for row in table:
            if (row.subsets, row.subset_size) == (1000, 10):
                assert known.setdefault(row.setting, (row.rmse, row.mape)) == (row.rmse, row.mape)
    assert len(TABLE_1) == 8
    assert len(TABLE_2) == 11
    # VW does not depend on T.
    assert len({row.rmse[2] for row in TABLE_4}) == 1


@pytest.mark.parametrize("setting", settings())
def test_every_setting_is_an_experiment_as_the_paper_has_it(setting: object) -> None:
    experiment = setting.experiment()  # type: ignore[attr-defined]
    assert experiment.training.rounds == 1000
    assert experiment.clients == 100
    assert experiment.train_share == 0.8


def test_errors_are_those_of_the_estimates_and_the_better_methods_are_better() -> None:
    trace = made_up()
    plain = evaluate(trace, draws=4)
    shifted = evaluate(trace, draws=4, shift=0.4)
    assert set(plain) == {"ap", "ga", "vw", "blup", "minimax", "poststratified"}
    assert all(len(errors.rmse) == 4 for errors in plain.values())
    assert plain["vw"].mean[0] < 0.02  # the pool has the target's mix
    assert shifted["vw"].mean[0] > 2 * shifted["poststratified"].mean[0]
    assert shifted["blup"].mean[0] < shifted["ap"].mean[0]
    assert evaluate(trace, ("ga",), draws=2)["ga"].rmse == plain["ga"].rmse[:2]
    assert plain["vw"].spread[0] >= 0
    assert evaluate(trace, ("vw",), draws=1)["vw"].spread == (0.0, 0.0)


def test_only_post_stratification_is_told_counts_per_class() -> None:
    trace = made_up()
    found = evaluate(trace, draws=1)
    for method, told in (("blup", False), ("minimax", False), ("poststratified", True)):
        made = draw_federation(trace, np.random.default_rng([0, 0]), class_counts=told)
        pool = ReportedClients.of(made.reports)
        assert (pool.class_totals is not None) == told
        answer = estimator(method)(pool, distribution_of(made.target, pool.classes), Settings(threshold=50))
        errors = compare(answer.certified_accuracy.tolist(), made.truth.tolist())
        assert found[method].first == pytest.approx((errors.rmse, errors.mape), abs=1e-12)
