"""Estimates on disk."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import IO

from fedcert._files.atomic import check_writable, whole_file
from fedcert.errors import MissingExtra, require
from fedcert.estimation.result import MOST_WEIGHTS, Estimate
from fedcert.estimation.weights import Weights

Writing = Callable[[Path], AbstractContextManager[IO[bytes]]]
"""Gives a file to write to, which takes its name when all of it is written (`whole_file`)."""


def weights_path(path: Path) -> Path:
    """Where many weights go: beside the estimate's own file."""
    return path.with_name(f"{path.stem}.weights.parquet")


def write_estimate(estimate: Estimate, path: Path, writing: Writing = whole_file) -> list[Path]:
    """Write an estimate, many weights to a Parquet file beside it, and give the files written.

    Without pyarrow these weights are left out, and the estimate says so.

    Args:
        estimate: the estimate.
        path: its file.
        writing: how files are written.

    Raises:
        CallError: a file cannot be written there.
        FileProblem: the disk is full, or the system refuses otherwise.
    """
    check_writable(path, (".json",))
    written = []
    if isinstance(estimate.weights, Weights) and len(estimate.weights) > MOST_WEIGHTS:
        with contextlib.suppress(MissingExtra):
            beside = weights_path(path)
            check_writable(beside)
            _write_weights(estimate.weights, beside, writing)
            estimate = replace(estimate, weights_file=beside.name)
            written.append(beside)
    with writing(path) as file:
        file.write(estimate.dumps().encode())
    return [path, *written]


def _write_weights(weights: Weights, path: Path, writing: Writing) -> None:
    arrow = require("pyarrow", "Many weights", "parquet")
    parquet = require("pyarrow.parquet", "Many weights", "parquet")
    table = arrow.table({"client": list(weights.clients), "weight": weights.values_in_order})
    table = table.replace_schema_metadata({"fedcert": '{"schema": "fedcert/weights/1"}'})
    with writing(path) as file:
        parquet.write_table(table, file, compression="zstd")
