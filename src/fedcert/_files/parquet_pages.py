"""What the columns of a Parquet file unpack to, from its footer and the headers of its pages, before anything is.

The footer says so too, but readers do not hold it against the pages: what takes memory is what each page says about
itself. Values are not looked at. (pyarrow shows footers as well, but ends the process at some damaged ones.)
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from fedcert._files.thrift import CompactReader, Fields, StrangeBytes
from fedcert._files.unpacking import bytes_in_words, check_held
from fedcert.errors import FedcertError, preview

_MAGIC = b"PAR1"
_LARGEST_FOOTER = 2**26
"""Bytes: 64 MiB, of which a report's header may be half."""
_LARGEST_PAGE = 2**26
"""Bytes that a page unpacks to: 64 MiB, where writers make pages of one."""
_MOST_PAGES = 1_000_000
"""A limit to the work of looking at headers; a million reports have some thousand pages."""
_BYTES_PER_VALUE = 8
"""Of a number in memory, and of a reference to a text."""
_HEADER_BYTES = (2**12, 2**20)
"""Where a page's header is expected to end, and where it must: it may hold the largest and the smallest value."""
_KINDS = (0, 1, 2, 4, 5, 6)
"""Physical types: flags, whole numbers, fractions, texts. The length of others' values is named by the schema."""
_PREFIXES = 7
"""The encoding in which each text repeats the beginning of the one before it, however long that is."""
_ROWS, _GROUPS = 3, 4
"""Fields of the footer: rows, and row groups."""
_COLUMNS, _ROWS_OF_GROUP = 1, 3
"""Fields of a row group: its columns, and its rows."""
_ABOUT = 3
"""The field of a column that describes it."""
_KIND, _PATH, _VALUES, _BYTES, _START, _DICTIONARY_START = 1, 3, 5, 7, 9, 11
"""Fields of that: type, names, values, packed bytes, where data begins and where its dictionary does."""
_UNPACKED, _PACKED, _DATA, _DATA_2 = 2, 3, 5, 8
"""Fields of a page's header: its sizes, and what is particular to its kind; field 1 of that is the number of values."""
_ENCODING = {_DATA: 2, _DATA_2: 4}
"""Where these two have their encoding."""


class StrangePages(ValueError):
    """Pages that are not what Parquet's format has."""


@dataclass(frozen=True)
class ColumnSize:
    """What a column of a Parquet file unpacks to.

    Attributes:
        name: the column's.
        rows: of the row group.
        values: numbers or texts, those in lists among them.
        unpacked: bytes.
    """

    name: str
    rows: int
    values: int
    unpacked: int


@dataclass(frozen=True)
class ParquetFooter:
    """What a Parquet file says about itself.

    Attributes:
        rows: as the whole says.
        groups: rows of each part, with its columns' fields.
    """

    rows: int
    groups: tuple[tuple[int, tuple[Fields, ...]], ...]

    @property
    def rows_of_groups(self) -> int:
        """Rows as the parts say."""
        return sum(rows for rows, _ in self.groups)

    @classmethod
    def of(cls, file: IO[bytes]) -> ParquetFooter:
        """That of an open file.

        Raises:
            StrangePages: it has none.
            OSError: it cannot be read.
        """
        size = bytes_of_file(file)
        file.seek(max(0, size - 8))
        end = file.read(8)
        length = struct.unpack("<L", end[:4])[0] if len(end) == 8 else size
        if end[4:] != _MAGIC or length > min(size - 8, _LARGEST_FOOTER):
            raise StrangePages("it does not end as Parquet files do")
        file.seek(size - 8 - length)
        try:
            fields = CompactReader(file.read(length)).struct()
            groups = tuple(
                (_count(group, _ROWS_OF_GROUP), tuple(column[_ABOUT] for column in group[_COLUMNS]))
                for group in fields[_GROUPS]
            )
            if not all(isinstance(about, dict) for _, columns in groups for about in columns):
                raise StrangePages("a column does not say what it is")
            return cls(_count(fields, _ROWS), groups)
        except (LookupError, TypeError, StrangeBytes) as error:
            reason = f": {error}" if isinstance(error, StrangeBytes) else ""
            raise StrangePages(f"its footer is damaged{reason}") from None

    def sizes(self, file: IO[bytes], columns: Collection[str]) -> list[ColumnSize]:
        """The sizes of some columns, row group by row group.

        Args:
            file: opened.
            columns: the names of columns; of one with lists, all that it is made of.

        Raises:
            StrangePages: the pages are not what the footer says, or far larger than any that is written.
            OSError: the file cannot be read.
        """
        pages = 0
        sizes: list[ColumnSize] = []
        for rows, abouts in self.groups:
            for about in abouts:
                name = _name(about)
                if name not in columns:
                    continue
                if about.get(_KIND) not in _KINDS:
                    raise StrangePages(f"the column {preview(name)} has values whose length the schema names")
                values = unpacked = 0
                for in_page, bytes_of_page in _pages(file, about):
                    pages += 1
                    if pages > _MOST_PAGES:
                        raise StrangePages(f"it has more than {_MOST_PAGES:,} pages")
                    values, unpacked = values + in_page, unpacked + bytes_of_page
                sizes.append(ColumnSize(name, rows, values, max(unpacked, _BYTES_PER_VALUE * values)))
        return sizes


