"""Data without labels: what `certify` reads, and the same files without their labels."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

from fedcert._files.paths import check_readable, display_path
from fedcert.certification.data.csv_rows import Rows
from fedcert.certification.data.images import binary_folder, images_of
from fedcert.certification.data.local_data import LocalData
from fedcert.certification.python_name import imported, is_python_name, user_errors
from fedcert.errors import CallError, DataProblem, FileProblem, preview
from fedcert.prediction.npz_inputs import npz_inputs
from fedcert.prediction.voting import inputs_of

KINDS = (
    "a file that ends in .npz (array x) or .csv (path, or columns of numbers), a folder in CIFAR's binary layout, or "
    "package.module:function"
)
_BESIDE = ("label", "group")
"""Columns that are no part of an input."""


def load_inputs(name: str) -> LocalData:
    """Load DATA as `fedcert certify` names it; labels may be there, and are not read.

    A function returns x alone, or a tuple or list that begins with it.

    Raises:
        CallError: DATA is none of these, or its file is not there.
        DataProblem: it holds no usable inputs.
        FileProblem: it cannot be read.
    """
    if name.endswith(".npz"):
        return npz_inputs(Path(name))
    if name.endswith(".csv"):
        rows = _rows(Path(name))
        if "path" in rows.names:
            return images_of(rows, None)
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


def _rows(path: Path) -> Rows:
    """The rows of a CSV, with class 0 in place of whatever labels it has."""
    check_readable(path, (".csv",))
    place = display_path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file)
            names = tuple(table.fieldnames or ())
            _check_names(place, names)
            lines: list[int] = []
            rows: list[dict[str, str]] = []
            for row in table:
                if None in row or None in row.values():
                    width = f"must have {len(names)} columns, as the first line has"
                    raise DataProblem(f"{place}, line {table.line_num}: {width}")
                if "path" in names and not row["path"]:
                    raise DataProblem(f"{place}, line {table.line_num}: path must be given")
                lines.append(table.line_num)
                rows.append({**row, "label": "0", "group": ""})
            return Rows(path, names, tuple(lines), tuple(rows))
    except OSError as error:
        raise FileProblem(f"cannot read {place}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise DataProblem(f"{place} is not UTF-8 text; save it as CSV UTF-8") from None
    except csv.Error as error:
        raise DataProblem(f"{place} is not a CSV: {error}") from None


def _check_names(place: str, names: tuple[str, ...]) -> None:
    if not set(names) - set(_BESIDE):
        held = ", ".join(preview(name) for name in names) or "nothing"
        raise DataProblem(
            f"{place} must have the column 'path' (images) or columns of numbers (a table), but its first line has "
            f"{held}"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataProblem(f"{place} has the column {preview(twice[0])} more than once; name each once")
