"""scikit-learn's digits: 1,797 handwritten digits of 8 x 8 pixels that ship inside the package."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedcert.errors import require

CLASSES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def load_digits() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """The images, [1797, 1, 8, 8] in [0, 1], and their classes.

    Raises:
        MissingExtra: scikit-learn is not installed.
    """
    data = require("sklearn.datasets", "the digits data", "demo").load_digits()
    return (data.images[:, None] / 16).astype(np.float32), data.target.astype(np.int64)
