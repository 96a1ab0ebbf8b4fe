"""What the columns of a Parquet file unpack to, from the headers of their pages, before anything is unpacked.

The metadata at the end of the file says so too, but readers do not hold it against the pages: what takes memory is what
each page says about itself. Headers are read as Thrift's compact protocol has them; values are not looked at.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from fedcert._files.unpacking import bytes_in_words, check_held
from fedcert.errors import FedcertError, preview

_LARGEST_PAGE = 2**26
"""Bytes that a page unpacks to: 64 MiB, where writers make pages of one."""
_MOST_PAGES = 1_000_000
"""A limit to the work of looking at headers; a million reports have some thousand pages."""
_BYTES_PER_VALUE = 8
"""Of a number in memory, and of a reference to a text."""
_HEADER_BYTES = (2**12, 2**20)
"""Where a header is expected to end, and where it must: it may hold the largest and the smallest value."""
_KINDS = ("BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE", "BYTE_ARRAY")
"""Physical types; values of the others have a length that the schema names."""
_PREFIXES = 7
"""The encoding in which each text repeats the beginning of the one before it, however long that is."""

_BOOLEANS, _WHOLE, _DOUBLE, _BINARY, _LISTS, _MAP, _STRUCT = (1, 2), (3, 4, 5, 6), 7, 8, (9, 10), 11, 12
"""Thrift's types in the compact protocol."""
_UNPACKED, _PACKED, _DATA, _DICTIONARY, _DATA_2 = 2, 3, 5, 7, 8
"""Fields of a page's header: its sizes, and what is particular to its kind; field 1 of that is the number of values."""
_ENCODING = {_DATA: 2, _DATA_2: 4}
"""Where these two have their encoding."""

Fields = dict[int, Any]


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


def column_sizes(file: IO[bytes], metadata: Any, columns: Collection[str]) -> list[ColumnSize]:
    """The sizes of some columns, row group by row group.

    Args:
        file: opened.
        metadata: as pyarrow reads it.
        columns: the names of columns; of one with lists, all that it is made of.

    Raises:
        StrangePages: the pages are not what the metadata says, or far larger than any that is written.
        OSError: the file cannot be read.
    """
    pages = 0
    sizes: list[ColumnSize] = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows < 0:
            raise StrangePages("a part has fewer than 0 rows")
        for index in range(group.num_columns):
            chunk = group.column(index)
            name = chunk.path_in_schema.split(".")[0]
            if name not in columns:
                continue
            if chunk.physical_type not in _KINDS:
                raise StrangePages(f"the column {preview(name)} has values of the type {chunk.physical_type}")
            values = unpacked = 0
            for in_page, bytes_of_page in _pages(file, chunk):
                pages += 1
                if pages > _MOST_PAGES:
                    raise StrangePages(f"it has more than {_MOST_PAGES:,} pages")
                values, unpacked = values + in_page, unpacked + bytes_of_page
            sizes.append(ColumnSize(name, group.num_rows, values, max(unpacked, _BYTES_PER_VALUE * values)))
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
        sizes: of the columns, see `column_sizes`.
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


def _pages(file: IO[bytes], chunk: Any) -> Iterator[tuple[int, int]]:
    """The values of each page of a column, and the bytes that it unpacks to; a dictionary's are no values."""
    position = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        position = min(position, chunk.dictionary_page_offset)
    end = position + chunk.total_compressed_size
    if position < 0 or chunk.num_values < 0:
        raise StrangePages("it says that a column begins before the file")
    seen = 0
    while position < end and seen < chunk.num_values:
        header, length = _header_at(file, position)
        kind = next((kind for kind in (_DATA, _DATA_2) if kind in header), None)
        own = {1: 0} if kind is None else header[kind]
        if not isinstance(own, dict):
            raise StrangePages("a page does not say what it is")
        unpacked, packed, values = _count(header, _UNPACKED), _count(header, _PACKED), _count(own, 1)
        if kind is not None and own.get(_ENCODING[kind]) == _PREFIXES:
            raise StrangePages("texts are stored as the beginnings of others (DELTA_BYTE_ARRAY)")
        if unpacked > _LARGEST_PAGE or values > chunk.num_values:
            raise StrangePages(
                f"a page unpacks to {bytes_in_words(unpacked)} and {values:,} values, and may to "
                f"{bytes_in_words(_LARGEST_PAGE)} and {chunk.num_values:,}"
            )
        seen += values
        position += length + packed
        yield values, unpacked


def _count(fields: Fields, number: int) -> int:
    """A field that is a number of 0 or more."""
    value = fields.get(number)
    if not isinstance(value, int) or value < 0:
        raise StrangePages("a page does not say how large it is")
    return value


def _header_at(file: IO[bytes], position: int) -> tuple[Fields, int]:
    """A page's header, and its length."""
    for size in _HEADER_BYTES:
        file.seek(position)
        data = file.read(size)
        try:
            header, end = _struct(data, 0, 0)
        except IndexError:
            continue
        return header, end
    raise StrangePages("a page has no header")


def _struct(data: bytes, position: int, depth: int) -> tuple[Fields, int]:
    """The fields of a struct by number, and where it ends."""
    if depth > 8:
        raise StrangePages("a header is nested too deeply")
    fields: Fields = {}
    number = 0
    while True:
        byte, position = data[position], position + 1
        if byte == 0:
            return fields, position
        kind = byte & 15
        if byte >> 4:
            number += byte >> 4
        else:
            number, position = _zigzag(data, position)
        fields[number], position = _value(data, position, kind, depth)


def _value(data: bytes, position: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _BOOLEANS:
        return kind == _BOOLEANS[0], position
    if kind in _WHOLE[1:]:
        return _zigzag(data, position)
    if kind == _WHOLE[0]:
        return data[position], position + 1
    if kind == _DOUBLE:
        return None, position + 8
    if kind == _BINARY:
        length, position = _varint_at(data, position)
        return None, position + length
    if kind == _STRUCT:
        return _struct(data, position, depth + 1)
    if kind in _LISTS:
        byte, position = data[position], position + 1
        length = byte >> 4
        if length == 15:
            length, position = _varint_at(data, position)
        for _ in range(length):
            if position >= len(data):
                raise IndexError
            _, position = _value(data, position, byte & 15 if (byte & 15) not in _BOOLEANS else _WHOLE[0], depth + 1)
        return None, position
    raise StrangePages("a header is not of Parquet's format")


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    value, position = _varint_at(data, position)
    return value >> 1 ^ -(value & 1), position


def _varint_at(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte, position = data[position], position + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise StrangePages("a number in a header is too long")
