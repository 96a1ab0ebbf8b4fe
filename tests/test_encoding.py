from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as some

from fedcert._schema.encoding import Encoded, decoded, encoded
from fedcert.errors import InvalidValue


@given(some.binary(max_size=200))
def test_bytes_are_written_in_one_way(data: bytes) -> None:
    text = encoded(data)
    assert Encoded().validate(text, "field") == text
    assert Encoded(len(data)).validate(text, "field") == text
    assert decoded(text) == data
    with pytest.raises(InvalidValue, match=f"field must be {len(data) + 1} bytes as base64"):
        Encoded(len(data) + 1).validate(text, "field")


@given(some.text(alphabet="ABQgwz019+/=\n é", max_size=12), some.integers(0, 9))
def test_what_is_taken_is_what_python_would_write(text: str, length: int) -> None:
    for kind in (Encoded(), Encoded(length)):
        try:
            kind.validate(text, "field")
        except InvalidValue:
            try:
                data = base64.b64decode(text, validate=True)
            except ValueError:
                continue
            assert encoded(data) != text or (kind.length is not None and len(data) != kind.length)
        else:
            assert encoded(base64.b64decode(text, validate=True)) == text


@pytest.mark.parametrize("wrong", [None, 7, b"AAAA", "AAA", "AAAA\n", "AB==", "A A=", "=AAA"])
def test_what_is_no_base64(wrong: object) -> None:
    with pytest.raises(InvalidValue):
        Encoded().validate(wrong, "field")
