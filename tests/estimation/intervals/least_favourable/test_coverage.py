"""Coverage as a guarantee: thousands of replications with the labels fixed, and accuracies chosen against the weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from factories import RADII, dirichlet, limited, ordinary
from fedcert.estimation.intervals.least_favourable.design import DESIGNS, design_coefficients
from fedcert.estimation.methods.minimax import minimax_rule
from fedcert.estimation.settings import Settings
from replications import RUNS, Groups, check_ends, ends_of, of_counts, replicated

KINDS = ("finite-sample", "hoeffding")
METHODS = ("minimax", "blup", "ga", "vw", "poststratified")
LEVELS = (0.003, 0.03, 0.2, 0.5, 0.97)


def check(
    labels: np.ndarray,
    target: np.ndarray,
    accuracy: np.ndarray,
    generator: np.random.Generator,
    methods: tuple[str, ...] = METHODS,
    runs: int = RUNS,
    opens: np.ndarray | None = None,
    groups: Groups | None = None,
    **changes: object,
) -> None:
    """Both ends of both kinds cover, for methods by curves and by class; accuracies of one world, or classes x worlds."""
    labels = labels[labels.sum(axis=1) > 0]
    by_class = np.ones(len(labels), dtype=bool)
    for open_ones, part in (
        (None, tuple(set(methods) - {"poststratified"})),
        (by_class, tuple(set(methods) & {"poststratified"})),
    ):
        if not part:
            continue
        disclosing = open_ones if opens is None else opens[: len(labels)]
        made = replicated(labels, accuracy, generator, runs, disclosing, groups)
        for method in part:
            for kind in KINDS:
                settings = Settings(interval=kind, **changes)  # type: ignore[arg-type]
                lower, upper = ends_of(made, target, method, settings)
                truths = np.atleast_1d(target @ accuracy)
                for truth, low, high in zip(truths, lower.reshape(-1, runs), upper.reshape(-1, runs), strict=True):
                    check_ends(low, high, float(truth), settings.confidence, (method, kind, float(truth)))


def spread(classes: int, level: float, generator: np.random.Generator) -> np.ndarray:
    """Accuracies around a level, within [0, 1], that differ much from class to class."""
    return generator.beta(level / 0.15, (1 - level) / 0.15, classes)


def levels(classes: int, wanted: tuple[float, ...], generator: np.random.Generator) -> np.ndarray:
    """Worlds with accuracies around each level."""
    return np.stack([spread(classes, level, generator) for level in wanted], axis=1)


SETTINGS = {
    "M=10 N=100 Dirichlet 0.1": (10, 100, dirichlet(0.1)),
    "M=10 N=100 class-limited": (10, 100, limited(0.2)),
    "M=10 N=20 Dirichlet 0.5": (10, 20, dirichlet(0.5)),
    "M=100 N=100 Dirichlet 0.3": (100, 100, dirichlet(0.3)),
    "M=100 N=100 class-limited": (100, 100, limited(0.1)),
}


def drawn(name: str, purpose: str) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    classes, clients, partition = SETTINGS[name]
    generator = np.random.default_rng(list(f"{name} {purpose}".encode()))
    labels = partition(classes, generator)[:clients]
    return labels[labels.sum(axis=1) > 0], generator.dirichlet(np.full(classes, 0.7)), generator


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_intervals_cover_at_every_level_of_accuracy(name: str) -> None:
    labels, target, generator = drawn(name, "levels")
    check(labels, target, levels(len(target), LEVELS, generator), generator)


def test_intervals_cover_in_a_small_federation() -> None:
    labels, target, generator = drawn("M=10 N=20 Dirichlet 0.5", "small")
    check(labels, target, levels(len(target), (0.03, 0.5), generator), generator, runs=1_000)


@pytest.mark.slow
@pytest.mark.parametrize("each", [1, 2, 5, 20])
def test_classes_of_few_examples(each: int) -> None:
    """Many classes of few examples each, at twenty clients."""
    generator = np.random.default_rng(each)
    classes = 200
    labels = np.stack([generator.multinomial(each, np.full(20, 0.05)) for _ in range(classes)], axis=1)
    target = generator.dirichlet(np.full(classes, 1.0))
    extremes = generator.integers(0, 2, classes).astype(float)
    alike = np.outer(np.ones(classes), [0.01, 0.03, 0.5, 0.97])
    worlds = np.column_stack([alike, extremes, spread(classes, 0.3, generator)])
    check(labels, target, worlds, generator, ("poststratified", "minimax", "vw"))
    heavy = np.where(np.arange(classes) == 0, 0.8, 0.2 / (classes - 1))  # one thin class has nearly all of the target
    check(labels, heavy, worlds, generator, ("poststratified",))


@pytest.mark.slow
@pytest.mark.parametrize("labels", [[30], [10, 20], [1, 14, 15], [29, 1]])
def test_one_client_of_thirty_examples(labels: list[int]) -> None:
    generator = np.random.default_rng(labels)
    counts, wanted = np.array([labels]), (0.01, 0.1, 0.5, 0.9)
    worlds = np.hstack([np.outer(np.ones(len(labels)), wanted), levels(len(labels), wanted, generator)])
    for target in (counts[0] / 30, generator.dirichlet(np.ones(len(labels)))):
        check(counts, target, worlds, generator, ("poststratified", "minimax", "vw"), runs=5 * RUNS)


def test_one_client_of_thirty_examples_in_short() -> None:
    check(np.array([[10, 20]]), np.array([0.5, 0.5]), np.array([0.05, 0.3]), np.random.default_rng(0), METHODS, 1_000)


def adversaries(labels: np.ndarray, target: np.ndarray) -> Iterator[np.ndarray]:
    """Accuracies that make the most of what weights miss, and those that clients can hardly distinguish from constants."""
    sizes = labels.sum(axis=1)
    matrix = (labels / sizes[:, None]).T @ labels
    rules = [design_coefficients(matrix, target, theta, 2.2) for theta in DESIGNS[:5]]
    worst = [matrix @ rule - target for rule in rules]
    for difference in worst:
        yield (difference > 0).astype(float)
        for theta in (0.02, 0.1, 0.4):  # classes with the most bias for their share, up to a given accuracy
            order = np.argsort(-difference / target)
            room = np.clip(theta - np.append(0.0, np.cumsum(target[order])[:-1]), 0.0, target[order])
            accuracy = np.zeros(len(target))
            accuracy[order] = room / target[order]
            yield accuracy
            yield 1 - accuracy
    for rule in rules:  # a = n p·(μ - L): the design's own least favourable accuracies, up to an affine change
        shape = rule.max() - rule
        for size in (0.2, 1.0):
            yield size * shape / shape.max()
            yield 1 - size * shape / shape.max()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["M=100 N=100 Dirichlet 0.3", "M=100 N=100 class-limited", "M=10 N=20 Dirichlet 0.5"])
def test_adversarial_accuracies(name: str) -> None:
    labels, target, generator = drawn(name, "adversarial")
    worlds = np.stack(list(adversaries(labels, target)), axis=1)
    sure = np.all(worlds % 1 == 0, axis=0)  # nothing is left to chance: one replication says it all
    check(labels, target, worlds[:, sure], generator, ("minimax",), runs=1)
    check(labels, target, worlds[:, ~sure], generator, ("minimax",))


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("method", ["minimax", "vw", "poststratified"])
def test_accuracies_of_0_and_1_against_the_weights_of_a_method(name: str, method: str) -> None:
    labels, target, generator = drawn(name, "0 and 1")
    sizes = labels.sum(axis=1)
    made = replicated(labels, np.zeros(len(target)), generator, 1)
    rule = minimax_rule(made.overall_statistics, target, 1.36)
    weights = rule.weights(made) if method == "minimax" else sizes / sizes.sum()
    missed = target - weights @ (labels / sizes[:, None])
    extremes = np.column_stack([missed > 0, missed < 0, np.abs(missed) > np.median(np.abs(missed))])
    check(labels, target, extremes.astype(float), generator, (method,), runs=1)
    check(labels, target, np.where(extremes, 0.98, 0.02), generator, (method,))


@pytest.mark.slow
@pytest.mark.parametrize("span", [False, True])
def test_groups_of_twenty_alike_examples(span: bool) -> None:
    """Within a class, and across classes; in curves, by class, and where some clients disclose counts per class."""
    generator = np.random.default_rng(int(span))
    labels = 20 * generator.multinomial(15, generator.dirichlet(np.full(5, 0.7)), 12)
    target = generator.dirichlet(np.ones(5))
    groups, wanted = Groups(20, span), (0.03, 0.5, 0.9)
    worlds = np.hstack([np.outer(np.ones(5), wanted), levels(5, wanted, generator)])
    check(labels, target, worlds, generator, ("minimax", "vw", "poststratified"), groups=groups)
    check(labels, target, worlds, generator, ("blup",), opens=np.arange(12) % 3 == 0, groups=groups)


def test_groups_in_short() -> None:
    generator = np.random.default_rng(0)
    labels = 20 * generator.multinomial(8, np.full(3, 1 / 3), 4)
    for span in (False, True):
        check(
            labels,
            np.full(3, 1 / 3),
            np.full(3, 0.5),
            generator,
            ("vw", "poststratified"),
            500,
            groups=Groups(20, span),
        )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", [0.02, 0.3, 0.95])
def test_a_finite_target_of_twenty(level: float, kind: str) -> None:
    """What is asked for is the set's own certified accuracy, which differs from replication to replication."""
    generator = np.random.default_rng([round(100 * level), *kind.encode()])
    in_target = np.array([6, 0, 5, 2, 7])
    target = in_target / 20
    labels = generator.multinomial(150, generator.dirichlet(np.full(5, 0.7), 15))
    for accuracy in (np.full(5, level), spread(5, level, generator)):
        truth = generator.binomial(in_target[:, None], accuracy[:, None], (5, RUNS)).sum(axis=0) / 20
        for method in ("poststratified", "minimax", "vw"):
            made = replicated(labels, accuracy, generator, RUNS, np.full(15, method == "poststratified"))
            settings = Settings(interval=kind, target_examples=20)
            lower, upper = ends_of(made, target, method, settings)
            check_ends(lower, upper, truth, 0.95, (method, kind))


