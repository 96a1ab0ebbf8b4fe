"""Least-favourable intervals beside Hoeffding's: never longer, whatever the federation, the target and the confidence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from factories import dirichlet, federation, ordinary
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.intervals.registry import INTERVALS
from fedcert.estimation.methods.minimax import shortest_of_curves
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.settings import Settings
from replications import ends_of, of_counts

LONGER = 1e-6
"""What rounding, and the distance between the values of θ at which lengths are compared, may cost."""


def random_federation(generator: np.random.Generator) -> ReportedClients:
    """Few or many clients, more or fewer than classes, with groups, missing classes, or neither."""
    classes = int(generator.choice([1, 2, 5, 10, 30]))
    clients = int(generator.choice([1, 2, 5, 20, 60]))
    sizes = 1 + (generator.pareto(1.5, clients) * generator.choice([5, 50, 400])).astype(int)
    labels = np.stack(
        [
            generator.multinomial(size, generator.dirichlet(np.full(classes, generator.choice([0.1, 1, 10]))))
            for size in sizes
        ]
    )
    if classes > 2 and generator.random() < 0.3:
        labels[:, 0] = 0
        labels[labels.sum(axis=1) == 0, 1] = 1
    world = ordinary(classes, generator)
    if generator.random() < 0.5:  # whole curves next to 0 or 1
        shrink = generator.choice([0.03, 0.3])
        accuracy = world.accuracy * shrink if generator.random() < 0.5 else 1 - shrink * (1 - world.accuracy)
        world = replace(world, accuracy=accuracy)
    cells = world.draw(labels, generator)
    opens = {"closed": 0.0, "partly open": 0.5, "open": 1.0}[str(generator.choice(["closed", "partly open", "open"]))]
    disclosing = generator.random(clients) < opens
    made = replace(federation(labels, cells, False), has_class_counts=disclosing, class_rows=cells[disclosing])
    if generator.random() < 0.35:
        groups = np.minimum(generator.integers(1, 12, clients), labels.sum(axis=1))
        effects = 1 + (groups[:, None] - 1) * generator.uniform(0.2, 1, (clients, cells.shape[2]))
        made = replace(made, largest_groups=groups.astype(np.int64), design_effects=effects)
    return made


def lengths(made: ReportedClients, target: np.ndarray, method: str, settings: Settings, kind: str) -> np.ndarray:
    chosen = replace(settings, interval=kind)
    uncertainty = estimator(method)(made, target, chosen).uncertainty
    assert uncertainty is not None
    lower, upper = INTERVALS[kind].ends(
        uncertainty, target, chosen.confidence, chosen.simultaneous, chosen.target_examples
    )
    return np.maximum(np.clip(upper, 0, 1) - np.clip(lower, 0, 1), 0.0)


def compare(seed: int, count: int) -> None:
    generator = np.random.default_rng(seed)
    for index in range(count):
        made = random_federation(generator)
        classes = len(made.classes)
        target = generator.dirichlet(np.full(classes, generator.choice([0.2, 1.0, 20.0])))
        if generator.random() < 0.2:
            target = made.labels / made.labels.sum()
        size = None
        if generator.random() < 0.3:
            size = int(generator.choice([20, 300, 10_000]))
            target = generator.multinomial(size, target) / size
        settings = Settings(
            confidence=float(generator.choice([0.5, 0.8, 0.95, 0.99, 0.999])),
            simultaneous=bool(generator.random() < 0.3),
            target_examples=size,
        )
        methods = ["vw", "ga", "minimax", "blup"]
        if made.has_class_counts.any():
            methods.append("poststratified")
        for method in methods:
            shorter, longer = (lengths(made, target, method, settings, kind) for kind in ("finite-sample", "hoeffding"))
            assert np.all(shorter <= longer + LONGER), (seed, index, method, settings, float((shorter - longer).max()))


def test_no_interval_is_longer_than_hoeffdings() -> None:
    compare(0, 6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
def test_no_interval_of_many_is_longer_than_hoeffdings(seed: int) -> None:
    compare(seed, 25)


def hoeffding_length(made: ReportedClients, target: np.ndarray, settings: Settings, curves: bool) -> float:
    uncertainty = (
        shortest_of_curves(made.without_class_counts(), target, settings)
        if curves
        else estimator("poststratified")(made, target, settings).uncertainty
    )
    assert uncertainty is not None
    lower, upper = INTERVALS["hoeffding"].ends(uncertainty, target, settings.confidence, False, None)
    return float(np.max(upper - lower))


@pytest.mark.parametrize("seed", range(12))
def test_counts_per_class_of_some_clients_never_lengthen_hoeffdings_interval(seed: int) -> None:
    """With groups of alike examples, which count for more where classes are weighed: curves alone are the measure."""
    generator = np.random.default_rng(seed)
    labels = dirichlet(0.5)(6, generator)[:20]
    labels = labels[labels.sum(axis=1) > 0]
    cells = ordinary(6, generator).draw(labels, generator)
    clients = len(labels)
    disclosing = generator.random(clients) < generator.uniform(0.1, 0.9)
    disclosing[0], disclosing[1] = True, False
    groups = np.minimum(generator.choice([1, 3, 25], clients), labels.sum(axis=1)).astype(np.int64)
    made = replace(
        federation(labels, cells, False), has_class_counts=disclosing, class_rows=cells[disclosing],
        largest_groups=groups, design_effects=groups[:, None].repeat(cells.shape[2], axis=1).astype(float),
    )  # fmt: skip
    target = generator.dirichlet(np.full(6, 0.7))
    settings = Settings(interval="hoeffding")
    more, fewer = (hoeffding_length(made, target, settings, curves) for curves in (False, True))
    assert more <= fewer + 1e-9


@pytest.mark.parametrize("each", [10**6, 10**8, 10**9])
@pytest.mark.parametrize("accuracy", [0.5, 0.99])
def test_intervals_of_very_many_examples_are_about_normal(accuracy: float, each: int) -> None:
    """Rounding lengthens: it must not lengthen much, however many examples there are."""
    target = np.linspace(1, 2, 50) / 75
    counts = np.full((1, 50, 1), round(accuracy * each))
    made = of_counts(np.full((1, 50), each), counts.sum(axis=1), np.array([True]), counts)
    lower, upper = ends_of(made, target, "poststratified", Settings())
    error = np.sqrt(np.sum(target**2 / each) * accuracy * (1 - accuracy))
    assert float(upper[0] - lower[0]) < 1.05 * 2 * 1.96 * error
