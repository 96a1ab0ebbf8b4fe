"""Data without labels: what `certify` reads, and the same files without their labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedcert.certification.data.csv_rows import read_rows
from fedcert.certification.data.images import binary_folder, images_of
from fedcert.certification.data.local_data import LocalData
from fedcert.certification.python_name import imported, is_python_name, user_errors
from fedcert.errors import CallError, DataProblem, preview
from fedcert.prediction.npz_inputs import npz_inputs
from fedcert.prediction.voting import inputs_of

KINDS = (
    "a file that ends in .npz (array x) or .csv (path, or columns of numbers), a folder in CIFAR's binary layout, or "
    "package.module:function"
)


def load_inputs(name: str, expected: Sequence[int] | None = None) -> LocalData:
    """Load DATA as `fedcert certify` names it; labels may be there, and are not read.

    A function returns x alone, or a tuple or list that begins with it.

    Args:
        name: what the user gave.
        expected: the shape of one input, where a request states it: images of another are not opened.

    Raises:
        CallError: DATA is none of these, or its file is not there.
        DataProblem: it holds no usable inputs.
        FileProblem: it cannot be read.
    """
    if name.endswith(".npz"):
        return npz_inputs(Path(name))
    if name.endswith(".csv"):
        rows = read_rows(Path(name), labelled=False)
        if rows.lists_images:
            return images_of(rows, None, expected)
        return replace(inputs_of(rows.numbers()), columns=rows.columns)
    if is_python_name(name):
        function = imported(name, "DATA")
        with user_errors(DataProblem, f"DATA {name} must be a function that returns x, or x and y, but failed"):
            inputs = function()
        return inputs_of(inputs[0] if isinstance(inputs, (tuple, list)) else inputs)
    if Path(name).is_dir():
        return binary_folder(Path(name))
    if Path(name).exists():
        raise CallError(f"DATA must be {KINDS}, but is {preview(name, 300)}")
    raise CallError(f"DATA must be {KINDS}; there is no file {preview(name, 300)}")
