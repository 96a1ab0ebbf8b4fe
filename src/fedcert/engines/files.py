"""Files that people carry: a request file out, report files back. No engine, no network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from fedcert.errors import FedcertError, Refused
from fedcert.report import Report
from fedcert.report.gathering import kind_named
from fedcert.report.parquet import SUFFIX, reports_in
from fedcert.report.parsing import parse
from fedcert.report.paths import kind_of_path, named
from fedcert.report.reading import files_in, read_texts
from fedcert.rounds import Round


def take_files(one: Round, paths: Iterable[Path]) -> dict[str, str]:
    """Offer a round all reports in some files and folders; one that is broken does not hide the others.

    A file says nothing about when it arrived, so a report is late if it says itself that it was written too late.

    Args:
        one: the round.
        paths: files (.json, .ndjson, .parquet) or folders of them.

    Returns:
        What was not taken: place -> why.

    Raises:
        CallError: a path is not there, or cannot hold reports.
        FileProblem: an answer could not be kept.
    """
    refused: dict[str, str] = {}
    for path in paths:
        for place, found in _reports(path, refused):
            try:
                one.take(found, came=_written(found))
            except Refused as error:
                refused[place] = str(error)
    return refused


def _reports(path: Path, refused: dict[str, str]) -> Iterator[tuple[str, Report]]:
    in_folder = kind_of_path(path) == "a folder"
    for file in files_in(path):
        try:
            if file.suffix.lower() == SUFFIX:
                for report in reports_in(file):
                    yield f"{named(file)}, client {report.client}", report
                continue
            texts = list(read_texts(file))
        except FedcertError as error:
            refused[named(file)] = str(error)
            continue
        for place, text in texts:
            try:
                document = parse(text, place)
                if in_folder and kind_named(document) not in ("report", "unknown"):
                    continue  # a request or an estimate beside the reports
                yield place, Report.from_json(document, place)
            except FedcertError as error:
                refused[place] = str(error)


def _written(report: Any) -> datetime | None:
    return datetime.fromisoformat(report.created) if report.created is not None else None
