"""The array types that signatures name."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Images = npt.NDArray[np.float32]
"""Examples as a model takes them, the first axis counting them where there are several."""
