"""A data set in memory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Dataset:
    """Images and their classes, for training and for testing.

    Attributes:
        name: of the data set.
        train_images: N x C x H x W bytes.
        train_labels: the class of each.
        test_images: as the training images.
        test_labels: the class of each.
        classes: the classes' names, in the order of their numbers.
    """

    name: str
    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels
    classes: tuple[str, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of all images and labels: which data a result is about."""
        digest = hashlib.sha256()
        for array in (self.train_images, self.train_labels, self.test_images, self.test_labels):
            digest.update(repr((array.dtype.str, array.shape)).encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


def as_floats(images: Images) -> npt.NDArray[np.float32]:
    """Images in [0, 1], as networks take them."""
    return images.astype(np.float32) / np.float32(255)
