"""CIFAR's binary folders: read as they are, refused with one sentence where they are not."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fedcert import CallError, DataProblem
from fedcert.lab.datasets.cifar import CIFAR10, CIFAR100, CifarFormat, read_cifar

# The real data sets, in the folders that their archives unpack to, for whoever has them.
REAL = Path(os.environ.get("FEDCERT_CIFAR", "/nowhere"))

Images = npt.NDArray[np.uint8]


def made(folder: Path, layout: CifarFormat) -> tuple[CifarFormat, list[Images]]:
    """Write a folder of three random images per file; its layout, and its arrays with colours last."""
    generator = np.random.default_rng(0)
    folder.mkdir()

    def write(name: str) -> tuple[Images, Images]:
        images = generator.integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
        labels = generator.integers(0, layout.classes, (3, layout.label_bytes), dtype=np.uint8)
        rows = [bytes(label) + bytes(image.transpose(2, 0, 1)) for image, label in zip(images, labels, strict=True)]
        (folder / name).write_bytes(b"".join(rows))
        return images, labels[:, -1]

    train = [write(name) for name in layout.train]
    arrays = [np.concatenate([part[which] for part in train]) for which in (0, 1)] + list(write(layout.test))
    (folder / layout.names).write_text("".join(f"class {number}\n" for number in range(layout.classes)) + "\n")
    first, second, third, fourth = (hashlib.sha256(array.tobytes()).hexdigest() for array in arrays)
    return replace(layout, per_train_file=3, per_test_file=3, checksums=(first, second, third, fourth)), arrays


@pytest.mark.parametrize("layout", [CIFAR10, CIFAR100], ids=["CIFAR-10", "CIFAR-100"])
def test_a_folder_is_read_as_it_was_written(tmp_path: Path, layout: CifarFormat) -> None:
    tiny, arrays = made(tmp_path / "data", layout)
    data = read_cifar(tmp_path / "data", tiny)
    assert data.train_images.shape == (3 * len(layout.train), 3, 32, 32)
    assert data.train_images.dtype == np.uint8
    assert data.train_images.flags.c_contiguous
    assert data.train_images.flags.writeable
    assert np.array_equal(data.train_images.transpose(0, 2, 3, 1), arrays[0])
    assert np.array_equal(data.train_labels, arrays[1])
    assert data.train_labels.dtype == np.int64
    assert np.array_equal(data.test_images.transpose(0, 2, 3, 1), arrays[2])
    assert np.array_equal(data.test_labels, arrays[3])
    assert data.classes == tuple(f"class {number}" for number in range(layout.classes))


def test_a_missing_folder_and_a_missing_file_say_where_to_get_them(tmp_path: Path) -> None:
    get = "download cifar-10-binary.tar.gz (the binary version) from https://www.cs.toronto.edu/~kriz/cifar.html, unpack it and give its folder cifar-10-batches-bin"
    with pytest.raises(CallError) as caught:
        read_cifar(tmp_path / "data")
    assert str(caught.value) == f"CIFAR-10: there is no folder {tmp_path}/data; {get}"
    tiny, _ = made(tmp_path / "data", CIFAR10)
    (tmp_path / "data" / "data_batch_4.bin").unlink()
    (tmp_path / "data" / "batches.meta.txt").unlink()
    with pytest.raises(CallError) as caught:
        read_cifar(tmp_path / "data", tiny)
    assert str(caught.value) == f"CIFAR-10: the folder {tmp_path}/data lacks data_batch_4.bin, batches.meta.txt; {get}"
    with pytest.raises(CallError, match="CIFAR-10: it is a file, not the folder that is expected: .*; download"):
        read_cifar(tmp_path / "data" / "test_batch.bin", tiny)


def test_a_file_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    tiny, _ = made(tmp_path / "data", CIFAR100)
    file = tmp_path / "data" / "test.bin"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(
        DataProblem,
        match=r"CIFAR-100: .*test\.bin must have 9222 bytes \(3 images\), but has 9221: it was cut off, or is another file; download cifar-100-binary.tar.gz",
    ):
        read_cifar(tmp_path / "data", tiny)


@pytest.mark.parametrize(
    ("place", "words"), [(0, r"the labels in .*test_batch\.bin"), (5, r"the images in .*test_batch\.bin")]
)
def test_a_changed_byte_is_found(tmp_path: Path, place: int, words: str) -> None:
    tiny, _ = made(tmp_path / "data", CIFAR10)
    file = tmp_path / "data" / "test_batch.bin"
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)
    with pytest.raises(
        DataProblem, match=f"{words} must have the SHA-256 [0-9a-f]{{64}}, but have .*: some were changed; download"
    ):
        read_cifar(tmp_path / "data", tiny)


@pytest.mark.parametrize(("names", "count"), [("one\ntwo\n", 2), ("same\n" * 10, 1), ("", 0)])
def test_names_must_be_as_many_as_classes(tmp_path: Path, names: str, count: int) -> None:
    tiny, _ = made(tmp_path / "data", CIFAR10)
    (tmp_path / "data" / "batches.meta.txt").write_text(names)
    with pytest.raises(
        DataProblem,
        match=rf"batches\.meta\.txt must name 10 different classes, one a line, but names {count}; download",
    ):
        read_cifar(tmp_path / "data", tiny)


@pytest.mark.parametrize("layout", [CIFAR10, CIFAR100], ids=["CIFAR-10", "CIFAR-100"])
def test_the_real_data_are_read_and_normalised_by_the_networks_constants(layout: CifarFormat) -> None:
    folder = REAL / layout.folder
    if not folder.is_dir():
        pytest.skip(f"no {folder}: name the folder above it in FEDCERT_CIFAR")
    from fedcert.lab.networks import CIFAR10_COLOURS, CIFAR100_COLOURS

    data = read_cifar(folder, layout)
    assert np.bincount(data.train_labels).tolist() == [50_000 // layout.classes] * layout.classes
    assert np.bincount(data.test_labels).tolist() == [10_000 // layout.classes] * layout.classes
    assert {"apple", "airplane"} & set(data.classes[:1])
    mean, deviation = CIFAR10_COLOURS if layout is CIFAR10 else CIFAR100_COLOURS
    for plane in range(3):
        pixels = data.train_images[:, plane].astype(np.float32) / 255
        assert float(pixels.mean(dtype=np.float64)) == pytest.approx(mean[plane], abs=1e-4)
        assert float(pixels.std(dtype=np.float64)) == pytest.approx(deviation[plane], abs=1e-4)
