"""What an estimate may be asked for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fedcert._schema.declare import Checked, defaulting, optional
from fedcert._schema.field_types import Flag, ListOf, Number, Text, Whole
from fedcert.estimation.intervals.registry import INTERVAL_NAME
from fedcert.report.fields import RADII
from fedcert.report.smoothing import MOST_VOTES, Odd

OF_INTERVALS = ("confidence", "interval", "simultaneous", "target_examples")
"""The settings that decide an interval: recorded in every what-if and given to every page."""
RECORDED = (*OF_INTERVALS, "screen")
"""The settings that every estimate records; others are recorded by the methods that use them."""


@dataclass(frozen=True)
class Settings(Checked):
    """Settings of all estimators; each uses those that it needs. Defaults are the paper's.

    Attributes:
        subsets: how many random subsets of clients Algorithm 2 draws (T).
        subset_size: clients in each (E).
        threshold: examples below which a client is small (τ).
        seed: of the draws.
        confidence: of the interval.
        interval: its kind, by its name in `INTERVALS`.
        simultaneous: whether the interval is for all radii at once.
        target_examples: size of the finite set that the target is; None for the population it comes from.
        non_negative: keep the weights of minimax and BLUP at or above 0.
        screen: leave out clients whose curves the others cannot explain, and cut huge ones to size.
        trusted: clients that screening never leaves out, and only cuts to size.
        all_classes: whether the intervals of single classes hold for all of them at once.
        votes: population certificates: noisy copies that vote on an answer; those that the request names where None.
        radii: population certificates: those that the request names where None.
        radius: the radius of the headline, one of the estimate's; a quarter of the way to the last where None.
    """

    subsets: int = defaulting(Whole(least=1), 1000)
    subset_size: int = defaulting(Whole(least=1), 10)
    threshold: int = defaulting(Whole(), 50)
    seed: int = defaulting(Whole(), 0)
    confidence: float = defaulting(Number(above=0, below=1), 0.95)
    interval: str = defaulting(INTERVAL_NAME, "finite-sample")
    simultaneous: bool = defaulting(Flag(), False)
    target_examples: int | None = optional(Whole(least=1))
    non_negative: bool = defaulting(Flag(), False)
    screen: bool = defaulting(Flag(), False)
    trusted: tuple[str, ...] = defaulting(ListOf(Text(), "client names", least=0, most=10_000_000), ())
    all_classes: bool = defaulting(Flag(), False)
    votes: int | None = optional(Odd(least=1, most=MOST_VOTES))
    radii: tuple[float, ...] | None = optional(RADII)
    radius: float | None = optional(Number(least=0))

    def recorded(self, *names: str) -> dict[str, Any]:
        """The named settings, those that every estimate records where none are named, and what else was asked for."""
        also = [name for name in ("all_classes", "votes", "radii") if getattr(self, name)]
        return self.used(*(names or RECORDED), *also)

    def used(self, *names: str) -> dict[str, Any]:
        """The named settings, for the record of an estimate."""
        return {name: value for name, value in asdict(self).items() if name in names}
