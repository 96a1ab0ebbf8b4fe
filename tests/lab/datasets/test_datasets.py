"""Data in MNIST's format, digits, and data sets by name."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from fedcert import CallError, DataProblem
from fedcert.lab.datasets.dataset import as_floats
from fedcert.lab.datasets.digits import read_digits
from fedcert.lab.datasets.idx import read_idx
from fedcert.lab.datasets.library import DATASETS, read_dataset

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
RANDOM = np.random.default_rng(0)
ARRAYS = (
    RANDOM.integers(0, 256, (12, 5, 4), dtype=np.uint8), RANDOM.integers(0, 3, 12, dtype=np.uint8),
    RANDOM.integers(0, 256, (6, 5, 4), dtype=np.uint8), RANDOM.integers(0, 3, 6, dtype=np.uint8),
)  # fmt: skip


def idx(array: np.ndarray) -> bytes:
    """An array in the format."""
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small data set, half of its files compressed."""
    for number, (name, array) in enumerate(zip(FILES, ARRAYS, strict=True)):
        if number % 2:
            (tmp_path / f"{name}.gz").write_bytes(gzip.compress(idx(array), mtime=0))
        else:
            (tmp_path / name).write_bytes(idx(array))
    return tmp_path


def test_a_data_set_is_read_as_it_was_written(folder: Path) -> None:
    data = read_dataset("idx", folder)
    assert np.array_equal(data.train_images, ARRAYS[0][:, None])
    assert np.array_equal(data.train_labels, ARRAYS[1])
    assert np.array_equal(data.test_images, ARRAYS[2][:, None])
    assert np.array_equal(data.test_labels, ARRAYS[3])
    assert data.train_labels.dtype == np.int64
    assert data.classes == ("0", "1", "2")
    assert data.digest == read_idx(folder).digest
    assert len(data.digest) == 64


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (FILES[0], None, "lacks train-images-idx3-ubyte, plain or with .gz; get the four files"),
        (FILES[0], b"", "must begin with the bytes 00 00 08 03 .*, but begins with nothing"),
        (FILES[0], b"abcdefghijklmnopqrs", "but begins with 61 62 63 64"),
        (FILES[0], idx(ARRAYS[0])[:-1], r"must have 256 bytes for an array of \(12, 5, 4\), .* but has 255"),
        (FILES[1] + ".gz", b"nothing", "cannot be unpacked"),
        (FILES[1] + ".gz", gzip.compress(idx(ARRAYS[1]), mtime=0)[:-9], "cannot be unpacked"),
        (
            FILES[1] + ".gz",
            gzip.compress(idx(ARRAYS[3]), mtime=0),
            "as many training images as labels, but there are 12 and 6",
        ),
        (FILES[2], idx(ARRAYS[2][:, 1:]), "training and test images must have one size"),
        (FILES[2], idx(ARRAYS[2][:0]), "at least one of them a value"),
    ],
    ids=range(9),
)
def test_files_that_are_missing_or_damaged_are_one_sentence(
    folder: Path, name: str, content: bytes | None, sentence: str
) -> None:
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises((CallError, DataProblem), match=sentence):
        read_idx(folder)


def test_mnist_is_known_by_its_checksums(folder: Path) -> None:
    with pytest.raises(
        DataProblem, match="must be MNIST's compressed file with the MD5 f68b3c2d.*, but has .*ask for 'idx'"
    ):
        read_dataset("mnist", folder)


def test_digits_are_bytes_and_split() -> None:
    data = read_digits()
    assert data.train_images.shape == (1198, 1, 8, 8)
    assert data.test_images.shape == (599, 1, 8, 8)
    assert data.train_images.max() == 255
    assert as_floats(data.test_images).max() == 1.0
    assert set(np.unique(data.test_labels)) == set(range(10))


def test_names_and_folders_are_checked(tmp_path: Path) -> None:
    with pytest.raises(CallError, match=f"the data set must be one of {', '.join(DATASETS)}, but is 'imagenet'"):
        read_dataset("imagenet", tmp_path)
    with pytest.raises(CallError, match="the data set cifar10 is read from a folder: name it"):
        read_dataset("cifar10", None)
    with pytest.raises(CallError, match="CIFAR-10: there is no folder .*; download cifar-10-binary.tar.gz"):
        read_dataset("cifar10", tmp_path / "nowhere")
    with pytest.raises(CallError, match="there is no folder .*; get the four files"):
        read_dataset("mnist", tmp_path / "nowhere")
