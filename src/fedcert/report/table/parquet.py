"""Reports as one Parquet table: a row each, and what they share in the file's metadata.

The metadata's key `fedcert` holds a JSON object with `schema` ("fedcert/table/1"), `task`, `model`, `radii`, `classes`
and `smoothing`; the columns are the other keys of a report, with `n0`, `n` and `failure_probability` where rows differ.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedcert._files.atomic import whole_file
from fedcert._files.paths import check_readable, display_path
from fedcert._files.strict_json import parse
from fedcert._schema.declare import defaulting, required
from fedcert._schema.field_types import LARGEST_COUNT, Enumerated, FieldType, ModelName, Nullable, Text, Timestamp
from fedcert._schema.record import Nested, Record
from fedcert.errors import (
    CannotCombine,
    FedcertError,
    FedcertWarning,
    FileProblem,
    InvalidValue,
    preview,
    require,
)
from fedcert.report.compatibility import check_compatible, check_once
from fedcert.report.fields import CLASSES, RADII, REQUEST_DIGEST
from fedcert.report.report import Report
from fedcert.report.smoothing import Smoothing
from fedcert.report.table.bulk import NeedsRowByRow, plain_table, takes
from fedcert.report.table.columns import Counts, Table

SUFFIX = ".parquet"
_KEY = b"fedcert"
_LARGEST_HEADER = 32 * 2**20
_ROWS_AT_ONCE = 2**16
_PER_ROW = ("n0", "n", "failure_probability")
_NEEDED = ("client", "label_counts", "certified_counts")
_NULLABLE = (
    "request", "class_certified_counts", "abstained", "design_effect", "largest_group", "samples", "software",
    "created",
)  # fmt: skip
_REMEDY = "make it with 'fedcert merge REPORT… --out reports.parquet'"


@dataclass(frozen=True, kw_only=True)
class Header(Record):
    """What all rows of a table share."""

    SCHEMA: ClassVar[str] = "fedcert/table/1"
    NOUN: ClassVar[str] = "table"
    REMEDY: ClassVar[str | None] = _REMEDY

    task: str = defaulting(Enumerated(("multiclass",)), "multiclass")
    model: str = required(ModelName())
    smoothing: Smoothing = required(Nested(Smoothing))
    radii: tuple[float, ...] = required(RADII)
    classes: tuple[str, ...] = required(CLASSES)


def read_parquet(path: Path) -> Iterator[Table]:
    """The reports of a Parquet table, some ten thousand at a time, checked by the rules of `Report`.

    Raises:
        CallError: there is no such file.
        FileProblem: it is not a Parquet table of reports.
        InvalidValue: a row breaks a rule; the message names its number and its client.
        MissingExtra: pyarrow is not installed.
    """
    with _told(path):
        for batch in _batches(path):
            yield batch.table()


def reports_in(path: Path) -> Iterator[Report]:
    """The same reports, one at a time."""
    with _told(path):
        for batch in _batches(path):
            yield from batch.reports()


def holds_reports(path: Path) -> bool:
    """Whether a Parquet file says that it is a table of reports; True, too, where it cannot be read to find out."""
    parquet = _pyarrow("parquet")
    try:
        text = (parquet.read_schema(path).metadata or {}).get(_KEY)
        return text is not None and str(json.loads(text).get("schema")).startswith("fedcert/table/")
    except (OSError, ValueError, AttributeError):
        return True


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Whatever pyarrow, or Python, makes of a strange file, as one sentence."""
    try:
        yield
    except FedcertError:
        raise
    except (OSError, ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise FileProblem(f"{display_path(path)} cannot be read as a Parquet table: {reason}; {_REMEDY}") from None


def _batches(path: Path) -> Iterator[_Batch]:
    parquet = _pyarrow("parquet")
    check_readable(path, (SUFFIX,))
    with parquet.ParquetFile(path) as file:
        header = _header_of(file, path)
        columns = _columns_of(file, path)
        start = 0
        for batch in file.iter_batches(batch_size=_batch_rows(header, columns), columns=columns):
            yield _Batch(header, batch, display_path(path), start)
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
    arrow, parquet = _pyarrow(), _pyarrow("parquet")
    rows = iter(reports)
    first = next(rows, None)
    if first is None:
        raise CannotCombine("there are no reports to combine; give at least one")
    header = Header(
        task=first.task, model=first.model, smoothing=first.smoothing, radii=first.radii, classes=first.classes
    )
    schema = _schema(arrow).with_metadata({_KEY: json.dumps(header.to_json())})
    clients: list[str] = []
    with whole_file(path) as file, parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        chunk = [first, *islice(rows, 4095)]
        while chunk:
            check_compatible([first, *chunk])
            clients += [report.client for report in chunk]
            writer.write_table(arrow.Table.from_pylist([_row(report) for report in chunk], schema=schema))
            chunk = list(islice(rows, 4096))
        check_once(clients)
    return len(clients)


def _pyarrow(module: str | None = None) -> Any:
    name = "pyarrow" if module is None else f"pyarrow.{module}"
    return require(name, "Parquet tables", "parquet")


def _schema(arrow: Any) -> Any:
    counts, whole, text = arrow.list_(arrow.int64()), arrow.int64(), arrow.string()
    kinds = {
        "client": text, "label_counts": counts, "certified_counts": counts,
        "class_certified_counts": arrow.list_(counts), "abstained": whole,
        "design_effect": arrow.list_(arrow.float64()), "largest_group": whole, "samples": whole,
        "n0": whole, "n": whole, "failure_probability": arrow.float64(),
        "request": text, "software": text, "created": text, "extra": text,
    }  # fmt: skip
    return arrow.schema([arrow.field(name, kind, nullable=name not in _NEEDED) for name, kind in kinds.items()])


def _row(report: Report) -> dict[str, Any]:
    row = {name: getattr(report, name) for name in (*_NEEDED, *_NULLABLE)}
    row |= {name: getattr(report.smoothing, name) for name in _PER_ROW}
    known = {"schema", *Report.field_types()} - {"signature"}  # no column of its own: few tables have signed rows
    extra = {key: value for key, value in report.to_json().items() if key not in known}
    return row | {"extra": json.dumps(extra) if extra else None}


def _header_of(file: Any, path: Path) -> Header:
    metadata = file.schema_arrow.metadata or {}
    text = metadata.get(_KEY)
    if text is None or len(text) > _LARGEST_HEADER:
        raise FileProblem(
            f"{display_path(path)} must say in its metadata, under the key 'fedcert', what its rows share, but "
            "does not; "
            f"{_REMEDY}"
        )
    return Header.from_json(
        parse(text, f"{display_path(path)}: the metadata under the key 'fedcert'"), display_path(path)
    )


def _columns_of(file: Any, path: Path) -> list[str]:
    names = file.schema_arrow.names
    known = (*_NEEDED, *_NULLABLE, *_PER_ROW, "extra")
    for name in _NEEDED:
        if name not in names:
            raise FileProblem(f"{display_path(path)} must have the column '{name}', but has not; {_REMEDY}")
    for name in known:
        if names.count(name) > 1:
            raise FileProblem(
                f"{display_path(path)} must have the column '{name}' once, but has it {names.count(name)} times; "
                f"{_REMEDY}"
            )
    unknown = [name for name in dict.fromkeys(names) if name not in known and not name.startswith("x-")]
    if unknown:
        some = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
        warnings.warn(
            f"{display_path(path)}: columns that reports do not have are not read ({preview(some, 300)})",
            FedcertWarning,
            stacklevel=2,
        )
    return [name for name in known if name in names]


def _batch_rows(header: Header, columns: Sequence[str]) -> int:
    """Rows at a time, so that their class rows stay within some hundred megabytes."""
    cells = len(header.classes) * len(header.radii) if "class_certified_counts" in columns else 1
    return max(1, min(_ROWS_AT_ONCE, 10**7 // cells))


def _extra(text: Any, place: str) -> dict[str, Any]:
    if text is None:
        return {}
    document = parse(text, place) if isinstance(text, str) else text
    if not isinstance(document, dict):
        raise InvalidValue("it", "a JSON object as text, or null", document, place=place)
    return document


@dataclass(frozen=True)
class _Batch:
    """Some rows of a table on their way in."""

    header: Header
    batch: Any
    place: str
    start: int

    def table(self) -> Table:
        """The rows as a table. Where they are not plainly right, each is read as a report of its own."""
        try:
            return self._in_bulk()
        except NeedsRowByRow:
            return Table.of(list(self.reports()))

    def reports(self) -> Iterator[Report]:
        """The rows, each as a report of its own."""
        shared = self.header.to_json()
        for index, row in enumerate(self.batch.to_pylist()):
            place = f"{self.place}, row {self.start + index + 1}"
            settings = {name: row.pop(name, None) for name in _PER_ROW}
            smoothing = {**shared["smoothing"], **{key: value for key, value in settings.items() if value is not None}}
            extra = _extra(row.pop("extra", None), f"{place}, column 'extra'")
            document = {**extra, **shared, **row, "smoothing": smoothing}
            yield Report.from_json({**document, "schema": Report.SCHEMA}, place)

    def _in_bulk(self) -> Table:
        try:
            return self._plainly()
        except (FedcertError, NeedsRowByRow):
            raise
        except (ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError):
            raise NeedsRowByRow from None  # columns of other types: one by one it shows what is wrong

    def _plainly(self) -> Table:
        if any(self._has(name) for name in ("design_effect", "largest_group", "extra")):
            raise NeedsRowByRow
        requests = self._distinct("request", Nullable(REQUEST_DIGEST))
        self._distinct("software", Nullable(Text()))
        self._distinct("created", Nullable(Timestamp()))
        if len(requests) > 1:
            raise NeedsRowByRow
        samples = self._whole("samples")
        if samples is not None and ((samples < 0) | (samples > LARGEST_COUNT)).any():
            raise NeedsRowByRow
        classes, radii = len(self.header.classes), len(self.header.radii)
        cells = None
        if self._has("class_certified_counts"):
            inner = self._inner(self.batch.column("class_certified_counts"), classes)
            cells = self._numbers(self._inner(inner, radii)).reshape(-1, classes, radii)
        return plain_table(
            self.header, next(iter(requests), None), *self._settings(), self.batch.column("client").to_pylist(),
            self._lists("label_counts", classes), self._lists("certified_counts", radii), cells,
            self._whole("abstained"),
        )  # fmt: skip

    def _has(self, name: str) -> bool:
        """Whether a column is there and says anything."""
        return name in self.batch.schema.names and self.batch.column(name).null_count < len(self.batch)

    def _distinct(self, name: str, kind: FieldType) -> set[Any]:
        """The different values of a column, all of a kind."""
        values = set(self.batch.column(name).to_pylist()) if self._has(name) else {None}
        if not all(takes(kind, value) for value in values):
            raise NeedsRowByRow
        return values

    def _whole(self, name: str) -> Counts | None:
        """A column of whole numbers, 0 for null; None where nobody says anything."""
        return self._numbers(self.batch.column(name).fill_null(0)) if self._has(name) else None

    def _lists(self, name: str, length: int) -> Counts:
        return self._numbers(self._inner(self.batch.column(name), length)).reshape(-1, length)

    @staticmethod
    def _inner(column: Any, length: int) -> Any:
        """What lists of one length hold, one after the other."""
        types, compute = _pyarrow("types"), _pyarrow("compute")
        lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
        if not any(is_list(column.type) for is_list in lists) or column.null_count:
            raise NeedsRowByRow
        lengths = compute.min_max(compute.list_value_length(column)).as_py()
        if lengths != {"min": length, "max": length}:
            raise NeedsRowByRow
        return column.flatten()

    @staticmethod
    def _numbers(column: Any) -> Counts:
        arrow, types = _pyarrow(), _pyarrow("types")
        if not types.is_integer(column.type) or column.null_count:
            raise NeedsRowByRow
        try:
            return np.asarray(column.cast(arrow.int64()).to_numpy(zero_copy_only=False), dtype=np.int64)
        except arrow.ArrowInvalid:  # unsigned numbers beyond 2^63
            raise NeedsRowByRow from None

    def _settings(self) -> tuple[list[Smoothing], npt.NDArray[np.int32]]:
        """The settings that occur, and which of them each row has."""
        plain = self.header.smoothing
        told = [name for name in _PER_ROW if self._has(name)]
        if not told:
            return [plain], np.zeros(len(self.batch), dtype=np.int32)
        columns = [self.batch.column(name).to_pylist() for name in told]
        position: dict[tuple[Any, ...], int] = {}
        settings = [position.setdefault(row, len(position)) for row in zip(*columns, strict=True)]
        made = []
        for row in position:
            changes = {name: value for name, value in zip(told, row, strict=True) if value is not None}
            try:
                made.append(replace(plain, **changes))
            except InvalidValue:
                raise NeedsRowByRow from None
        return made, np.array(settings, dtype=np.int32)
