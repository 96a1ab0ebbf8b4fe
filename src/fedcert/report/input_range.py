"""A model's inputs: the range, shape and columns that a request may state, and what a report says, coarsely."""

from __future__ import annotations

import math

from fedcert._schema.field_types import ListOf, Number, Text, Whole

InputRange = tuple[float, float]
"""The least and the largest value of inputs."""
INPUT_RANGE = ListOf(Number(), "numbers, the least and the largest input", least=2, most=2, increasing=True)
LARGEST_EXAMPLE = 2**25
"""Numbers in one example: 128 MiB as float32. An image of 3,344 x 3,344 pixels and three colours, or a volume of 512 x
512 x 128, has so many; noisy copies of anything larger would not fit beside a model."""
INPUT_SHAPE = ListOf(Whole(least=1, most=LARGEST_EXAMPLE), "sizes, of the axes of one example", most=8)
"""Eight axes: twice those of a coloured film, (channels, frames, height, width)."""
INPUT_COLUMNS = ListOf(Text(), "different column names", most=100_000, distinct=True)
"""Several times the columns of a table of all human genes."""

FEWEST_SIGMAS, MOST_SIGMAS = 0.5, 100.0
"""Ordinary extents of inputs, in sigmas: pixels from 0 to 1 with sigma from 0.01 to 2."""
ROUNDING = 0.01
"""Share of a range by which inputs may exceed it: what resizing and arithmetic in 8 bits add to pixels."""
_STEPS = (1.0, 2.0, 5.0, 10.0)
"""Mantissas of coarse bounds: three to each power of ten disclose little of the data."""


def coarse_range(low: float, high: float) -> InputRange | None:
    """A range rounded outward to 0, ±1, ±2, ±5 times a power of ten; None where all inputs are 0.

    Examples:
        >>> coarse_range(0.013, 0.997), coarse_range(-2.1, 2.6), coarse_range(0.0, 255.0)
        ((0.0, 1.0), (-5.0, 5.0), (0.0, 500.0))
    """
    rounded = 0.0 - _above(-low), _above(high)
    return rounded if rounded[0] < rounded[1] else None


def _above(value: float) -> float:
    """The next coarse number above a value, but for rounding; 0 for what is not above 0."""
    if value <= 0:
        return 0.0
    wanted = value / (1 + ROUNDING)
    exponent = math.floor(math.log10(wanted))
    step = next((step for step in _STEPS if step * 10.0**exponent >= wanted), _STEPS[-1])
    return float(f"{step * 10.0**exponent:.6g}")


def units_warning(bounds: InputRange, sigma: float) -> str | None:
    """What is odd about a sigma beside a stated range of inputs, in a sentence; None where nothing is.

    Examples:
        >>> units_warning((0, 1), 0.25) is None
        True
        >>> units_warning((0, 255), 0.5)
        'sigma 0.5 is tiny beside inputs from 0 to 255: it is in their units, and 127.5 would be 0.5 times that range'
    """
    extent = bounds[1] - bounds[0]
    if extent / MOST_SIGMAS <= sigma <= extent / FEWEST_SIGMAS:
        return None
    size = "tiny" if sigma * MOST_SIGMAS < extent else "huge"
    scaled = f", and {sigma * extent:g} would be {sigma:g} times that range" if extent != 1 else ""
    return f"sigma {sigma:g} is {size} beside inputs from {worded(bounds)}: it is in their units{scaled}"


def worded(bounds: InputRange) -> str:
    """A range in words.

    Examples:
        >>> worded((0.0, 255.0))
        '0 to 255'
    """
    return f"{bounds[0]:.3g} to {bounds[1]:.3g}"
