"""The rules of reports, for many at once, and parsed JSON reports as tables.

Bulk checks only find out whether all rows plainly obey the rules. Where one may not, each is read as a `Report` of its
own, so that what is refused, and in which words, does not depend on how many reports came together. So bulk checks may
refuse too much, never too little: a counted field without a rule here is left to `Report`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._schema.declare import shared_fields
from fedcert._schema.field_types import LARGEST_COUNT, FieldType, Implied
from fedcert.errors import InvalidValue
from fedcert.report.fields import RADIUS_SLACK
from fedcert.report.report import Report
from fedcert.report.smoothing import Smoothing
from fedcert.report.table.columns import (
    Counts,
    Table,
    by_input_range,
    common_request,
    smallest,
    sum_of_seeds,
    with_fixed_seeds,
)
from fedcert.report.table.layout import columns_of

COLUMNS = columns_of(Report)
NOTES = tuple(column for column in COLUMNS if not column.counted)
"""Columns that are checked by their types alone."""
PROCEDURE_FIELDS = (("certified_counts", "class_certified_counts"), ("correct_counts", "class_correct_counts"))
"""What CERTIFY counts, and what population certificates do: overall, and per class."""
_IN_BULK = ("label_counts", *PROCEDURE_FIELDS[0], *PROCEDURE_FIELDS[1], "abstained")
ROW_BY_ROW = tuple(column.name for column in COLUMNS if column.counted and column.name not in _IN_BULK)
"""Counted fields whose rules are checked only report by report; few reports have them."""
_AT_ONCE = 4096
"""Documents in a table: many share the cost of making one, and few parsed documents are in memory."""
_WORTH_IT = 8
"""Fewer documents are read one by one: there is nothing to gain from arrays."""
_COLUMN_NAMES = frozenset(column.name for column in COLUMNS)
_IMPLIED = tuple(column.name for column in COLUMNS if isinstance(column.field_type, Implied))
"""Columns that a document may leave out, and in which it may not say null."""


class NotPlain(ValueError):
    """Rows that may break a rule: each is to be read as a report of its own."""


@dataclass(frozen=True)
class CountColumns:
    """The counts of many reports.

    Attributes:
        labels: examples, rows x classes.
        entries: rows x entries, see `Table`.
        class_rows: rows x classes x entries; None where no row discloses them.
        abstained: right selections that were not certified, one per row; None where no row says.
    """

    labels: Counts
    entries: Counts
    class_rows: Counts | None = None
    abstained: Counts | None = None

    def broken_histograms(self) -> npt.NDArray[np.bool_]:
        """Which rows of population certificates break a rule."""
        labels, entries, class_rows = self.labels, self.entries, self.class_rows
        broken = self._broken_numbers()
        broken |= entries.sum(axis=1, dtype=np.float64) > LARGEST_COUNT
        broken |= entries.sum(axis=1) != labels.sum(axis=1)
        if class_rows is not None:
            broken |= class_rows.sum(axis=2, dtype=np.float64).max(axis=1) > LARGEST_COUNT
            broken |= (class_rows.sum(axis=2) != labels).any(axis=1) | (class_rows.sum(axis=1) != entries).any(axis=1)
        return np.asarray(broken, dtype=np.bool_)

    def _broken_numbers(self) -> npt.NDArray[np.bool_]:
        """Which rows have a number below 0, or too many labels."""
        labels, class_rows = self.labels, self.class_rows
        broken = ((labels < 0) | (labels > LARGEST_COUNT)).any(axis=1) | (self.entries < 0).any(axis=1)
        # Added up as floating-point numbers first, which cannot wrap around.
        broken |= labels.sum(axis=1, dtype=np.float64) > LARGEST_COUNT
        if class_rows is not None:
            broken |= (class_rows < 0).any(axis=(1, 2))
        return np.asarray(broken, dtype=np.bool_)

    def broken_rows(self, caps: npt.NDArray[np.float64], radii: Sequence[float]) -> npt.NDArray[np.bool_]:
        """Which rows of CERTIFY's break a rule.

        Args:
            caps: the largest radius that each row's settings can certify.
            radii: increasing radii.
        """
        labels, certified, class_rows = self.labels, self.entries, self.class_rows
        broken = self._broken_numbers()
        examples = labels.sum(axis=1)
        broken |= (certified[:, 0] > examples) | (np.diff(certified, axis=1) > 0).any(axis=1)
        beyond = (np.array(radii) > caps[:, None] + RADIUS_SLACK) | (caps[:, None] == 0)
        broken |= ((certified > 0) & beyond).any(axis=1)
        if class_rows is not None:
            broken |= (class_rows[:, :, 0] > labels).any(axis=1)
            broken |= (np.diff(class_rows, axis=2) > 0).any(axis=(1, 2))
            broken |= (class_rows.sum(axis=1) != certified).any(axis=1)
        if self.abstained is not None:
            broken |= (self.abstained < 0) | (self.abstained > examples - certified[:, 0])
        return np.asarray(broken, dtype=np.bool_)


def fast_table(
    header: Mapping[str, Any],
    smoothings: Sequence[Smoothing],
    settings: npt.NDArray[np.int32],
    notes: Mapping[str, Sequence[Any]],
    counts: CountColumns,
) -> Table:
    """The table of rows of independent examples, of which all or none disclose counts per class.

    Args:
        header: as of a `Table`.
        smoothings: as of a `Table`.
        settings: as of a `Table`.
        notes: valid values of the columns of notes.
        counts: what the clients counted.

    Raises:
        NotPlain: a row breaks a rule of counts.
    """
    if smoothings[0].is_population:
        if any(smoothing.n + 1 != counts.entries.shape[1] for smoothing in smoothings):
            raise NotPlain
        broken = counts.broken_histograms()
    else:
        caps = np.array([smoothing.largest_radius for smoothing in smoothings])[settings]
        broken = counts.broken_rows(caps, header["radii"])
    if broken.any():
        raise NotPlain
    no_rows = np.zeros((0, len(header["classes"]), counts.entries.shape[1]), dtype=np.int64)
    return Table(
        header=header,
        request=common_request(notes["request"]),
        smoothings=tuple(smoothings),
        settings=settings,
        clients=tuple(notes["client"]),
        label_counts=counts.labels,
        procedure_counts=counts.entries,
        has_class_counts=np.full(len(counts.labels), counts.class_rows is not None),
        class_rows=smallest(no_rows if counts.class_rows is None else counts.class_rows),
        fixed_seeds=with_fixed_seeds(notes["client"], notes["seed"]),
        input_ranges=by_input_range(zip(notes["client"], notes["input_range"], strict=True)),
        seed_sum=sum_of_seeds(notes["client"], notes["seed"]) if smoothings[0].is_population else 0,
    )


def validated_notes(values: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Columns of notes as their types normalise them.

    Raises:
        NotPlain: a value breaks the rule of its type.
    """
    try:
        return {column.name: _validated(column.field_type, values[column.name]) for column in NOTES}
    except (InvalidValue, TypeError):  # TypeError: an object, where none may be
        raise NotPlain from None


