"""Certification logs of Cohen et al.'s code: tab-separated idx, label, predict, radius, correct (and time)."""

from __future__ import annotations

import io
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedcert._arrays import Floats, Integers
from fedcert._files.paths import check_readable, display_path
from fedcert.certification.certificate import CertificateTable
from fedcert.errors import DataProblem, FileProblem, preview
from fedcert.report.fields import MOST_CLASSES

_COLUMNS = ("idx", "label", "predict", "radius", "correct")
_LARGEST = 2**27
"""Bytes: a log has some 40 per example, so that this is a log of three million."""


def read_log(path: Path) -> tuple[CertificateTable, Integers]:
    """The certificates of a log, and the label of each example.

    Logs have three digits of a radius, perhaps rounded up: half a unit of the third is taken off. They do not say how
    many samples were drawn.

    Raises:
        CallError: there is no such file.
        FileProblem: it cannot be read.
        DataProblem: a line is not what such logs hold, an example stands twice, or `correct` contradicts the rest.
    """
    check_readable(path, (".tsv", ".txt", ".log", ""))
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise FileProblem(f"{display_path(path)} is larger than {_LARGEST // 2**20} MiB; not read")
        lines = (line.decode().rstrip("\r\n") for line in io.BytesIO(data))
        first = next(lines, "")
        columns = _columns(lines, first, path)
    except OSError as error:
        raise FileProblem(f"cannot read {display_path(path)}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise DataProblem(f"{display_path(path)} is not text; give the log that certify.py wrote") from None
    if not columns[0]:
        raise DataProblem(f"{display_path(path)} holds no example; give a log of a run that went further")
    indices, labels, predicted, correct = (np.array(column, dtype=np.int64) for column in columns[:4])
    radius = np.array(columns[4], dtype=np.float64)
    if len(np.unique(indices)) < len(indices):
        raise DataProblem(f"{display_path(path)} holds an example twice; give the log of one run")
    wrong = np.flatnonzero((predicted == labels) != (correct == 1))
    if len(wrong):
        raise DataProblem(
            f"{display_path(path)}: example {indices[wrong[0]]} has label {labels[wrong[0]]} and prediction "
            f"{predicted[wrong[0]]}, which 'correct' contradicts; the log was changed or mixed up"
        )
    unknown, bounded = np.zeros_like(indices), np.ones(len(indices), dtype=np.bool_)
    return CertificateTable(indices, predicted, _rounded_down(radius), unknown, bounded), labels


def _columns(lines: Iterator[str], first: str, path: Path) -> tuple[array[Any], ...]:
    """Index, label, prediction, whether that is right, and radius of each example, in as little memory as they need.

    Raises:
        DataProblem: a line is not what such logs hold.
    """
    if tuple(first.split("\t", len(_COLUMNS))[: len(_COLUMNS)]) != _COLUMNS:
        raise DataProblem(
            f"{display_path(path)} must begin with the line {' '.join(_COLUMNS)} (tabs between), but begins with "
            f"{preview(first)}; give the log that certify.py wrote"
        )
    columns: tuple[array[Any], ...] = (*(array("q") for _ in range(4)), array("d"))
    for number, line in enumerate(lines, start=2):
        if line.strip():
            for column, value in zip(columns, _row(line, number, path), strict=True):
                column.append(value)
    return columns


def _rounded_down(radius: Floats) -> Floats:
    unit = 10.0 ** (np.floor(np.log10(np.where(radius > 0, radius, 1.0))) - 2)
    return np.where(radius > 0, radius - unit / 2, 0.0)


def _row(line: str, number: int, path: Path) -> tuple[int, int, int, int, float]:
    parts = line.split("\t", len(_COLUMNS))
    try:
        index, label, predicted = (int(part) for part in parts[:3])
        radius, correct = float(parts[3]), int(parts[4])
        if not 0 <= index < 2**62 or not 0 <= label < MOST_CLASSES or not -1 <= predicted < MOST_CLASSES:
            raise ValueError
        if not 0 <= radius < float("inf") or correct not in (0, 1):
            raise ValueError
    except (ValueError, IndexError):
        raise DataProblem(
            f"{display_path(path)}, line {number}: must hold idx, label, predict, radius and correct, but is "
            f"{preview(line)}"
        ) from None
    return index, label, predicted, correct, radius
