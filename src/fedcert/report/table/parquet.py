"""Reports as one Parquet table: a row each, and what they share in the file's metadata.

The metadata's key `fedcert` holds a JSON object with `schema` ("fedcert/table/1"), `task`, `model`, `radii`, `classes`
and `smoothing`; the columns are the other keys of a report, with `n0`, `n` and `failure_probability` where rows differ.
All of that follows from the declaration of `Report` (see `layout`).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._files.atomic import whole_file
from fedcert._files.documents import Reading, opened, parse
from fedcert._files.parquet_pages import ParquetFooter, StrangePages, bytes_of_file, text_columns
from fedcert._files.paths import check_readable, display_path
from fedcert._schema.declare import TablePlace, shared_fields
from fedcert.errors import CannotCombine, FedcertError, FedcertWarning, FileProblem, InvalidValue, preview, require
from fedcert.report.compatibility import SETTINGS_PER_CLIENT, check_compatible, check_once
from fedcert.report.fields import check_cells
from fedcert.report.report import Report
from fedcert.report.smoothing import Smoothing
from fedcert.report.table.bulk import (
    COLUMNS,
    NOTES,
    PROCEDURE_FIELDS,
    ROW_BY_ROW,
    CountColumns,
    NotPlain,
    fast_table,
    procedure_fields,
    validated_notes,
)
from fedcert.report.table.columns import Counts, Table
from fedcert.report.table.layout import arrow_type, fields_at, header_type
from fedcert.report.table.limits import REMEDY, check_extra, check_row_counts, check_sizes, entries_of

SUFFIX = ".parquet"
EXTRA_COLUMN = "extra"
"""The column of keys that have no column of their own, as the text of a JSON object."""
_KEY = b"fedcert"
_LARGEST_HEADER = 32 * 2**20
"""Bytes, as of a JSON document (`LARGEST_DOCUMENT`)."""
_ROWS_AT_ONCE = 2**14
"""Rows that are read together: some megabytes without counts per class, some hundred where each becomes a report."""
_CELLS_AT_ONCE = 10**7
"""Counts per class that are read together: 80 MB as 64-bit integers, and as much again while they are checked."""
_WRITTEN_AT_ONCE = 4096
"""Reports that become a row group: no more of them are in memory."""
_STRANGE = (OSError, ValueError, TypeError, LookupError, ArithmeticError, RuntimeError)
"""What pyarrow, or Python, raises on a strange file."""

Header = header_type(Report, "fedcert/table/1", "table", REMEDY)
"""What all rows of a table share."""
_REQUIRED = tuple(column.name for column in COLUMNS if column.required)
_KNOWN = (*(column.name for column in COLUMNS), *SETTINGS_PER_CLIENT, EXTRA_COLUMN)


def read_parquet(path: Path, reading: Reading = opened) -> Iterator[Table]:
    """The reports of a Parquet table, some ten thousand at a time, checked by the rules of `Report`.

    Args:
        path: the file.
        reading: how it is opened.

    Raises:
        CallError: there is no such file.
        FileProblem: it is not a Parquet table of reports.
        InvalidValue: a row breaks a rule; the message names its number and its client.
        MissingExtra: pyarrow is not installed.
    """
    with _file_problems(path):
        for batch in _batches(path, reading):
            yield batch.table()


def reports_in(path: Path, reading: Reading = opened) -> Iterator[Report]:
    """The same reports, one at a time."""
    with _file_problems(path):
        for batch in _batches(path, reading):
            yield from batch.reports()


def holds_reports(path: Path, reading: Reading = opened) -> bool:
    """Whether a Parquet file says that it is a table of reports; True, too, where it cannot be read to find out."""
    parquet = pyarrow("parquet")
    try:
        with reading(path) as file:
            text = (parquet.read_schema(file).metadata or {}).get(_KEY)
        return text is not None and str(json.loads(text).get("schema")).startswith("fedcert/table/")
    except (OSError, ValueError, AttributeError, RuntimeError, FileProblem):
        return True


@contextmanager
def _file_problems(path: Path) -> Iterator[None]:
    """Turns what pyarrow, or Python, raises on a strange file into one sentence.

    Raises:
        FileProblem: something else than an error of fedcert was raised inside.
    """
    try:
        yield
    except FedcertError:
        raise
    except _STRANGE as error:
        kind = "" if isinstance(error, StrangePages) else f"{type(error).__name__}: "
        reason = " ".join(f"{kind}{error}".split())[:200]
        raise FileProblem(f"{display_path(path)} cannot be read as a Parquet table: {reason}; {REMEDY}") from None


def _batches(path: Path, reading: Reading) -> Iterator[RowBatch]:
    parquet = pyarrow("parquet")
    check_readable(path, (SUFFIX,))
    with reading(path) as opened_file:
        packed, footer = bytes_of_file(opened_file), ParquetFooter.of(opened_file)
        metadata = parquet.read_metadata(opened_file)
        with parquet.ParquetFile(opened_file, metadata=metadata, read_dictionary=text_columns(metadata)) as file:
            place, start = display_path(path), 0
            header, columns = _header_of(file, place), _columns_of(file, place)
            check_row_counts(footer, place)
            check_sizes(footer.sizes(opened_file, columns), header, place, packed)
            for batch in file.iter_batches(batch_size=_batch_rows(header, columns), columns=columns):
                yield RowBatch(header, batch, place, start)
                start += len(batch)
            if not start:
                raise FileProblem(f"{place} holds no report; {REMEDY}")


def write_parquet(path: Path, reports: Iterable[Report]) -> int:
    """Write reports as one Parquet table, some thousand at a time, and give their number.

    Raises:
        CannotCombine: the reports do not belong together, or there are none.
        CallError: the file cannot be written there.
        FileProblem: the disk is full, or the system refuses otherwise.
        MissingExtra: pyarrow is not installed.
    """
    arrow, parquet = pyarrow(), pyarrow("parquet")
    rows = iter(reports)
    first = next(rows, None)
    if first is None:
        raise CannotCombine("there are no reports to combine; give at least one")
    header = Header(**shared_fields(first))
    schema = arrow_schema(arrow).with_metadata({_KEY: json.dumps(header.to_json())})
    clients: list[str] = []
    with whole_file(path) as file, parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        rows = chain([first], rows)
        while chunk := list(islice(rows, _WRITTEN_AT_ONCE)):
            check_compatible([first, *chunk])
            clients += [report.client for report in chunk]
            writer.write_table(arrow.Table.from_pylist([_row(report) for report in chunk], schema=schema))
        check_once(clients)
    return len(clients)


def arrow_schema(arrow: Any) -> Any:
    """The columns: those that every row has, numbers, settings that rows may differ in, texts, further keys."""
    optional = [column for column in COLUMNS if not column.required]
    types = {column.name: arrow_type(arrow, column.field_type) for column in COLUMNS if column.required}
    types |= {column.name: arrow_type(arrow, column.field_type) for column in optional if not column.holds_text}
    types |= {name: arrow_type(arrow, Smoothing.field_types()[name]) for name in SETTINGS_PER_CLIENT}
    types |= {column.name: arrow_type(arrow, column.field_type) for column in optional if column.holds_text}
    types[EXTRA_COLUMN] = arrow.string()
    return arrow.schema([arrow.field(name, kind, nullable=name not in _REQUIRED) for name, kind in types.items()])


def _row(report: Report) -> dict[str, Any]:
    row = {column.name: getattr(report, column.name) for column in COLUMNS}
    row |= {name: getattr(report.smoothing, name) for name in SETTINGS_PER_CLIENT}
    elsewhere = {"schema", *Report.field_types()} - set(fields_at(Report, TablePlace.EXTRA))
    extra = {key: value for key, value in report.to_json().items() if key not in elsewhere}
    return row | {EXTRA_COLUMN: json.dumps(extra) if extra else None}


def _header_of(file: Any, place: str) -> Any:
    text = (file.schema_arrow.metadata or {}).get(_KEY)
    if text is None or len(text) > _LARGEST_HEADER:
        raise FileProblem(
            f"{place} must say in its metadata, under the key 'fedcert', what its rows share, but does not; {REMEDY}"
        )
    header = Header.from_json(parse(text, f"{place}: the metadata under the key 'fedcert'"), place)
    try:
        check_cells(header.classes, header.radii, header.smoothing)
    except InvalidValue as error:
        raise error.at(place) from None
    return header


def _columns_of(file: Any, place: str) -> list[str]:
    names = file.schema_arrow.names
    for name in _REQUIRED:
        if name not in names:
            raise FileProblem(f"{place} must have the column '{name}', but has not; {REMEDY}")
    for name in _KNOWN:
        times = names.count(name)
        if times > 1:
            raise FileProblem(f"{place} must have the column '{name}' once, but has it {times} times; {REMEDY}")
    unknown = [name for name in dict.fromkeys(names) if name not in _KNOWN and not name.startswith("x-")]
    if unknown:
        some = preview(", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else ""), 300)
        words = f"{place}: columns that reports do not have are not read ({some})"
        warnings.warn(words, FedcertWarning, stacklevel=2)
    return [name for name in _KNOWN if name in names]


def _batch_rows(header: Any, columns: Sequence[str]) -> int:
    """Rows at a time, so that their counts per class stay within some hundred megabytes."""
    cells = len(header.classes) * entries_of(header) if procedure_fields(header.smoothing)[1] in columns else 1
    return max(1, min(_ROWS_AT_ONCE, _CELLS_AT_ONCE // cells))


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
            return self._in_bulk()
        except FedcertError:
            raise
        except _STRANGE:  # not plain, or columns of other types: one by one it shows what is wrong
            return Table.of(list(self.reports()))

    def reports(self) -> Iterator[Report]:
        """The rows, each as a report of its own."""
        shared = self.header.to_json()
        of_the_other_kind = PROCEDURE_FIELDS[not self.header.smoothing.is_population]
        columns = {name: values_of(self.batch.column(name)) for name in self.batch.schema.names}
        check_extra(columns.get(EXTRA_COLUMN, ()), EXTRA_COLUMN, self.place)
        for index in range(len(self.batch)):
            row = {name: values[index] for name, values in columns.items()}
            place = f"{self.place}, row {self.start + index + 1}"
            settings = {name: row.pop(name, None) for name in SETTINGS_PER_CLIENT}
            smoothing = shared["smoothing"] | _without_nulls(settings)
            row = {name: value for name, value in row.items() if value is not None or name not in of_the_other_kind}
            extra = _extra(row.pop(EXTRA_COLUMN, None), f"{place}, column '{EXTRA_COLUMN}'")
            document = {**extra, **shared, **row, "smoothing": smoothing}
            yield Report.from_json({**document, "schema": Report.SCHEMA}, place)

    def _in_bulk(self) -> Table:
        if any(self._has(name) for name in (*ROW_BY_ROW, EXTRA_COLUMN)):
            raise NotPlain
        notes = validated_notes({column.name: self._values(column.name, column.default) for column in NOTES})
        return fast_table(shared_fields(self.header), *self._settings(), notes, self._counts())

    def _has(self, name: str) -> bool:
        """Whether a column is there and not all null."""
        return name in self.batch.schema.names and self.batch.column(name).null_count < len(self.batch)

    def _values(self, name: str, default: Any) -> list[Any]:
        """A column's values; the default in all rows where there is no such column."""
        return values_of(self.batch.column(name)) if self._has(name) else [default] * len(self.batch)

    def _counts(self) -> CountColumns:
        classes, entries = len(self.header.classes), entries_of(self.header)
        overall, by_class = procedure_fields(self.header.smoothing)
        if any(self._has(name) for name in PROCEDURE_FIELDS[not self.header.smoothing.is_population]):
            raise NotPlain
        labels, counts = self._array("label_counts", classes), self._array(overall, entries)
        class_rows = abstained = None
        if self._has(by_class):
            class_rows = self._array(by_class, classes, entries)
        if self._has("abstained"):
            if self.header.smoothing.is_population:
                raise NotPlain
            abstained = _whole_numbers(self.batch.column("abstained").fill_null(0))
        return CountColumns(labels, counts, class_rows, abstained)

    def _array(self, name: str, *lengths: int) -> Counts:
        """A column of lists, or of lists of lists, of the given lengths as an array."""
        types, compute = pyarrow("types"), pyarrow("compute")
        list_types = (types.is_list, types.is_large_list, types.is_fixed_size_list)
        column = self.batch.column(name)
        for length in lengths:
            if column.null_count or not any(is_list(column.type) for is_list in list_types):
                raise NotPlain
            if compute.min_max(compute.list_value_length(column)).as_py() != {"min": length, "max": length}:
                raise NotPlain
            column = column.flatten()
        return _whole_numbers(column).reshape(-1, *lengths)

    def _settings(self) -> tuple[list[Smoothing], npt.NDArray[np.int32]]:
        """The settings that occur, and which of them each row has."""
        shared = self.header.smoothing
        names = [name for name in SETTINGS_PER_CLIENT if self._has(name)]
        if not names:
            return [shared], np.zeros(len(self.batch), dtype=np.int32)
        columns = [values_of(self.batch.column(name)) for name in names]
        position: dict[tuple[Any, ...], int] = {}
        indices = [position.setdefault(row, len(position)) for row in zip(*columns, strict=True)]
        try:
            given = [dict(zip(names, row, strict=True)) for row in position]
            smoothings = [replace(shared, **_without_nulls(settings)) for settings in given]
        except InvalidValue:
            raise NotPlain from None
        return smoothings, np.array(indices, dtype=np.int32)


