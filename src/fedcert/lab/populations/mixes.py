"""Target populations: sets of examples with a wanted class mix, and mixes at a wanted distance from another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedcert.errors import CallError
from fedcert.lab.populations.partition import Indices, Labels

Mix = npt.NDArray[np.float64]


def draw_mix(labels: Labels, mix: Mix, size: int, generator: np.random.Generator) -> Indices:
    """Draw examples, none twice, whose classes have a given mix, up to rounding.

    Args:
        labels: class of each example.
        mix: wanted shares of the classes.
        size: how many examples.
        generator: source of the draws.

    Raises:
        CallError: a class has too few examples.
    """
    drawn = []
    for label, count in enumerate(counts_of_mix(mix, size)):
        members = np.flatnonzero(labels == label)
        if count > len(members):
            raise CallError(
                f"class {label} must have at least {count} examples for a set of {size}, but has {len(members)}; "
                "ask for fewer, or for another mix"
            )
        drawn.append(generator.permutation(members)[:count])
    return generator.permutation(np.concatenate(drawn))


def counts_of_mix(mix: Mix, size: int) -> npt.NDArray[np.int64]:
    """Whole numbers in the proportion of a mix, by largest remainders."""
    exact = mix / mix.sum() * size
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(-(exact - counts), kind="stable")[: size - counts.sum()]] += 1
    return np.asarray(counts)


def largest_set(labels: Labels, mix: Mix) -> int:
    """The size of the largest set with a mix that can be drawn."""
    held = np.bincount(labels, minlength=len(mix))
    wanted = mix > 0

    def fits(size: int) -> bool:
        return bool(np.all(counts_of_mix(mix, size) <= held[: len(mix)]))

    size = int(np.min(held[: len(mix)][wanted] / (mix / mix.sum())[wanted]))
    while not fits(size):
        size -= 1
    while fits(size + 1):  # rounding may leave room for a few more
        size += 1
    return size


def mix_at_distance(start: Mix, distance: float, generator: np.random.Generator, tolerance: float = 0.005) -> Mix:
    """A mix at a wanted L2 distance from another, every class above 0, as in the paper's section IV-B4.

    Mixes are drawn from symmetric Dirichlet distributions whose concentration is drawn too, log-uniformly, until one is
    near enough; it is then moved along its line from the start to the exact distance.

    Args:
        start: the mix to be away from.
        distance: how far.
        generator: source of the draws.
        tolerance: how near a draw must come by itself.

    Raises:
        CallError: hardly any mix is that far away.
    """
    classes = len(start)
    for _ in range(200_000):
        concentration = np.exp(generator.uniform(np.log(0.05), np.log(20.0)))
        mix = generator.dirichlet(np.full(classes, concentration))
        reached = float(np.linalg.norm(mix - start))
        if abs(reached - distance) > tolerance:
            continue
        moved = start + (mix - start) * (distance / reached)
        if moved.min() > 0:
            return np.asarray(moved / moved.sum())
    raise CallError(
        f"no mix of {classes} classes at an L2 distance of {distance:g} was found in 200,000 draws; "
        "ask for a smaller distance"
    )
