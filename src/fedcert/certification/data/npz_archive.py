"""The arrays of an .npz file: their headers first, then their values in pieces or whole."""

from __future__ import annotations

import math
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedcert._files import unpacking
from fedcert._files.paths import check_readable, display_path
from fedcert._files.unpacking import check_held, check_ratio
from fedcert.errors import DataProblem, FedcertError

_LARGEST_DIRECTORY = 2**20
"""Bytes of the list of arrays: ten thousand of them. Python makes twenty times as much of it."""
_WRITTEN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""How numpy writes arrays. Others unpack without a limit to what a single read may take."""
_END, _LARGE_END, _END_BYTES = b"PK\x05\x06", b"PK\x06\x06", 66_000
"""Records that end a zip file, with the size of its directory at bytes 12 and 40, and where they are looked for."""
_CHUNK = 2**22
"""Bytes that are unpacked at a time: 4 MiB."""
_UNCOMPRESSED = "if it is what it should be, save it without compression: numpy.savez"

_FAULTS = (
    OSError, EOFError, zipfile.BadZipFile, zlib.error, struct.error, ValueError, RuntimeError, LookupError, TypeError,
    ArithmeticError, SyntaxError, tokenize.TokenError,
)  # fmt: skip
"""What Python's zip files and numpy's headers raise on strange bytes."""


class ArrayHeader(NamedTuple):
    """What an .npy file says of its array.

    Attributes:
        shape: its shape.
        dtype: its type.
        by_rows: whether examples are stored one after the other.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_rows: bool

    @property
    def size(self) -> int:
        """Bytes of the values."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class NpzArchive:
    """An .npz file that is open.

    Attributes:
        archive: the zip file.
        place: its name, for messages.
        packed: its bytes.
    """

    archive: zipfile.ZipFile
    place: str
    packed: int

    @property
    def names(self) -> set[str]:
        """What it holds, arrays without their ending."""
        return {name.removesuffix(".npy") for name in self.archive.namelist() if name.endswith(".npy")}

    def header(self, name: str) -> ArrayHeader:
        """What the file says of an array, which must be as large as it says.

        Raises:
            DataProblem: it holds objects, or something else than its header says.
        """
        with self._opened(name) as file:
            return self._header_in(file, name)

    def whole(self, name: str) -> npt.NDArray[Any]:
        """An array that is held whole; its size is checked first.

        Raises:
            DataProblem: it is out of proportion to the file, or does not fit into memory.
        """
        with self._opened(name) as file:
            header = self._header_in(file, name)
            needed = max(header.size, 8 * math.prod(header.shape[:1]))  # a number is made of each example's
            check_held(f"{name} in {self.place}", needed, self.packed, DataProblem, _UNCOMPRESSED)
            values = np.frombuffer(_exactly(file, header.size), dtype=header.dtype)
        return values.reshape(header.shape) if header.by_rows else values.reshape(header.shape[::-1]).transpose()

    def pieces(self, name: str, rows: int) -> Iterator[npt.NDArray[Any]]:
        """An array that is stored by rows, some rows at a time."""
        with self._opened(name) as file:
            header = self._header_in(file, name)
            row = math.prod(header.shape[1:]) * header.dtype.itemsize
            for start in range(0, header.shape[0], rows):
                held = min(rows, header.shape[0] - start)
                yield np.frombuffer(_exactly(file, held * row), header.dtype).reshape(held, *header.shape[1:])

    def check_streamed(self, name: str) -> None:
        """Check that an array which is read in pieces is not out of proportion to the file.

        Raises:
            DataProblem: it is.
        """
        size = self.archive.getinfo(f"{name}.npy").file_size
        what = f"{name} in {self.place}"
        check_ratio(what, size, self.packed, DataProblem, _UNCOMPRESSED, unpacking.STREAMED)

    @contextmanager
    def _opened(self, name: str) -> Iterator[IO[bytes]]:
        entry = self.archive.getinfo(f"{name}.npy")
        if entry.compress_type not in _WRITTEN:
            raise DataProblem(
                f"{name} in {self.place} is packed in a way that numpy does not use; save it with numpy.savez again"
            )
        with self.archive.open(entry) as file:
            yield file

    def _header_in(self, file: IO[bytes], name: str) -> ArrayHeader:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about files that Python 2 wrote
            shape, by_columns, dtype = read(file)
        if dtype.hasobject:
            raise DataProblem(f"{name} must hold numbers, but holds Python objects, which are never unpickled")
        header = ArrayHeader(shape, dtype, not by_columns or len(shape) < 2)
        held = self.archive.getinfo(f"{name}.npy").file_size - file.tell()
        if min(shape, default=0) < 0 or header.size != held:
            raise DataProblem(
                f"{name} in {self.place} says that it is {dtype} of shape {shape}, which takes {header.size:,} bytes, "
                f"but has {held:,}; save it with numpy.savez again"
            )
        return header


@contextmanager
def npz_archive(path: Path) -> Iterator[NpzArchive]:
    """An .npz file, whose faults become one sentence.

    Raises:
        CallError: there is no such file.
        DataProblem: it is none, or cannot be read.
    """
    check_readable(path, (".npz",))
    place = display_path(path)
    try:
        _check_directory(path, place)
        with zipfile.ZipFile(path) as archive:
            yield NpzArchive(archive, place, path.stat().st_size)
    except FedcertError:
        raise
    except _FAULTS as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not an .npz file, or cut off"
        raise DataProblem(f"{place} cannot be read: {reason}; save it with numpy.savez again") from None


def _check_directory(path: Path, place: str) -> None:
    """Check that the list of what a zip file holds is short; all of it is read when the file is opened."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _END_BYTES))
        tail = file.read()
    for record, layout, offset, elsewhere in ((_END, "<L", 12, 2**32 - 1), (_LARGE_END, "<Q", 40, 0)):
        start = tail.rfind(record)
        size = struct.unpack_from(layout, tail, start + offset)[0] if start >= 0 else 0
        if size <= _LARGEST_DIRECTORY or size == elsewhere:
            continue
        raise DataProblem(f"{place} lists more arrays than any data has; save x and y with numpy.savez")


def _exactly(file: IO[bytes], size: int) -> bytearray:
    """So many bytes, without a second copy of them."""
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        part = file.read(min(_CHUNK, size - filled))
        if not part:
            raise EOFError
        view[filled : filled + len(part)] = part
        filled += len(part)
    return data
