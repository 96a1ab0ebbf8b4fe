"""Certificates of single examples in a Parquet file; they stay with the client."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcert._arrays import Integers
from fedcert._files.atomic import whole_file
from fedcert._files.parquet_pages import ParquetFooter, bytes_of_file, check_columns_fit
from fedcert._files.paths import check_readable, display_path
from fedcert.certification.certificate import CertificateTable, CorrectTable, ExampleTable
from fedcert.certification.dataset_run import CertificationResult
from fedcert.errors import DataProblem, require

SCHEMA = "fedcert/examples/1"
_HEADER = ("client", "model", "smoothing", "radii", "classes")
"""Fields of the report that the file repeats."""


_COLUMNS = ("index", "predicted", "radius", "correct", "samples")
"""What is read of each example; its label is in the data."""


@dataclass(frozen=True)
class KeptExamples:
    """Certificates of single examples, as a client keeps them.

    Attributes:
        header: what the file repeats of the report.
        certificates: by index.
    """

    header: dict[str, Any]
    certificates: ExampleTable


def read_examples(path: Path) -> KeptExamples:
    """The certificates that `write_examples` wrote.

    Raises:
        MissingExtra: pyarrow is not installed.
        CallError: there is no such file.
        DataProblem: it holds something else.
    """
    check_readable(path, (".parquet",))
    arrow = require("pyarrow", "certificates of single examples", "parquet")
    parquet = require("pyarrow.parquet", "certificates of single examples", "parquet")
    try:
        table = _read(parquet, path)
        header = json.loads((table.schema.metadata or {})[b"fedcert"])
        if header["schema"] != SCHEMA:
            raise ValueError
        certificates = _certificates(table)
        if np.any(np.diff(certificates.index) <= 0):
            raise ValueError
    except DataProblem:
        raise
    except (arrow.ArrowException, LookupError, ValueError, TypeError, OSError, RuntimeError):
        raise DataProblem(
            f"{display_path(path)} must hold certificates of single examples, but does not; give the file that "
            "'fedcert certify --examples' wrote"
        ) from None
    return KeptExamples(header, certificates)


def _read(parquet: Any, path: Path) -> Any:
    """The columns that are used; how large they are is looked at first."""
    place = display_path(path)
    with path.open("rb") as opened:
        packed = bytes_of_file(opened)
        sizes = ParquetFooter.of(opened).sizes(opened, _COLUMNS)
        check_columns_fit(sizes, place, packed, DataProblem, "give the file that 'fedcert certify --examples' wrote")
        if any(size.values != size.rows for size in sizes):  # room is made for as many rows as a part claims to have
            raise ValueError
        return parquet.ParquetFile(opened).read(columns=list(_COLUMNS))


def _certificates(table: Any) -> ExampleTable:
    """The columns as a table of certificates, or of right answers.

    Raises:
        KeyError, ValueError: a column is missing, or has nulls.
    """
    if "radius" not in table.column_names:
        return CorrectTable(*(_whole(table, name) for name in ("index", "correct", "samples")))
    radius = table.column("radius").to_numpy(zero_copy_only=False).astype(np.float64)
    estimated = np.isfinite(radius)
    index, selected, samples = (_whole(table, name) for name in ("index", "predicted", "samples"))
    return CertificateTable(index, selected, np.where(estimated, radius, 0.0), samples, estimated)


def _whole(table: Any, name: str) -> Integers:
    column = table.column(name)
    if column.null_count:
        raise ValueError
    return np.asarray(column.to_numpy().astype(np.int64), dtype=np.int64)


def write_examples(path: Path, result: CertificationResult, labels: Integers) -> None:
    """Write one row per example: index, label, selected class, certified radius, whether that counts, samples.

    The radius is null where nothing was bounded: selection was wrong, and the procedure is sequential. With population
    certificates: index, label, right answers, samples.

    Args:
        path: the file.
        result: of certification.
        labels: of all of the client's examples.

    Raises:
        MissingExtra: pyarrow is not installed.
        CallError: the file cannot be written there.
        FileProblem: the disk is full, or the system refuses otherwise.
    """
    arrow = require("pyarrow", "certificates of single examples", "parquet")
    parquet = require("pyarrow.parquet", "certificates of single examples", "parquet")
    certificates = result.certificates
    label = labels[certificates.index]
    columns = {
        "index": arrow.array(certificates.index, arrow.int64()),
        "label": arrow.array(label, arrow.int32()),
    }
    if isinstance(certificates, CorrectTable):
        columns["correct"] = arrow.array(certificates.correct, arrow.int32())
    else:
        columns |= {
            "predicted": arrow.array(certificates.selected, arrow.int32()),
            "radius": arrow.array(certificates.radius, arrow.float64(), mask=~certificates.estimated),
            "correct": arrow.array((certificates.selected == label) & ~certificates.abstains, arrow.bool_()),
        }
    columns["samples"] = arrow.array(certificates.samples, arrow.int64())
    table = arrow.table(columns)
    report = result.report.to_json()
    header = {"schema": SCHEMA} | {name: report[name] for name in _HEADER}
    with whole_file(path) as file:
        parquet.write_table(table.replace_schema_metadata({"fedcert": json.dumps(header)}), file, compression="zstd")
