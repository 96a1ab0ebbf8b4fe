"""The largest right side of the tail bound over class accuracies, for one tilt and every θ at once.

For a tilt λ the bound's logarithm is Σ_j h_j(L_j) - slope·Σ_j s_j(L_j) + height on each of the bracket's lines, with
h_j the cumulant function of a class's cells, concave in L, and s_j their tilted variance times λ², concave where
|λu| <= log 2. h_j is below its tangents at the nodes, and s_j above its chords, so that polylines are above the sum;
they are made concave. The pieces of all classes' polylines, taken in the order of gain per share of θ, give the largest
sum with p(S)·L <= θ. Nothing is solved and nothing is searched, so rounding is all that can be lost, and that is
allowed for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats, Integers
from fedcert.estimation.intervals.least_favourable.bracket import Lines, lines_above
from fedcert.estimation.intervals.least_favourable.cells import Cells, ClassRows, ClientRows

_STEPS = 36
"""Nodes of equal distance in arcsin √L, the scale of even variance: they lengthen intervals by 0.1%."""
_TAIL, _BELOW = 1.6, 0.02
"""Nodes beyond them are so many times closer to 0 or 1 each, down to so much of one example."""
_MOST_MAGNITUDE = 28
"""Of more examples than 2 to this, nodes are no closer to 1: differences between such pieces would be rounding."""
LEAST_TARGET = 1e-200
"""Classes of smaller shares count as if they had none, which can only lengthen: divisions by such shares overflow."""
_MOST_TABULATED = 200_000
"""Numbers in a table of several tilts: a few MB, which stay in a cache."""
MOST_SMOOTH = float(np.log(2))
"""The largest λ|u| of cells whose tilted variance is concave in L."""
_ROUNDING = 1e-11
"""Relative to λ·Σ n|u|: more than sums over a million pieces lose."""
_LEAST = 1e-300
"""Keeps divisions by bends defined."""
_STEEPEST = 1e90
"""The fall of a piece without a width, which is never gone down; divided by the least share it does not overflow."""
_LARGEST_EXPONENT = 200.0
"""Of e, so that its powers stay below `_STEEPEST`."""


@dataclass(frozen=True)
class Polylines:
    """Concave polylines above each class's part of the bound, for classes that are in the target.

    Attributes:
        held: which classes these are.
        ends: accuracies at the ends of the pieces, classes x (pieces + 1), from 0 to 1.
        slopes: of the pieces on each line, lines x classes x pieces, falling.
        order: the pieces of all classes in the order of gain per share of θ, lines x pieces.
    """

    held: npt.NDArray[np.bool_]
    ends: Floats
    slopes: Floats
    order: Integers


@dataclass(frozen=True)
class TiltedBound:
    """The bound's logarithm as a function of θ: the largest of several concave polylines through the origin.

    Attributes:
        tilt: λ.
        target: p(S).
        heights: of each polyline at θ = 0.
        shares: θ at the polylines' nodes, lines x nodes.
        gains: the polylines above their heights, lines x nodes. The first line is Chernoff's bound; of that and the
            largest of the others, the smaller counts.
        classes: the polylines that these are sums of.
    """

    tilt: float
    target: Floats
    heights: Floats
    shares: Floats
    gains: Floats
    classes: Polylines

    def rejected(self, values: Floats, level: float) -> Floats:
        """The largest θ that each value of T rejects at exp(-level); -1 where it rejects none, infinity where all."""
        return best_of_lines(self.rejected_by_line(values, level))

    def rejected_by_line(self, values: Floats, level: float) -> Floats:
        """The same by each line alone, lines x values."""
        room = self.tilt * values - level
        ends = np.empty((len(self.heights), len(values)))
        for index, (height, shares, gains) in enumerate(zip(self.heights, self.shares, self.gains, strict=True)):
            rising = np.maximum.accumulate(gains)
            inside = np.interp(room - height, rising, shares)
            ends[index] = np.where(room < height, -1.0, np.where(room - height >= rising[-1], np.inf, inside))
        return ends

    def largest(self, low: Floats, high: Floats) -> Floats:
        """The bound's logarithm at its largest over low <= θ <= high."""
        values = np.empty((len(self.heights), len(low)))
        for index, (height, shares, gains) in enumerate(zip(self.heights, self.shares, self.gains, strict=True)):
            peak = shares[int(np.argmax(gains))]
            values[index] = height + np.interp(np.clip(peak, low, high), shares, gains)
        return np.asarray(np.minimum(values[0], values[1:].max(axis=0)) if len(values) > 1 else values[0])


