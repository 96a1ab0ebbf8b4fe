"""Algorithm 2's search: the draws, and that ruling subsets out changes nothing."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from fedcert.estimation.methods.paper.simplex import any_closest, mismatch, of_least_variance
from fedcert.estimation.methods.paper.subsets import best_subset, draw_subsets, group_clients


def closest_mixture(mixes: np.ndarray, target: np.ndarray, examples: np.ndarray) -> np.ndarray:
    return of_least_variance(any_closest(mixes, target), mixes, target, examples)


def federation(generator: np.random.Generator, clients: int, classes: int, beta: float) -> np.ndarray:
    """Label counts of clients of very different sizes."""
    sizes = generator.integers(1, 200, size=clients)
    mixes = generator.dirichlet(np.full(classes, beta), size=clients)
    return np.stack([generator.multinomial(n, p) for n, p in zip(sizes, mixes, strict=True)])


def solve(
    counts: np.ndarray, target: np.ndarray, subset: np.ndarray, threshold: int | None
) -> tuple[list[list[int]], np.ndarray, float, float]:
    """Lines 3 and 4 of Algorithm 2, written down plainly."""
    sizes = counts[subset].sum(axis=1)
    groups = (
        [[index] for index in range(len(subset))] if threshold is None else group_clients(sizes.tolist(), threshold)
    )
    members = [[int(subset[position]) for position in group] for group in groups]
    totals = np.array([counts[group].sum(axis=0) for group in members])
    mixes = totals / totals.sum(axis=1, keepdims=True)
    weights = closest_mixture(mixes, target, totals.sum(axis=1).astype(float))
    return members, weights, mismatch(weights, mixes, target), float(np.sum(weights**2 / totals.sum(axis=1)))


def test_subsets_are_uniform() -> None:
    drawn = draw_subsets(6, 3, 20_000, np.random.default_rng(0))
    counts = Counter(map(tuple, drawn.tolist()))
    assert set(counts) == set(combinations(range(6), 3))
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_a_seed_gives_the_same_subsets() -> None:
    first, second = (draw_subsets(100, 10, 50, np.random.default_rng(4)) for _ in range(2))
    assert np.array_equal(first, second)
    assert np.all(np.diff(first, axis=1) > 0)


@pytest.mark.parametrize("size", [5, 6, 100])
def test_when_everybody_is_drawn_once_is_enough(size: int) -> None:
    assert draw_subsets(5, size, 1000, np.random.default_rng(0)).tolist() == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize("threshold", [None, 50, 1000])
@pytest.mark.parametrize(
    ("clients", "classes", "size", "beta"), [(40, 10, 10, 0.1), (40, 4, 3, 0.5), (12, 3, 6, 1.0), (30, 30, 8, 0.2)]
)
def test_the_choice_is_that_of_solving_every_subset(
    clients: int, classes: int, size: int, beta: float, threshold: int | None
) -> None:
    for seed in range(5):
        generator = np.random.default_rng(seed)
        counts = federation(generator, clients, classes, beta)
        target = generator.dirichlet(np.ones(classes)) if seed % 2 else np.full(classes, 1 / classes)
        subsets = draw_subsets(clients, size, 200, generator)
        choice = best_subset(counts, target, subsets, threshold)
        solved = [solve(counts, target, subset, threshold) for subset in subsets]
        least = min(distance for _, _, distance, _ in solved)
        tied = [answer for answer in solved if answer[2] <= least + 1e-9]
        assert choice.mismatch <= least + 1e-9
        assert choice.tied == len(tied)
        variance = min(answer[3] for answer in tied)
        expected = next(answer for answer in tied if answer[3] <= variance * (1 + 1e-9))
        assert [list(group) for group in choice.groups] == expected[0]
        assert np.array_equal(choice.weights, expected[1])


def test_ties_go_to_the_least_variance_then_to_the_first() -> None:
    counts = np.array([[1, 1], [50, 50], [100, 100], [100, 100]])
    subsets = np.array([[0], [1], [2], [3], [0]])
    choice = best_subset(counts, np.array([0.5, 0.5]), subsets, None)
    assert choice.groups == ((2,),)
    assert choice.tied == 5


def test_a_large_draw_is_worked_off_in_pieces() -> None:
    generator = np.random.default_rng(0)
    counts = federation(generator, 60, 50, 0.3)
    subsets = draw_subsets(60, 40, 3000, generator)
    choice = best_subset(counts, np.full(50, 0.02), subsets, 50)
    assert choice.mismatch <= min(solve(counts, np.full(50, 0.02), subset, 50)[2] for subset in subsets[::100]) + 1e-9
