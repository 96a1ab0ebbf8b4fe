"""Simulated right answers: examples whose noisy copies are right with probability Φ(z), z normal within each class.

With Gaussian noise and a linear boundary that is exact, and what a vote keeps within a radius r is h(Φ(z - r/σ)).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special, stats

from factories import dirichlet
from fedcert import Report, Smoothing
from fedcert.estimation.clients.readings import named_readings
from fedcert.population.vote import vote_accuracy

SMOOTHING = Smoothing(sigma=0.5, procedure="population", n=32)
Z, STEP = np.linspace(-12.0, 12.0, 4001, retstep=True)


@dataclass(frozen=True)
class Population:
    """Classes of different difficulty.

    Attributes:
        centres: the mean of z in each class.
        width: its standard deviation.
        smoothing: passes and votes.
        radii: those of a request.
        effect: standard deviation of what a client adds to all of its z.
    """

    centres: tuple[float, ...]
    width: float = 1.5
    smoothing: Smoothing = SMOOTHING
    radii: tuple[float, ...] = (0.0, 0.4, 0.8)
    effect: float = 0.0

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(f"class {index}" for index in range(len(self.centres)))

    def _mean(self, values: np.ndarray) -> np.ndarray:
        """The mean of functions of z in each class, over clients: classes x functions."""
        width = np.hypot(self.width, self.effect)
        density = np.array([stats.norm.pdf(Z, centre, width) for centre in self.centres]) * STEP
        return density @ values

    @cached_property
    def truth(self) -> np.ndarray:
        """What the vote keeps, classes x radii."""
        votes, moved = self.smoothing.votes, Z[:, None] - np.array(self.radii) / self.smoothing.sigma
        assert votes is not None
        return self._mean(vote_accuracy(special.ndtr(moved), special.ndtr(-moved), votes)[0])

    @cached_property
    def chances(self) -> np.ndarray:
        """Of each number of right answers, classes x (n + 1)."""
        counts = np.arange(self.smoothing.n + 1)
        return self._mean(stats.binom.pmf(counts, self.smoothing.n, special.ndtr(Z)[:, None]))

    @property
    def scored(self) -> tuple[np.ndarray, np.ndarray]:
        """Expected scores from below and from above, between which the truth is: classes x radii."""
        readings = named_readings(self.smoothing, self.radii)
        return self.chances @ readings.lower.scores.T, self.chances @ readings.upper_end.scores.T

    def histograms(self, labels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Of all clients together, examples by right answers: classes x (n + 1)."""
        return generator.multinomial(labels, self.chances / self.chances.sum(axis=1, keepdims=True))

    def reports(self, seed: int, clients: int = 60, **changes: Any) -> list[Report]:
        """Of clients with Dirichlet shares of the classes, with counts per class."""
        generator = np.random.default_rng(seed)
        labels = dirichlet(0.5)(len(self.centres), generator)[:clients]
        return [self.report(f"client {index}", row, generator, **changes) for index, row in enumerate(labels)]

    def report(self, client: str, labels: np.ndarray, generator: np.random.Generator, **changes: Any) -> Report:
        """Of one client with so many examples of each class."""
        n, own = self.smoothing.n, self.effect * generator.normal()
        rows = np.array([
            np.bincount(generator.binomial(n, special.ndtr(generator.normal(mean, self.width, count))), minlength=n + 1)
            for mean, count in zip(np.add(self.centres, own), labels, strict=True)
        ])  # fmt: skip
        values = {
            "client": client, "model": "simulated", "smoothing": self.smoothing, "radii": self.radii,
            "classes": self.classes, "label_counts": labels.tolist(), "correct_counts": rows.sum(axis=0).tolist(),
            "class_correct_counts": rows.tolist(), "seed": "sha256:" + "0" * 64,
        }  # fmt: skip
        return Report(**{**values, **changes})


FIVE = Population((1.5, 0.2, 0.8, -0.5, 2.0))
"""Some easy, some hard."""
