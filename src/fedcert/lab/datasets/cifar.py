"""CIFAR-10 and CIFAR-100, read from the folders of their official binary version and checked to the bit."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcert._files.paths import display_path, kind_of_path
from fedcert.errors import CallError, DataProblem, FileProblem
from fedcert.lab.datasets.dataset import Dataset, Images

HOME = "https://www.cs.toronto.edu/~kriz/cifar.html"
_SHAPE = (3, 32, 32)  # channels, rows, columns: the makers' format
_PIXELS = math.prod(_SHAPE)


@dataclass(frozen=True)
class CifarFormat:
    """What a binary version's folder holds: records of labels, then the red, green and blue plane.

    Attributes:
        name: of the data set.
        archive: the file that its home page offers.
        folder: what the archive unpacks to.
        train: the training files, in order.
        test: the test file.
        per_train_file: records in each training file.
        per_test_file: records in the test file.
        label_bytes: labels before each image; the last of them is the class.
        names: the file of class names, one a line.
        classes: how many classes.
        checksums: SHA-256 of the training images, training classes, test images and test classes as C-ordered
            arrays of bytes, the images N x 32 x 32 x 3.
    """

    name: str
    archive: str
    folder: str
    train: tuple[str, ...]
    test: str
    per_train_file: int
    per_test_file: int
    label_bytes: int
    names: str
    classes: int
    checksums: tuple[str, str, str, str]

    @property
    def remedy(self) -> str:
        """Where the folder comes from, worded to follow a semicolon."""
        return f"download {self.archive} (the binary version) from {HOME}, unpack it and give its folder {self.folder}"


CIFAR10 = CifarFormat(
    name="CIFAR-10",
    archive="cifar-10-binary.tar.gz",
    folder="cifar-10-batches-bin",
    train=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    test="test_batch.bin",
    per_train_file=10_000,
    per_test_file=10_000,
    label_bytes=1,
    names="batches.meta.txt",
    classes=10,
    checksums=(
        "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
        "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
        "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    ),
)

CIFAR100 = CifarFormat(
    name="CIFAR-100",
    archive="cifar-100-binary.tar.gz",
    folder="cifar-100-binary",
    train=("train.bin",),
    test="test.bin",
    per_train_file=50_000,
    per_test_file=10_000,
    label_bytes=2,
    names="fine_label_names.txt",
    classes=100,
    checksums=(
        "4e457917601a66aed021f5fa37957b56c6319557c0a8ed5484de3c390af45430",
        "9f11b9f97aad759ba6df0a33e3218b01d8deaf4ed3a14aa1185d69b9ad7ebcb3",
        "4cb8e5d9309da489bf6b19cc10cd96c3ae6f8daf225380b605aaee4c0d6aee19",
        "4dad7d09c7c97d33f6cb928d705cf4196221316fd6e31bdd978a08ed9103ee0b",
    ),
)


def read_cifar(folder: Path, layout: CifarFormat = CIFAR10) -> Dataset:
    """Read and check a data set; CIFAR-100's classes are the hundred fine ones.

    Args:
        folder: the binary version's folder.
        layout: which data set, `CIFAR10` or `CIFAR100`.

    Raises:
        CallError: the folder or one of its files is not there.
        FileProblem: a file cannot be read.
        DataProblem: a file has the wrong length or the wrong content.
    """
    kind = kind_of_path(folder)
    if kind != "a folder":
        what = "there is no folder" if kind is None else f"it is {kind}, not the folder that is expected:"
        raise CallError(f"{layout.name}: {what} {display_path(folder)}; {layout.remedy}")
    missing = [name for name in (*layout.train, layout.test, layout.names) if kind_of_path(folder / name) != "a file"]
    if missing:
        raise CallError(f"{layout.name}: the folder {display_path(folder)} lacks {', '.join(missing)}; {layout.remedy}")
    parts = [_records(folder / name, layout.per_train_file, layout) for name in layout.train]
    train_images, train_labels = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
    test_images, test_labels = _records(folder / layout.test, layout.per_test_file, layout)
    files = (layout.train, layout.train, (layout.test,), (layout.test,))
    arrays = (train_images, train_labels, test_images, test_labels)
    for array, names, checksum in zip(arrays, files, layout.checksums, strict=True):
        if _checksum(array) != checksum:
            what = "images" if array.ndim > 1 else "labels"
            raise DataProblem(
                f"{layout.name}: the {what} in {', '.join(display_path(folder / name) for name in names)} must have "
                f"the SHA-256 {checksum}, but have {_checksum(array)}: some were changed; {layout.remedy}"
            )
    classes = _class_names(folder / layout.names, layout)
    labels = train_labels.astype(np.int64), test_labels.astype(np.int64)
    return Dataset(layout.name, train_images, labels[0], test_images, labels[1], classes)


def _records(path: Path, count: int, layout: CifarFormat) -> tuple[Images, Images]:
    raw = np.frombuffer(_bytes(path), np.uint8)
    length = layout.label_bytes + _PIXELS
    if len(raw) != count * length:
        raise DataProblem(
            f"{layout.name}: {display_path(path)} must have {count * length} bytes ({count} images), but has "
            f"{len(raw)}: it was cut off, or is another file; {layout.remedy}"
        )
    rows = raw.reshape(count, length)
    images = rows[:, layout.label_bytes :].reshape(count, *_SHAPE)
    return np.ascontiguousarray(images), np.array(rows[:, layout.label_bytes - 1])


def _class_names(path: Path, layout: CifarFormat) -> tuple[str, ...]:
    names = tuple(line.strip() for line in _bytes(path).decode(errors="replace").splitlines() if line.strip())
    if len(set(names)) != layout.classes or len(names) != layout.classes:
        raise DataProblem(
            f"{layout.name}: {display_path(path)} must name {layout.classes} different classes, one a line, "
            f"but names {len(set(names))}; {layout.remedy}"
        )
    return names


def _checksum(array: Images) -> str:
    order = array.transpose(0, 2, 3, 1) if array.ndim > 1 else array
    return hashlib.sha256(np.ascontiguousarray(order).data).hexdigest()


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileProblem(f"cannot read {display_path(path)}: {error.strerror or error}") from None
