"""The inputs of an .npz file, read in pieces; labels beside them are not looked at."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedcert._files.paths import check_readable, display_path
from fedcert.certification.data.local_data import LocalData, rows_per_piece
from fedcert.errors import DataProblem, FedcertError, preview
from fedcert.prediction.voting import inputs_of

_MEMBER = "x.npy"
_MOST_AT_ONCE = 2**32
"""4 GiB, as in certification: what must be held in memory whole; a small compressed file may claim any size."""

_FAULTS = (
    OSError, EOFError, zipfile.BadZipFile, zlib.error, ValueError, RuntimeError, LookupError, TypeError,
    ArithmeticError, SyntaxError, tokenize.TokenError,
)  # fmt: skip
"""What Python's zip files and numpy's headers raise on strange bytes."""


def npz_inputs(path: Path) -> LocalData:
    """The array x of an .npz file.

    Raises:
        CallError: there is no such file.
        DataProblem: it holds no usable x.
    """
    check_readable(path, (".npz",))
    with _opened(path) as file:
        header = _header(file)
        _check_size(header.shape[:1], np.dtype(np.int64))
        _check_size(header.shape[1:] if header.by_rows else header.shape, header.dtype)
        if not header.by_rows:  # each input is spread over the whole file
            file.seek(0)
            return inputs_of(np.lib.format.read_array(file, allow_pickle=False))
    # What is wrong with the shape or the type, and what the lattice is, one row shows.
    sample = inputs_of(np.zeros((1, *header.shape[1:]), dtype=header.dtype) if header.shape else np.zeros(()))
    size = rows_per_piece(sample.shape)

    def read(wanted: range) -> Iterator[npt.NDArray[Any]]:
        with _opened(path) as file:
            _header(file)
            row = math.prod(header.shape[1:]) * header.dtype.itemsize
            for start in range(0, header.shape[0], size):
                rows = min(size, header.shape[0] - start)
                data = file.read(rows * row)
                if len(data) != rows * row:
                    raise EOFError
                piece = np.frombuffer(data, dtype=header.dtype).reshape(rows, *header.shape[1:])
                first = max(wanted.start - start, -(start - wanted.start) % wanted.step)
                if first < rows:
                    chosen = piece[first :: wanted.step]
                    yield next(inputs_of(chosen).read(range(len(chosen))))

    return LocalData(np.zeros(header.shape[0], dtype=np.int64), sample.shape, read, None, sample.lattice)


class _Header(NamedTuple):
    """What an .npy file says of its array.

    Attributes:
        shape: its shape.
        dtype: its type.
        by_rows: whether inputs are stored one after the other.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_rows: bool


def _header(file: IO[bytes]) -> _Header:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read(file)
    if dtype.hasobject:
        raise DataProblem("x must hold numbers, but holds Python objects, which are never unpickled")
    return _Header(shape, dtype, not by_columns or len(shape) < 2)


def _check_size(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if not 0 <= math.prod(shape) * dtype.itemsize <= _MOST_AT_ONCE:
        raise DataProblem(
            f"what must be held in memory of x must fit into {_MOST_AT_ONCE // 2**30} GiB, but is {dtype} of shape "
            f"{shape}; is that file what it should be?"
        )


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The file of x in an archive, whose faults become one sentence."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if _MEMBER not in names:
                held = ", ".join(sorted(preview(name.removesuffix(".npy")) for name in names)[:10]) or "nothing"
                raise DataProblem(
                    f"{display_path(path)} must hold the array 'x', but holds {held}; save it with numpy.savez"
                )
            with archive.open(_MEMBER) as file:
                yield file
    except FedcertError:
        raise
    except _FAULTS as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not an .npz file, or cut off"
        raise DataProblem(f"{display_path(path)} cannot be read: {reason}; save it with numpy.savez again") from None
