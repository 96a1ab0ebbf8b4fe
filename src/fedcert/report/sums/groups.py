"""Examples that come in groups: bounds where a client discloses only part of what is known about them."""

from __future__ import annotations

import math
from collections.abc import Sequence

_ROUNDING = 1e-9
"""Relative slack for an effect that was rounded to the digits of JSON: a group must not come out one too small."""


def group_bound(examples: int, design_effect: Sequence[float] | None, largest_group: int | None) -> int:
    """The most examples that a group can have.

    Groups of sizes m have the design effect Σ m²/n. With a group of m the others add at least n - m to Σ m², so that
    m² - m is at most n·(effect - 1). Where nothing is known, all examples are independent.

    Examples:
        >>> group_bound(1000, None, 10), group_bound(1000, [1.09], None), group_bound(1000, None, None)
        (10, 10, 1)
    """
    if largest_group is not None:
        return largest_group
    if design_effect is None:
        return 1
    spare = examples * (max(design_effect) * (1 + _ROUNDING) - 1)
    return max(1, min(examples, int((1 + math.sqrt(1 + 4 * spare)) / 2)))


def effect_bound(design_effect: Sequence[float] | None, largest_group: int | None, radii: int) -> list[float] | None:
    """The design effect at each radius; None where all examples are independent.

    Σ m²/n is at most the largest m, which stands for it where it alone is known. Groups are the same at every radius:
    of several values, the largest counts.

    Examples:
        >>> effect_bound([1.5, 2.0], None, 2), effect_bound(None, 10, 1), effect_bound(None, None, 1)
        ([2.0, 2.0], [10.0], None)
    """
    if design_effect is not None:
        return [max(design_effect)] * radii
    return None if largest_group in (None, 1) else [float(largest_group)] * radii


def effects_or_ones(design_effect: Sequence[float] | None, largest_group: int | None, radii: int) -> list[float]:
    """The same with 1 at each radius where all examples are independent.

    Examples:
        >>> effects_or_ones(None, None, 2)
        [1.0, 1.0]
    """
    return effect_bound(design_effect, largest_group, radii) or [1.0] * radii
