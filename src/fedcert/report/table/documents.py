"""Parsed JSON reports as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from fedcert.report.report import Report
from fedcert.report.table.bulk import COLUMNS, ROW_BY_ROW, CountColumns, fast_table, validated_notes
from fedcert.report.table.columns import Counts, Table, common_request

_AT_ONCE = 4096
"""Documents in a table: many share the cost of making one, and few parsed documents are in memory."""
_WORTH_IT = 8
"""Fewer documents are read one by one: there is nothing to gain from arrays."""
_COLUMN_NAMES = frozenset(column.name for column in COLUMNS)


def tables_of(documents: Iterable[tuple[str, Any]]) -> Iterator[Table]:
    """Parsed reports, each with the place where it stands, as tables of some thousand rows.

    Raises:
        InvalidValue: a report breaks a rule of its schema.
        CannotCombine: reports do not belong together.
    """
    rest = iter(documents)
    while chunk := list(islice(rest, _AT_ONCE)):
        table = _in_bulk(chunk)
        yield Table.of([Report.from_json(document, place) for place, document in chunk]) if table is None else table


def _in_bulk(chunk: Sequence[tuple[str, Any]]) -> Table | None:
    """The table of documents that share a header and plainly obey the rules; None where they may not."""
    documents = [document for _, document in chunk]
    if len(chunk) < _WORTH_IT or not _share_header(documents):
        return None
    place, first = chunk[0]
    report = Report.from_json(first, place)
    values = {column.name: [each.get(column.name, column.default) for each in documents] for column in COLUMNS}
    if report.extra or any(value is not None for name in ROW_BY_ROW for value in values[name]):
        return None
    notes = validated_notes(values)
    counts = _count_columns(values, len(report.classes), len(report.radii))
    if notes is None or counts is None:
        return None
    settings, request = np.zeros(len(chunk), dtype=np.int32), common_request(notes["request"])
    return fast_table(report.shared, request, [report.smoothing], settings, notes["client"], counts)


def _share_header(documents: Sequence[Any]) -> bool:
    """Whether documents agree on all that is no column. True equals 1 in Python, but not in a report."""
    if not all(isinstance(document, dict) for document in documents):
        return False
    header = _header(documents[0])
    return all(_header(document) == header and not _has_flags(document) for document in documents)


def _header(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in _COLUMN_NAMES}


def _has_flags(document: Mapping[str, Any]) -> bool:
    """Whether true or false stands in a document's header, or in a list or an object there."""
    for key, value in document.items():
        if key not in _COLUMN_NAMES:
            values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else (value,)
            if bool in set(map(type, values)):
                return True
    return False


def _count_columns(values: Mapping[str, Sequence[Any]], classes: int, radii: int) -> CountColumns | None:
    """The counts as arrays; None where some are not lists of whole numbers of the right length."""
    labels, certified = _array(values["label_counts"], classes), _array(values["certified_counts"], radii)
    abstained = _array([[0 if count is None else count] for count in values["abstained"]], 1)
    if labels is None or certified is None or abstained is None:
        return None
    if all(rows is None for rows in values["class_certified_counts"]):
        return CountColumns(labels, certified, None, abstained[:, 0])
    cells = _array([_flat(rows, classes, radii) for rows in values["class_certified_counts"]], classes * radii)
    if cells is None:
        return None
    return CountColumns(labels, certified, cells.reshape(-1, classes, radii), abstained[:, 0])


def _flat(rows: Any, classes: int, radii: int) -> list[Any] | None:
    """Rows per class one after the other; None where they are not so many, or not so long."""
    if not isinstance(rows, list) or len(rows) != classes:
        return None
    if not all(isinstance(row, list) and len(row) == radii for row in rows):
        return None
    return [count for row in rows for count in row]


def _array(rows: Sequence[Any], length: int) -> Counts | None:
    """Lists of whole numbers as an array; None where one is of another length, or holds true, 3.0 or 2^63."""
    if not all(isinstance(row, list) and len(row) == length and set(map(type, row)) == {int} for row in rows):
        return None
    try:
        return np.array(rows, dtype=np.int64).reshape(len(rows), length)
    except OverflowError:
        return None