def text_columns(metadata: Any) -> list[str]:
    """The columns of texts, and those inside of lists, as pyarrow names them.

    Read as dictionaries (`read_dictionary`), a text that stands in many rows is held once.
    """
    columns = (metadata.schema.column(index) for index in range(metadata.num_columns))
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def check_columns_fit(
    sizes: Sequence[ColumnSize], place: str, packed: int, problem: type[FedcertError], remedy: str, per_row: int = 0
) -> None:
    """Check that columns which are read and held are in proportion to the file, and fit into memory.

    Args:
        sizes: of the columns, see `ParquetFooter.sizes`.
        place: the file, for messages.
        packed: its bytes.
        problem: the error.
        remedy: what to do about it.
        per_row: bytes that are made of each row besides.

    Raises:
        FedcertError: they are not, or do not.
    """
    rows = sum(size.rows for size in sizes if size.name == sizes[0].name)
    check_held(place, sum(size.unpacked for size in sizes) + per_row * rows, packed, problem, remedy)


def bytes_of_file(file: IO[bytes]) -> int:
    """The size of an open file, which is left at its beginning."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


def _name(about: Fields) -> str:
    """The name of the column that a part of it belongs to."""
    try:
        return str(b".".join(about[_PATH]).decode(errors="replace").split(".")[0])
    except (KeyError, TypeError):
        raise StrangePages("a column has no name") from None


def _pages(file: IO[bytes], about: Fields) -> Iterator[tuple[int, int]]:
    """The values of each page of a column, and the bytes that it unpacks to; a dictionary's are no values."""
    position, stated = _count(about, _START), _count(about, _VALUES)
    if about.get(_DICTIONARY_START):
        position = min(position, _count(about, _DICTIONARY_START))
    end = position + _count(about, _BYTES)
    seen = 0
    while position < end and seen < stated:
        header, length = _header_at(file, position)
        kind = next((kind for kind in (_DATA, _DATA_2) if kind in header), None)
        own = {1: 0} if kind is None else header[kind]
        if not isinstance(own, dict):
            raise StrangePages("a page does not say what it is")
        unpacked, packed, values = _count(header, _UNPACKED), _count(header, _PACKED), _count(own, 1)
        if kind is not None and own.get(_ENCODING[kind]) == _PREFIXES:
            raise StrangePages("texts are stored as the beginnings of others (DELTA_BYTE_ARRAY)")
        if unpacked > _LARGEST_PAGE or values > stated:
            raise StrangePages(
                f"a page unpacks to {bytes_in_words(unpacked)} and {values:,} values, and may to "
                f"{bytes_in_words(_LARGEST_PAGE)} and {stated:,}"
            )
        seen += values
        position += length + packed
        yield values, unpacked


def _count(fields: Any, number: int) -> int:
    """A field of a struct that is a number of 0 or more."""
    value = fields.get(number) if isinstance(fields, dict) else None
    if not isinstance(value, int) or value < 0:
        raise StrangePages("a part does not say how large it is")
    return value


def _header_at(file: IO[bytes], position: int) -> tuple[Fields, int]:
    """A page's header, and its length."""
    for size in _HEADER_BYTES:
        file.seek(position)
        reader = CompactReader(file.read(size))
        try:
            return reader.struct(), reader.position
        except IndexError:
            continue
        except StrangeBytes as error:
            raise StrangePages(f"the header of a page is damaged: {error}") from None
    raise StrangePages("a page has no header")
