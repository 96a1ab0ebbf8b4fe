"""The largest radius that is worth asking for."""

from __future__ import annotations

from collections.abc import Sequence

from fedcert.report.smoothing import Smoothing

FARTHEST_RATIO = 3.0
"""Radii beyond so many sigma are out of reach of population certificates: hundreds of passes lose points there."""
_ROUNDING = 1e-9
"""Quotients of decimals are off by far less."""


def farthest_radius(smoothing: Smoothing) -> float:
    """The largest radius that is worth asking for.

    Examples:
        >>> round(farthest_radius(Smoothing.defaults(0.5)), 2), round(farthest_radius(Smoothing(sigma=0.5, n=1000)), 2)
        (1.5, 1.23)
    """
    largest = smoothing.largest_radius
    return FARTHEST_RATIO * smoothing.sigma if largest is None else largest


def radii_warning(smoothing: Smoothing, radii: Sequence[float]) -> str | None:
    """Which radii are out of reach, in a sentence; None where none are.

    Examples:
        >>> print(radii_warning(Smoothing.defaults(0.5), [0, 64, 127]).partition(":")[0])
        2 of 3 radii are out of reach (from 64 on; with sigma 0.5 the largest is about 1.5)
        >>> radii_warning(Smoothing.defaults(0.5), [0, 1.5]) is None
        True
    """
    farthest = farthest_radius(smoothing)
    beyond = [radius for radius in radii if radius > farthest * (1 + _ROUNDING)]
    if not beyond:
        return None
    return (
        f"{len(beyond)} of {len(radii)} radii are out of reach (from {beyond[0]:g} on; with sigma {smoothing.sigma:g} "
        f"the largest is about {farthest:.3g}): radii are in the units of the inputs; use a larger sigma or smaller "
        "radii"
    )