def values_of(column: Any) -> list[Any]:
    """A column's values; texts that are held once are one object."""
    if not pyarrow("types").is_dictionary(column.type):
        return list(column.to_pylist())
    values = column.dictionary.to_pylist()
    return [None if index is None else values[index] for index in column.indices.to_pylist()]


def pyarrow(module: str | None = None) -> Any:
    """The package pyarrow, or a module of it.

    Raises:
        MissingExtra: it is not installed.
    """
    name = "pyarrow" if module is None else f"pyarrow.{module}"
    return require(name, "Parquet tables", "parquet")


def _without_nulls(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _whole_numbers(column: Any) -> Counts:
    arrow, types = pyarrow(), pyarrow("types")
    if not types.is_integer(column.type) or column.null_count:
        raise NotPlain
    try:
        return np.asarray(column.cast(arrow.int64()).to_numpy(zero_copy_only=False), dtype=np.int64)
    except arrow.ArrowInvalid:  # unsigned numbers beyond 2^63
        raise NotPlain from None


def _extra(text: Any, place: str) -> dict[str, Any]:
    if text is None:
        return {}
    document = parse(text, place) if isinstance(text, str) else text
    if not isinstance(document, dict):
        raise InvalidValue("it", "a JSON object as text, or null", document, place=place)
    return document
