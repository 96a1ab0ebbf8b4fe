"""The certified accuracy at one radius, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from fedcert.errors import CallError, preview

_MOST_LISTED = 25
"""Radii that an error lists: more than the default has."""
_ROUNDING = 1e-9
"""A radius this little above one of the curve is that one."""


@dataclass(frozen=True, eq=False)
class AccuracyAtRadius(float):
    """The certified accuracy at one radius, with its interval. It is a number, that of the estimate.

    Attributes:
        radius: the radius of the curve that it is about.
        certified_accuracy: the estimate.
        lower, upper: bounds of its interval; None where the method has none.
        confidence: of the interval; None where there is none.

    Examples:
        >>> point = AccuracyAtRadius(0.25, 0.846, 0.774, 0.917, 0.95)
        >>> print(point)
        radius 0.25: 0.846 (95% CI 0.774 to 0.917)
        >>> f"{point:.1%}"
        '84.6% (95% CI 77.4% to 91.7%)'
        >>> point > 0.8, round(100 * point, 2), point.lower
        (True, 84.6, 0.774)
    """

    radius: float
    certified_accuracy: float
    lower: float | None = None
    upper: float | None = None
    confidence: float | None = None

    def __new__(cls, radius: float, certified_accuracy: float, *_: Any, **__: Any) -> Self:  # noqa: ARG004
        """The number itself."""
        return super().__new__(cls, certified_accuracy)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.radius, self.certified_accuracy, self.lower, self.upper, self.confidence

    def __format__(self, specification: str) -> str:
        """Each number by the format of numbers ("%" or ".3f"); three decimals where none is given."""
        how = specification or ".3f"
        if self.lower is None or self.upper is None or self.confidence is None:
            return format(self.certified_accuracy, how)
        between = f"{self.lower:{how}} to {self.upper:{how}}"
        return f"{self.certified_accuracy:{how}} ({100 * self.confidence:.10g}% CI {between})"

    def __str__(self) -> str:
        return f"radius {self.radius:g}: {self:.3f}"


def index_at(radii: Sequence[float], radius: float) -> int:
    """The index of a radius of a curve: its own, or else that of the next larger one.

    Certified accuracy falls with the radius, so that the accuracy at the larger one is never too high.

    Raises:
        CallError: it is no number from 0 on, or beyond the last radius of the curve.
    """
    try:
        wanted = float(radius)
    except (TypeError, ValueError):
        wanted = math.nan
    if isinstance(radius, bool) or not wanted >= 0:
        raise CallError(f"radius must be a number of at least 0, but is {preview(radius)}")
    for index, point in enumerate(radii):
        if point >= wanted - _ROUNDING:
            return index
    raise CallError(
        f"radius must be at most {radii[-1]:g}, the largest of this curve, but is {wanted:g}; ask for larger radii "
        "when you certify"
    )


def radius_among(radii: Sequence[float], wanted: float | None) -> float | None:
    """The radius of a headline: one of the curve's, exactly; None where none is wanted.

    Raises:
        CallError: it is none of them.
    """
    if wanted is None:
        return None
    nearest = min(radii, key=lambda radius: abs(radius - wanted))
    if abs(nearest - wanted) > _ROUNDING:
        listed = ", ".join(f"{radius:g}" for radius in radii[:_MOST_LISTED])
        listed += ", …" if len(radii) > _MOST_LISTED else ""
        raise CallError(
            f"radius (--radius) must be one of the estimate's radii ({listed}), but is {wanted:g}; the nearest is "
            f"{nearest:g}, and radii (--radii) asks for others"
        )
    return nearest
