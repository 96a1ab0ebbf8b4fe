"""Local data as a table: a CSV with a column for each number of an example."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedcert.certification.data.csv_rows import Rows
from fedcert.errors import DataProblem, preview

_LARGEST = float(np.finfo(np.float32).max)
"""Models take float32: beyond it a number would become infinite."""


def numbers_of(rows: Rows) -> npt.NDArray[np.float32]:
    """The numbers of each row, in the order of the columns; `label` and `group` are none of them.

    Raises:
        DataProblem: something is no finite number.
    """
    columns = [name for name in rows.names if name not in ("label", "group")]
    numbers = np.empty((len(rows.rows), len(columns)), dtype=np.float32)
    for index, row in enumerate(rows.rows):
        for column, name in enumerate(columns):
            try:
                value = float(row[name])
            except ValueError:
                value = float("nan")
            if not abs(value) <= _LARGEST:
                raise DataProblem(
                    f"{rows.at(index)}: {preview(name)} must be a finite number, but is {preview(row[name].strip())}; "
                    "noise needs numbers: code categories yourself, and fill what is missing"
                )
            numbers[index, column] = value
    return numbers
