"""fedcert validate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedcert.cli.console import print_json, results
from fedcert.errors import CannotCombine, FedcertError, FileProblem
from fedcert.estimation.result import Estimate
from fedcert.report import Report, Request, Sums, check_together
from fedcert.report.paths import named
from fedcert.report.reading import kind_of, parse, read_texts
from fedcert.report.value import Value
from fedcert.show.terminal import plain

KINDS: tuple[type[Value], ...] = (Report, Request, Sums, Estimate)


def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files, folders or NDJSON that fedcert wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> int:
    """Check reports, requests, sums and estimates; and whether the reports go together."""
    findings: list[dict[str, Any]] = []
    reports: list[Report] = []
    code = 0
    for path in files:
        before = len(findings)
        try:
            for place, text in read_texts(path):
                findings.append(_finding(place, text, reports))
            if len(findings) == before:
                raise FileProblem(f"{named(path)} holds no document")
        except FedcertError as error:
            findings.append({"place": str(path), "schema": None, "valid": False, "error": str(error)})
            code = max(code, error.exit_code)
    together = _together(reports)
    if any(not finding["valid"] for finding in findings) or together is not None:
        code = max(code, 1)
    if as_json:
        print_json({"valid": code == 0, "findings": findings, "together": together})
    else:
        _show(findings, reports, together)
    return code


def _finding(place: str, text: bytes, reports: list[Report]) -> dict[str, Any]:
    try:
        document = parse(text, place)
        kind = kind_of(document, place, KINDS)
        value = kind.from_json(document, place)
    except FedcertError as error:
        return {"place": place, "schema": None, "valid": False, "error": str(error)}
    if isinstance(value, Report):
        reports.append(value)
    return {"place": place, "schema": kind.SCHEMA, "valid": True, "error": None}


def _together(reports: list[Report]) -> str | None:
    try:
        if len(reports) > 1:
            check_together(reports)
    except CannotCombine as error:
        return str(error)
    return None


def _show(findings: list[dict[str, Any]], reports: list[Report], together: str | None) -> None:
    console = results()
    wrong = [finding for finding in findings if not finding["valid"]]
    for finding in wrong:
        console.print(plain(f"invalid  {finding['error']}"), soft_wrap=True)
    if not wrong and len(findings) <= 20:
        for finding in findings:
            console.print(plain(f"valid    {finding['place']} ({finding['schema']})"), soft_wrap=True)
    console.print(f"{len(findings) - len(wrong)} valid, {len(wrong)} invalid.")
    if together is not None:
        console.print(plain(together), soft_wrap=True)
    elif len(reports) > 1:
        examples = sum(report.examples for report in reports)
        console.print(f"The {len(reports)} reports go together: {examples} examples.")
