"""Thousands of replications of a federation at once: labels stay, and each replication takes the place of a radius.

Tests that look at labels alone treat every radius by itself, so that one estimate gives the intervals of all
replications. What is pooled over the radii (the linear model's λ) is not for replications: asymptotic intervals of
clients' curves are made one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from fedcert import Smoothing
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.intervals.registry import INTERVALS
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.settings import Settings

RUNS = 4_000
SIGNIFICANCE = 0.001


@dataclass(frozen=True)
class Groups:
    """Groups of examples that are certified together or not at all.

    Attributes:
        size: examples in each.
        span: whether a group has examples of several classes.
    """

    size: int
    span: bool


def replicated(
    labels: np.ndarray,
    accuracy: np.ndarray,
    generator: np.random.Generator,
    runs: int = RUNS,
    opens: np.ndarray | None = None,
    groups: Groups | None = None,
) -> ReportedClients:
    """A federation whose radii are replications.

    Args:
        labels: clients x classes; every client holds examples.
        accuracy: of each class; or classes x worlds, whose replications then follow one another.
        generator: of the counts.
        runs: replications of each world.
        opens: which clients disclose counts per class; none where it is None.
        groups: how examples hang together; independent where it is None.
    """
    clients, classes = labels.shape
    accuracy = np.repeat(accuracy.reshape(classes, -1), runs, axis=1)
    runs = accuracy.shape[1]
    opens = np.zeros(clients, dtype=bool) if opens is None else opens
    certified = np.zeros((clients, runs))
    rows = np.zeros((int(opens.sum()), classes, runs), dtype=np.int32)
    place = 0
    for client in range(clients):
        drawn = _drawn(labels[client], accuracy, generator, groups)
        certified[client] = drawn.sum(axis=0)
        if opens[client]:
            rows[place] = drawn
            place += 1
    made = of_counts(labels, certified, opens, rows)
    if groups is None:
        return made
    sizes = np.minimum(groups.size, made.sizes)
    return replace(made, design_effects=sizes[:, None].repeat(runs, axis=1), largest_groups=sizes.astype(np.int64))


def of_counts(labels: np.ndarray, certified: np.ndarray, opens: np.ndarray, rows: np.ndarray) -> ReportedClients:
    """A federation of these counts: certified ones are clients x replications, `rows` those of disclosing clients."""
    smoothing = Smoothing(sigma=0.5)
    return ReportedClients(
        clients=tuple(f"client {index}" for index in range(len(labels))),
        classes=tuple(f"class {index}" for index in range(labels.shape[1])),
        radii=tuple(np.arange(certified.shape[1]) / certified.shape[1]),
        label_counts=labels.astype(float),
        certified_counts=certified.astype(float),
        has_class_counts=opens,
        class_rows=rows,
        model="simulated",
        smoothing=smoothing,
        same_settings=True,
        max_radius_range=(smoothing.largest_radius,) * 2,
        excluded={},
    )


def _drawn(
    labels: np.ndarray, accuracy: np.ndarray, generator: np.random.Generator, groups: Groups | None
) -> np.ndarray:
    """Certified counts of a client, classes x replications."""
    runs = accuracy.shape[1]
    if groups is None:
        counts = np.zeros(accuracy.shape, dtype=np.int32)
        for label in np.flatnonzero(labels):
            counts[label] = generator.binomial(int(labels[label]), accuracy[label])
        return counts
    order = np.repeat(np.arange(len(labels)), labels.astype(np.int64))  # by class, so that groups lie within one
    if groups.span:
        order = generator.permutation(order)
        starts = np.arange(0, len(order), groups.size)
        members = np.split(order, starts[1:])
    else:
        members = [
            part
            for label in range(len(labels))
            for part in np.split(order[order == label], np.arange(groups.size, int(labels[label]), groups.size))
            if len(part)
        ]
    counts = np.zeros((len(labels), runs), dtype=np.int32)
    for part in members:
        # One uniform number for all of a group: as dependent as examples of given accuracies can be.
        uniform = generator.random(runs)
        each, many = np.unique(part, return_counts=True)
        counts[each] += many[:, None] * (uniform < accuracy[each])
    return counts


def ends_of(
    made: ReportedClients, target: np.ndarray, method: str, settings: Settings
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the interval in each replication."""
    answer = estimator(method)(made, target, settings)
    assert answer.uncertainty is not None
    kind = INTERVALS[settings.interval]
    lower, upper = kind.ends(answer.uncertainty, target, settings.confidence, False, settings.target_examples)
    return np.clip(lower, 0, 1), np.clip(upper, 0, 1)


def check_ends(
    lower: np.ndarray, upper: np.ndarray, truth: np.ndarray | float, confidence: float, about: object = None
) -> tuple[float, float]:
    """Neither end is wrong more often than half of what is allowed, by a binomial test at 0.001; gives how often."""
    wrong = int(np.sum(lower > truth + 1e-12)), int(np.sum(upper < truth - 1e-12))
    for count in wrong:
        allowed = (1 - confidence) / 2
        p_value = stats.binomtest(count, len(lower), allowed, alternative="greater").pvalue
        assert p_value > SIGNIFICANCE, (about, wrong, len(lower))
    return wrong[0] / len(lower), wrong[1] / len(lower)
