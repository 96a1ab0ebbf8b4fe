"""Local data as image files: a CSV of paths and labels, or a folder in CIFAR's binary layout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._files.paths import display_path
from fedcert.certification.data.csv_rows import Rows
from fedcert.certification.data.local_data import PIXEL_LEVELS, LocalData
from fedcert.errors import DataProblem, FileProblem, require

_PIXELS = 3 * 32 * 32
"""Bytes of an image in CIFAR's binary layout."""
_BINARY = {"test_batch.bin": 1, "test.bin": 2}
"""CIFAR-10's and CIFAR-100's test file, and the labels before each image; the last of them is the class."""


def images_of(rows: Rows, classes: Sequence[str] | None) -> LocalData:
    """The images that a CSV names, as pixels in [0, 1], channels first.

    The CSV has `path` (relative to the CSV) and `label`, and perhaps `group`. Labels are class names where these are
    known, or class indices. All images must have one size; grey ones (of 8 or 16 bits, or black and white) have one
    channel, others three.

    Raises:
        DataProblem: a label is unknown, an image is missing, broken or of another size.
        MissingExtra: Pillow is not installed.
    """
    pillow = require("PIL.Image", "image files as DATA", "images")
    labels, groups = rows.labels(classes), rows.groups()
    files = [rows.path.parent / row["path"] for row in rows.rows]
    first = _pixels(pillow, files[0], None) if files else np.zeros((1, 1, 1), dtype=np.float32)
    shape, scaled = first.shape, first * np.float32(PIXEL_LEVELS)
    eight = bool(np.all(np.rint(scaled) / np.float32(PIXEL_LEVELS) == first))

    def load(part: range) -> npt.NDArray[np.float32]:
        return np.stack([_pixels(pillow, files[index], shape) for index in part])

    return LocalData.of(labels, shape, load, groups, PIXEL_LEVELS if eight else None)


def binary_folder(folder: Path) -> LocalData:
    """The test images of a folder in the binary layout of CIFAR-10 or CIFAR-100, as pixels in [0, 1].

    Raises:
        DataProblem: there is no test file, or it is not made of whole records.
        FileProblem: it cannot be read.
    """
    present = [name for name in _BINARY if (folder / name).is_file()]
    if not present:
        raise DataProblem(
            f"{display_path(folder)} must hold test_batch.bin (CIFAR-10's binary layout) or test.bin (CIFAR-100's), "
            "but holds neither; give another folder, an .npz file or a .csv of image paths"
        )
    path, before = folder / present[0], _BINARY[present[0]]
    try:
        raw = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise FileProblem(f"cannot read {display_path(path)}: {error.strerror or error}") from None
    record = before + _PIXELS
    if not len(raw) or len(raw) % record:
        raise DataProblem(
            f"{display_path(path)} must hold records of {record} bytes, but has {len(raw)} bytes; get it again"
        )
    records = raw.reshape(-1, record)
    shape = (3, 32, 32)

    def load(part: range) -> npt.NDArray[np.float32]:
        pixels = records[part.start : part.stop : part.step, before:]
        return pixels.reshape(-1, *shape).astype(np.float32) / np.float32(255)

    return LocalData.of(records[:, before - 1].astype(np.int64), shape, load, None, PIXEL_LEVELS)


def _in_unit_range(image: Any, file: Path) -> npt.NDArray[np.float32]:
    """An image's pixels in [0, 1]: height x width where it is grey, height x width x 3 otherwise."""
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):  # as older Pillows call it
        return np.asarray(image, dtype=np.float32) / np.float32(65535)
    if image.mode in ("I", "F"):  # which values are black and white is unknown
        raise DataProblem(
            f"the image {display_path(file)} has pixels of 32 bits (mode {image.mode}), whose range is unknown; "
            "save it with 8 or 16 bits, or give the data as an .npz file"
        )
    wanted = "L" if image.mode in ("1", "L", "LA", "La") else "RGB"
    plain = image if image.mode == wanted else image.convert(wanted)
    return np.asarray(plain, dtype=np.float32) / np.float32(255)


def _pixels(pillow: Any, file: Path, shape: tuple[int, ...] | None) -> npt.NDArray[np.float32]:
    try:
        with pillow.open(file) as image:
            pixels = _in_unit_range(image, file)
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else str(error).splitlines()[0][:200]
        raise DataProblem(f"the image {display_path(file)} cannot be read: {reason}") from None
    pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    if shape is not None and pixels.shape != shape:
        raise DataProblem(
            f"all images must have one size and as many channels as the first, {shape}, but {display_path(file)} has "
            f"{pixels.shape}; bring them to one size"
        )
    return np.ascontiguousarray(pixels)
