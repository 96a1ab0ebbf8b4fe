"""Reports in files: a request file goes out, report files come back, and people carry them. No engine, no network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from fedcert._files.documents import files_in, parse, read_texts
from fedcert._files.paths import display_path, kind_of_path
from fedcert.errors import FedcertError, Refused
from fedcert.report import Report
from fedcert.report.load import kind_named
from fedcert.report.table.parquet import SUFFIX, reports_in
from fedcert.rounds import CertificationRound

_LONGEST_NAME = 200
"""Characters, as many as a client's name may have: a longer one names no client."""


def take_files(round_: CertificationRound, paths: Iterable[Path], *, may_be_empty: bool = False) -> dict[str, str]:
    """Offer a round all reports in some files and folders; a broken one does not hide the others.

    A file says nothing about when it arrived, so a report is late if it says itself that it was written too late.

    Args:
        round_: the round.
        paths: files (.json, .ndjson, .parquet) or folders of them.
        may_be_empty: whether a folder without such files is fine: nothing has come since the last time.

    Returns:
        What was not taken: place -> why.

    Raises:
        CallError: a path is not there, or cannot hold reports.
        FileProblem: an answer could not be kept.
    """
    refused: dict[str, str] = {}
    for path in paths:
        in_folder = kind_of_path(path) == "a folder"
        for file in files_in(path, may_be_empty=may_be_empty):
            try:
                for place, report in _reports_in(file, round_, refused, in_folder):
                    try:
                        round_.take(report, arrived=_written(report))
                    except Refused as error:
                        refused[place] = str(error)
            except _Unreadable as error:
                refused[display_path(file)] = str(error)
                round_.doubt(None, f"{display_path(file)}: {error}")
    return refused


class _Unreadable(FedcertError):
    """A file that cannot be read on."""


def _reports_in(
    file: Path, round_: CertificationRound, refused: dict[str, str], in_folder: bool
) -> Iterator[tuple[str, Report]]:
    """The reports of a file, with their places; the round notes what is none."""
    table = file.suffix.lower() == SUFFIX
    pieces: Iterator[Any] = iter(reports_in(file) if table else read_texts(file))
    while True:
        try:
            piece = next(pieces)
        except StopIteration:
            return
        except FedcertError as error:
            raise _Unreadable(str(error)) from None
        if table:
            yield f"{display_path(file)}, client {piece.client}", piece
            continue
        place, text = piece
        document: Any = None
        try:
            document = parse(text, place)
            if in_folder and kind_named(document) not in ("report", "unknown"):
                continue  # a request or an estimate beside the reports
            report = Report.from_json(document, place)
        except FedcertError as error:
            refused[place] = str(error)
            round_.doubt(_client(document), str(error))
            continue
        yield place, report


def _client(document: Any) -> str | None:
    """The client that a document names."""
    client = document.get("client") if isinstance(document, dict) else None
    return client if isinstance(client, str) and len(client) <= _LONGEST_NAME else None


def _written(report: Any) -> datetime | None:
    return datetime.fromisoformat(report.created) if report.created is not None else None