def _validated(field_type: FieldType, values: Sequence[Any]) -> list[Any]:
    """Values, each different one validated once: many columns hold the same text in all rows."""
    kinds = set(map(type, values))
    if bool in kinds or list in kinds:  # True equals 1, and lists have no hash
        return [field_type.validate(value, "") for value in values]
    known = {value: field_type.validate(value, "") for value in set(values)}
    return [known[value] for value in values]


def tables_of(documents: Iterable[tuple[str, Any]]) -> Iterator[Table]:
    """Parsed reports, each with the place where it stands, as tables of some thousand rows.

    Raises:
        InvalidValue: a report breaks a rule of its schema.
        CannotCombine: reports do not belong together.
    """
    rest = iter(documents)
    while chunk := list(islice(rest, _AT_ONCE)):
        try:
            yield _in_bulk(chunk)
        except NotPlain:
            yield Table.of([Report.from_json(document, place) for place, document in chunk])


def _in_bulk(chunk: Sequence[tuple[str, Any]]) -> Table:
    """The table of documents that share a header and plainly obey the rules."""
    documents = [document for _, document in chunk]
    if len(chunk) < _WORTH_IT or not _share_header(documents):
        raise NotPlain
    place, first = chunk[0]
    report = Report.from_json(first, place)
    values = {column.name: [each.get(column.name, column.default) for each in documents] for column in COLUMNS}
    if report.extra or any(value is not None for name in ROW_BY_ROW for value in values[name]):
        raise NotPlain
    if any(each.get(name, 0) is None for name in _IMPLIED for each in documents):
        raise NotPlain
    notes = validated_notes(values)
    counts = _count_columns(
        values, procedure_fields(report.smoothing), len(report.classes), len(report.procedure_counts)
    )
    return fast_table(shared_fields(report), [report.smoothing], np.zeros(len(chunk), dtype=np.int32), notes, counts)


