"""Thrift's compact protocol, as far as Parquet's footers and page headers use it: structs as numbered fields.

A field that comes twice is refused, since readers differ in which of the two they take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Fields = dict[int, Any]
"""A struct's fields by number: whole numbers, bytes, lists, structs; None for fractions and maps."""

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_NUMBERS = (4, 5, 6)
"""The protocol's numbers of types; whole numbers have three."""
_DEEPEST = 12
"""Structs and lists inside of each other; Parquet has half as many."""
_MOST_VALUES = 2_000_000
"""Of one message, each of which takes some hundred bytes of memory: the footer of a hundred thousand columns."""
_MOST_BITS = 63
"""Of a number: ten bytes with seven each have a few more, which none of Parquet's needs."""


class StrangeBytes(ValueError):
    """Bytes that are no message of the protocol, or one that would fill the memory."""


@dataclass
class CompactReader:
    """Reads messages from bytes, one after the other.

    Attributes:
        data: the bytes.
        position: the next one.
        values: how many were read.
    """

    data: bytes
    position: int = 0
    values: int = 0

    def struct(self, depth: int = 0) -> Fields:
        """A struct.

        Raises:
            IndexError: the bytes end inside of it.
            StrangeBytes: it is none.
        """
        if depth > _DEEPEST:
            raise StrangeBytes("it is nested too deeply")
        fields: Fields = {}
        number = 0
        while byte := self._byte():
            number = number + (byte >> 4) if byte >> 4 else self._zigzag()
            if number in fields:
                raise StrangeBytes("a field comes twice")
            kind = byte & 15
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        self.values += 1
        if self.values > _MOST_VALUES:
            raise StrangeBytes("it has more values than any file needs")
        if kind in (_TRUE, _FALSE, _BYTE):  # in a list, flags are bytes
            return self._byte()
        if kind in _NUMBERS:
            return self._zigzag()
        if kind == _DOUBLE:
            self._bytes(8)
            return None
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            byte = self._byte()
            length = self._varint() if byte >> 4 == 15 else byte >> 4
            if depth > _DEEPEST:
                raise StrangeBytes("it is nested too deeply")
            return [self._value(byte & 15, depth + 1) for _ in range(length)]
        if kind == _MAP:
            length = self._varint()
            kinds = self._byte() if length else 0
            for _ in range(length):
                self._value(kinds >> 4, depth + 1)
                self._value(kinds & 15, depth + 1)
            return None
        raise StrangeBytes("it has a value of no type")

    def _byte(self) -> int:
        byte = self.data[self.position]
        self.position += 1
        return byte

    def _bytes(self, length: int) -> bytes:
        end = self.position + length
        if end > len(self.data):
            raise IndexError
        part = self.data[self.position : end]
        self.position = end
        return part

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > _MOST_BITS:
                raise StrangeBytes("a number is too long")