@pytest.mark.slow
def test_partly_open_federations() -> None:
    labels, target, generator = drawn("M=10 N=20 Dirichlet 0.5", "partly open")
    extremes = generator.integers(0, 2, (10, 5)) * 0.96 + 0.02
    worlds = np.hstack([levels(10, LEVELS, generator), extremes])
    check(labels, target, worlds, generator, ("blup",), opens=np.arange(len(labels)) % 3 == 0)


@pytest.mark.parametrize("interval", KINDS)
def test_a_class_that_no_client_holds_may_be_certified_or_not(interval: str) -> None:
    """Nothing is known of a fifth of the target: everything certified must leave an upper end of 1."""
    labels, target = np.array([[40, 0, 60], [80, 0, 20]]), np.array([0.4, 0.2, 0.4])
    settings = Settings(interval=interval)
    for method in ("poststratified", "minimax", "vw"):
        for accuracy, open_end in ((1.0, 1.0), (0.0, 0.0)):
            made = replicated(
                labels, np.full(3, accuracy), np.random.default_rng(0), 2, np.full(2, method == "poststratified")
            )
            lower, upper = ends_of(made, target, method, settings)
            assert (upper if open_end else lower) == pytest.approx(open_end)
            assert np.all(upper - lower >= 0.2)


@pytest.mark.slow
def test_classes_that_no_client_holds_at_either_extreme() -> None:
    labels, target, generator = drawn("M=10 N=20 Dirichlet 0.5", "missing")
    labels[:, 3] = labels[:, 7] = 0
    worlds = np.repeat(levels(10, (0.02, 0.4, 0.98), generator), 3, axis=1)
    worlds[[3, 7]] = np.tile([0.0, 0.5, 1.0], 3)
    check(labels, target, worlds, generator)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.03, 0.5])
