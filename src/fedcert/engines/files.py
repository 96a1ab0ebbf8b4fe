"""Reports in files: a request file goes out, report files come back, and people carry them. No engine, no network."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from fedcert._files.documents import Reading, files_in, parse, read_texts
from fedcert._files.paths import display_path, kind_of_path
from fedcert._files.shared import reading_of
from fedcert.errors import CallError, FedcertError, Refused, preview
from fedcert.report import Report
from fedcert.report.load import kind_named
from fedcert.report.table.parquet import SUFFIX, reports_in
from fedcert.rounds import CertificationRound

_LONGEST_NAME = 200
"""Characters, as many as a client's name may have: a longer one names no client."""


def take_files(
    round_: CertificationRound,
    paths: Iterable[Path],
    *,
    may_be_empty: bool = False,
    replace: Collection[str] = (),
) -> dict[str, str]:
    """Offer a round all reports in some files and folders; a broken one does not hide the others.

    A file says nothing about when it arrived, so a report is late if it says itself that it was written too late.

    Args:
        round_: the round.
        paths: files (.json, .ndjson, .parquet) or folders of them.
        may_be_empty: whether a folder without such files is fine: nothing has come since the last time.
        replace: clients whose report in these files replaces the one that the round has, whatever their times.

    Returns:
        What was not taken: place -> why.

    Raises:
        CallError: a path is not there, or cannot hold reports; there is no report of a client to replace.
        FileProblem: an answer could not be kept.
    """
    refused: dict[str, str] = {}
    waiting = set(replace)
    why: dict[str, str] = {}
    for path in paths:
        in_folder = kind_of_path(path) == "a folder"
        for file in files_in(path, may_be_empty=may_be_empty):
            for place, piece in _pieces(file, reading_of(path)):
                reason = _refusal(round_, place, piece, in_folder, waiting, why)
                if reason is not None:
                    refused[place] = reason
    if waiting:
        names = ", ".join(
            f"{preview(client)}{f' ({why[client]})' if client in why else ''}" for client in sorted(waiting)
        )
        raise CallError(f"the files hold no report of {names} that could replace the kept one")
    return refused


def _pieces(file: Path, reading: Reading) -> Iterator[tuple[str, Report | bytes | FedcertError]]:
    """The reports of a table or the documents of another file, with their places; an error where it cannot be read."""
    try:
        if file.suffix.lower() != SUFFIX:
            yield from read_texts(file, reading=reading)
        else:
            for report in reports_in(file, reading):
                yield f"{display_path(file)}, client {report.client}", report
    except FedcertError as error:
        yield display_path(file), error


def _refusal(
    round_: CertificationRound, place: str, piece: Any, in_folder: bool, waiting: set[str], why: dict[str, str]
) -> str | None:
    """Offer a round what a file holds: why it does not take it; None where it does, or where that is no answer.

    A client whose report is taken in place of another is removed from those that are waiting for that; `why` has the
    reason by client where it is not.
    """
    if isinstance(piece, FedcertError):
        round_.doubt(None, f"{place}: {piece}")
        return str(piece)
    document: Any = None
    try:
        if isinstance(piece, bytes):
            document = parse(piece, place)
            if in_folder and kind_named(document) not in ("report", "unknown"):
                return None  # a request or an estimate beside the reports
            piece = Report.from_json(document, place)
    except FedcertError as error:
        round_.doubt(_client(document), str(error))
        return str(error)
    arrived = None if piece.created is None else datetime.fromisoformat(piece.created)
    try:
        round_.take(piece, arrived=arrived, place=place, replacing=piece.client in waiting)
    except Refused as error:
        why[piece.client] = str(error)
        return str(error)
    waiting.discard(piece.client)
    return None


def _client(document: Any) -> str | None:
    """The client that a document names."""
    client = document.get("client") if isinstance(document, dict) else None
    return client if isinstance(client, str) and len(client) <= _LONGEST_NAME else None
