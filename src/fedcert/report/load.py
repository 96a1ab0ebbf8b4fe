"""Loading reports and sums: objects, files, folders, NDJSON, Parquet tables."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Any

from fedcert._files.documents import Reading, files_in, read_documents
from fedcert._files.paths import display_path, kind_of_path
from fedcert._files.shared import reading_of
from fedcert.errors import CallError, FedcertNote, FileProblem, preview
from fedcert.report.report import Report
from fedcert.report.sums.values import Sums
from fedcert.report.table.bulk import tables_of
from fedcert.report.table.columns import Table
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
        reported = None if self.reports is None else Sums.of(self.reports)
        return reduce(Sums.merged, [part for part in (reported, self.sums) if part is not None])


def load(sources: Source | Iterable[Source]) -> LoadedReports:
    """Load reports and sums from objects and paths.

    Inside a folder, fedcert's other files (a request, an estimate) are passed over with a warning.

    Raises:
        CallError: a path is not there or cannot hold reports.
        FileProblem: a file cannot be read or parsed.
        InvalidValue: a report breaks a rule of its schema.
        CannotCombine: they do not belong together, or there are none.
    """
    listed = _listed(sources)
    objects = [source for source in listed if isinstance(source, Report)]
    sums = [source for source in listed if isinstance(source, Sums)]
    paths = [Path(source) for source in listed if isinstance(source, (str, Path))]
    tables: list[Table] = []
    parquet: list[tuple[Path, Reading]] = []
    sums_in_folders = 0
    items = (item for path in paths for item in _items_in(path, with_sums=True))
    for kind, run in groupby(items, key=lambda item: item.kind):
        if kind is Report:
            tables.extend(tables_of((item.place, item.content) for item in run))
        elif kind is Sums:
            for item in run:
                sums.append(Sums.from_json(item.content, item.place))
                sums_in_folders += item.in_folder
        else:
            parquet.extend(item.content for item in run)
    tables.extend(table for each in parquet for table in read_parquet(*each))
    if objects or not (tables or sums):
        tables.append(Table.of(objects))
    if sums_in_folders and (tables or len(sums) > 1):
        words = (
            "sums came together with reports or other sums, and do not say who contributed to them: "
            "a client that is in two of them counts twice"
        )
        warnings.warn(words, FedcertNote, stacklevel=2)
    return LoadedReports(Table.joined(tables) if tables else None, reduce(Sums.merged, sums) if sums else None)


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
        parquet: list[tuple[Path, Reading]] = []
        for item in _items_in(path, with_sums=False):
            if item.kind is Table:
                parquet.append(item.content)
            else:
                yield Report.from_json(item.content, item.place)
        for each in parquet:
            yield from reports_in(*each)


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


@dataclass(frozen=True)
class _Item:
    """A report, sums or a table at a path.

    Attributes:
        kind: what it is: `Report`, `Sums`, `Table` for a Parquet file; None for what is to be passed over.
        place: where it is, for messages.
        content: the parsed document, or the file and how it is read.
        in_folder: whether the path is a folder.
    """

    kind: type[Report | Sums | Table] | None
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
    in_folder, reading = kind_of_path(path) == "a folder", reading_of(path)
    count, passed = 0, []
    for item in (item for file in files_in(path) for item in _contents(file, reading, in_folder, with_sums)):
        if item.kind is None:
            passed.append(Path(item.place).name)
        else:
            count += 1
            yield item
    if passed:
        names = preview(", ".join(passed[:5]) + (", …" if len(passed) > 5 else ""), 300)
        words = f"{display_path(path)}: passed over {len(passed)} file(s) that are not reports ({names})"
        warnings.warn(words, FedcertNote, stacklevel=2)
    if not count:
        raise FileProblem(f"{display_path(path)} holds no report; give files that 'fedcert certify' wrote")


def _contents(file: Path, reading: Reading, in_folder: bool, with_sums: bool) -> Iterator[_Item]:
    """What a file holds."""
    if file.suffix.lower() == SUFFIX:
        other = in_folder and not holds_reports(file, reading)
        yield _Item(None if other else Table, str(file), (file, reading), in_folder)
        return
    for place, document in read_documents(file, reading=reading):
        kind = kind_named(document)
        if kind == "sums" and with_sums:
            yield _Item(Sums, place, document, in_folder)
        else:  # what claims to be nothing of fedcert's is read as a report, so that a message says what is wrong
            other = in_folder and kind not in ("report", "unknown")
            yield _Item(None if other else Report, place, document, in_folder)


def kind_named(document: Any) -> str:
    """What a document's schema calls it ("report", "sums", …); "unknown" where it has none of fedcert's."""
    schema = document.get("schema") if isinstance(document, dict) else None
    words = schema.split("/") if isinstance(schema, str) else []
    return words[1] if words[:1] == ["fedcert"] and len(words) == 3 else "unknown"
