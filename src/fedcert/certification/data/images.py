"""Local data as image files: a CSV of paths and labels, or a folder in CIFAR's binary layout."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._files.paths import display_path, kind_of_path
from fedcert.certification.data.csv_rows import Rows
from fedcert.certification.data.inputs import check_example_size, check_shape
from fedcert.certification.data.local_data import PIXEL_LEVELS, LocalData
from fedcert.errors import DataProblem, FileProblem, require
from fedcert.report.input_range import LARGEST_EXAMPLE

FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "GIF", "PPM", "WEBP")
"""The formats of images that are opened, as Pillow names them. It goes by the content, whatever the file is called, and
would start other programs for some of the rest (Ghostscript for EPS)."""
_GREY = ("1", "L", "LA", "La")
"""Pillow's modes of grey images, with or without transparency."""
_TILE = (322, 323, 277)
"""TIFF's tags of a tile's width and length, and of the numbers in a pixel: a tile is unpacked whole."""
_PIXELS = 3 * 32 * 32
"""Bytes of an image in CIFAR's binary layout."""
_BINARY = {"test_batch.bin": 1, "test.bin": 2}
"""CIFAR-10's and CIFAR-100's test file, and the labels before each image; the last of them is the class."""


def images_of(rows: Rows, classes: Sequence[str] | None, expected: Sequence[int] | None = None) -> LocalData:
    """The images that a CSV names, as pixels in [0, 1], channels first.

    The CSV has `path` (relative to the CSV) and `label`, and perhaps `group`. Labels are class names where these are
    known, or class indices. All images must have one size; grey ones (of 8 or 16 bits, or black and white) have one
    channel, others three. Sizes are read from the images' headers, before memory is taken for pixels.

    Args:
        rows: of the CSV.
        classes: class names, where they are known.
        expected: the shape of one image, where a request states it.

    Raises:
        DataProblem: a label is unknown; an image is missing, broken, of another size, too large, or not of one of
            `FORMATS`.
        MissingExtra: Pillow is not installed.
    """
    pillow = require("PIL.Image", "image files as DATA", "images")
    labels, groups = rows.labels(classes), rows.groups()
    files = [rows.path.parent / path for path in rows.paths]
    first = _pixels(pillow, files[0], None, expected) if files else np.zeros((1, 1, 1), dtype=np.float32)
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
        size = path.stat().st_size
        raw = np.memmap(path, dtype=np.uint8, mode="r") if size else np.zeros(0, dtype=np.uint8)
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


def _pixels(
    pillow: Any, file: Path, shape: tuple[int, ...] | None, expected: Sequence[int] | None = None
) -> npt.NDArray[np.float32]:
    """An image, channels first; its shape must be that of the first one, or what is expected."""
    name = f"the image {display_path(file)}"
    kind = kind_of_path(file)
    if kind != "a file":  # opening a pipe would wait for another program to write into it
        reason = "there is no such file" if kind is None else f"it is {kind}, not a file"
        raise DataProblem(f"{name} cannot be read: {reason}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about what else is in a file
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(file, formats=FORMATS) as image:
                announced = _announced(image, name)
                if shape is None:
                    check_example_size(announced, name)
                    check_shape(announced, expected)
                elif announced != shape:
                    raise DataProblem(
                        f"all images must have one size and as many channels as the first, {shape}, but "
                        f"{display_path(file)} has {announced}; bring them to one size"
                    )
                pixels = _in_unit_range(image)
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise DataProblem(
            f"{name} has {int(re.findall(r'[0-9]+', f'{error} 0')[0]):,} pixels, and may have {LARGEST_EXAMPLE:,} "
            "numbers at most; make it smaller, as the model takes it"
        ) from None
    except pillow.UnidentifiedImageError:
        raise DataProblem(
            f"{name} is damaged, or of none of the formats that are read ({', '.join(FORMATS)}); save it as PNG"
        ) from None
    except DataProblem:
        raise
    except Exception as error:  # noqa: BLE001  Pillow's readers raise whatever a damaged file leads them to
        reason = next(iter(str(error).splitlines()), type(error).__name__)[:200]
        raise DataProblem(f"{name} cannot be read: {reason}; save it as PNG") from None
    return np.ascontiguousarray(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1))


def _announced(image: Any, name: str) -> tuple[int, ...]:
    """The shape of an image by its header, which unpacks to no more than that.

    Raises:
        DataProblem: its range is unknown, or it is stored in tiles that are far larger than it is.
    """
    tags = getattr(image, "tag_v2", {})  # of a TIFF
    tile = [tags.get(tag, 1) for tag in _TILE]
    if not all(isinstance(size, int) for size in tile):
        raise DataProblem(f"{name} does not say how large its tiles are; save it as PNG")
    if math.prod(tile) > LARGEST_EXAMPLE:
        raise DataProblem(
            f"{name} is stored in tiles of {tile[0]:,} x {tile[1]:,} pixels, which would fill the memory; save it as "
            "PNG"
        )
    if not _is_wide(image) and image.mode in ("I", "F"):  # which values are black and white is unknown
        raise DataProblem(
            f"{name} has pixels of 32 bits (mode {image.mode}), whose range is unknown; save it with 8 or 16 bits, or "
            "give the data as an .npz file"
        )
    channels = 1 if _is_wide(image) or image.mode in _GREY else 3
    return (channels, *reversed(image.size))


def _is_wide(image: Any) -> bool:
    """Whether an image is grey, of 16 bits; older Pillows call PNGs like this I."""
    return bool(image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"))


def _in_unit_range(image: Any) -> npt.NDArray[np.float32]:
    """An image's pixels in [0, 1]: height x width where it is grey, height x width x 3 otherwise."""
    if _is_wide(image):
        return np.asarray(image, dtype=np.float32) / np.float32(65535)
    wanted = "L" if image.mode in _GREY else "RGB"
    plain = image if image.mode == wanted else image.convert(wanted)
    pixels = np.asarray(plain, dtype=np.float32)
    pixels /= np.float32(255)
    return pixels
