"""The rules of reports, for many at once.

Bulk checks only find out whether all rows plainly obey the rules. Where one may not, each is read as a `Report` of its
own, so that what is refused, and in which words, does not depend on how many reports came together. So bulk checks may
refuse too much, never too little: a counted field without a rule here is left to `Report`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._schema.field_types import LARGEST_COUNT, FieldType
from fedcert.errors import InvalidValue
from fedcert.report.fields import RADIUS_SLACK
from fedcert.report.report import Report
from fedcert.report.smoothing import Smoothing
from fedcert.report.table.columns import Counts, Table, smallest
from fedcert.report.table.layout import columns_of

COLUMNS = columns_of(Report)
NOTES = tuple(column for column in COLUMNS if not column.counted)
"""Columns that are checked by their types alone."""
_IN_BULK = ("label_counts", "certified_counts", "class_certified_counts", "abstained")
ROW_BY_ROW = tuple(column.name for column in COLUMNS if column.counted and column.name not in _IN_BULK)
"""Counted fields whose rules are checked only report by report; few reports have them."""


@dataclass(frozen=True)
class CountColumns:
    """The counts of many reports.

    Attributes:
        labels: examples, rows x classes.
        certified: rows x radii.
        class_rows: rows x classes x radii; None where no row discloses them.
        abstained: right selections that were not certified, one per row; None where no row says.
    """

    labels: Counts
    certified: Counts
    class_rows: Counts | None = None
    abstained: Counts | None = None

    def broken_rows(self, caps: npt.NDArray[np.float64], radii: Sequence[float]) -> npt.NDArray[np.bool_]:
        """Which rows break a rule.

        Args:
            caps: the largest radius that each row's settings can certify.
            radii: increasing radii.
        """
        labels, certified, class_rows = self.labels, self.certified, self.class_rows
        broken = ((labels < 0) | (labels > LARGEST_COUNT)).any(axis=1) | (certified < 0).any(axis=1)
        # Added up as floating-point numbers first, which cannot wrap around.
        broken |= labels.sum(axis=1, dtype=np.float64) > LARGEST_COUNT
        examples = labels.sum(axis=1)
        broken |= (certified[:, 0] > examples) | (np.diff(certified, axis=1) > 0).any(axis=1)
        beyond = (np.array(radii) > caps[:, None] + RADIUS_SLACK) | (caps[:, None] == 0)
        broken |= ((certified > 0) & beyond).any(axis=1)
        if class_rows is not None:
            broken |= (class_rows < 0).any(axis=(1, 2)) | (class_rows[:, :, 0] > labels).any(axis=1)
            broken |= (np.diff(class_rows, axis=2) > 0).any(axis=(1, 2))
            broken |= (class_rows.sum(axis=1) != certified).any(axis=1)
        if self.abstained is not None:
            broken |= (self.abstained < 0) | (self.abstained > examples - certified[:, 0])
        return np.asarray(broken, dtype=np.bool_)


def fast_table(
    header: Mapping[str, Any],
    request: str | None,
    smoothings: Sequence[Smoothing],
    settings: npt.NDArray[np.int32],
    clients: Sequence[str],
    counts: CountColumns,
) -> Table | None:
    """The table of rows of independent examples, of which all or none disclose counts per class.

    Args:
        header: as of a `Table`.
        request: as of a `Table`.
        smoothings: as of a `Table`.
        settings: as of a `Table`.
        clients: valid names.
        counts: what the clients counted.

    Returns:
        None where a row breaks a rule of counts.
    """
    caps = np.array([smoothing.largest_radius for smoothing in smoothings])[settings]
    if counts.broken_rows(caps, header["radii"]).any():
        return None
    class_rows = counts.class_rows
    if class_rows is None:
        class_rows = np.zeros((0, len(header["classes"]), len(header["radii"])), dtype=np.int64)
    return Table(
        header=header,
        request=request,
        smoothings=tuple(smoothings),
        settings=settings,
        clients=tuple(clients),
        label_counts=counts.labels,
        certified_counts=counts.certified,
        has_class_counts=np.full(len(counts.labels), counts.class_rows is not None),
        class_rows=smallest(class_rows),
        design_effects=None,
        largest_groups=None,
    )


def validated_notes(values: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]] | None:
    """Columns of notes as their types normalise them; None where a value breaks the rule of its type."""
    try:
        return {column.name: _validated(column.field_type, values[column.name]) for column in NOTES}
    except (InvalidValue, TypeError):  # TypeError: an object, where none may be
        return None


def _validated(field_type: FieldType, values: Sequence[Any]) -> list[Any]:
    """Values, each different one validated once: many columns hold the same text in all rows."""
    kinds = set(map(type, values))
    if bool in kinds or list in kinds:  # True equals 1, and lists have no hash
        return [field_type.validate(value, "") for value in values]
    known = {value: field_type.validate(value, "") for value in set(values)}
    return [known[value] for value in values]
