"""How examples are spread over clients."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def dirichlet_partition(
    labels: npt.NDArray[np.int64], clients: int, concentration: float, generator: np.random.Generator
) -> list[Indices]:
    """Give each class's examples to the clients in shares drawn from a Dirichlet distribution.

    Args:
        labels: class of each example.
        clients: how many clients.
        concentration: the paper's β; the smaller, the more the clients differ.
        generator: source of the draws.

    Returns:
        Indices of each client's examples; together they are all examples, each once. A client may have none.
    """
    parts: list[list[Indices]] = [[] for _ in range(clients)]
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        shares = generator.dirichlet(np.full(clients, concentration))
        cuts = np.round(np.cumsum(shares)[:-1] * len(members)).astype(np.int64)
        for part, piece in zip(parts, np.split(members, cuts), strict=True):
            part.append(piece)
    return [generator.permutation(np.concatenate(part)) for part in parts]


def draw_mix(
    labels: npt.NDArray[np.int64], mix: npt.NDArray[np.float64], size: int, generator: np.random.Generator
) -> Indices:
    """Draw examples, none twice, whose classes have a given mix, up to rounding.

    Raises:
        ValueError: a class has too few examples.
    """
    wanted = np.floor(mix / mix.sum() * size).astype(np.int64)
    remainder = mix / mix.sum() * size - wanted
    wanted[np.argsort(-remainder, kind="stable")[: size - wanted.sum()]] += 1
    drawn = []
    for label, count in enumerate(wanted):
        members = np.flatnonzero(labels == label)
        if count > len(members):
            raise ValueError(f"class {label} must have at least {count} examples, but has {len(members)}")
        drawn.append(generator.permutation(members)[:count])
    return generator.permutation(np.concatenate(drawn))
