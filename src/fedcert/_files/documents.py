"""JSON documents from untrusted files: one, many, a folder, or one document per line (NDJSON)."""

from __future__ import annotations

import itertools
import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

from fedcert._files.paths import check_readable, display_path, kind_of_path
from fedcert._schema.field_types import Enumerated
from fedcert._schema.record import Record
from fedcert.errors import CallError, FedcertNote, FileProblem, InvalidValue, preview

LARGEST_DOCUMENT = 32 * 2**20
"""Bytes of one JSON document. A report over 1,000 classes and 100 radii has about 0.6 MB."""

_MOST_PARTS = 2**20
"""Lists, objects and keys of a document. A report over 100,000 classes with a row each has a tenth of them; as Python
objects, they take a hundred times as much memory as text."""
_TEXT_OR_PART = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|([\[{:])', re.DOTALL)

LINE_SUFFIXES = (".ndjson", ".jsonl")
JSON_SUFFIXES = (".json", *LINE_SUFFIXES)
SUFFIXES = (*JSON_SUFFIXES, ".parquet")
COMPANIONS = (".seed", ".journal")
"""Endings of what a client keeps beside its report."""
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # where a surrogate is written, a lone one may be


def opened(path: Path) -> IO[bytes]:
    """A file that its user named, to read from; a link is followed."""
    return path.open("rb")


Reading = Callable[[Path], AbstractContextManager[IO[bytes]]]
"""Gives a file to read from: `opened`, or what a folder that others may write to gives (`shared.reading_of`)."""


def read_documents(
    path: Path, suffixes: tuple[str, ...] = JSON_SUFFIXES, reading: Reading = opened
) -> Iterator[tuple[str, Any]]:
    """The JSON documents of a file, each with its place, for messages.

    Args:
        path: the file.
        suffixes: what its name may end in.
        reading: how it is opened.

    Raises:
        CallError: there is no such file, or its name ends in something else.
        FileProblem: it cannot be read, is too large, or is not JSON.
    """
    for place, text in read_texts(path, suffixes, reading):
        yield place, parse(text, place)


def read_texts(
    path: Path, suffixes: tuple[str, ...] = JSON_SUFFIXES, reading: Reading = opened
) -> Iterator[tuple[str, bytes]]:
    """The documents of a file before they are parsed, so that one broken document does not hide the others."""
    check_readable(path, suffixes)
    place = display_path(path)
    try:
        with reading(path) as file:
            if path.suffix.lower() not in LINE_SUFFIXES:
                text = file.read(LARGEST_DOCUMENT + 1)
                if len(text) > LARGEST_DOCUMENT:
                    raise too_large(place)
                yield place, text
                return
            for number, line in enumerate(iter(lambda: file.readline(LARGEST_DOCUMENT + 1), b""), start=1):
                if len(line) > LARGEST_DOCUMENT:
                    raise too_large(f"{place}, line {number}")
                if line.strip():
                    yield f"{place}, line {number}", line
    except OSError as error:
        raise FileProblem(f"cannot read {place}: {error.strerror or error}") from None


def files_in(path: Path, *, may_be_empty: bool = False) -> list[Path]:
    """The files that a path stands for: itself, or what a folder holds, by name.

    Other files there are warned of, but for those that a client keeps beside its report. Links in the folder are among
    the files: who reads them by `shared.reading_of` refuses them by name.

    Raises:
        CallError: there is nothing of that name, or a folder without such files.
    """
    kind = kind_of_path(path)
    if kind is None:
        raise CallError(f"there is no file or folder {display_path(path)}; check the name")
    if kind != "a folder":
        check_readable(path, SUFFIXES)
        return [path]
    seen = sorted(file for file in path.iterdir() if not file.name.startswith("."))
    if {"request.json", "log.ndjson"} <= {file.name for file in seen}:
        run = display_path(path)
        raise CallError(f"{run} is the folder of a run: use fedcert collect --run {run}, or give {run}/reports")
    files = [
        file
        for file in seen
        if file.suffix.lower() in SUFFIXES and (file.is_symlink() or kind_of_path(file) == "a file")
    ]
    if not files and not may_be_empty:
        none = "holds no .json, .ndjson, .jsonl or .parquet file"
        raise CallError(f"{display_path(path)} {none}; give a folder of reports")
    others = [file.name for file in seen if file not in files and file.suffix not in COMPANIONS]
    if others:
        names = preview(", ".join(others[:5]) + (", …" if len(others) > 5 else ""), 300)
        what = f"passed over {len(others)} that do not end in .json, .ndjson, .jsonl or .parquet ({names})"
        warnings.warn(f"{display_path(path)}: {what}", FedcertNote, stacklevel=2)
    return files


def read_record(path: Path, kind: type[Record], suffix: str = ".json") -> Any:
    """The single record of a kind that a file holds.

    Raises:
        CallError: there is no such file, or it does not end in the suffix.
        FileProblem: it cannot be read or parsed.
        InvalidValue: it breaks a rule of its schema.
    """
    ((place, document),) = read_documents(path, (suffix,))
    return kind.from_json(document, place)


def kind_of(document: Any, place: str, kinds: Iterable[type[Record]]) -> type[Record]:
    """Which kind of value a document claims to be, by its schema.

    Raises:
        InvalidValue: its schema is unknown.
    """
    known = {kind.SCHEMA: kind for kind in kinds}
    schema = document.get("schema", InvalidValue.MISSING) if isinstance(document, dict) else document
    if not isinstance(schema, str) or schema not in known:
        expected = Enumerated(known).expected
        newer = isinstance(schema, str) and any(schema.startswith(name[:-1]) for name in known)
        remedy = "a newer fedcert wrote it: upgrade this one" if newer else "give a file that fedcert wrote"
        raise InvalidValue("schema", expected, schema, place=place, remedy=remedy)
    return known[schema]


def too_large(place: str) -> FileProblem:
    """The error about a document of more than `LARGEST_DOCUMENT` bytes."""
    most = LARGEST_DOCUMENT // 2**20
    return FileProblem(f"{place} is larger than {most} MiB, which no fedcert document is; not read")


def parse(text: str | bytes, place: str) -> Any:
    """Parse one JSON document strictly: no NaN, no infinity, no key twice.

    Raises:
        FileProblem: it is not such a document, or would fill the memory.
    """
    if len(text) > LARGEST_DOCUMENT:
        raise too_large(place)
    if _has_too_many_parts(text):
        raise FileProblem(
            f"{place} holds more than {_MOST_PARTS:,} lists, objects and keys, which no fedcert document does; not read"
        )
    try:
        document = json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_no_key_twice)
        if _HALF.search(text if isinstance(text, bytes) else text.encode()):
            json.dumps(document, ensure_ascii=False).encode()
        return document
    except RecursionError:
        reason = "it is nested too deeply"
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except UnicodeEncodeError:
        reason = "it holds half of a character (a lone surrogate)"
    except json.JSONDecodeError as error:
        words = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
        reason = f"{words} at line {error.lineno}, column {error.colno}"
    except ValueError as error:
        reason = str(error)
    in_line = ", line " in place
    remedy = (
        "each line must hold one whole document"
        if in_line
        else "it may be cut off, or edited by hand: correct it, or get it again"
    )
    raise FileProblem(f"{place} is not valid JSON: {reason}; {remedy}") from None


def _has_too_many_parts(text: str | bytes) -> bool:
    """Whether a document has too many lists, objects and keys; what looks like one inside of a text is none."""
    data = text if isinstance(text, bytes) else text.encode(errors="replace")
    if sum(map(data.count, (b"[", b"{", b":"))) <= _MOST_PARTS:
        return False
    parts = (match for match in _TEXT_OR_PART.finditer(data) if match.group(1))
    return next(itertools.islice(parts, _MOST_PARTS, None), None) is not None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number that JSON has")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:40]} is too large a number")
    return number


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"the key {preview(twice)} stands twice in one object")
    return document
