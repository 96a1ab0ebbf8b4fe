"""A client's test examples: arrays, or an .npz file read in pieces."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Images, Integers
from fedcert._schema.suggestions import known_names
from fedcert.certification.data.inputs import check_example_size
from fedcert.certification.data.npz_archive import npz_archive
from fedcert.errors import DataProblem, FedcertError, FedcertWarning, preview

_BYTES_PER_PIECE = 2**24
"""16 MiB of float32 images at a time: enough for fast reading, little beside a model."""
_MOST_PER_PIECE = 4096
"""Examples, however small."""
PIXEL_LEVELS = 255
"""Steps from black to white in images of 8 bits."""
_OFF_LATTICE = 0.01
"""Steps that a value may be off: i/m in float32, however it was computed, is off by less where |i| < 2^16."""
_LARGEST_STEP = 2**22
"""Beyond it, noise and image together would not be whole numbers in float32."""
_GROUPING = ("groups", "group")
"""Names of the array that says which examples belong together; a CSV has the column `group`."""
_SHOWN_NAMES = 5
"""Arrays that are not read and that a sentence names."""

Load = Callable[[range], npt.NDArray[Any]]


@dataclass(frozen=True)
class LocalData:
    """A client's test examples, read in pieces so that they need not fit in memory.

    Attributes:
        labels: class index of each example.
        groups: which examples belong together (several images of one patient); None where all are independent.
        shape: shape of one example.
        lattice: m where all values are multiples of 1/m by their nature (255 for images of 8 bits); None elsewhere.
        columns: a table's column names, in order; None where they are not known.
        read: opens the examples anew and gives those of an increasing range of indices in order, some at a time.
    """

    labels: Integers
    shape: tuple[int, ...]
    read: Callable[[range], Iterator[npt.NDArray[Any]]]
    groups: npt.NDArray[Any] | None = None
    lattice: int | None = None
    columns: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls, labels: Integers, shape: tuple[int, ...], load: Load, groups: npt.NDArray[Any] | None,
        lattice: int | None = None,
    ) -> LocalData:  # fmt: skip
        """Examples that a function gives for any increasing range of indices, asked for some at a time."""
        size = rows_per_piece(shape)
        return cls(labels, shape, lambda wanted: (load(part) for part in parts_of(wanted, size)), groups, lattice)

    def __len__(self) -> int:
        return len(self.labels)

    def pieces(self, every: int = 1, offset: int = 0) -> Iterator[tuple[list[int], Images]]:
        """Indices and float32 images of every `every`-th example from `offset` on, some at a time, in order.

        Raises:
            DataProblem: an example holds NaN or infinity, or the file is cut off.
        """
        wanted = range(offset, len(self), every)
        start = 0
        for piece in self.read(wanted):
            kept = list(wanted[start : start + len(piece)])
            start += len(piece)
            images = np.array(piece, dtype=np.float32, order="C")
            finite = np.isfinite(images.reshape(len(images), -1)).all(axis=1)
            if not finite.all():
                first = kept[int(np.argmin(finite))]
                held = "must hold finite numbers, but holds NaN or infinity; fix or remove it"
                raise DataProblem(f"x[{first}] {held}")
            yield kept, images

    def pieces_on(self, lattice: int | None, every: int = 1, offset: int = 0) -> Iterator[tuple[list[int], Images]]:
        """The same, as points of a lattice: each value the float32 next to a multiple of 1/m.

        Raises:
            DataProblem: see `pieces`; or a value is off the lattice.
        """
        for indices, images in self.pieces(every, offset):
            yield indices, images if lattice is None else _on_lattice(images, lattice, indices)


def _on_lattice(images: Images, lattice: int, indices: list[int]) -> Images:
    scaled = images * np.float32(lattice)
    steps = np.rint(scaled)
    far = (np.abs(scaled - steps) > _OFF_LATTICE) | (np.abs(steps) > _LARGEST_STEP)
    if far.any():
        first = int(np.argmax(far.reshape(len(images), -1).any(axis=1)))
        low, high = float(images[first].min()), float(images[first].max())
        quantise = f"quantise the data, np.round(x * {lattice}) / {lattice}"
        if low < 0 or high > 1:  # 8-bit images are from 0 to 1: these may have been normalised
            quantise = f"give it as it is before it is normalised, which is for the model to do; or {quantise}"
        raise DataProblem(
            f"x[{indices[first]}] must hold multiples of 1/{lattice}, the lattice on which noise is exact, but holds "
            f"others, from {low:.3g} to {high:.3g}; {quantise}; or agree on another lattice or none"
        )
    steps /= np.float32(lattice)
    return np.asarray(steps + 0.0, dtype=np.float32)  # one zero: -0.0 is the same point


def data_of(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    classes: Sequence[str] | None = None,
) -> LocalData:
    """Arrays as local data.

    Args:
        x: examples; a data frame has columns with names.
        y: their class indices, or the names of their classes.
        groups: which examples belong together.
        classes: class names, where they are known.

    Raises:
        DataProblem: x holds no numbers, y no class indices or names, groups no names, or their lengths differ.
    """
    try:
        images, labels = np.asarray(x), class_indices(np.asarray(y), classes)
    except ValueError as error:
        if isinstance(error, FedcertError):
            raise
        raise DataProblem(f"x and y must be arrays of numbers, all examples of one shape: {error}") from None
    _check_numbers(images.dtype)
    _check_shapes(images.shape, len(labels))
    together = None if groups is None else _groups(np.asarray(groups), len(labels))
    lattice = _lattice_of(images.dtype, images.shape)

    def load(part: range) -> npt.NDArray[Any]:
        return _scaled(images[part.start : part.stop : part.step], lattice)

    data = LocalData.of(labels, images.shape[1:], load, together, lattice)
    columns = getattr(x, "columns", None)  # of a data frame; an array has none
    return data if columns is None else replace(data, columns=tuple(map(str, columns)))


def npz_data(path: Path, classes: Sequence[str] | None = None) -> LocalData:
    """The arrays x and y (and groups) of an .npz file, x read in pieces.

    Args:
        path: the file.
        classes: class names, where they are known: labels may be these.

    Raises:
        CallError: there is no such file.
        DataProblem: it holds no usable arrays, or arrays out of proportion to its size.
    """
    with npz_archive(path) as held:
        names, place = held.names, held.place
        if not {"x", "y"} <= names:
            listed = ", ".join(map(preview, sorted(names)[:10])) or "nothing"
            raise DataProblem(
                f"{place} must hold the arrays 'x' and 'y', but holds {listed}; save both with numpy.savez"
            )
        labels = class_indices(held.whole("y"), classes)
        shape, dtype, by_rows = held.header("x")
        _check_numbers(dtype)
        grouping = [name for name in _GROUPING if name in names]
        if len(grouping) > 1:
            raise DataProblem(f"{place} holds both {' and '.join(map(preview, grouping))}; keep one of them")
        groups = _groups(held.whole(grouping[0]), len(labels)) if grouping else None
        _warn_of_unread(place, sorted(names - {"x", "y", *_GROUPING}))
        if not by_rows:  # each example is spread over the whole file, which must then be read whole
            return data_of(held.whole("x"), labels, groups)
        held.check_streamed("x")
    _check_shapes(shape, len(labels))
    check_example_size(shape[1:], f"x in {place}")
    size = rows_per_piece(shape[1:])
    lattice = _lattice_of(dtype, shape)

    def read(wanted: range) -> Iterator[npt.NDArray[Any]]:
        with npz_archive(path) as archive:
            for piece in chosen_rows(archive.pieces("x", size), wanted, size):
                yield _scaled(piece, lattice)

    return LocalData(labels, shape[1:], read, groups, lattice)


def _warn_of_unread(place: str, unread: list[str]) -> None:
    if not unread:
        return
    held = ", ".join(map(preview, unread[:_SHOWN_NAMES]))
    more = f" and {len(unread) - _SHOWN_NAMES} more" if len(unread) > _SHOWN_NAMES else ""
    warnings.warn(
        f"{place} also holds {held}{more}, which {'is' if len(unread) == 1 else 'are'} not read; the array 'groups' "
        "says which examples belong together",
        FedcertWarning,
        stacklevel=3,
    )


def chosen_rows(pieces: Iterator[npt.NDArray[Any]], wanted: range, size: int) -> Iterator[npt.NDArray[Any]]:
    """Of all rows, given so many at a time, those of an increasing range of indices."""
    for start, piece in zip(itertools.count(0, size), pieces, strict=False):
        first = max(wanted.start - start, -(start - wanted.start) % wanted.step)
        if first < len(piece):
            yield piece[first :: wanted.step]


def class_indices(y: npt.NDArray[Any], classes: Sequence[str] | None = None) -> Integers:
    """Class indices from indices, or from the names of classes.

    Raises:
        DataProblem: y holds neither, or an unknown name.
    """
    if y.ndim == 1 and y.size and (y.dtype.kind in "US" or all(isinstance(label, str) for label in y)):
        return _indices_of_names(y, classes)
    if y.ndim != 1 or (y.size and y.dtype.kind not in "iuf"):
        columns = y.shape[1] if y.ndim == 2 else 0
        remedy = "; use y.ravel()" if columns == 1 else "; of one-hot rows use y.argmax(axis=1)" if columns else ""
        raise DataProblem(
            "y must be a list of class indices (whole numbers from 0), or of class names, but is "
            f"{y.dtype} of shape {y.shape}{remedy}"
        )
    with np.errstate(invalid="ignore"):
        labels = y.astype(np.int64)
    wrong = np.flatnonzero((labels != y) | (labels < 0))
    if len(wrong):
        raise DataProblem(f"y[{wrong[0]}] must be a class index (a whole number from 0), but is {y[wrong[0]]}")
    return labels


def _indices_of_names(y: npt.NDArray[Any], classes: Sequence[str] | None) -> Integers:
    if classes is None:
        raise DataProblem(
            f"y holds names, such as {preview(str(y[0]))}: name the classes too, in the order of the model's outputs "
            "(--classes FILE, or classes=[…])"
        )
    names, where = np.unique(y.astype(str), return_inverse=True)
    index = {name: place for place, name in enumerate(classes)}
    if unknown := [str(name) for name in names if name not in index]:
        first = int(np.argmax(y.astype(str) == unknown[0]))
        raise DataProblem(f"unknown class {preview(unknown[0])} in y[{first}]; {known_names(unknown[0], classes)}")
    return np.asarray([index[str(name)] for name in names], dtype=np.int64)[where]


def _groups(groups: npt.NDArray[Any], labels: int) -> npt.NDArray[Any]:
    if groups.ndim != 1 or groups.dtype.kind not in "iuUS" or len(groups) != labels:
        raise DataProblem(
            f"groups must name the group of each of the {labels} examples by a whole number or a text, "
            f"but is {groups.dtype} of shape {groups.shape}"
        )
    return groups


def _lattice_of(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int | None:
    """The lattice of images of 8 bits; None for other numbers, and for tables, whose columns may mean anything."""
    return PIXEL_LEVELS if dtype == np.uint8 and len(shape) > 2 else None


def _scaled(piece: npt.NDArray[Any], lattice: int | None) -> npt.NDArray[Any]:
    """Pixels of 8 bits as numbers from 0 to 1."""
    return piece if lattice is None else piece.astype(np.float32) / np.float32(lattice)


def _check_numbers(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "biuf":
        raise DataProblem(f"x must hold numbers, but holds {dtype}")


def _check_shapes(shape: tuple[int, ...], labels: int) -> None:
    if labels and (len(shape) < 2 or 0 in shape[1:]):
        raise DataProblem(f"x must have one row per example, at least 2 axes and no empty one, but has shape {shape}")
    if (shape[0] if shape else 0) != labels:
        raise DataProblem(f"x and y must have the same length, but x has {shape[0]} examples and y {labels}")


def parts_of(wanted: range, size: int) -> Iterator[range]:
    """A range in parts of some indices each."""
    for start in range(0, len(wanted), size):
        yield wanted[start : start + size]


def rows_per_piece(shape: tuple[int, ...]) -> int:
    """How many examples of a shape to hold at a time."""
    return max(1, min(_MOST_PER_PIECE, _BYTES_PER_PIECE // (4 * max(1, int(np.prod(shape))))))
