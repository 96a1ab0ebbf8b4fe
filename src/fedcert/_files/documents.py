"""JSON documents from untrusted files: one, many, a folder, or one document per line (NDJSON)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fedcert._files.paths import check_readable, display_path, kind_of_path
from fedcert._files.strict_json import parse
from fedcert._schema.record import Record
from fedcert.errors import CallError, FedcertWarning, FileProblem, InvalidValue, preview

LARGEST_DOCUMENT = 32 * 2**20
"""Bytes of one JSON document. A report over 1,000 classes and 100 radii has about 0.6 MB."""

LINE_SUFFIXES = (".ndjson", ".jsonl")
JSON_SUFFIXES = (".json", *LINE_SUFFIXES)
SUFFIXES = (*JSON_SUFFIXES, ".parquet")


def read_documents(path: Path) -> Iterator[tuple[str, Any]]:
    """The JSON documents of a file, each with its place, for messages.

    Raises:
        CallError: there is no such file, or its name does not end in .json, .ndjson or .jsonl.
        FileProblem: it cannot be read, is too large, or is not JSON.
    """
    for place, text in read_texts(path):
        yield place, parse(text, place)


def read_texts(path: Path) -> Iterator[tuple[str, bytes]]:
    """The documents of a file before they are parsed, so that one broken document does not hide the others."""
    check_readable(path, JSON_SUFFIXES)
    yield from _texts_of(path)


def files_in(path: Path, *, may_be_empty: bool = False) -> list[Path]:
    """The files that a path stands for: itself, or what a folder holds, by name. Other files there are warned of.

    Raises:
        CallError: there is nothing of that name, or a folder without such files.
    """
    if kind_of_path(path) != "a folder":
        check_readable(path, SUFFIXES)
        return [path]
    seen = sorted(file for file in path.iterdir() if not file.name.startswith("."))
    files = [file for file in seen if file.suffix.lower() in SUFFIXES and kind_of_path(file) == "a file"]
    if not files and not may_be_empty:
        raise CallError(
            f"{display_path(path)} holds no .json, .ndjson, .jsonl or .parquet file; give a folder of reports"
        )
    _warn_of_others(path, [file for file in seen if file not in files])
    return files


def _warn_of_others(path: Path, others: list[Path]) -> None:
    if others:
        names = ", ".join(file.name for file in others[:5]) + (", …" if len(others) > 5 else "")
        warnings.warn(
            f"{display_path(path)}: passed over {len(others)} that do not end in .json, .ndjson, .jsonl or .parquet "
            f"({preview(names, 300)})",
            FedcertWarning,
            stacklevel=3,
        )


def read_record(path: Path, kind: type[Record]) -> Any:
    """The single record of a kind that a .json file holds.

    Raises:
        CallError: there is no such file, or it does not end in .json.
        FileProblem: it cannot be read or parsed.
        InvalidValue: it breaks a rule of its schema.
    """
    check_readable(path, (".json",))
    ((place, document),) = read_documents(path)
    return kind.from_json(document, place)


def kind_of(document: Any, place: str, kinds: Iterable[type[Record]]) -> type[Record]:
    """Which kind of value a document claims to be, by its schema.

    Raises:
        InvalidValue: its schema is unknown.
    """
    known = {kind.SCHEMA: kind for kind in kinds}
    schema = document.get("schema", InvalidValue.MISSING) if isinstance(document, dict) else document
    if not isinstance(schema, str) or schema not in known:
        words = [f"'{name}'" for name in known]
        expected = f"{', '.join(words[:-1])} or {words[-1]}"
        newer = isinstance(schema, str) and any(schema.startswith(name[:-1]) for name in known)
        remedy = "a newer fedcert wrote it: upgrade this one" if newer else "give a file that fedcert wrote"
        raise InvalidValue("schema", expected, schema, place=place, remedy=remedy)
    return known[schema]


def _texts_of(path: Path) -> Iterator[tuple[str, bytes]]:
    place = display_path(path)
    try:
        with path.open("rb") as file:
            if path.suffix.lower() not in LINE_SUFFIXES:
                text = file.read(LARGEST_DOCUMENT + 1)
                if len(text) > LARGEST_DOCUMENT:
                    raise _too_large(place)
                yield place, text
                return
            number = 0
            while line := file.readline(LARGEST_DOCUMENT + 1):
                number += 1
                if len(line) > LARGEST_DOCUMENT:
                    raise _too_large(f"{place}, line {number}")
                if line.strip():
                    yield f"{place}, line {number}", line
    except OSError as error:
        raise FileProblem(f"cannot read {place}: {error.strerror or error}") from None


def _too_large(place: str) -> FileProblem:
    return FileProblem(
        f"{place} is larger than {LARGEST_DOCUMENT // 2**20} MiB, which no fedcert document is; not read"
    )
