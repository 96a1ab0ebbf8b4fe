"""Weights by formula: what they reach follows from sums over the clients, so that no client need be known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcert.estimation.evidence import Evidence
from fedcert.estimation.federation import Federation
from fedcert.estimation.simplex import Floats

NO_WEIGHTS = "sums tell no client apart"


@dataclass(frozen=True)
class Rule:
    """A client with n examples of class mix p weighs n (first + p·second)."""

    first: float
    second: Floats

    def weights(self, federation: Federation) -> Floats:
        """The clients' weights, which the rule makes add up to 1 but for rounding."""
        weights = federation.sizes * self.first + federation.label_counts @ self.second
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    def mix(self, curves: Evidence) -> Floats:
        """The class mix that the weights reach, Σ a p."""
        return np.asarray(self.first * curves.labels + curves.labels_labels @ self.second, dtype=np.float64)

    def squares(self, curves: Evidence) -> float:
        """Σ a²/n."""
        mixed = self.first * curves.labels + curves.labels_labels @ self.second
        squares = self.first * (self.first * curves.examples + curves.labels @ self.second) + self.second @ mixed
        return max(float(squares), 0.0)

    def curve(self, curves: Evidence) -> Floats:
        """The weighted mean of the clients' curves, Σ a c."""
        return np.asarray(self.first * curves.certified + self.second @ curves.labels_certified, dtype=np.float64)


def by_volume(classes: int, examples: float) -> Rule:
    """The rule that weighs clients by their examples."""
    return Rule(1 / examples, np.zeros(classes))
