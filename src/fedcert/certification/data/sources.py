"""DATA as the command line names it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedcert.certification.data.csv_rows import read_rows
from fedcert.certification.data.images import binary_folder, images_of
from fedcert.certification.data.local_data import LocalData, data_of, npz_data
from fedcert.certification.models.classifiers import is_module
from fedcert.certification.python_name import imported, is_python_name, user_errors
from fedcert.errors import CallError, DataProblem, preview

KINDS = (
    "a file that ends in .npz (arrays x and y) or .csv (label, and path or columns of numbers), a folder in CIFAR's "
    "binary layout, or package.module:function"
)


def load_data(name: str, classes: Sequence[str] | None = None, expected: Sequence[int] | None = None) -> LocalData:
    """Load DATA: "data.npz", "data.csv", a folder in CIFAR's binary layout, or "package.module:function".

    A CSV with the column `path` lists images; one without is a table of numbers. The function takes nothing and returns
    x and y, or x, y and groups.

    Args:
        name: what the user gave.
        classes: class names, where they are known: labels may be these.
        expected: the shape of one example, where a request states it: images of another are not opened.

    Raises:
        CallError: DATA is none of these, or its file is not there.
        DataProblem: it holds no usable data.
    """
    if name.endswith(".npz"):
        return npz_data(Path(name), classes)
    if name.endswith(".csv"):
        rows = read_rows(Path(name))
        if rows.lists_images:
            return images_of(rows, classes, expected)
        return replace(data_of(rows.numbers(), rows.labels(classes), rows.groups()), columns=rows.columns)
    if is_python_name(name):
        function = imported(name, "DATA")
        wanted = f"DATA {name} must be a function that returns x and y, or x, y and groups, but"
        with user_errors(DataProblem, f"{wanted} failed"):
            given = function()
        if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
            order = "; MODEL comes first, then DATA" if is_module(given) or callable(given) else ""
            raise DataProblem(f"{wanted} returned {type(given).__name__}{order}")
        return data_of(given[0], given[1], given[2] if len(given) == 3 else None, classes)
    if Path(name).is_dir():
        return binary_folder(Path(name))
    if Path(name).exists():
        raise CallError(f"DATA must be {KINDS}, but is {preview(name, 300)}")
    raise CallError(f"DATA must be {KINDS}; there is no file {preview(name, 300)}")
