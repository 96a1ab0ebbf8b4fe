"""The worst case over what missing clients might have held, against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fedcert.rounds.worst_case import diluted


def least(accuracy: float, mix: np.ndarray, held: np.ndarray, added: float, steps: int) -> float:
    """The same by trying all allocations of a grid; for each, accuracies are a fractional knapsack."""
    best = accuracy
    for parts in itertools.product(range(steps + 1), repeat=len(mix) - 1):
        if sum(parts) > steps:
            continue
        allocation = np.array([*parts, steps - sum(parts)]) * added / steps
        kept = held / (held + allocation)
        left, value = accuracy, 0.0
        for place in np.argsort(kept):
            taken = min(mix[place], left)
            value, left = value + taken * kept[place], left - taken
        best = min(best, value)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_it_is_never_too_high_and_nearly_the_least(seed: int) -> None:
    generator = np.random.default_rng(seed)
    mix = generator.dirichlet(np.ones(3) * generator.choice([0.5, 5]))
    held = generator.integers(5, 200, size=3).astype(float)
    accuracy, added = generator.uniform(0.05, 1.0), generator.uniform(1, 150)
    bound, found = diluted(accuracy, mix, held, added), least(accuracy, mix, held, added, 120)
    assert bound <= found + 1e-9
    assert bound >= found - 0.06  # the problem is not convex: a gap may stay


def test_classes_that_nobody_holds_take_nothing_of_the_accuracy() -> None:
    mix, held = np.array([0.5, 0.5]), np.array([100.0, 0.0])
    assert diluted(0.4, mix, held, 20.0) == pytest.approx(0.4 * 100 / 120, abs=1e-9)
    assert diluted(0.9, mix, held, 0.0) == 0.5  # of the other half nothing is known


@pytest.mark.parametrize("classes", [1, 10, 100])
def test_with_every_class_wholly_right_it_is_the_closed_form(classes: int) -> None:
    mix, held = np.full(classes, 1 / classes), np.full(classes, 50.0)
    assert diluted(1.0, mix, held, 20.0) == pytest.approx(50 * classes / (50 * classes + 20), abs=1e-9)


def test_it_grows_worse_with_what_is_added_and_never_leaves_the_unit_interval() -> None:
    mix, held = np.array([0.7, 0.3, 0.0]), np.array([100.0, 40.0, 0.0])
    values = [diluted(0.6, mix, held, added) for added in (0, 1, 10, 100, 1e3, 1e6, 1e12)]
    assert values[0] == 0.6
    assert values == sorted(values, reverse=True)
    assert values[-1] >= 0
    assert diluted(0.0, mix, held, 10.0) == 0.0
    assert diluted(1.0, mix, held, 0.0) == 1.0
