"""fedcert merge."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Option

from fedcert._files.atomic import whole_file
from fedcert._files.documents import LINE_SUFFIXES
from fedcert.cli import options
from fedcert.cli.console import print_result, working
from fedcert.report import Report, check_writable, load, write_whole
from fedcert.report.compatibility import check_compatible, check_once
from fedcert.report.load import each_report
from fedcert.report.provenance import provenance
from fedcert.report.table.parquet import SUFFIX, write_parquet


def merge(
    sources: options.Reports,
    out: Annotated[
        Path, Option(help="Sums to write (.json), or all reports as one table (.parquet) or as lines (.ndjson).")
    ],
) -> None:
    """Put reports together: into sums, which name no client, or into one file with a row each."""
    check_writable(out, (".json", SUFFIX, *LINE_SUFFIXES), sources)
    with working("reading reports"):
        contents = _merged(sources, out)
    print_result(f"Wrote {out}: {contents}.")


def _merged(sources: list[Path], out: Path) -> str:
    """Write the file; what is in it, in words."""
    if out.suffix != ".json":
        write = write_parquet if out.suffix == SUFFIX else _write_lines
        return f"{write(out, each_report(sources)):,} reports"
    sums = replace(load(sources).whole, **provenance())
    write_whole(out, sums.dumps())
    disclosing = f", {sums.by_class.contributors:,} of them by class" if sums.by_class is not None else ""
    return f"the sums of {sums.contributors:,} clients{disclosing}, {sums.examples:,} examples"


def _write_lines(path: Path, reports: Iterable[Report]) -> int:
    first: Report | None = None
    clients: list[str] = []
    with whole_file(path) as file:
        for report in reports:
            first = first or report
            check_compatible([first, report])
            clients.append(report.client)
            file.write(json.dumps(report.to_json(), separators=(",", ":")).encode() + b"\n")
        check_once(clients)
    return len(clients)
