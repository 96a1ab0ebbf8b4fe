"""scikit-learn's digits: 1,797 handwritten digits of 8 x 8 pixels that ship inside the package."""

from __future__ import annotations

import numpy as np

from fedcert.errors import require
from fedcert.lab.datasets.dataset import Dataset, Images, Labels

CLASSES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def load_digits() -> tuple[Images, Labels]:
    """All images, [1797, 1, 8, 8] bytes, and their classes.

    Raises:
        MissingExtra: scikit-learn is not installed.
    """
    data = require("sklearn.datasets", "the digits data", "demo").load_digits()
    return np.round(data.images[:, None] * (255 / 16)).astype(np.uint8), data.target.astype(np.int64)


def read_digits() -> Dataset:
    """The digits with every third one for testing: they have no split of their own.

    Raises:
        MissingExtra: scikit-learn is not installed.
    """
    images, labels = load_digits()
    test = np.arange(len(labels)) % 3 == 0
    return Dataset("digits", images[~test], labels[~test], images[test], labels[test], CLASSES)
