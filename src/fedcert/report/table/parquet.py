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
from itertools import islice
from pathlib import Path
from typing import Any

from fedcert._files.atomic import whole_file
from fedcert._files.documents import parse
from fedcert._files.paths import check_readable, display_path
from fedcert._schema.declare import TablePlace
from fedcert.errors import CannotCombine, FedcertError, FedcertWarning, FileProblem, preview
from fedcert.report.compatibility import SETTINGS_PER_CLIENT, check_compatible, check_once
from fedcert.report.report import Report
from fedcert.report.smoothing import Smoothing
from fedcert.report.table.bulk import COLUMNS
from fedcert.report.table.columns import Table
from fedcert.report.table.layout import arrow_type, fields_at, header_type
from fedcert.report.table.row_batch import EXTRA_COLUMN, RowBatch, pyarrow

SUFFIX = ".parquet"
_KEY = b"fedcert"
_LARGEST_HEADER = 32 * 2**20
"""Bytes, as of a JSON document (`LARGEST_DOCUMENT`)."""
_ROWS_AT_ONCE = 2**16
"""Rows that are read together: some megabytes without counts per class."""
_CELLS_AT_ONCE = 10**7
"""Counts per class that are read together: 80 MB as 64-bit integers, and as much again while they are checked."""
_WRITTEN_AT_ONCE = 4096
"""Reports that become a row group: no more of them are in memory."""
_REMEDY = "make it with 'fedcert merge REPORT… --out reports.parquet'"

Header = header_type(Report, "fedcert/table/1", "table", _REMEDY)
"""What all rows of a table share."""
_REQUIRED = tuple(column.name for column in COLUMNS if column.required)
_OPTIONAL = tuple(column.name for column in COLUMNS if not column.required)
_KNOWN = (*_REQUIRED, *_OPTIONAL, *SETTINGS_PER_CLIENT, EXTRA_COLUMN)


def read_parquet(path: Path) -> Iterator[Table]:
    """The reports of a Parquet table, some ten thousand at a time, checked by the rules of `Report`.

    Raises:
        CallError: there is no such file.
        FileProblem: it is not a Parquet table of reports.
        InvalidValue: a row breaks a rule; the message names its number and its client.
        MissingExtra: pyarrow is not installed.
    """
    with _file_problems(path):
        for batch in _batches(path):
            yield batch.table()


def reports_in(path: Path) -> Iterator[Report]:
    """The same reports, one at a time."""
    with _file_problems(path):
        for batch in _batches(path):
            yield from batch.reports()


def holds_reports(path: Path) -> bool:
    """Whether a Parquet file says that it is a table of reports; True, too, where it cannot be read to find out."""
    parquet = pyarrow("parquet")
    try:
        text = (parquet.read_schema(path).metadata or {}).get(_KEY)
        return text is not None and str(json.loads(text).get("schema")).startswith("fedcert/table/")
    except (OSError, ValueError, AttributeError):
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
    except (OSError, ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise FileProblem(f"{display_path(path)} cannot be read as a Parquet table: {reason}; {_REMEDY}") from None


def _batches(path: Path) -> Iterator[RowBatch]:
    parquet = pyarrow("parquet")
    check_readable(path, (SUFFIX,))
    with parquet.ParquetFile(path) as file:
        header = _header_of(file, path)
        columns = _columns_of(file, path)
        start = 0
        for batch in file.iter_batches(batch_size=_batch_rows(header, columns), columns=columns):
            yield RowBatch(header, batch, display_path(path), start)
            start += len(batch)
        if not start:
            raise FileProblem(f"{display_path(path)} holds no report; {_REMEDY}")


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
    header = Header(**first.shared)
    schema = arrow_schema(arrow).with_metadata({_KEY: json.dumps(header.to_json())})
    clients: list[str] = []
    with whole_file(path) as file, parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        chunk = [first, *islice(rows, _WRITTEN_AT_ONCE - 1)]
        while chunk:
            check_compatible([first, *chunk])
            clients += [report.client for report in chunk]
            writer.write_table(arrow.Table.from_pylist([_row(report) for report in chunk], schema=schema))
            chunk = list(islice(rows, _WRITTEN_AT_ONCE))
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


def _header_of(file: Any, path: Path) -> Any:
    metadata = file.schema_arrow.metadata or {}
    text = metadata.get(_KEY)
    if text is None or len(text) > _LARGEST_HEADER:
        raise FileProblem(
            f"{display_path(path)} must say in its metadata, under the key 'fedcert', what its rows share, but "
            f"does not; {_REMEDY}"
        )
    return Header.from_json(
        parse(text, f"{display_path(path)}: the metadata under the key 'fedcert'"), display_path(path)
    )


def _columns_of(file: Any, path: Path) -> list[str]:
    names = file.schema_arrow.names
    for name in _REQUIRED:
        if name not in names:
            raise FileProblem(f"{display_path(path)} must have the column '{name}', but has not; {_REMEDY}")
    for name in _KNOWN:
        if names.count(name) > 1:
            raise FileProblem(
                f"{display_path(path)} must have the column '{name}' once, but has it {names.count(name)} times; "
                f"{_REMEDY}"
            )
    unknown = [name for name in dict.fromkeys(names) if name not in _KNOWN and not name.startswith("x-")]
    if unknown:
        some = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
        warnings.warn(
            f"{display_path(path)}: columns that reports do not have are not read ({preview(some, 300)})",
            FedcertWarning,
            stacklevel=2,
        )
    return [name for name in _KNOWN if name in names]


def _batch_rows(header: Any, columns: Sequence[str]) -> int:
    """Rows at a time, so that their counts per class stay within some hundred megabytes."""
    cells = len(header.classes) * len(header.radii) if "class_certified_counts" in columns else 1
    return max(1, min(_ROWS_AT_ONCE, _CELLS_AT_ONCE // cells))
