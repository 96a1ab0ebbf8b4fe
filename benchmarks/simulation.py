"""Federations made up for measuring estimators: label counts by partition, certified counts by class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedcert.estimation.clients.reported import ReportedClients
from fedcert.report import DEFAULT_RADII, Smoothing

CLIENTS, EXAMPLES, TARGET_EXAMPLES = 100, 10_000, 10_000
RADII = np.array(DEFAULT_RADII)


@dataclass(frozen=True)
class World:
    """Accuracy of each class at each radius, classes x radii, falling with the radius."""

    accuracy: np.ndarray

    def draw(self, labels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Certified counts for label counts of any shape (…, classes) -> (…, classes, radii)."""
        falls = -np.diff(np.column_stack([self.accuracy, np.zeros(len(self.accuracy))]), axis=1)
        bins = np.column_stack([1 - self.accuracy[:, 0], falls])
        bins = np.maximum(bins, 0) / np.maximum(bins, 0).sum(axis=1, keepdims=True)
        counts = generator.multinomial(labels, np.broadcast_to(bins, (*labels.shape, bins.shape[1])))
        return np.flip(np.cumsum(np.flip(counts[..., 1:], -1), -1), -1)


def ordinary(classes: int, generator: np.random.Generator) -> World:
    """Classes of different difficulty, as trained networks have them."""
    top, scale = generator.uniform(0.4, 0.95, classes), generator.uniform(0.3, 0.8, classes)
    return World(top[:, None] * np.exp(-((RADII[None, :] / scale[:, None]) ** 1.5)))


def dirichlet(beta: float) -> Callable[[int, np.random.Generator], np.ndarray]:
    """Each class's examples in Dirichlet shares."""

    def partition(classes: int, generator: np.random.Generator) -> np.ndarray:
        shares = generator.dirichlet(np.full(CLIENTS, beta), size=classes)
        return np.stack([generator.multinomial(EXAMPLES // classes, row) for row in shares], axis=1)

    return partition


def pareto(beta: float) -> Callable[[int, np.random.Generator], np.ndarray]:
    """Each class's examples in shares proportional to Pareto draws."""

    def partition(classes: int, generator: np.random.Generator) -> np.ndarray:
        draws = 1 + generator.pareto(beta, size=(classes, CLIENTS))
        shares = draws / draws.sum(axis=1, keepdims=True)
        return np.stack([generator.multinomial(EXAMPLES // classes, row) for row in shares], axis=1)

    return partition


def limited(held: float) -> Callable[[int, np.random.Generator], np.ndarray]:
    """Each client holds a few classes only, with heavy-tailed volumes."""

    def partition(classes: int, generator: np.random.Generator) -> np.ndarray:
        volumes = 1 + generator.pareto(1.5, size=CLIENTS)
        volumes = np.maximum((volumes / volumes.sum() * EXAMPLES).astype(int), 1)
        count = max(2, int(held * classes))
        rows = []
        for volume in volumes:
            mix = np.zeros(classes)
            mix[generator.choice(classes, count, replace=False)] = generator.dirichlet(np.ones(count))
            rows.append(generator.multinomial(volume, mix))
        return np.stack(rows)

    return partition


FAMILIES: dict[str, dict[str, Callable[[int, np.random.Generator], np.ndarray]]] = {
    "Dirichlet": {str(beta): dirichlet(beta) for beta in (0.1, 0.3, 0.5, 1.0, 2.0, 3.0)},
    "Pareto": {str(beta): pareto(beta) for beta in (2.0, 3.0, 4.0, 5.0, 6.0)},
    "class-limited": {str(share): limited(share) for share in (0.2, 0.4)},
}


def shifted(pool: np.ndarray, distance: float, generator: np.random.Generator) -> np.ndarray:
    """A class mix at a given L2 distance from the clients' pool."""
    for concentration in (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01):
        for _ in range(20):
            other = generator.dirichlet(np.full(len(pool), concentration))
            reach = np.linalg.norm(other - pool)
            if reach >= distance:
                return pool + (other - pool) * (distance / reach)
    other = np.eye(len(pool))[generator.integers(len(pool))]
    return pool + (other - pool) * min(1.0, distance / np.linalg.norm(other - pool))


def federation(labels: np.ndarray, cells: np.ndarray, opens: bool) -> ReportedClients:
    """A federation from label counts and certified counts per class (clients x classes x radii)."""
    held = labels.sum(axis=1) > 0
    labels, cells = labels[held], cells[held]
    smoothing = Smoothing(sigma=0.5)
    return ReportedClients(
        clients=tuple(f"client {index}" for index in range(len(labels))),
        classes=tuple(f"class {index}" for index in range(labels.shape[1])),
        radii=DEFAULT_RADII,
        label_counts=labels.astype(float),
        certified_counts=cells.sum(axis=1).astype(float),
        has_class_counts=np.full(len(labels), opens),
        class_rows=cells if opens else cells[:0],
        model="simulated",
        smoothing=smoothing,
        same_settings=True,
        max_radius_range=(smoothing.largest_radius,) * 2,
        excluded={},
    )
