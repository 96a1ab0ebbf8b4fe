"""Volume-based client grouping (paper, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


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
