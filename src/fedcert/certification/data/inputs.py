"""Inputs checked before anything is certified: their shape, and their range beside sigma."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedcert._arrays import Images
from fedcert.errors import DataProblem, preview
from fedcert.report.input_range import (
    FEWEST_SIGMAS,
    LARGEST_EXAMPLE,
    MOST_SIGMAS,
    ROUNDING,
    InputRange,
    units_warning,
    worded,
)

_NOT_UNIT = 10.0
"""Pixels above it are neither from 0 to 1 nor standardised: most likely they are from 0 to 255."""
_NOT_UNIT_SIGMAS = 25.0
"""With such pixels, a sigma below a 25th of their extent (10 of 255) is one for pixels from 0 to 1."""
_TINY_SHARE, _SMALL_SHARE = 0.05, 0.5
"""Of the stated range, what images fill at least, and what they nearly always fill: those divided by 255 where 0 to 255
is stated fill 0.4%, and those of 4 bits read as 8 fill 6%."""
_FEWEST = 10
"""Images below which a small range may be chance: one image may be all black."""
_SHOWN_COLUMNS = 10
"""Columns that a sentence names."""


@dataclass
class RangeSeen:
    """The range of the inputs that have been read.

    Attributes:
        low: the least value.
        high: the largest.
        examples: how many were read.
    """

    low: float = math.inf
    high: float = -math.inf
    examples: int = 0

    def add(self, images: Images) -> None:
        """Take some more inputs into account."""
        self.examples += len(images)
        if images.size:
            self.low, self.high = min(self.low, float(images.min())), max(self.high, float(images.max()))

    @property
    def bounds(self) -> InputRange | None:
        """The least and the largest value; None where nothing was read."""
        return None if self.low > self.high else (self.low, self.high)


def check_shape(shape: tuple[int, ...], expected: Sequence[int] | None) -> None:
    """Check the shape of one example.

    Raises:
        DataProblem: the request states another.
    """
    if expected is None or shape == tuple(expected):
        return
    remedy = "give data of the stated shape, or ask the coordinator which shape the model takes"
    if sorted(shape) == sorted(expected) and len(shape) == 3:
        order = ", ".join(str(1 + axis) for axis in _axes(shape, expected))
        remedy = f"reorder the axes: np.transpose(x, (0, {order}))"
    elif len(shape) == len(expected) == 1:
        remedy = "give the columns that the model takes, in its order, and no others"
    raise DataProblem(
        f"the request states inputs of shape {_sizes(expected)}, but each example of x has shape {_sizes(shape)}; "
        f"{remedy}"
    )


def check_example_size(shape: tuple[int, ...], what: str) -> None:
    """Check that single examples are not too large, before memory is taken for one.

    Args:
        shape: of one example.
        what: where they are, as the subject of a sentence.

    Raises:
        DataProblem: they are.
    """
    if math.prod(shape) > LARGEST_EXAMPLE:
        raise DataProblem(
            f"{what} has examples of shape {_sizes(shape)}, {math.prod(shape):,} numbers each, and may have "
            f"{LARGEST_EXAMPLE:,} at most; make them smaller, as the model takes them"
        )


def check_columns(
    columns: Sequence[str] | None, expected: Sequence[str] | None, stated: str = "the request states"
) -> None:
    """Check the columns of a table, whose order is that of the model's inputs.

    Args:
        columns: of the data; None where they have no names.
        expected: those that the model takes; None where they are not known.
        stated: who says so.

    Raises:
        DataProblem: they are others, or in another order.
    """
    if columns is None or expected is None or tuple(columns) == tuple(expected):
        return
    missing = [name for name in expected if name not in columns]
    extra = [name for name in columns if name not in expected]
    if missing or extra:
        parts = [f"lacks {_names(missing)}"] if missing else []
        parts += [f"has {_names(extra)}, which the model does not take"] if extra else []
        raise DataProblem(f"{stated} the columns {_names(expected)}, but the data {' and '.join(parts)}")
    raise DataProblem(
        f"{stated} the columns {_names(expected)}, in this order, but in the data it is {_names(columns)}; "
        "reorder them: the model knows its inputs by their places"
    )


def columns_sentence(columns: Sequence[str]) -> str:
    """Which columns are taken for which inputs, for people to check.

    Examples:
        >>> columns_sentence(["age", "glucose"])
        "Columns, taken as the model's inputs in this order: 'age', 'glucose'."
    """
    return f"Columns, taken as the model's inputs in this order: {_names(columns)}."


def _names(columns: Sequence[str]) -> str:
    shown = ", ".join(preview(name) for name in columns[:_SHOWN_COLUMNS])
    return shown + (f" and {len(columns) - _SHOWN_COLUMNS} more" if len(columns) > _SHOWN_COLUMNS else "")


def _axes(shape: Sequence[int], expected: Sequence[int]) -> list[int]:
    """Which axis of a shape comes where in the expected one."""
    left = list(range(len(shape)))
    order = []
    for size in expected:
        axis = next(axis for axis in left if shape[axis] == size)
        left.remove(axis)
        order.append(axis)
    return order


def _sizes(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def check_range(
    seen: RangeSeen,
    expected: InputRange | None,
    sigma: float,
    shape: tuple[int, ...],
    warn: Callable[[str], None],
) -> None:
    """Check the inputs' range before anything is certified.

    A sigma that is out of proportion to the range is warned of, and images that use little of it. Where no range is
    stated, pixels that are most likely from 0 to 255, with a sigma for pixels from 0 to 1, are refused.

    Args:
        seen: the range of the inputs.
        expected: as the request, or the site itself, states it; None where neither does.
        sigma: of the noise.
        shape: of one example.
        warn: takes a sentence about what looks like a mistake.

    Raises:
        DataProblem: the inputs are outside the stated range, or look like pixels in other units.
    """
    bounds = seen.bounds
    if bounds is None:
        return
    if expected is not None:
        _check_stated(bounds, expected, shape, seen.examples, warn)
        if (odd_units := units_warning(expected, sigma)) is not None:
            warn(odd_units)
        return
    low, high = bounds
    extent, table = high - low, len(shape) == 1
    actual = f"the inputs range from {worded(bounds)} and sigma is {sigma:g}"
    if look_like_bytes(bounds, sigma, shape):
        raise DataProblem(
            f"{actual}, but sigma is in the units of the inputs, and this one suits pixels from 0 to 1; divide x by "
            f"{255 if high <= 255 * (1 + ROUNDING) else f'{high:.3g}'}, or, where the model takes inputs like these, "
            f"state their range (--input-range {low:.3g},{high:.3g})"
        )
    odd = not table and (low < -ROUNDING or high > 1 + ROUNDING)
    if odd or not extent / MOST_SIGMAS <= sigma <= max(extent, 1e-9) / FEWEST_SIGMAS:
        # A forgotten normalisation shows in the accuracy without noise; one outside the model changes the units.
        remedy = (
            "scale the columns beforehand, so that one sigma suits all of them"
            if table
            else "pixels are best given from 0 to 1, with the normalisation as the model's first layer"
        )
        units = "sigma and the radii are in the units of the inputs"
        stated = "a stated range (--input-range) is checked instead"
        warn(f"{actual}; {units}; {remedy}; {stated}")


def look_like_bytes(bounds: InputRange, sigma: float, shape: tuple[int, ...]) -> bool:
    """Whether images are most likely pixels from 0 to 255, and sigma is for pixels from 0 to 1."""
    low, high = bounds
    return len(shape) > 1 and high > _NOT_UNIT and sigma * _NOT_UNIT_SIGMAS < high - low


def _check_stated(
    bounds: InputRange, expected: InputRange, shape: tuple[int, ...], examples: int, warn: Callable[[str], None]
) -> None:
    extent = expected[1] - expected[0]
    factor = (bounds[1] - bounds[0]) / extent
    remedy = _rescaled(factor, shape)
    actual = f"x ranges from {worded(bounds)}"
    if bounds[0] < expected[0] - ROUNDING * extent or bounds[1] > expected[1] + ROUNDING * extent:
        raise DataProblem(f"the inputs must lie within the stated range, {worded(expected)}, but {actual}; {remedy}")
    if len(shape) == 1 or factor >= _SMALL_SHARE:  # columns may have ranges of their own
        return
    small = f"the inputs use only {100 * factor:.2g}% of the stated range, {worded(expected)}: {actual}"
    if factor < _TINY_SHARE and examples >= _FEWEST:
        raise DataProblem(f"{small}; {remedy}")
    if examples >= _FEWEST:
        warn(f"{small}; {remedy}")


def _rescaled(factor: float, shape: tuple[int, ...]) -> str:
    """What to do with inputs that extend over so many times the stated range."""
    if 200 <= factor <= 260:  # 255, some pixels missing
        return "divide x by 255"
    if 1 / 260 <= factor <= 1 / 200:
        return "multiply x by 255 (8-bit images, uint8, are divided by 255 when they are read: their range is 0 to 1)"
    if len(shape) == 1:
        return "scale the columns as the model was trained, or state the range that they really have"
    return "scale x as the model was trained, and leave normalisation to the model"
