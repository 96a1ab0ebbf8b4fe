"""Loading reports and sums: objects, files, folders, NDJSON, Parquet tables."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from itertools import groupby
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
    """Reports and sums that were loaded; at least one of the two.

    Attributes:
        reports: single clients' reports; None where there were none.
        sums: all sums, merged; None where there were none.
    """

    reports: Table | None
    sums: Sums | None

    @property
    def whole(self) -> Sums:
        """Everything as sums.

        Raises:
            CannotCombine: sums and reports do not belong together.
        """
        parts = [Sums.of(self.reports)] if self.reports is not None else []
        return reduce(Sums.merged, [*parts, *([self.sums] if self.sums is not None else [])])


def load(sources: Source | Iterable[Source]) -> LoadedReports:
    """Load reports and sums from objects and paths.

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
    tables: list[Table] = []
    parquet: list[Path] = []
    sums_in_folders = 0
    items = (item for path in paths for item in _items_in(path, with_sums=True))
    for kind, run in groupby(items, key=lambda item: item.kind):
        if kind is _ItemKind.REPORT:
            tables.extend(tables_of((item.place, item.content) for item in run))
        elif kind is _ItemKind.SUMS:
            for item in run:
                sums.append(Sums.from_json(item.content, item.place))
                sums_in_folders += item.in_folder
        else:
            parquet.extend(item.content for item in run)
    for file in parquet:
        tables.extend(read_parquet(file))
    if objects or not (tables or sums):
        tables.append(Table.of(objects))
    if sums_in_folders and (tables or len(sums) > 1):
        warnings.warn(
            "sums came together with reports or other sums, and do not say who contributed to them: "
            "a client that is in two of them counts twice",
            FedcertWarning,
            stacklevel=2,
        )
    whole = reduce(Sums.merged, sums) if sums else None
    return LoadedReports(Table.joined(tables) if tables else None, whole)


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
        parquet: list[Path] = []
        for item in _items_in(path, with_sums=False):
            if item.kind is _ItemKind.PARQUET:
                parquet.append(item.content)
            else:
                yield Report.from_json(item.content, item.place)
        for file in parquet:
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


class _ItemKind(Enum):
    REPORT, SUMS, PARQUET = "a document of a report", "a document of sums", "a Parquet file"


@dataclass(frozen=True)
class _Item:
    """A report, sums or a table at a path.

    Attributes:
        kind: what it is.
        place: where it is, for messages.
        content: the parsed document, or the file.
        in_folder: whether the path is a folder.
    """

    kind: _ItemKind
    place: str
    content: Any
    in_folder: bool


def _items_in(path: Path, *, with_sums: bool) -> Iterator[_Item]:
    """What a file or folder holds; other files of fedcert in a folder are passed over with a warning.

    Args:
        path: the file or folder.
        with_sums: whether sums are wanted; where they are not, they are taken for reports, or passed over in a folder.

    Raises:
        FileProblem: there is nothing of that kind.
    """
    in_folder = kind_of_path(path) == "a folder"
    count, passed = 0, []
    for file in files_in(path):
        for kind, place, content in _contents(file, in_folder, with_sums):
            if kind is None:
                passed.append(place)
            else:
                count += 1
                yield _Item(kind, place, content, in_folder)
    if passed:
        names = ", ".join(Path(place).name for place in passed[:5]) + (", …" if len(passed) > 5 else "")
        warnings.warn(
            f"{display_path(path)}: passed over {len(passed)} file(s) that are not reports ({preview(names, 300)})",
            FedcertWarning,
            stacklevel=2,
        )
    if not count:
        raise FileProblem(f"{display_path(path)} holds no report; give files that 'fedcert certify' wrote")


def _contents(file: Path, in_folder: bool, with_sums: bool) -> Iterator[tuple[_ItemKind | None, str, Any]]:
    """What a file holds, each with its kind and its place; the kind is None for what is to be passed over."""
    if file.suffix.lower() == SUFFIX:
        yield None if in_folder and not holds_reports(file) else _ItemKind.PARQUET, str(file), file
        return
    for place, document in read_documents(file):
        kind = kind_named(document)
        if kind == "sums" and with_sums:
            yield _ItemKind.SUMS, place, document
        else:  # what claims to be nothing of fedcert's is read as a report, so that a message says what is wrong
            yield None if in_folder and kind not in ("report", "unknown") else _ItemKind.REPORT, place, document


def kind_named(document: Any) -> str:
    """What a document's schema calls it ("report", "sums", …); "unknown" where it has none of fedcert's."""
    schema = document.get("schema") if isinstance(document, dict) else None
    words = schema.split("/") if isinstance(schema, str) else []
    return words[1] if words[:1] == ["fedcert"] and len(words) == 3 else "unknown"
