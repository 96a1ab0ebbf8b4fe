"""Rows of a CSV: lists of images, and tables of numbers, with a label each or without."""

from __future__ import annotations

import csv
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from fedcert._files.paths import check_readable, display_path
from fedcert._files.unpacking import bytes_in_words, most_held
from fedcert._schema.suggestions import known_names
from fedcert.errors import DataProblem, FileProblem, preview

_MOST_ROWS = 50_000_000
"""More than any test set has; a column of labels alone would take gigabytes."""
_MOST_COLUMNS = 100_000
"""As many as a request can name (`INPUT_COLUMNS`)."""
_LONGEST_LINE = 2**24
"""Characters: 100,000 numbers with all their digits, and a limit to what a file without lines takes."""
_TEXT_BYTES = 64
"""Of a text in memory, beside its characters: the object, and a place in a list."""
_ROWS_BETWEEN_CHECKS = 2**14
"""Rows after which the memory that they take is looked at."""
_LARGEST_NUMBER = float(np.finfo(np.float32).max)
"""Models take float32: a number beyond it would become infinite."""
_MOST_DIGITS = 9
"""Of a class index: far above the most classes of a report, and safe to convert."""
_BESIDE = ("label", "group")
"""Columns that are no part of an input."""


@dataclass
class Rows:
    """A CSV's rows, in as little memory as they need.

    Attributes:
        path: the file.
        names: the columns' names, in order.
        lines: each row's line in the file.
        label_texts: each row's label; empty where labels are not read.
        group_texts: each row's group; empty where there are none.
        paths: of images; empty for a table of numbers.
        values: of a table, row by row.
    """

    path: Path
    names: tuple[str, ...]
    lines: array[int] = field(default_factory=lambda: array("q"))
    label_texts: list[str] = field(default_factory=list)
    group_texts: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    values: array[float] = field(default_factory=lambda: array("f"))

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def lists_images(self) -> bool:
        """Whether it lists image files."""
        return "path" in self.names

    def labels(self, classes: Sequence[str] | None) -> npt.NDArray[np.int64]:
        """Class indices; labels are class names where these are known, or indices. Zeros where labels are not read.

        Raises:
            DataProblem: a label is neither.
        """
        if not self.label_texts:
            return np.zeros(len(self), dtype=np.int64)
        known = {name: index for index, name in enumerate(classes or ())}
        labels = (self._label(text, index, known) for index, text in enumerate(self.label_texts))
        return np.fromiter(labels, dtype=np.int64, count=len(self))

    def groups(self) -> npt.NDArray[Any] | None:
        """The group of each row, or None where the CSV has none.

        Raises:
            DataProblem: some rows have one and others none.
        """
        if not any(self.group_texts):
            return None
        if "" in self.group_texts:
            raise DataProblem(
                f"{self.at(self.group_texts.index(''))}: group must be given in every row or in none; give single "
                "examples groups of their own"
            )
        # Numbers in their place: an array of texts would give each as much room as the longest.
        numbers = {text: number for number, text in enumerate(dict.fromkeys(self.group_texts))}
        return np.array([numbers[text] for text in self.group_texts], dtype=np.int64)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of a table's columns; `label` and `group` are none of them."""
        return tuple(name for name in self.names if name not in _BESIDE)

    def numbers(self) -> npt.NDArray[np.float32]:
        """The numbers of each row, in the order of the columns."""
        return np.frombuffer(self.values, dtype=np.float32).reshape(len(self), len(self.columns))

    def at(self, index: int) -> str:
        """Where a row is, for messages."""
        return self._line(self.lines[index])

    def _line(self, number: int) -> str:
        return f"{display_path(self.path)}, line {number}"

    def _label(self, text: str, index: int, classes: dict[str, int]) -> int:
        text = text.strip()
        if text in classes:
            return classes[text]
        if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
            return int(text)
        if text.endswith(".0") and text[:-2].isdigit():
            raise DataProblem(f"{self.at(index)}: label must be a whole number or a class name, but is {preview(text)}")
        if classes:
            raise DataProblem(f"{self.at(index)}: unknown class {preview(text)}; {known_names(text, list(classes))}")
        raise DataProblem(
            f"{self.at(index)}: label must be a class index from 0, but is {preview(text)}; name the classes "
            "(--classes) where labels are names"
        )

    def _number(self, text: str, line: int, name: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not abs(value) <= _LARGEST_NUMBER:
            remedy = "noise needs numbers: leave out what is no input, code categories yourself, fill what is missing"
            if re.fullmatch(r"[+-]?\d+,\d+", text.strip()):
                remedy = "use a decimal point"
            raise DataProblem(
                f"{self._line(line)}: {preview(name)} must be a finite number, but is {preview(text.strip())}; {remedy}"
            )
        return value

    def _add(self, cells: list[str], line: int, places: dict[str, int], known: dict[str, str]) -> int:
        """Take a row, and say about how many bytes it takes."""
        self.lines.append(line)
        taken = self.lines.itemsize
        for name, texts in (("label", self.label_texts), ("group", self.group_texts)):
            if name in places:  # most texts stand in many rows: each is held once
                text = cells[places[name]] if name == "label" else cells[places[name]].strip()
                taken += self.lines.itemsize + (0 if text in known else _TEXT_BYTES + len(text))
                texts.append(known.setdefault(text, text))
        if "path" in places:
            self.paths.append(cells[places["path"]])
            return taken + _TEXT_BYTES + len(self.paths[-1])
        columns = [(name, cells[place]) for place, name in enumerate(self.names) if name not in _BESIDE]
        self.values.extend([self._number(text, line, name) for name, text in columns])
        return taken + self.values.itemsize * len(columns)


def read_rows(path: Path, *, labelled: bool = True) -> Rows:
    """A CSV with a header that has `label`, and `path` or columns of numbers.

    Args:
        path: the file.
        labelled: whether labels, and groups, are wanted; where they are not, they may be there.

    Raises:
        CallError: there is no such file.
        DataProblem: it is no such CSV, or would take too much memory.
        FileProblem: it cannot be read.
    """
    check_readable(path, (".csv",))
    place = display_path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.reader(_lines(file, place))
            rows = Rows(path, tuple(next(table, ())))
            _check_names(place, rows.names, labelled=labelled)
            _read_into(rows, table, place, labelled=labelled)
            return rows
    except OSError as error:
        raise FileProblem(f"cannot read {place}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise DataProblem(f"{place} is not UTF-8 text; save it as CSV UTF-8") from None
    except csv.Error as error:
        raise DataProblem(f"{place} is not a CSV: {error}") from None


def _read_into(rows: Rows, table: Any, place: str, *, labelled: bool) -> None:
    wanted = [name for name in ("label", "path") if name in rows.names and (labelled or name == "path")]
    places: dict[str, int] = {name: rows.names.index(name) for name in wanted}
    if labelled and "group" in rows.names:
        places["group"] = rows.names.index("group")
    needed = f"{' and '.join(sorted(wanted, reverse=True))} must {'both ' if len(wanted) > 1 else ''}be given"
    known: dict[str, str] = {}
    taken, most = 0, most_held()
    for cells in table:
        if not cells:
            continue
        if len(rows) >= _MOST_ROWS:
            raise DataProblem(f"{place} has more than {_MOST_ROWS:,} rows; give it in parts")
        line = table.line_num
        if any(not cells[places[name]] if places[name] < len(cells) else labelled for name in wanted):
            raise DataProblem(f"{place}, line {line}: {needed}")
        if len(cells) != len(rows.names):
            width = f"must have {len(rows.names)} columns, as the first line has"
            raise DataProblem(f"{place}, line {line}: {width}")
        taken += rows._add(cells, line, places, known)
        if len(rows) % _ROWS_BETWEEN_CHECKS == 0 and taken > most:
            raise DataProblem(
                f"{place}, up to line {line}, takes more than {bytes_in_words(most)} of memory, half of what is free "
                "here; give it in parts, or as an .npz file"
            )


def _lines(file: IO[str], place: str) -> Iterator[str]:
    """The lines of a file, none of them so long that it fills the memory."""
    for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE + 1), ""), start=1):
        if len(line) > _LONGEST_LINE:
            raise DataProblem(f"{place}, line {number} has more than {_LONGEST_LINE:,} characters; is that file a CSV?")
        yield line


def _check_names(place: str, names: tuple[str, ...], *, labelled: bool) -> None:
    if (labelled and "label" not in names) or not set(names) - set(_BESIDE):
        held = ", ".join(preview(name) for name in names[:10]) or "nothing"
        held += f" and {len(names) - 10} more" if len(names) > 10 else ""
        if len(names) == 1 and ";" in names[0]:
            held += "; separate the columns by commas, not semicolons"
        wanted = "the column 'label', and 'path'" if labelled else "the column 'path'"
        raise DataProblem(
            f"{place} must have {wanted} (images) or columns of numbers (a table), but its first line has {held}"
        )
    if len(names) > _MOST_COLUMNS:
        raise DataProblem(f"{place} has {len(names):,} columns, and may have {_MOST_COLUMNS:,} at most")
    if "" in names:
        raise DataProblem(
            f"{place} has a column without a name, as an index has; write the file without it (pandas: index=False)"
        )
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise DataProblem(f"{place} has the column {preview(twice[0])} more than once; name each once")