def _share_header(documents: Sequence[Any]) -> bool:
    """Whether documents agree on all that is no column. True equals 1 in Python, but not in a report."""
    if not all(isinstance(document, dict) for document in documents):
        return False
    headers = [{key: document[key] for key in document.keys() - _COLUMN_NAMES} for document in documents]
    return all(header == headers[0] and not _has_flags(header) for header in headers)


def _has_flags(header: Mapping[str, Any]) -> bool:
    """Whether true or false stands in a document's header, or in a list or an object there."""
    for value in header.values():
        values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else (value,)
        if bool in set(map(type, values)):
            return True
    return False


def procedure_fields(smoothing: Smoothing) -> tuple[str, str]:
    """The fields of a report that hold what the procedure counts, overall and per class."""
    return PROCEDURE_FIELDS[smoothing.is_population]


def _count_columns(
    values: Mapping[str, Sequence[Any]], fields: tuple[str, str], classes: int, entries: int
) -> CountColumns:
    """The counts as arrays."""
    overall, by_class = fields
    if any(value is not None for name in set(_IN_BULK[1:-1]) - set(fields) for value in values[name]):
        raise NotPlain  # counts of the other kind of procedure
    labels, counts = _array(values["label_counts"], classes), _array(values[overall], entries)
    abstained: Counts | None = None
    if overall == "certified_counts":
        abstained = _array([[0 if count is None else count] for count in values["abstained"]], 1)[:, 0]
    elif any(count is not None for count in values["abstained"]):
        raise NotPlain
    if all(rows is None for rows in values[by_class]):
        return CountColumns(labels, counts, None, abstained)
    cells = _array([_flat(rows, classes, entries) for rows in values[by_class]], classes * entries)
    return CountColumns(labels, counts, cells.reshape(-1, classes, entries), abstained)


def _flat(rows: Any, classes: int, entries: int) -> list[Any]:
    """Rows per class one after the other, so many and so long."""
    if not _are_lists([rows], classes) or not _are_lists(rows, entries):
        raise NotPlain
    return [count for row in rows for count in row]


def _array(rows: Sequence[Any], length: int) -> Counts:
    """Lists of so many whole numbers as an array; true, 3.0 and 2^63 are none."""
    if not _are_lists(rows, length) or not all(set(map(type, row)) == {int} for row in rows):
        raise NotPlain
    try:
        return np.array(rows, dtype=np.int64).reshape(len(rows), length)
    except OverflowError:
        raise NotPlain from None


def _are_lists(rows: Sequence[Any], length: int) -> bool:
    return all(isinstance(row, list) and len(row) == length for row in rows)
