"""Differential privacy, as requests ask for it and sums state it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedcert._schema.declare import defaulting, required
from fedcert._schema.field_types import LARGEST_COUNT, Enumerated, ListOf, Number, Whole
from fedcert._schema.record import Nested, Record
from fedcert.report.fields import MOST_CLASSES, MOST_RADII

TOGETHER, ALONE = "together", "each site"
_COUNT = Whole(least=-LARGEST_COUNT, most=LARGEST_COUNT)
_CELLS = ListOf(_COUNT, "counts", most=MOST_RADII + 1)
_SIZES = ListOf(_COUNT, "counts", most=MOST_CLASSES)
SIZE_RELEASES = 2
"""How often each class's size is released beside the cells: once to choose and weigh classes, once to count them. What
chooses may not count, or classes whose noise is high would be chosen and then counted with that noise."""


@dataclass(frozen=True, kw_only=True)
class PrivacyBudget(Record):
    """What an observer may learn about one unit: (epsilon, delta)-differential privacy.

    Attributes:
        epsilon: above 0, at most 100.
        delta: at most 0.01; well below one over the number of units.
        unit: who is protected: "example", or "group" (all examples of a patient).
        adjacency: "add-remove" (whether a unit is there at all) or "replace" (what it holds).
        most_per_unit: the most examples that a unit has.
        noise: "together" (each site adds a part of the noise, under a secure sum) or "each site" (all of it by itself).
    """

    NOUN: ClassVar[str] = "privacy budget"

    epsilon: float = required(Number(above=0, most=100))
    delta: float = defaulting(Number(least=1e-100, most=0.01), 1e-6)
    unit: str = defaulting(Enumerated(("example", "group")), "example")
    adjacency: str = defaulting(Enumerated(("add-remove", "replace")), "add-remove")
    most_per_unit: int = defaulting(Whole(least=1), 1)
    noise: str = defaulting(Enumerated((TOGETHER, ALONE)), TOGETHER)

    @property
    def sensitivity(self) -> float:
        """How far one unit can move the cells, or one release of sizes, in Euclidean distance.

        At worst all of its examples are in one cell.
        """
        return self.most_per_unit * (1.0 if self.adjacency == "add-remove" else 2**0.5)


@dataclass(frozen=True, kw_only=True)
class AddedNoise(Record):
    """Noise that was added, and the counts with it.

    Attributes:
        budget: the differential privacy that it gives.
        rho: the same as zero-concentrated differential privacy.
        variance: of the noise in each cell, in examples squared.
        sizes_variance: of the noise in each size.
        scale: units in one example.
        cells: in these units; one row per class, and in it examples that are not certified even at the first radius,
            then those certified at each radius and not at the next. Disjoint, so that one example moves one cell;
            noisy, so below 0 perhaps.
        sizes: examples of each class in the same units, released twice, each time with noise of its own: the first row
            is for choosing and weighing classes, the second for counting them.
    """

    NOUN: ClassVar[str] = "noise"

    budget: PrivacyBudget = required(Nested(PrivacyBudget))
    rho: float = required(Number(above=0))
    variance: float = required(Number(above=0))
    sizes_variance: float = required(Number(above=0))
    scale: int = defaulting(Whole(least=1, most=2**20), 1)
    cells: tuple[tuple[int, ...], ...] = required(ListOf(_CELLS, "rows, one per class", most=MOST_CLASSES))
    sizes: tuple[tuple[int, ...], ...] = required(ListOf(_SIZES, "rows, one per release", most=SIZE_RELEASES))
