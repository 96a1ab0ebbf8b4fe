"""Reports and sums from wherever they are: objects, files, folders, lines of JSON, Parquet tables."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcert._files.documents import files_in, read_documents
from fedcert._files.paths import display_path, kind_of_path
from fedcert.errors import CallError, FedcertWarning, FileProblem, preview
from fedcert.report.report import Report
from fedcert.report.sums.values import Sums
from fedcert.report.table.columns import Table
from fedcert.report.table.documents import tables_of
from fedcert.report.table.parquet import SUFFIX, holds_reports, read_parquet, reports_in

Source = Report | Sums | str | Path
"""What an estimate may be made from."""


@dataclass(frozen=True)
class LoadedReports:
    """What came together.

    Attributes:
        reports: single clients' reports; None where there were none.
        sums: all sums that came, added up; None where there were none.
    """

    reports: Table | None
    sums: Sums | None

    @property
    def whole(self) -> Sums:
        """Everything as sums.

        Raises:
            CannotCombine: sums and reports do not belong together.
        """
        folded = Sums.of(self.reports) if self.reports is not None else None
        if folded is None or self.sums is None:
            whole = folded or self.sums
            assert whole is not None  # noqa: S101 (gather never gives nothing)
            return whole
        return folded.merged(self.sums)


def load(sources: Source | Iterable[Source]) -> LoadedReports:
    """Bring reports and sums together.

    Inside a folder, fedcert's other files (a request, an estimate) are passed over with a warning.

    Raises:
        CallError: a path is not there or cannot hold reports.
        FileProblem: a file cannot be read or parsed.
        InvalidValue: a report breaks a rule of its schema.
        CannotCombine: they do not belong together, or there are none.
    """
    objects: list[Report] = []
    sums: list[Sums] = []
    paths: list[Path] = []
    for source in _listed(sources):
        if isinstance(source, Report):
            objects.append(source)
        elif isinstance(source, Sums):
            sums.append(source)
        else:
            paths.append(Path(source))
    pile = _FileSorter(sums)
    tables = [*tables_of(document for path in paths for document in pile.documents(path)), *pile.tables()]
    if objects or not (tables or sums):
        tables.append(Table.of(objects))
    if sums and pile.in_folders and (tables or len(sums) > 1):
        warnings.warn(
            "sums came together with reports or other sums, and do not say who contributed to them: "
            "a client that is in two of them counts twice",
            FedcertWarning,
            stacklevel=2,
        )
    return LoadedReports(Table.joined(tables) if tables else None, _added_up(sums))


def read_reports(paths: str | Path | Iterable[str | Path]) -> tuple[Report, ...]:
    """Reports from files, folders, NDJSON and Parquet tables, in the order given, folders by file name.

    Inside a folder, fedcert's other files (a request, an estimate) are passed over with a warning.

    Raises:
        CallError: a path is not there or cannot hold reports.
        FileProblem: a file cannot be read or parsed.
        InvalidValue: a report breaks a rule of its schema.

    Examples:
        >>> import pathlib, tempfile
        >>> own = Report(client="site-07", model="demo", smoothing={"sigma": 0.25}, radii=[0], classes=["cat"],
        ...              label_counts=[9], certified_counts=[7])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "site-07.json").write_text(own.dumps())
        ...     [report.client for report in read_reports(folder)]
        ['site-07']
    """
    return tuple(each_report(paths))


def each_report(paths: str | Path | Iterable[str | Path]) -> Iterator[Report]:
    """The same, one at a time."""
    for path in [Path(paths)] if isinstance(paths, (str, Path)) else map(Path, paths):
        pile = _FileSorter(None)
        for place, document in pile.documents(path):
            yield Report.from_json(document, place)
        for file in pile.parquet:
            yield from reports_in(file)


def _listed(sources: Source | Iterable[Source]) -> list[Source]:
    if isinstance(sources, (str, Path, Report, Sums)):
        return [sources]
    if not isinstance(sources, Iterable):
        raise CallError(f"reports must be reports, sums or paths, but is {preview(sources)}")
    listed = list(sources)
    for source in listed:
        if not isinstance(source, (str, Path, Report, Sums)):
            raise CallError(f"reports must be reports, sums or paths, but one is {type(source).__name__}")
    return listed


def _added_up(sums: Iterable[Sums]) -> Sums | None:
    whole: Sums | None = None
    for one in sums:
        whole = one if whole is None else whole.merged(one)
    return whole


class _FileSorter:
    """Files on their way in: documents of reports are passed on, sums and Parquet files are laid aside."""

    def __init__(self, sums: list[Sums] | None) -> None:
        self.sums = sums
        self.in_folders = 0
        self.parquet: list[Path] = []

    def documents(self, path: Path) -> Iterator[tuple[str, Any]]:
        """The documents of a file or folder that claim to be reports."""
        in_folder = kind_of_path(path) == "a folder"
        found, passed = 0, []
        for file in files_in(path):
            if file.suffix.lower() == SUFFIX:
                if in_folder and not holds_reports(file):
                    passed.append(str(file))
                    continue
                self.parquet.append(file)
                found += 1
                continue
            for place, document in read_documents(file):
                kind = kind_named(document)
                if kind == "sums" and self.sums is not None:
                    self.sums.append(Sums.from_json(document, place))
                    self.in_folders += in_folder
                elif in_folder and kind not in ("report", "unknown"):
                    passed.append(place)
                    continue
                else:
                    yield place, document
                found += 1
        if passed:
            names = ", ".join(Path(place).name for place in passed[:5]) + (", …" if len(passed) > 5 else "")
            warnings.warn(
                f"{display_path(path)}: passed over {len(passed)} file(s) that are not reports ({preview(names, 300)})",
                FedcertWarning,
                stacklevel=2,
            )
        if not found:
            raise FileProblem(f"{display_path(path)} holds no report; give files that 'fedcert certify' wrote")

    def tables(self) -> Iterator[Table]:
        """The tables of the Parquet files that were laid aside."""
        for file in self.parquet:
            yield from read_parquet(file)


def kind_named(document: Any) -> str:
    """What a document's schema calls it ("report", "sums", …); "unknown" where it has none of fedcert's."""
    schema = document.get("schema") if isinstance(document, dict) else None
    words = schema.split("/") if isinstance(schema, str) else []
    return words[1] if words[:1] == ["fedcert"] and len(words) == 3 else "unknown"