def tilted_bounds(cells: Cells, tilts: Floats, with_bracket: bool = True) -> Iterator[TiltedBound]:
    """The bound for each tilt, by Chernoff alone or with the bracket where that helps.

    Guarantee: for every L in [0, 1], log P(T >= t) <= bound at θ = p(S)·L, less tilt·t.
    """
    nodes = _nodes(min(int(np.ceil(np.log2(max(cells.examples, 2.0)))), _MOST_MAGNITUDE))
    rows = max(cells.rows, len(cells.target))
    step = max(1, _MOST_TABULATED // (rows * len(nodes.values)))
    rounding = _ROUNDING * cells.sum_sizes
    for start in range(0, len(tilts), step):
        some = tilts[start : start + step]
        tables = _Tables.of(cells, some, nodes, with_bracket)
        pieces = _pieces(tables, nodes)
        for index, tilt in enumerate(some):
            lines = None
            if with_bracket:
                lines = lines_above(*(float(each[index]) for each in (tables.largest, tables.cubes, tables.most)))
            yield _sorted_bound(cells, float(tilt), lines, [part[index] for part in pieces], rounding * float(tilt))


def best_of_lines(ends: Floats) -> Floats:
    """The largest θ that is rejected by Chernoff's line, the first, or by all of the others."""
    return np.asarray(np.maximum(ends[0], ends[1:].min(axis=0)) if len(ends) > 1 else ends[0], dtype=np.float64)


def _sorted_bound(cells: Cells, tilt: float, lines: Lines | None, pieces: list[Floats], rounding: float) -> TiltedBound:
    """The pieces in the order of their gain per share of θ, on each line."""
    gains, variances, ends = pieces
    heights = np.zeros(1) if lines is None else np.append(0.0, lines.heights)
    slopes = np.zeros(1) if lines is None else np.append(0.0, lines.slopes)
    held = cells.target > LEAST_TARGET
    if not held.all():  # what adds to the bound without adding to θ, or hardly anything
        heights = heights + _positive(gains[~held], variances[~held], slopes)
        gains, variances, ends = gains[held], variances[held], ends[held]
    widths = np.diff(ends)
    each = gains - slopes[:, None, None] * variances
    each = np.divide(each, widths, out=np.full(each.shape, -_STEEPEST), where=widths > 0)
    # From the last piece back, each at least as steep as those after it: above what it replaces, and concave.
    each = np.maximum.accumulate(each[..., ::-1], axis=-1)[..., ::-1]
    shape = (len(slopes), -1)
    order = np.argsort(-(each / cells.target[held, None]).reshape(shape), axis=1, kind="stable")
    shares = (cells.target[held, None] * widths).ravel()
    zero = np.zeros((len(slopes), 1))
    rises = np.take_along_axis((each * widths).reshape(shape), order, axis=1)
    return TiltedBound(
        tilt,
        cells.target,
        heights + rounding,
        np.hstack([zero, np.cumsum(shares[order], axis=1)]),
        np.hstack([zero, np.cumsum(rises, axis=1)]),
        Polylines(held, ends, each, order),
    )


@dataclass(frozen=True)
class _Nodes:
    values: Floats
    complements: Floats


@lru_cache(maxsize=8)
def _nodes(magnitude: int) -> _Nodes:
    """Values of L from 0 to 1 and 1 - L, for 2^magnitude examples."""
    even = np.sin(np.linspace(0, np.pi / 2, _STEPS + 1)[1 : _STEPS // 2 + 1]) ** 2
    steps = int(np.ceil(np.log(even[0] * 2.0**magnitude / _BELOW) / np.log(_TAIL)))
    lower = np.concatenate([even[0] / _TAIL ** np.arange(max(steps, 0), 0, -1), even])
    values = np.concatenate([[0.0], lower, 1 - lower[-2::-1], [1.0]])
    return _Nodes(values, np.concatenate([[1.0], 1 - lower, lower[-2::-1], [0.0]]))


@dataclass(frozen=True)
class _Tables:
    """Functions of L at the nodes, tilts x classes x nodes, and what the bracket needs of the smooth cells.

    Attributes:
        cumulants: Σ n log(1 + L(e^z - 1)) with z = λu.
        derivatives: of these by L.
        variances: a lower bound of Σ n z² L~(1 - L~) over the smooth cells.
        largest: z, cubes: Σ n z³/8, most: Σ n z²/4, all of the smooth cells, one per tilt.
    """

    cumulants: Floats
    derivatives: Floats
    variances: Floats
    largest: Floats
    cubes: Floats
    most: Floats

    @classmethod
    def of(cls, cells: Cells, tilts: Floats, nodes: _Nodes, with_variances: bool) -> _Tables:
        size = (len(tilts), len(cells.target), len(nodes.values))
        tables = cls(np.zeros(size), np.zeros(size), np.zeros(size), *(np.zeros(len(tilts)) for _ in range(3)))
        if cells.clients is not None:
            tables.add_clients(cells.clients, tilts, nodes, with_variances)
        if cells.classes is not None:
            tables.add_classes(cells.classes, tilts, nodes, with_variances)
        return tables

    def add_clients(self, rows: ClientRows, tilts: Floats, nodes: _Nodes, with_variances: bool) -> None:
        """Add cells whose weight depends on the client alone."""
        values, slopes = _cumulants(np.multiply.outer(tilts, rows.weights)[:, :, None], nodes)
        self.cumulants[:] += rows.examples.T @ values
        self.derivatives[:] += rows.examples.T @ slopes
        if not with_variances:
            return
        tilted = np.multiply.outer(tilts, np.maximum(np.abs(rows.low), np.abs(rows.high)))
        smooth = tilted <= MOST_SMOOTH
        low, high = (
            np.where(smooth, np.multiply.outer(tilts, ends), 0.0)[:, :, None] for ends in (rows.low, rows.high)
        )
        each = np.minimum(_variances(low, nodes), _variances(high, nodes))
        squares = np.where(smooth, (tilts**2)[:, None], 0.0)[:, :, None] * rows.squares
        self.variances[:] += squares.transpose(0, 2, 1) @ each
        held = smooth & (rows.squares.sum(axis=1) > 0)
        np.maximum(self.largest, np.max(np.where(held, tilted, 0.0), axis=1, initial=0.0), out=self.largest)
        self.cubes[:] += tilts**3 * (smooth @ rows.cubes) / 8
        self.most[:] += squares.sum(axis=(1, 2)) / 4

    def add_classes(self, rows: ClassRows, tilts: Floats, nodes: _Nodes, with_variances: bool) -> None:
        """Add cells whose weight depends on the class."""
        for weights, examples, alone in zip(rows.weights, rows.examples, rows.smooth, strict=True):
            # The weight of no example may be any number.
            z = np.multiply.outer(tilts, np.where(examples > 0, weights, 0.0))
            values, slopes = _cumulants(z[:, :, None], nodes)
            self.cumulants[:] += examples[:, None] * values
            self.derivatives[:] += examples[:, None] * slopes
            if not with_variances or not alone:
                continue
            z = np.where(np.abs(z) <= MOST_SMOOTH, z, 0.0)
            squares = examples * z**2
            self.variances[:] += squares[:, :, None] * _variances(z[:, :, None], nodes)
            np.maximum(self.largest, np.abs(z).max(axis=1), out=self.largest)
            self.cubes[:] += np.sum(squares * np.abs(z), axis=1) / 8
            self.most[:] += squares.sum(axis=1) / 4


def _cumulants(z: Floats, nodes: _Nodes) -> tuple[Floats, Floats]:
    """log(1 + L(e^z - 1)) and its derivative by L; one row per z."""
    if z.size and np.abs(z).max() > _LARGEST_EXPONENT:
        return _extreme_cumulants(z, nodes)
    grown, change = np.exp(z), np.expm1(z)
    whole = nodes.complements + nodes.values * grown
    # Each form keeps its digits where the other one loses them.
    values = np.log1p(nodes.values * np.maximum(change, -0.5))
    if change.size and change.min() <= -0.5:
        values = np.where(change > -0.5, values, np.log(whole))
    return values, change / whole


def _extreme_cumulants(z: Floats, nodes: _Nodes) -> tuple[Floats, Floats]:
    """The same where some e^z or e^-z would be too large a number: as ±z beside what is left, for those z.

    Where only one answer is possible (L is 0 or 1) the cumulant is 0 or z, and its derivative is cut to `_STEEPEST`.
    """
    extreme, above = np.abs(z) > _LARGEST_EXPONENT, z > 0
    values, slopes = _cumulants(np.where(extreme, 0.0, z), nodes)
    shrunk = np.exp(-np.where(extreme, np.abs(z), 0.0))
    major = np.where(above, nodes.values, nodes.complements)
    minor = np.where(above, nodes.complements, nodes.values)
    left = major + minor * shrunk
    certain = major == 0
    whole = np.where(certain, 1.0, left)
    far = np.where(certain, np.where(above, 0.0, z), np.where(above, z, 0.0) + np.log(whole))
    steep = np.where(certain, _STEEPEST, np.minimum((1 - shrunk) / whole, _STEEPEST))
    return np.where(extreme, far, values), np.where(extreme, np.where(above, steep, -steep), slopes)


def _variances(z: Floats, nodes: _Nodes) -> Floats:
    """L~(1 - L~) of the tilted accuracy L~ = L e^z/(1 + L(e^z - 1)); one row per z."""
    grown = np.exp(z)
    product = nodes.values * nodes.complements
    return np.asarray(grown * product / (nodes.complements + nodes.values * grown) ** 2, dtype=np.float64)


def _pieces(tables: _Tables, nodes: _Nodes) -> tuple[Floats, Floats, Floats]:
    """The polylines' pieces, tilts x classes x pieces: gain of the cumulants, that of the variances, and their ends.

    A piece is the tangent of the cumulants at a node, from where it meets that of the node before to where it meets
    that of the node after. Where they meet is known up to rounding: the larger of the two is taken there, so that the
    polyline stays above. The chord of the variances between nodes is known there, and a chord between these values is
    below it.
    """
    width = np.diff(nodes.values)
    low, high = tables.cumulants[..., :-1], tables.cumulants[..., 1:]
    rising, falling = tables.derivatives[..., :-1], tables.derivatives[..., 1:]
    bend = np.maximum(rising - falling, _LEAST)
    before = np.clip((high - low - falling * width) / bend, 0.0, width)
    meeting = np.maximum(low + rising * before, high - falling * (width - before))
    variances = tables.variances[..., :-1] + np.diff(tables.variances, axis=-1) * (before / width)

    def at_ends(first: Floats, between: Floats, last: Floats) -> Floats:
        return np.concatenate([first[..., :1], between, last[..., -1:]], axis=-1)

    return (
        np.diff(at_ends(tables.cumulants, meeting, tables.cumulants), axis=-1),
        np.diff(at_ends(tables.variances, variances, tables.variances), axis=-1),
        at_ends(np.zeros_like(before), np.minimum(nodes.values[:-1] + before, nodes.values[1:]), np.ones_like(before)),
    )


def _positive(gains: Floats, variances: Floats, slopes: Floats) -> Floats:
    """The sum of all positive pieces on each line: the most that classes outside the target add."""
    return np.array([np.maximum(gains - slope * variances, 0.0).sum() for slope in slopes])
