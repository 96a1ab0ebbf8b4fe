"""Rules on counts, for many reports at once, and parsed JSON as tables.

The rules are `Report`'s. Bulk checks only tell which rows are not plainly right; those are then read one by one, so
that what is refused, and in which words, does not depend on how many reports came together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._schema.field_types import LARGEST_COUNT, FieldType, Text, Timestamp
from fedcert.errors import InvalidValue
from fedcert.report.compatibility import Combinable
from fedcert.report.report import Report
from fedcert.report.smoothing import Smoothing
from fedcert.report.table.columns import Counts, Table, smallest

_AT_ONCE, _WORTH_IT = 4096, 8
# What differs from row to row; the rest of a document is the header that its neighbours share.
_ROW = ("client", "label_counts", "certified_counts", "class_certified_counts", "abstained", "samples", "created")
_PLAIN_NAME = re.compile(r"[!-~](?:[ -~]{0,198}[!-~])?")


class NeedsRowByRow(Exception):
    """Rows that are not plainly right, and must be looked at one by one."""


def broken_rows(
    labels: Counts,
    certified: Counts,
    class_rows: Counts | None,
    abstained: Counts | None,
    caps: npt.NDArray[np.float64],
    radii: Sequence[float],
) -> npt.NDArray[np.bool_]:
    """Which rows break a rule of counts.

    Args:
        labels: examples, rows x classes.
        certified: rows x radii.
        class_rows: rows x classes x radii, where all rows tell them.
        abstained: right selections that were not certified; one per row.
        caps: the largest radius that each row's settings can certify.
        radii: increasing radii.
    """
    broken = ((labels < 0) | (labels > LARGEST_COUNT)).any(axis=1) | (certified < 0).any(axis=1)
    # Added up as floating-point numbers first, which cannot wrap around.
    broken |= labels.sum(axis=1, dtype=np.float64) > LARGEST_COUNT
    examples = labels.sum(axis=1)
    broken |= (certified[:, 0] > examples) | (np.diff(certified, axis=1) > 0).any(axis=1)
    out_of_reach = (np.array(radii) > caps[:, None] + 1e-6) | (caps[:, None] == 0)
    broken |= ((certified > 0) & out_of_reach).any(axis=1)
    if class_rows is not None:
        broken |= (class_rows < 0).any(axis=(1, 2)) | (class_rows[:, :, 0] > labels).any(axis=1)
        broken |= (np.diff(class_rows, axis=2) > 0).any(axis=(1, 2))
        broken |= (class_rows.sum(axis=1) != certified).any(axis=1)
    if abstained is not None:
        broken |= (abstained < 0) | (abstained > examples - certified[:, 0])
    return np.asarray(broken, dtype=np.bool_)


def plain_table(
    shared: Combinable,
    request: str | None,
    smoothings: Sequence[Smoothing],
    settings: npt.NDArray[np.int32],
    clients: Sequence[Any],
    labels: Counts,
    certified: Counts,
    class_rows: Counts | None,
    abstained: Counts | None,
) -> Table:
    """The table of rows whose examples do not come in groups, and that tell counts per class all or none.

    Raises:
        Odd: a row breaks a rule.
    """
    rows, classes, radii = len(labels), len(shared.classes), len(shared.radii)
    caps = np.array([smoothing.largest_radius for smoothing in smoothings])[settings]
    if broken_rows(labels, certified, class_rows, abstained, caps, shared.radii).any():
        raise NeedsRowByRow
    if not all(isinstance(name, str) and (_PLAIN_NAME.fullmatch(name) or takes(Text(), name)) for name in clients):
        raise NeedsRowByRow
    return Table(
        task=shared.task,
        model=shared.model,
        request=request,
        radii=shared.radii,
        classes=shared.classes,
        smoothings=tuple(smoothings),
        settings=settings,
        clients=tuple(clients),
        label_counts=labels,
        certified_counts=certified,
        opens=np.full(rows, class_rows is not None),
        class_rows=smallest(class_rows if class_rows is not None else np.zeros((0, classes, radii), dtype=np.int64)),
        design_effects=None,
        largest_groups=None,
    )


def tables_of(documents: Iterable[tuple[str, Any]]) -> Iterator[Table]:
    """Parsed reports as tables, some thousand at a time.

    Raises:
        InvalidValue: a report breaks a rule of its schema.
        CannotCombine: reports do not belong together.
    """
    pieces = iter(documents)
    while chunk := list(islice(pieces, _AT_ONCE)):
        try:
            yield _in_bulk(chunk)
        except NeedsRowByRow:
            yield Table.of([Report.from_json(value, place) for place, value in chunk])


def _in_bulk(chunk: Sequence[tuple[str, Any]]) -> Table:
    """The table of documents that share a header and obey the rules."""
    place, first = chunk[0]
    if len(chunk) < _WORTH_IT or not all(isinstance(value, dict) for _, value in chunk):
        raise NeedsRowByRow
    header = _header(first)
    # True equals 1 in Python, but not in a report.
    if not all(_header(value) == header and not _has_flags(value) for _, value in chunk):
        raise NeedsRowByRow
    shared = Report.from_json(first, place)
    if shared.design_effect is not None or shared.largest_group is not None or shared.extra:
        raise NeedsRowByRow
    columns = {key: [value.get(key) for _, value in chunk] for key in _ROW}
    if not all(moment is None or takes(Timestamp(), moment) for moment in columns["created"]):
        raise NeedsRowByRow
    classes, radii = len(shared.classes), len(shared.radii)
    samples, abstained = (
        _counts([[0 if count is None else count] for count in columns[key]], 1) for key in ("samples", "abstained")
    )
    if (samples < 0).any() or (samples > LARGEST_COUNT).any():
        raise NeedsRowByRow
    cells = None
    if any(row is not None for row in columns["class_certified_counts"]):
        flat = [_flat(row, classes, radii) for row in columns["class_certified_counts"]]
        cells = _counts(flat, classes * radii).reshape(-1, classes, radii)
    return plain_table(
        shared, shared.request, [shared.smoothing], np.zeros(len(chunk), dtype=np.int32), columns["client"],
        _counts(columns["label_counts"], classes), _counts(columns["certified_counts"], radii), cells, abstained[:, 0],
    )  # fmt: skip


def _header(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in _ROW}


def _has_flags(document: Mapping[str, Any]) -> bool:
    radii, smoothing = document.get("radii"), document.get("smoothing")
    values = [*(radii if isinstance(radii, list) else []), *(smoothing.values() if isinstance(smoothing, dict) else [])]
    return bool in set(map(type, values))


def _flat(rows: Any, classes: int, radii: int) -> list[Any]:
    if not isinstance(rows, list) or len(rows) != classes:
        raise NeedsRowByRow
    if not all(isinstance(row, list) and len(row) == radii for row in rows):
        raise NeedsRowByRow
    return [count for row in rows for count in row]


def _counts(rows: Sequence[Any], length: int) -> Counts:
    """Lists of whole numbers as an array; anything else is odd, true and 3.0 included."""
    for row in rows:
        if not isinstance(row, list) or len(row) != length or set(map(type, row)) != {int}:
            raise NeedsRowByRow
    try:
        return np.array(rows, dtype=np.int64).reshape(len(rows), length)
    except OverflowError:
        raise NeedsRowByRow from None


def takes(kind: FieldType, value: Any) -> bool:
    """Whether a value is of a kind."""
    try:
        kind.validate(value, "")
    except InvalidValue:
        return False
    return True
