"""The inputs of an .npz file, read in pieces; labels beside them are not looked at."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._files.unpacking import check_held
from fedcert.certification.data.inputs import check_example_size
from fedcert.certification.data.local_data import LocalData, chosen_rows, rows_per_piece
from fedcert.certification.data.npz_archive import npz_archive
from fedcert.errors import DataProblem, preview
from fedcert.prediction.voting import inputs_of


def npz_inputs(path: Path) -> LocalData:
    """The array x of an .npz file.

    Raises:
        CallError: there is no such file.
        DataProblem: it holds no usable x, or one out of proportion to the file's size.
    """
    with npz_archive(path) as held:
        place = held.place
        if "x" not in held.names:
            listed = ", ".join(map(preview, sorted(held.names)[:10])) or "nothing"
            raise DataProblem(f"{place} must hold the array 'x', but holds {listed}; save it with numpy.savez")
        shape, dtype, by_rows = held.header("x")
        check_example_size(shape[1:], f"x in {place}")
        if not by_rows:  # each input is spread over the whole file
            return inputs_of(held.whole("x"))
        held.check_streamed("x")
        # An answer to each input is kept: eight bytes, however little the input is.
        check_held(f"x in {place}", 8 * math.prod(shape[:1]), held.packed, DataProblem, "give it in parts")
    # What is wrong with the shape or the type, and what the lattice is, one row shows.
    sample = inputs_of(np.zeros((1, *shape[1:]), dtype=dtype) if shape else np.zeros(()))
    size = rows_per_piece(sample.shape)

    def read(wanted: range) -> Iterator[npt.NDArray[Any]]:
        with npz_archive(path) as archive:
            for piece in chosen_rows(archive.pieces("x", size), wanted, size):
                yield next(inputs_of(piece).read(range(len(piece))))

    return LocalData(np.zeros(shape[0], dtype=np.int64), sample.shape, read, None, sample.lattice)
