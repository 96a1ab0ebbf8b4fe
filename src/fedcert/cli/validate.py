"""fedcert validate, and fedcert schema: what the files are that fedcert reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from fedcert._files.documents import Reading, files_in, kind_of, parse, read_texts
from fedcert._files.paths import display_path
from fedcert._files.shared import reading_of
from fedcert._schema.record import Record
from fedcert.cli import options
from fedcert.cli.console import print_json, print_result, working
from fedcert.errors import CannotCombine, FedcertError, FileProblem
from fedcert.estimation.result import Estimate, WhatIf
from fedcert.privacy.askers import check_unchanged
from fedcert.report import Report, Request, Sums, Table
from fedcert.report.table.parquet import SUFFIX, Header, holds_reports, read_parquet

KINDS: tuple[type[Record], ...] = (Report, Request, Sums, Estimate, WhatIf)
KindName = StrEnum("KindName", {kind.NOUN: kind.NOUN for kind in KINDS})  # type: ignore[misc]


def validate(
    files: Annotated[
        list[Path], Argument(metavar="FILE…", help="Files, folders, NDJSON or Parquet that fedcert wrote.")
    ],
    as_json: options.AsJson = False,
) -> int:
    """Check reports, requests, sums and estimates; and whether the reports go together."""
    findings: list[dict[str, Any]] = []
    reports: list[Report] = []
    tables: list[Table] = []
    code = 0
    with working("reading files"):
        for path in files:
            try:
                findings.extend(_findings(path, reports, tables))  # one by one: what was found before a fault stays
            except FedcertError as error:
                findings.append({"place": str(path), "schema": None, "valid": False, "error": str(error)})
                code = max(code, error.exit_code)
        together, table = _together(reports, tables)
    if any(not finding["valid"] for finding in findings) or together is not None:
        code = max(code, 1)
    if as_json:
        print_json({"valid": code == 0, "findings": findings, "together": together})
    else:
        _show(findings, table, together)
    return code


def schema(
    kind: Annotated[KindName, Argument(metavar="KIND", help="report, request, sums, estimate or what-if.")],
) -> None:
    """Print the JSON Schema of a file that fedcert reads or writes."""
    print_json(next(value for value in KINDS if kind.value == value.NOUN).json_schema())


def _findings(path: Path, reports: list[Report], tables: list[Table]) -> Iterator[dict[str, Any]]:
    """What a path holds.

    Raises:
        FileProblem: nothing, or it cannot be read.
        CallError: there is no such path.
    """
    empty, reading = True, reading_of(path)
    for file in files_in(path):
        if file.suffix.lower() != SUFFIX:
            for place, text in read_texts(file, reading=reading):
                empty = False
                yield _finding(place, text, reports)
        elif file == path or holds_reports(file, reading):
            empty = False
            yield _table_finding(file, reading, tables)
    if empty:
        raise FileProblem(f"{display_path(path)} holds no document")


def _finding(place: str, text: bytes, reports: list[Report]) -> dict[str, Any]:
    try:
        document = parse(text, place)
        kind = kind_of(document, place, KINDS)
        value = kind.from_json(document, place)
        if isinstance(value, Report | Request):
            check_unchanged(value)
    except FedcertError as error:
        return {"place": place, "schema": None, "valid": False, "error": str(error)}
    if isinstance(value, Report):
        reports.append(value)
    return {"place": place, "schema": kind.SCHEMA, "valid": True, "error": None}


def _table_finding(path: Path, reading: Reading, tables: list[Table]) -> dict[str, Any]:
    try:
        tables.extend(read_parquet(path, reading))
    except FedcertError as error:
        return {"place": display_path(path), "schema": None, "valid": False, "error": str(error)}
    return {"place": display_path(path), "schema": Header.SCHEMA, "valid": True, "error": None}


def _together(reports: list[Report], tables: list[Table]) -> tuple[str | None, Table | None]:
    """Why the reports do not go together, if so, and all of them in one table, if they do."""
    try:
        parts = [*tables, *([Table.of(reports)] if reports else [])]
        return None, Table.joined(parts) if parts else None
    except CannotCombine as error:
        return str(error), None


def _show(findings: list[dict[str, Any]], table: Table | None, together: str | None) -> None:
    wrong = [finding for finding in findings if not finding["valid"]]
    for finding in wrong:
        print_result(f"invalid  {finding['error']}", soft_wrap=True)
    if not wrong and len(findings) <= 20:
        for finding in findings:
            print_result(f"valid    {finding['place']} ({finding['schema']})", soft_wrap=True)
    print_result(f"{len(findings) - len(wrong)} valid, {len(wrong)} invalid.")
    if together is not None:
        print_result(together, soft_wrap=True)
    elif table is not None and len(table) > 1:
        print_result(f"The {len(table)} reports go together: {table.label_counts.sum()} examples.")
