"""Lies that clients can tell in their reports, for tests and benchmarks of what becomes of the estimate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from factories import federation
from fedcert.estimation.clients.reported import ReportedClients


@dataclass
class Counts:
    """What clients report: labels (clients x classes), certified cells (x radii), claimed design effects."""

    labels: np.ndarray
    cells: np.ndarray
    effects: np.ndarray

    def clients(self, opens: bool) -> ReportedClients:
        """As the server sees them; a claimed effect is that of one group as large as it can be."""
        held = self.labels.sum(axis=1) > 0
        made = federation(self.labels, self.cells, opens)
        if (self.effects == 1).all():
            return made
        effects, sizes = self.effects[held], self.labels[held].sum(axis=1)
        spare = sizes * (effects - 1)
        groups = np.maximum(1, np.minimum(sizes, (1 + np.sqrt(1 + 4 * spare)) // 2)).astype(np.int64)
        return replace(made, design_effects=np.repeat(effects[:, None], len(made.radii), axis=1), largest_groups=groups)


Lie = Callable[[Counts, np.ndarray, np.random.Generator], None]


def perfect(counts: Counts, liars: np.ndarray, _: np.random.Generator) -> None:
    counts.cells[liars] = counts.labels[liars][:, :, None]


def enlarged(counts: Counts, liars: np.ndarray, generator: np.random.Generator) -> None:
    """Ten million examples, all certified at all radii."""
    for liar in liars:
        mix = counts.labels[liar] / max(1, counts.labels[liar].sum())
        counts.labels[liar] = generator.multinomial(10**7, mix / mix.sum() if mix.sum() else np.full(len(mix), 0.1))
    perfect(counts, liars, generator)


def claiming(effect: float) -> Lie:
    """All certified, and a design effect; as many examples as it takes for such a group."""

    def lie(counts: Counts, liars: np.ndarray, generator: np.random.Generator) -> None:
        for liar in liars:
            size = int(counts.labels[liar].sum())
            factor = max(1, int(np.ceil(effect / max(size, 1))))
            counts.labels[liar] *= factor
        counts.effects[liars] = effect
        perfect(counts, liars, generator)

    return lie


def omitting(counts: Counts, liars: np.ndarray, generator: np.random.Generator) -> None:
    """Only examples that are certified at half of the radii are reported: whole classes go, and what fails."""
    middle = counts.cells.shape[2] // 4
    kept = counts.cells[liars][:, :, middle]
    counts.cells[liars] = np.minimum(counts.cells[liars], kept[:, :, None])
    worst = np.argsort(counts.cells.sum(axis=(0, 2)) / np.maximum(counts.labels.sum(axis=0), 1))[:5]
    counts.labels[liars] = kept
    counts.labels[np.ix_(liars, worst)] = 0
    cells = counts.cells[liars]
    cells[:, worst] = 0
    counts.cells[liars] = cells


def one_class(counts: Counts, liars: np.ndarray, _: np.random.Generator) -> None:
    """All examples in the class that the fewest honest examples are of, and none is right."""
    rare = int(np.argmin(counts.labels.sum(axis=0)))
    sizes = counts.labels[liars].sum(axis=1)
    counts.labels[liars] = 0
    counts.labels[liars, rare] = sizes
    counts.cells[liars] = 0


def mimicking(deviations: float) -> Lie:
    """Honest counts, raised at all radii by so many standard deviations of the client's own chance."""

    def lie(counts: Counts, liars: np.ndarray, _: np.random.Generator) -> None:
        pooled = counts.cells.sum(axis=0) / np.maximum(counts.labels.sum(axis=0), 1)[:, None]
        for liar in liars:
            labels = counts.labels[liar]
            size = labels.sum()
            if not size:
                continue
            expected = labels @ pooled / size
            spread = np.sqrt(expected * (1 - expected) / size)
            raised = labels[:, None] * np.clip(pooled + deviations * spread, 0, 1)
            counts.cells[liar] = np.minimum.accumulate(np.rint(raised).astype(np.int64), axis=1)
            counts.cells[liar] = np.minimum(counts.cells[liar], labels[:, None])

    return lie


LIES: dict[str, Lie] = {
    "perfect at all radii": perfect,
    "10 million examples": enlarged,
    "design effect 100": claiming(100.0),
    "design effect 300": claiming(300.0),
    "design effect 1e6": claiming(1e6),
    "omitted classes": omitting,
    "one rare class": one_class,
    "mimicry, 1 deviation": mimicking(1.0),
    "mimicry, 2 deviations": mimicking(2.0),
}


def told(labels: np.ndarray, cells: np.ndarray, lie: Lie, share: float, generator: np.random.Generator) -> Counts:
    """What clients report of whom a share lies, in concert."""
    counts = Counts(labels.copy(), cells.copy(), np.ones(len(labels)))
    liars = generator.choice(len(labels), max(1, round(share * len(labels))), replace=False)
    lie(counts, liars, generator)
    return counts
