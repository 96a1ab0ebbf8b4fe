"""Some rows of a Parquet table of reports on their way in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._files.documents import parse
from fedcert.errors import FedcertError, InvalidValue, require
from fedcert.report.compatibility import SETTINGS_PER_CLIENT
from fedcert.report.report import Report
from fedcert.report.smoothing import Smoothing
from fedcert.report.table.bulk import NOTES, ROW_BY_ROW, CountColumns, fast_table, validated_notes
from fedcert.report.table.columns import Counts, Table, common_request

EXTRA_COLUMN = "extra"
"""The column of keys that have no column of their own, as the text of a JSON object."""


@dataclass(frozen=True)
class RowBatch:
    """Some rows of a table.

    Attributes:
        header: what all rows share.
        batch: the rows, as pyarrow reads them.
        place: the file, for messages.
        start: rows before these.
    """

    header: Any
    batch: Any
    place: str
    start: int

    def table(self) -> Table:
        """The rows as a table. Where they do not plainly obey the rules, each is read as a report of its own."""
        try:
            table = self._in_bulk()
        except FedcertError:
            raise
        except (ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError):
            table = None  # columns of other types: one by one it shows what is wrong
        return Table.of(list(self.reports())) if table is None else table

    def reports(self) -> Iterator[Report]:
        """The rows, each as a report of its own."""
        shared = self.header.to_json()
        for index, row in enumerate(self.batch.to_pylist()):
            place = f"{self.place}, row {self.start + index + 1}"
            settings = {name: row.pop(name, None) for name in SETTINGS_PER_CLIENT}
            smoothing = {**shared["smoothing"], **{key: value for key, value in settings.items() if value is not None}}
            extra = _extra(row.pop(EXTRA_COLUMN, None), f"{place}, column '{EXTRA_COLUMN}'")
            document = {**extra, **shared, **row, "smoothing": smoothing}
            yield Report.from_json({**document, "schema": Report.SCHEMA}, place)

    def _in_bulk(self) -> Table | None:
        if any(self._has(name) for name in (*ROW_BY_ROW, EXTRA_COLUMN)):
            return None
        notes = validated_notes({column.name: self._values(column.name, column.default) for column in NOTES})
        settings = self._settings()
        counts = self._counts()
        if notes is None or settings is None or counts is None:
            return None
        return fast_table(self.header.shared, common_request(notes["request"]), *settings, notes["client"], counts)

    def _has(self, name: str) -> bool:
        """Whether a column is there and not all null."""
        return name in self.batch.schema.names and self.batch.column(name).null_count < len(self.batch)

    def _values(self, name: str, default: Any) -> list[Any]:
        """A column's values; the default in all rows where there is no such column."""
        return self.batch.column(name).to_pylist() if self._has(name) else [default] * len(self.batch)

    def _counts(self) -> CountColumns | None:
        """The columns of counts; None where they are not of whole numbers, or not of the right lengths."""
        classes, radii = len(self.header.classes), len(self.header.radii)
        labels, certified = self._array("label_counts", classes), self._array("certified_counts", radii)
        if labels is None or certified is None:
            return None
        class_rows = abstained = None
        if self._has("class_certified_counts"):
            class_rows = self._array("class_certified_counts", classes, radii)
            if class_rows is None:
                return None
        if self._has("abstained"):
            abstained = _whole_numbers(self.batch.column("abstained").fill_null(0))
            if abstained is None:
                return None
        return CountColumns(labels, certified, class_rows, abstained)

    def _array(self, name: str, *lengths: int) -> Counts | None:
        """A column of lists, or of lists of lists, of the given lengths as an array; None where some are not."""
        types, compute = pyarrow("types"), pyarrow("compute")
        list_types = (types.is_list, types.is_large_list, types.is_fixed_size_list)
        column = self.batch.column(name)
        for length in lengths:
            if column.null_count or not any(is_list(column.type) for is_list in list_types):
                return None
            if compute.min_max(compute.list_value_length(column)).as_py() != {"min": length, "max": length}:
                return None
            column = column.flatten()
        numbers = _whole_numbers(column)
        return None if numbers is None else numbers.reshape(-1, *lengths)

    def _settings(self) -> tuple[list[Smoothing], npt.NDArray[np.int32]] | None:
        """The settings that occur, and which of them each row has; None where some are not valid."""
        shared = self.header.smoothing
        names = [name for name in SETTINGS_PER_CLIENT if self._has(name)]
        if not names:
            return [shared], np.zeros(len(self.batch), dtype=np.int32)
        columns = [self.batch.column(name).to_pylist() for name in names]
        position: dict[tuple[Any, ...], int] = {}
        settings = [position.setdefault(row, len(position)) for row in zip(*columns, strict=True)]
        try:
            smoothings = [
                replace(shared, **{name: value for name, value in zip(names, row, strict=True) if value is not None})
                for row in position
            ]
        except InvalidValue:
            return None
        return smoothings, np.array(settings, dtype=np.int32)


def pyarrow(module: str | None = None) -> Any:
    """The package pyarrow, or a module of it.

    Raises:
        MissingExtra: it is not installed.
    """
    name = "pyarrow" if module is None else f"pyarrow.{module}"
    return require(name, "Parquet tables", "parquet")


def _whole_numbers(column: Any) -> Counts | None:
    arrow, types = pyarrow(), pyarrow("types")
    if not types.is_integer(column.type) or column.null_count:
        return None
    try:
        return np.asarray(column.cast(arrow.int64()).to_numpy(zero_copy_only=False), dtype=np.int64)
    except arrow.ArrowInvalid:  # unsigned numbers beyond 2^63
        return None


def _extra(text: Any, place: str) -> dict[str, Any]:
    if text is None:
        return {}
    document = parse(text, place) if isinstance(text, str) else text
    if not isinstance(document, dict):
        raise InvalidValue("it", "a JSON object as text, or null", document, place=place)
    return document
