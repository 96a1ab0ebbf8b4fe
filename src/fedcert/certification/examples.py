"""Certificates of single examples in a Parquet file; they stay with the client."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedcert._files.atomic import whole_file
from fedcert.certification.run import CertificationResult
from fedcert.errors import require


def write_examples(path: Path, done: CertificationResult, labels: npt.NDArray[np.int64]) -> None:
    """Write one row per example: index, label, selected class, certified radius, whether that counts, samples.

    The radius is null where nothing was bounded: selection was wrong, and the procedure is sequential.

    Raises:
        MissingExtra: pyarrow is not installed.
        CallError: the file cannot be written there.
        FileProblem: the disk is full, or the system refuses otherwise.
    """
    arrow = require("pyarrow", "certificates of single examples", "parquet")
    parquet = require("pyarrow.parquet", "certificates of single examples", "parquet")
    mine = [int(labels[outcome.index]) for outcome in done.outcomes]
    table = arrow.table(
        {
            "index": arrow.array([outcome.index for outcome in done.outcomes], arrow.int64()),
            "label": arrow.array(mine, arrow.int32()),
            "predicted": arrow.array([outcome.selected for outcome in done.outcomes], arrow.int32()),
            "radius": arrow.array(
                [outcome.radius if outcome.estimated else None for outcome in done.outcomes], arrow.float64()
            ),
            "correct": arrow.array(
                [
                    outcome.selected == label and outcome.radius > 0
                    for outcome, label in zip(done.outcomes, mine, strict=True)
                ],
                arrow.bool_(),
            ),
            "samples": arrow.array([outcome.samples for outcome in done.outcomes], arrow.int64()),
        }
    )
    report = done.report
    header = {
        "schema": "fedcert/examples/1",
        "client": report.client,
        "model": report.model,
        "smoothing": report.smoothing.to_json(),
        "radii": report.radii,
        "classes": report.classes,
    }
    with whole_file(path) as file:
        parquet.write_table(table.replace_schema_metadata({"fedcert": json.dumps(header)}), file, compression="zstd")
