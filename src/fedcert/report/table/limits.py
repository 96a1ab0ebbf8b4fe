"""How much a Parquet table of reports may hold: looked at before its rows are unpacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedcert._files.parquet_pages import ColumnSize, ParquetFooter, check_columns_fit
from fedcert.errors import FileProblem
from fedcert.report.fields import MOST_CLIENTS
from fedcert.report.smoothing import Smoothing
from fedcert.report.table.bulk import PROCEDURE_FIELDS

REMEDY = "make it with 'fedcert merge REPORT… --out reports.parquet'"
"""What to do about a file that is no table of reports."""
_BYTES_PER_ROW = 128
"""Of a row in memory beside its counts: its client's name, and what is made of it."""
_MANY_VALUES = 2**22
"""In a column of lists that are longer than the header says: few enough to be read, so that the first is named."""
_MOST_EXTRA = 2**26
"""Characters of further keys in the rows that are read together: 4,000 in each, and they are parsed for each."""


def entries_of(header: Any) -> int:
    """How many entries the rows of a table count."""
    smoothing: Smoothing = header.smoothing
    return smoothing.n + 1 if smoothing.is_population else len(header.radii)


def check_row_counts(footer: ParquetFooter, place: str) -> None:
    """Check that a file's parts have as many rows as the whole, and not more than there are clients.

    Raises:
        FileProblem: they have not.
    """
    if footer.rows_of_groups != footer.rows or footer.rows > MOST_CLIENTS:
        raise FileProblem(
            f"{place} says that it has {footer.rows:,} rows, where {MOST_CLIENTS:,} are the most, and its parts have "
            f"{footer.rows_of_groups:,}; {REMEDY}"
        )


def check_sizes(sizes: Sequence[ColumnSize], header: Any, place: str, packed: int) -> None:
    """Check that lists have about the length that they must, and that all columns together fit.

    Args:
        sizes: of the columns that are read.
        header: what all rows share.
        place: the file, for messages.
        packed: its bytes.

    Raises:
        FileProblem: lists are far longer, or the columns do not fit.
    """
    for size in sizes:
        wanted = size.rows * _values_per_row(size.name, header)
        if size.values > max(_MANY_VALUES, 2 * wanted):
            raise FileProblem(
                f"{place}: the column '{size.name}' must hold {wanted:,} values for {size.rows:,} rows, but holds "
                f"{size.values:,}; {REMEDY}"
            )
    check_columns_fit(sizes, place, packed, FileProblem, f"if they are reports, {REMEDY}", _BYTES_PER_ROW)


def check_extra(texts: Sequence[Any], column: str, place: str) -> None:
    """Check that texts which are to be parsed, each for its row, do not fill the memory.

    Raises:
        FileProblem: they would.
    """
    if sum(len(text) for text in texts if isinstance(text, (str, bytes))) > _MOST_EXTRA:
        what = f"the column '{column}' holds more than {_MOST_EXTRA:,} characters in {len(texts):,} rows"
        raise FileProblem(f"{place}: {what}; {REMEDY}")


def _values_per_row(name: str, header: Any) -> int:
    """How many values a column has in each row, at most."""
    classes, entries = len(header.classes), entries_of(header)
    lengths = {"label_counts": classes, "design_effect": len(header.radii), "input_range": 2}
    for overall, by_class in PROCEDURE_FIELDS:
        lengths |= {overall: entries, by_class: classes * entries}
    return lengths.get(name, 1)
