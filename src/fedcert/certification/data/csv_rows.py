"""Rows of a CSV with a label each: lists of images, and tables of numbers."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._files.paths import check_readable, display_path
from fedcert._schema.suggestions import known_names
from fedcert.errors import DataProblem, FileProblem, preview

_MOST_ROWS = 50_000_000
"""All rows are held in memory as text: more would not fit on most machines."""
_LARGEST_NUMBER = float(np.finfo(np.float32).max)
"""Models take float32: a number beyond it would become infinite."""
_MOST_DIGITS = 9
"""Of a class index: far above the most classes of a report, and safe to convert."""


@dataclass(frozen=True)
class Rows:
    """A CSV's rows.

    Attributes:
        path: the file.
        names: the columns' names, in order.
        lines: each row's line in the file.
        rows: a mapping from column to text for each.
    """

    path: Path
    names: tuple[str, ...]
    lines: tuple[int, ...]
    rows: tuple[dict[str, str], ...]

    def labels(self, classes: Sequence[str] | None) -> npt.NDArray[np.int64]:
        """Class indices; labels are class names where these are known, or indices.

        Raises:
            DataProblem: a label is neither.
        """
        labels = [self._label(row["label"], index, classes) for index, row in enumerate(self.rows)]
        return np.array(labels, dtype=np.int64)

    def groups(self) -> npt.NDArray[Any] | None:
        """The group of each row, or None where the CSV has none.

        Raises:
            DataProblem: some rows have one and others none.
        """
        groups = [(row.get("group") or "").strip() for row in self.rows]
        if not any(groups):
            return None
        if "" in groups:
            raise DataProblem(
                f"{self.at(groups.index(''))}: group must be given in every row or in none; give single examples "
                "groups of their own"
            )
        return np.array(groups)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of a table's columns; `label` and `group` are none of them."""
        return tuple(name for name in self.names if name not in ("label", "group"))

    def numbers(self) -> npt.NDArray[np.float32]:
        """The numbers of each row, in the order of the columns.

        Raises:
            DataProblem: something is no finite number.
        """
        numbers = np.empty((len(self.rows), len(self.columns)), dtype=np.float32)
        for index, row in enumerate(self.rows):
            for column, name in enumerate(self.columns):
                numbers[index, column] = self._number(row[name], index, name)
        return numbers

    def _number(self, text: str, index: int, name: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not abs(value) <= _LARGEST_NUMBER:
            remedy = "noise needs numbers: leave out what is no input, code categories yourself, fill what is missing"
            if re.fullmatch(r"[+-]?\d+,\d+", text.strip()):
                remedy = "use a decimal point"
            raise DataProblem(
                f"{self.at(index)}: {preview(name)} must be a finite number, but is {preview(text.strip())}; {remedy}"
            )
        return value

    def at(self, index: int) -> str:
        """Where a row is, for messages."""
        return f"{display_path(self.path)}, line {self.lines[index]}"

    def _label(self, text: str, index: int, classes: Sequence[str] | None) -> int:
        text = text.strip()
        if classes is not None and text in classes:
            return list(classes).index(text)
        if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
            return int(text)
        if text.endswith(".0") and text[:-2].isdigit():
            raise DataProblem(f"{self.at(index)}: label must be a whole number or a class name, but is {text}")
        if classes:
            raise DataProblem(f"{self.at(index)}: unknown class {preview(text)}; {known_names(text, classes)}")
        raise DataProblem(
            f"{self.at(index)}: label must be a class index from 0, but is {preview(text)}; name the classes "
            "(--classes) where labels are names"
        )


def read_rows(path: Path) -> Rows:
    """A CSV with a header that has `label`, and `path` or columns of numbers.

    Raises:
        CallError: there is no such file.
        DataProblem: it is no such CSV.
        FileProblem: it cannot be read.
    """
    check_readable(path, (".csv",))
    place = display_path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file)
            names = tuple(table.fieldnames or ())
            _check_names(path, names)
            lines: list[int] = []
            rows: list[dict[str, str]] = []
            for row in table:
                if len(rows) >= _MOST_ROWS:
                    raise DataProblem(f"{place} has more than {_MOST_ROWS} rows; give it in parts")
                if not row.get("label") or ("path" in names and not row.get("path")):
                    both = "path and label must both" if "path" in names else "label must"
                    raise DataProblem(f"{place}, line {table.line_num}: {both} be given")
                if None in row or None in row.values():
                    width = f"must have {len(names)} columns, as the first line has"
                    raise DataProblem(f"{place}, line {table.line_num}: {width}")
                lines.append(table.line_num)
                rows.append(row)
            return Rows(path, names, tuple(lines), tuple(rows))
    except OSError as error:
        raise FileProblem(f"cannot read {place}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise DataProblem(f"{place} is not UTF-8 text; save it as CSV UTF-8") from None
    except csv.Error as error:
        raise DataProblem(f"{place} is not a CSV: {error}") from None


def _check_names(path: Path, names: tuple[str, ...]) -> None:
    if "label" not in names or not set(names) - {"label", "group"}:
        held = ", ".join(preview(name) for name in names[:10]) or "nothing"
        held += f" and {len(names) - 10} more" if len(names) > 10 else ""
        if len(names) == 1 and ";" in names[0]:
            held += "; separate the columns by commas, not semicolons"
        raise DataProblem(
            f"{display_path(path)} must have the column 'label', and 'path' (images) or columns of numbers (a table), "
            f"but its first line has {held}"
        )
    if "" in names:
        raise DataProblem(
            f"{display_path(path)} has a column without a name, as an index has; write the file without it "
            "(pandas: index=False)"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataProblem(f"{display_path(path)} has the column {preview(twice[0])} more than once; name each once")
