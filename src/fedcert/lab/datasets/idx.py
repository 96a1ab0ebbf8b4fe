"""Data in the format of MNIST (idx), plain or compressed by gzip, as MNIST, Fashion-MNIST, KMNIST and others come."""

from __future__ import annotations

import gzip
import hashlib
import math
import zlib
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedcert._files.paths import display_path, kind_of_path
from fedcert._files.unpacking import check_held
from fedcert.errors import CallError, DataProblem, FileProblem
from fedcert.lab.datasets.dataset import Dataset

_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_HEADER = 4
"""Bytes before the sizes of the dimensions, which have four each."""
_REMEDY = f"get the four files {', '.join(_FILES)} (or with .gz) from the data set's home page and give their folder"

# MD5 of the four compressed files, as their makers published them.
_KNOWN = {
    "MNIST": (
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
}


def read_idx(folder: Path, *, expected: str | None = None) -> Dataset:
    """Read a data set in MNIST's format; classes are named by their numbers.

    Args:
        folder: where its four files are.
        expected: "MNIST" to refuse anything but that data set's own compressed files.

    Raises:
        CallError: the folder or one of its files is not there.
        FileProblem: a file cannot be read.
        DataProblem: a file is not of that format, or not of that data set.
    """
    if kind_of_path(folder) != "a folder":
        raise CallError(f"there is no folder {display_path(folder)}; {_REMEDY}")
    arrays = []
    for number, name in enumerate(_FILES):
        path = _path(folder, name)
        content, checksum = _content(path, 3 if number % 2 == 0 else 1)
        if expected is not None and checksum != _KNOWN[expected][number]:
            raise DataProblem(
                f"{display_path(path)} must be {expected}'s compressed file with the MD5 {_KNOWN[expected][number]}, "
                f"but has {checksum}; {_REMEDY}, or ask for 'idx' where another data set is meant"
            )
        arrays.append(_array(content, path, 3 if number % 2 == 0 else 1))
    for images, labels, what in ((arrays[0], arrays[1], "training"), (arrays[2], arrays[3], "test")):
        if len(images) != len(labels):
            raise DataProblem(
                f"{display_path(folder)}: there must be as many {what} images as labels, but there are "
                f"{len(images)} and {len(labels)}; {_REMEDY}"
            )
    if arrays[0].shape[1:] != arrays[2].shape[1:]:
        raise DataProblem(f"{display_path(folder)}: training and test images must have one size; {_REMEDY}")
    train, test = arrays[1].astype(np.int64), arrays[3].astype(np.int64)
    classes = tuple(map(str, range(int(max(train.max(), test.max())) + 1)))
    return Dataset(expected or "idx", arrays[0][:, None], train, arrays[2][:, None], test, classes)


def _path(folder: Path, name: str) -> Path:
    """A file, compressed or not.

    Raises:
        CallError: there is neither.
    """
    for end in (".gz", ""):
        if kind_of_path(folder / f"{name}{end}") == "a file":
            return folder / f"{name}{end}"
    raise CallError(f"the folder {display_path(folder)} lacks {name}, plain or with .gz; {_REMEDY}")


def _content(path: Path, dimensions: int) -> tuple[bytes, str]:
    """A file's content, as far as its beginning says that it goes and a byte more, and the checksum of the file."""
    try:
        with path.open("rb") as raw:
            checksum = hashlib.file_digest(raw, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
            packed = raw.tell()
            raw.seek(0)
            with gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else nullcontext(raw) as file:
                start = file.read(_HEADER + 4 * dimensions)
                if not start.startswith(_beginning(dimensions)) or len(start) < _HEADER + 4 * dimensions:
                    return start, checksum
                size = math.prod(np.frombuffer(start, ">u4", dimensions, _HEADER).tolist())
                check_held(display_path(path), size, packed, DataProblem, _REMEDY)
                return start + file.read(size + 1), checksum
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataProblem(f"{display_path(path)} cannot be unpacked: {error}; {_REMEDY}") from None
    except OSError as error:
        raise FileProblem(f"cannot read {display_path(path)}: {error.strerror or error}") from None


def _beginning(dimensions: int) -> bytes:
    """The first bytes of a file of bytes in so many dimensions."""
    return bytes([0, 0, 8, dimensions])


def _array(content: bytes, path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    wanted = _beginning(dimensions)
    header = _HEADER + 4 * dimensions
    if content[:4] != wanted or len(content) < header:
        raise DataProblem(
            f"{display_path(path)} must begin with the bytes {wanted.hex(' ')} (idx, bytes, {dimensions} dimensions), "
            f"but begins with {content[:4].hex(' ') or 'nothing'}; {_REMEDY}"
        )
    shape = tuple(np.frombuffer(content, ">u4", dimensions, 4).tolist())
    size = math.prod(shape)
    if len(content) != header + size or not size:
        raise DataProblem(
            f"{display_path(path)} must have {header + size} bytes for an array of {shape}, at least one of them "
            f"a value, but has {len(content) if len(content) < header + size else 'more'}; {_REMEDY}"
        )
    return np.frombuffer(content, np.uint8, size, header).reshape(shape).copy()
