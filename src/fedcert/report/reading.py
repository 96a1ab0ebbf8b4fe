"""JSON documents from untrusted files: one, many, a folder, or one document per line (NDJSON)."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fedcert.errors import CallError, FedcertWarning, FileProblem, InvalidValue, shown
from fedcert.report.report import Report
from fedcert.report.request import Request
from fedcert.report.sums import Sums
from fedcert.report.value import Value

LARGEST_DOCUMENT = 32 * 2**20
"""Bytes of one JSON document. A report over 1,000 classes and 100 radii has about 0.6 MB."""

LINE_SUFFIXES = (".ndjson", ".jsonl")
SUFFIXES = (".json", *LINE_SUFFIXES)


def read_documents(path: Path) -> Iterator[tuple[str, Any]]:
    """The JSON documents of a file or folder, each with the place where it stands.

    Raises:
        CallError: there is no such file, or its name does not end in .json, .ndjson or .jsonl.
        FileProblem: it cannot be read, is too large, or is not JSON.
    """
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and not file.name.startswith("."))
        if not files:
            raise CallError(f"{_named(path)} holds no .json, .ndjson or .jsonl file; give a folder of reports")
        for file in files:
            yield from _documents_of(file)
    else:
        check_readable(path, SUFFIXES)
        yield from _documents_of(path)


def read_reports(paths: Iterable[Path]) -> tuple[Report, ...]:
    """Reports from files, folders and NDJSON, in the order given, folders by file name.

    Inside a folder, fedcert's other files (a request, an estimate) are passed over with a warning.

    Raises:
        CallError: a path is not there or cannot hold reports.
        FileProblem: a file cannot be read or parsed.
        InvalidValue: a report breaks a rule of its schema.
    """
    reports: list[Report] = []
    for path in paths:
        passed: list[str] = []
        count = len(reports)
        for place, document in read_documents(path):
            if path.is_dir() and _is_other_kind(document):
                passed.append(place)
                continue
            reports.append(Report.from_json(document, place))
        if passed:
            named = ", ".join(Path(place).name for place in passed[:5]) + (", …" if len(passed) > 5 else "")
            warnings.warn(
                f"{_named(path)}: passed over {len(passed)} file(s) that are not reports ({shown(named, 300)})",
                FedcertWarning,
                stacklevel=2,
            )
        if len(reports) == count:
            raise FileProblem(f"{_named(path)} holds no report; give files that 'fedcert certify' wrote")
    return tuple(reports)


def read_one(path: Path, kind: type[Value]) -> Any:
    """The single value of a kind that a .json file holds.

    Raises:
        CallError: there is no such file, or it does not end in .json.
        FileProblem: it cannot be read or parsed.
        InvalidValue: it breaks a rule of its schema.
    """
    check_readable(path, (".json",))
    ((place, document),) = _documents_of(path)
    return kind.from_json(document, place)


def kind_of(document: Any, place: str, kinds: Iterable[type[Value]] = (Report, Request, Sums)) -> type[Value]:
    """Which kind of value a document claims to be, by its schema.

    Raises:
        InvalidValue: its schema is unknown.
    """
    known = {kind.SCHEMA: kind for kind in kinds}
    schema = document.get("schema", InvalidValue.MISSING) if isinstance(document, dict) else document
    if not isinstance(schema, str) or schema not in known:
        words = [f"'{name}'" for name in known]
        expected = f"{', '.join(words[:-1])} or {words[-1]}"
        raise InvalidValue("schema", expected, schema, place=place, remedy="give a file that fedcert wrote")
    return known[schema]


def check_readable(path: Path, suffixes: tuple[str, ...]) -> None:
    """Check that a path names a file of an expected type.

    Raises:
        CallError: it does not.
    """
    if path.is_dir():
        raise CallError(f"{_named(path)} is a folder; give a file that ends in {' or '.join(suffixes)}")
    if not path.exists():
        raise CallError(f"there is no file {_named(path)}; check the name")
    if path.suffix not in suffixes:
        raise CallError(f"{_named(path)} does not end in {' or '.join(suffixes)}; give a file that does")


def parse(text: str | bytes, place: str) -> Any:
    """Parse one JSON document strictly: no NaN, no infinity, no key twice.

    Raises:
        FileProblem: it is not such a document.
    """
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_key_twice)
    except RecursionError:
        reason = "it is nested too deeply"
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except json.JSONDecodeError as error:
        reason = f"{error.msg[:1].lower()}{error.msg[1:]} at line {error.lineno}, column {error.colno}"
    except ValueError as error:
        reason = str(error)
    raise FileProblem(f"{place} is not valid JSON: {reason}; it may be cut off or edited: get it again") from None


def _documents_of(path: Path) -> Iterator[tuple[str, Any]]:
    place = _named(path)
    try:
        if path.suffix not in LINE_SUFFIXES:
            size = path.stat().st_size
            if size > LARGEST_DOCUMENT:
                raise _too_large(place)
            with path.open("rb") as file:
                data = file.read(LARGEST_DOCUMENT + 1)
            if len(data) > LARGEST_DOCUMENT:
                raise _too_large(place)
            yield place, parse(data, place)
            return
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LARGEST_DOCUMENT + 1):
                number += 1
                if len(line) > LARGEST_DOCUMENT:
                    raise _too_large(f"{place}, line {number}")
                if line.strip():
                    yield f"{place}, line {number}", parse(line, f"{place}, line {number}")
    except OSError as error:
        raise FileProblem(f"cannot read {place}: {error.strerror or error}") from None


def _too_large(place: str) -> FileProblem:
    return FileProblem(
        f"{place} is larger than {LARGEST_DOCUMENT // 2**20} MiB, which no fedcert document is; not read"
    )


def _is_other_kind(document: Any) -> bool:
    schema = document.get("schema") if isinstance(document, dict) else None
    return isinstance(schema, str) and schema.startswith("fedcert/") and not schema.startswith("fedcert/report/")


def _named(path: Path) -> str:
    return shown(str(path), 300)[1:-1]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number that JSON has")


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {shown(key)} stands twice in one object")
            seen.add(key)
    return document
