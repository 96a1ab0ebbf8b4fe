"""The paper's estimators as published: VW, AP and GA."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.clients import Clients, ReportedClients, examples
from fedcert.estimation.intervals.ingredients import of_volume, of_weights
from fedcert.estimation.methods.linear_weights import NO_WEIGHTS, by_volume
from fedcert.estimation.methods.paper.subsets import Choice, best_subset, draw_subsets
from fedcert.estimation.methods.point_estimate import PointEstimate
from fedcert.estimation.settings import Settings


def volume_weighted(clients: Clients, target: Floats, settings: Settings) -> PointEstimate:  # noqa: ARG001
    """VW: each client weighs as much as it has examples (Lemma 1).

    This is the certified accuracy of the clients' pooled examples, whatever the target.
    """
    if isinstance(clients, ReportedClients):
        weights = clients.sizes / clients.sizes.sum()
        return PointEstimate(
            clients.certified / clients.sizes.sum(), weights, uncertainty=of_weights(clients, target, weights)
        )
    uncertainty = of_volume(clients, target)
    rule = by_volume(len(target), examples(clients))
    return PointEstimate(uncertainty.centre, None, weights_note=NO_WEIGHTS, rule=rule, uncertainty=uncertainty)


def approximation(federation: ReportedClients, target: Floats, settings: Settings) -> PointEstimate:
    """AP: Algorithm 2 without grouping."""
    return _algorithm_2(federation, target, settings, None, settings.used("subsets", "subset_size", "seed"))


def grouped_approximation(federation: ReportedClients, target: Floats, settings: Settings) -> PointEstimate:
    """GA: Algorithm 2, with the clients of each subset grouped by Algorithm 1."""
    used = settings.used("subsets", "subset_size", "threshold", "seed")
    return _algorithm_2(federation, target, settings, settings.threshold, used)


def worst_spread(classes: int) -> float:
    """The largest Q of Theorem 1: half of the classes at accuracy 1, the others at 0.

    Q depends on the unknown accuracies; with this one the bound holds for all of them.
    """
    half = classes // 2
    return float(np.sqrt(half * (classes - half) / classes))


def _algorithm_2(
    federation: ReportedClients, target: Floats, settings: Settings, threshold: int | None, used: dict[str, Any]
) -> PointEstimate:
    generator = np.random.default_rng(settings.seed)
    subsets = draw_subsets(len(federation.clients), settings.subset_size, settings.subsets, generator)
    choice = best_subset(federation.label_counts, target, subsets, threshold)
    sizes = federation.sizes
    weights = np.zeros(len(federation.clients))
    for group, weight in zip(choice.groups, choice.weights, strict=True):
        members = list(group)
        weights[members] = weight * sizes[members] / sizes[members].sum()
    details = _details(federation, choice) | {"subsets_drawn": len(subsets), "subsets_tied": choice.tied}
    uncertainty = of_weights(federation, target, weights)
    return PointEstimate(uncertainty.centre, weights, uncertainty=uncertainty, settings=used, details=details)


def _details(federation: ReportedClients, choice: Choice) -> dict[str, Any]:
    """The subset and its groups, by the clients' names."""
    groups = []
    for group, weight in zip(choice.groups, choice.weights.tolist(), strict=True):
        names, held = [federation.clients[member] for member in group], int(federation.sizes[list(group)].sum())
        groups.append({"clients": names, "examples": held, "weight": weight})
    subset = sorted(member for group in choice.groups for member in group)
    return {"subset": [federation.clients[member] for member in subset], "groups": groups}
