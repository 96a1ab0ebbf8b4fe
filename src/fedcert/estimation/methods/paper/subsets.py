"""Volume-based client grouping (Algorithm 1), and the search of Algorithm 2.

That is, of T random subsets of clients, for the one whose mixture is closest to the target.
Most subsets are far from the best one, which cheap bounds show; only those that could win are solved. The
answer is that of solving all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats
from fedcert.estimation.methods.paper import simplex

Indices = npt.NDArray[np.int64]

_CELLS_PER_CHUNK = 2**22
"""Numbers held at once: 32 MB."""
_ROUNDS = (6, 10, 20)
"""Frank-Wolfe steps before each sieving: the first few rule out most subsets."""
_SLACK = 1e-9
"""Relative: variances this close are equal, so that rounding does not decide."""
_SQUARED_ROUNDING, _SMALL = 1e-7, 1e-3
"""Bounds through squares lose half of the digits, which matters below the second."""


def group_clients(sizes: Sequence[float], threshold: int) -> tuple[tuple[int, ...], ...]:
    """Algorithm 1: merge small clients into virtual clients of at least `threshold` examples.

    Clients below the threshold are sorted by size, ties in their given order, and gathered from the
    smallest on; a virtual client is complete once it has reached the threshold. The last one may stay
    below it, since no small client is left to add. Large clients stay by themselves.

    Args:
        sizes: examples per client.
        threshold: the paper's τ.

    Returns:
        Groups of positions in `sizes`: the virtual clients, then the large clients by size.

    Examples:
        >>> group_clients([10, 60, 30, 25, 5], threshold=50)
        ((4, 0, 3, 2), (1,))
        >>> group_clients([30, 10, 30], threshold=50)
        ((1, 0, 2),)
        >>> group_clients([40, 45, 12], threshold=50)
        ((2, 0), (1,))
    """
    ranked = sorted(range(len(sizes)), key=lambda client: sizes[client])
    small = [client for client in ranked if sizes[client] < threshold]
    groups: list[tuple[int, ...]] = []
    gathered: list[int] = []
    for client in small:
        gathered.append(client)
        if sum(sizes[member] for member in gathered) >= threshold:
            groups.append(tuple(gathered))
            gathered = []
    if gathered:
        groups.append(tuple(gathered))
    groups.extend((client,) for client in ranked if sizes[client] >= threshold)
    return tuple(groups)


def group_many(sizes: npt.NDArray[Any], threshold: int) -> Indices:
    """Algorithm 1 on many subsets of clients at once.

    Args:
        sizes: examples per client; subsets x clients.
        threshold: the paper's τ.

    Returns:
        The number of each client's group, subsets x clients, numbered as `group_clients` orders them.
    """
    rank = np.argsort(sizes, axis=1, kind="stable")
    ranked = np.take_along_axis(sizes, rank, axis=1)
    group = np.zeros(len(sizes), dtype=np.int64)
    gathered = np.zeros(len(sizes), dtype=sizes.dtype)
    numbers = np.empty_like(rank)
    for position in range(sizes.shape[1]):
        size = ranked[:, position]
        large = size >= threshold
        # The smallest large client ends a virtual client that is still open.
        group += large & (gathered > 0)
        numbers[:, position] = group
        gathered = np.where(large, 0, gathered + size)
        complete = large | (gathered >= threshold)
        group += complete
        gathered = np.where(complete, 0, gathered)
    result = np.empty_like(numbers)
    np.put_along_axis(result, rank, numbers, axis=1)
    return result


@dataclass(frozen=True)
class Choice:
    """The subset that Algorithm 2 chose.

    Attributes:
        groups: positions of the clients in each group (a client by itself is a group of one).
        weights: one per group.
        mismatch: the L2 distance between the target and the mixture.
        tied: how many of the drawn subsets reach that mismatch.
    """

    groups: tuple[tuple[int, ...], ...]
    weights: Floats
    mismatch: float
    tied: int


def draw_subsets(clients: int, size: int, count: int, generator: np.random.Generator) -> Indices:
    """Random subsets of clients, each uniform over all subsets of that size (Floyd's algorithm).

    Returns:
        subsets x size, each row in increasing order; one row with all clients when size >= clients,
        since every draw would be the same.
    """
    if size >= clients:
        return np.arange(clients)[None, :]
    chosen = np.full((count, size), -1, dtype=np.int64)
    for position, highest in enumerate(range(clients - size, clients)):
        drawn = generator.integers(0, highest + 1, size=count)
        taken = (chosen == drawn[:, None]).any(axis=1)
        chosen[:, position] = np.where(taken, highest, drawn)
    return np.sort(chosen, axis=1)


def best_subset(label_counts: npt.NDArray[Any], target: Floats, subsets: Indices, threshold: int | None) -> Choice:
    """Algorithm 2: group and solve each subset, and choose the one of least mismatch.

    Mismatches within 1e-9 are tied; of tied subsets the one of least Σ a²/n is chosen, then the one
    drawn first. The paper leaves both open.

    Args:
        label_counts: examples of each class; clients x classes, no client without examples.
        target: the target's class distribution.
        subsets: positions of clients; subsets x clients.
        threshold: Algorithm 1's τ; None leaves grouping out.
    """
    near = _candidates(label_counts, target, subsets, threshold)
    candidates = [_grouped(label_counts, subsets[index], threshold) for index in near]
    weights = [simplex.any_closest(subset.mixes, target) for subset in candidates]
    distances = [simplex.mismatch(some, subset.mixes, target) for some, subset in zip(weights, candidates, strict=True)]
    best = min(distances)
    tied = [index for index, distance in enumerate(distances) if distance <= best + simplex.TIE]
    index, chosen = _least_variance(tied, candidates, weights, target)
    distance = simplex.mismatch(chosen, candidates[index].mixes, target)
    return Choice(candidates[index].groups, chosen, distance, len(tied))


@dataclass(frozen=True)
class _Subset:
    """A subset of clients, grouped."""

    groups: tuple[tuple[int, ...], ...]
    mixes: Floats
    examples: Floats


def _grouped(label_counts: npt.NDArray[Any], subset: Indices, threshold: int | None) -> _Subset:
    sizes = label_counts[subset].sum(axis=1)
    alone = tuple((position,) for position in range(len(subset)))
    positions = alone if threshold is None else group_clients(sizes.tolist(), threshold)
    groups = tuple(tuple(int(subset[position]) for position in group) for group in positions)
    counts = np.array([label_counts[list(group)].sum(axis=0) for group in groups], dtype=np.float64)
    examples = counts.sum(axis=1)
    return _Subset(groups, counts / examples[:, None], examples)


def _least_variance(
    tied: list[int], candidates: list[_Subset], weights: list[Floats], target: Floats
) -> tuple[int, Floats]:
    """Which of the tied subsets has the least Σ a²/n, and its weights; the first one of equals.

    With many ties, a floor that is cheap to compute says in which order to look, and when to stop.
    """
    floors = dict.fromkeys(tied, 0.0)
    if len(tied) > 1:
        for index in tied:
            subset = candidates[index]
            floors[index] = simplex.variance_floor(weights[index] @ subset.mixes, subset.mixes, subset.examples)
    solved: list[tuple[float, int, Floats]] = []
    for index in sorted(tied, key=lambda index: (floors[index], index)):
        if solved and floors[index] > min(variance for variance, _, _ in solved) * (1 + _SLACK):
            break
        subset = candidates[index]
        spread = simplex.of_least_variance(weights[index], subset.mixes, target, subset.examples)
        solved.append((float(np.sum(spread**2 / subset.examples)), index, spread))
    least = min(variance for variance, _, _ in solved)
    return min(
        ((index, spread) for variance, index, spread in solved if variance <= least * (1 + _SLACK)),
        key=lambda chosen: chosen[0],
    )


def _candidates(label_counts: npt.NDArray[Any], target: Floats, subsets: Indices, threshold: int | None) -> Indices:
    """Positions of the subsets that may be the best one, or tied with it, in the order drawn."""
    size = max(1, _CELLS_PER_CHUNK // (subsets.shape[1] * (subsets.shape[1] + label_counts.shape[1])))
    kept: list[Indices] = []
    bounds: list[Floats] = []
    best = np.inf
    for start in range(0, len(subsets), size):
        chunk = np.arange(start, min(start + size, len(subsets)))
        gram, valid = _gram(label_counts, target, subsets[chunk], threshold)
        weights = None
        for steps in _ROUNDS:
            lower, upper, weights = simplex.distance_bounds(gram, valid, steps, weights)
            best = min(best, float(upper.min()))
            # The margin covers the rounding of bounds that were computed through squares.
            near = lower <= best + 2 * simplex.TIE + _SQUARED_ROUNDING * (best < _SMALL)
            chunk, gram, valid, weights, lower = chunk[near], gram[near], valid[near], weights[near], lower[near]
            if not len(chunk):
                break
        kept.append(chunk)
        bounds.append(lower)
    return np.concatenate(kept)[np.concatenate(bounds) <= best + 2 * simplex.TIE + _SQUARED_ROUNDING * (best < _SMALL)]


def _gram(
    label_counts: npt.NDArray[Any], target: Floats, subsets: Indices, threshold: int | None
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Inner products of the groups' mixes, seen from the target, and which groups exist."""
    counts = label_counts[subsets].astype(np.float64)
    if threshold is not None:
        numbers = group_many(label_counts.sum(axis=1)[subsets], threshold)
        member = (numbers[:, None, :] == np.arange(subsets.shape[1])[None, :, None]).astype(np.float64)
        counts = member @ counts
    examples = counts.sum(axis=2)
    valid = examples > 0
    mixes = counts / np.where(valid, examples, 1.0)[:, :, None] - target
    return mixes @ mixes.transpose(0, 2, 1), valid