def test_clients_that_are_cut_to_size(level: float) -> None:
    """Screening cuts huge clients by their sizes alone; where it does no more than that, the proof holds."""
    generator = np.random.default_rng(round(100 * level))
    sizes = np.append(generator.integers(40, 160, 18), [2_000, 5_000])
    labels = np.stack([generator.multinomial(size, generator.dirichlet(np.full(6, 0.5))) for size in sizes])
    target = generator.dirichlet(np.ones(6))
    factors = np.minimum(1.0, 300 / sizes)
    for accuracy in (np.full(6, level), spread(6, level, generator)):
        for method in ("minimax", "vw", "poststratified", "blup"):
            opens = np.full(20, method == "poststratified") if method != "blup" else np.arange(20) % 3 == 1
            made = replicated(labels, accuracy, generator, RUNS, opens).part(np.ones(20, dtype=bool), {}, factors)
            for kind in KINDS:
                lower, upper = ends_of(made, target, method, Settings(interval=kind))
                check_ends(lower, upper, float(target @ accuracy), 0.95, (method, kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["minimax", "poststratified"])
def test_all_radii_are_covered_at_once(method: str, kind: str) -> None:
    """Simultaneous intervals are those of each radius at 1 - q/21; all of a replication's radii count together."""
    generator = np.random.default_rng([*method.encode(), *kind.encode()])
    classes = 4
    labels = generator.multinomial(120, generator.dirichlet(np.full(classes, 0.7), 8))
    target, world = generator.dirichlet(np.ones(classes)), ordinary(classes, generator)
    counts = np.stack([world.draw(labels, generator) for _ in range(RUNS)], axis=2).reshape(*labels.shape, -1)
    opens = np.full(len(labels), method == "poststratified")
    made = of_counts(labels, counts.sum(axis=1), opens, counts[opens])
    confidence = 1 - 0.05 / len(RADII)
    lower, upper = ends_of(made, target, method, Settings(interval=kind, confidence=confidence))
    truth = target @ world.accuracy
    lower, upper = lower.reshape(RUNS, -1), upper.reshape(RUNS, -1)
    check_ends((lower - truth).max(axis=1), (upper - truth).min(axis=1), 0.0, 0.95, (method, kind))
