"""The search of Algorithm 2: of T random subsets of clients, the one whose mixture is closest to the target.

Most subsets are far from the best one, which cheap bounds show; only those that could win are solved. The
answer is that of solving all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedcert.estimation.grouping import Indices, group_clients, group_many
from fedcert.estimation.simplex import TIE, Floats, closest_mixture, distance_bounds, mismatch

_CELLS_PER_CHUNK = 2**22
_ROUNDS = (6, 10, 20)


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
        subsets x size, each row in increasing order; one row with everybody when size >= clients,
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


def best_subset(label_counts: npt.NDArray[np.int64], target: Floats, subsets: Indices, threshold: int | None) -> Choice:
    """Algorithm 2: group and solve each subset, and choose the one of least mismatch.

    Mismatches within 1e-9 are tied; of tied subsets the one of least Σ a²/n is chosen, then the one
    drawn first. The paper leaves both open.

    Args:
        label_counts: examples of each class; clients x classes, no client without examples.
        target: the target's class distribution.
        subsets: positions of clients; subsets x clients.
        threshold: Algorithm 1's τ; None leaves grouping out.
    """
    candidates = _candidates(label_counts, target, subsets, threshold)
    solved = [_solve(label_counts, target, subsets[index], threshold) for index in candidates]
    best = min(distance for _, _, distance, _ in solved)
    tied = [answer for answer in solved if answer[2] <= best + TIE]
    groups, weights, distance, _ = min(tied, key=lambda answer: answer[3])
    return Choice(groups, weights, distance, len(tied))


def _solve(
    label_counts: npt.NDArray[np.int64], target: Floats, subset: Indices, threshold: int | None
) -> tuple[tuple[tuple[int, ...], ...], Floats, float, float]:
    sizes = label_counts[subset].sum(axis=1)
    alone = tuple((position,) for position in range(len(subset)))
    positions = alone if threshold is None else group_clients(sizes.tolist(), threshold)
    groups = tuple(tuple(int(subset[position]) for position in group) for group in positions)
    counts = np.array([label_counts[list(group)].sum(axis=0) for group in groups], dtype=np.float64)
    examples = counts.sum(axis=1)
    mixes = counts / examples[:, None]
    weights = closest_mixture(mixes, target, examples)
    return groups, weights, mismatch(weights, mixes, target), float(np.sum(weights**2 / examples))


def _candidates(
    label_counts: npt.NDArray[np.int64], target: Floats, subsets: Indices, threshold: int | None
) -> Indices:
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
            lower, upper, weights = distance_bounds(gram, valid, steps, weights)
            best = min(best, float(upper.min()))
            # The margin covers the rounding of bounds that were computed through squares.
            near = lower <= best + 2 * TIE + 1e-7 * (best < 1e-3)
            chunk, gram, valid, weights, lower = chunk[near], gram[near], valid[near], weights[near], lower[near]
            if not len(chunk):
                break
        kept.append(chunk)
        bounds.append(lower)
    return np.concatenate(kept)[np.concatenate(bounds) <= best + 2 * TIE + 1e-7 * (best < 1e-3)]


def _gram(
    label_counts: npt.NDArray[np.int64], target: Floats, subsets: Indices, threshold: int | None
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Inner products of the groups' mixes, seen from the target, and which groups exist."""
    if threshold is None:
        mixes = label_counts / label_counts.sum(axis=1, keepdims=True) - target
        inner = mixes @ mixes.T
        return inner[subsets[:, :, None], subsets[:, None, :]], np.ones(subsets.shape, dtype=bool)
    sizes = label_counts.sum(axis=1)[subsets]
    numbers = group_many(sizes, threshold)
    member = (numbers[:, None, :] == np.arange(subsets.shape[1])[None, :, None]).astype(np.float64)
    counts = member @ label_counts.astype(np.float64)[subsets]
    examples = counts.sum(axis=2)
    valid = examples > 0
    mixes = counts / np.where(valid, examples, 1.0)[:, :, None] - target
    return mixes @ mixes.transpose(0, 2, 1), valid
