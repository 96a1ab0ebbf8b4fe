"""A trace in memory and as a Parquet file: one row for each certified example, settings in the metadata."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._files.atomic import whole_file
from fedcert._files.parquet_pages import ParquetFooter, bytes_of_file, check_columns_fit, text_columns
from fedcert._files.paths import check_readable, display_path
from fedcert.errors import CallError, DataProblem, FileProblem, InvalidValue, preview, require
from fedcert.lab.experiment import Experiment

SCHEMA = "fedcert/trace/1"
_MOST_ROWS = 2**26
"""A thousand times CIFAR's examples; a limit to what an untrusted file can claim."""
_BATCH = 2**16
"""Rows that are read together: about 2 MB."""
_SPLITS = ("client", "target")
_NUMBERS = ("client", "index", "label", "predicted", "radius", "samples")
_COLUMNS = ("split", *_NUMBERS)
_OPTIONAL = ("correct", "clean")
"""Columns that traces of earlier versions do not have."""
_ARROW_TYPES = (
    dict.fromkeys(_NUMBERS, "int32")
    | {"label": "int16", "predicted": "int16", "radius": "float32"}
    | dict.fromkeys(_OPTIONAL, "int16")
)
_FACTS = ("experiment", "classes", "model", "rounds", "accuracy", "about")
"""What the metadata says of a trace."""


@dataclass(frozen=True)
class Examples:
    """Certified examples of one split, an entry each.

    Attributes:
        client: who holds it; -1 for the target's.
        index: its index in the data set's part (training images for clients, test images for the target).
        label: its class.
        predicted: the class that selection chose.
        radius: the certified radius; 0 where nothing is certified.
        samples: noisy samples drawn.
        correct: how many of the n0 samples of selection were predicted right (K); None in traces of earlier versions.
        clean: the class predicted without noise; None in traces of earlier versions.
    """

    client: npt.NDArray[np.int32]
    index: npt.NDArray[np.int32]
    label: npt.NDArray[np.int32]
    predicted: npt.NDArray[np.int32]
    radius: npt.NDArray[np.float64]
    samples: npt.NDArray[np.int32]
    correct: npt.NDArray[np.int32] | None = None
    clean: npt.NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.label)

    @property
    def right(self) -> npt.NDArray[np.bool_]:
        """Which are predicted right and certified."""
        return np.asarray((self.predicted == self.label) & (self.radius > 0))

    def certified(self, radii: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which count at which radius: examples x radii."""
        return np.asarray(self.right[:, None] & (self.radius[:, None] >= np.asarray(radii)))


@dataclass(frozen=True)
class Trace:
    """An experiment's certificates.

    Attributes:
        experiment: its settings.
        classes: class names.
        model: digest of the global model.
        rounds: that it was trained for.
        accuracy: of the global model on the test images: "clean", and "noisy" (under the certification's noise).
        about: further facts: hardware, versions, times, the data's digest.
        clients: the clients' examples.
        target: the target's.
    """

    experiment: Experiment
    classes: tuple[str, ...]
    model: str
    rounds: int
    accuracy: dict[str, float]
    about: dict[str, Any]
    clients: Examples
    target: Examples

    @property
    def has_correct(self) -> bool:
        """Whether right answers were counted, for population certificates."""
        return self.clients.correct is not None and self.target.correct is not None

    @property
    def passes(self) -> int:
        """Noisy samples of selection (n0), among which right answers are counted."""
        n0 = self.experiment.smoothing.n0
        assert n0 is not None  # noqa: S101 (experiments certify single examples)
        return n0


def write_trace(path: Path, trace: Trace) -> None:
    """Write a trace, whole or not at all; an optional column where both splits have it.

    Raises:
        MissingExtra: pyarrow is not installed.
        CallError: the file cannot be written there.
        FileProblem: the disk is full, or the system refuses otherwise.
    """
    arrow = require("pyarrow", "traces", "parquet")
    parquet = require("pyarrow.parquet", "traces", "parquet")
    both = (trace.clients, trace.target)
    split = np.repeat(np.arange(2, dtype=np.int8), [len(part) for part in both])
    columns = {"split": arrow.DictionaryArray.from_arrays(arrow.array(split), list(_SPLITS))}
    for name, kind in _ARROW_TYPES.items():
        if any(getattr(part, name) is None for part in both):
            continue
        values = np.concatenate([getattr(part, name) for part in both])
        # Six digits keep the file small, and are rounded down: a certificate must not grow.
        columns[name] = arrow.array(_rounded_down(values) if name == "radius" else values, kind)
    facts = {name: getattr(trace, name) for name in _FACTS}
    header = {"schema": SCHEMA, **facts, "experiment": trace.experiment.to_tables()}
    table = arrow.table(columns).replace_schema_metadata({"fedcert": json.dumps(header)})
    with whole_file(path) as file:
        parquet.write_table(table, file, compression="zstd", compression_level=19)


def read_trace(path: Path) -> Trace:
    """Read a trace.

    Raises:
        CallError: there is no such file.
        FileProblem: it cannot be read, or is no trace.
        DataProblem: its rows are not what a trace holds.
        MissingExtra: pyarrow is not installed.
    """
    arrow = require("pyarrow", "traces", "parquet")
    parquet = require("pyarrow.parquet", "traces", "parquet")
    check_readable(path, (".parquet",))
    try:
        with path.open("rb") as opened:
            packed, footer = bytes_of_file(opened), ParquetFooter.of(opened)
            _check_size(footer)
            sizes = footer.sizes(opened, (*_COLUMNS, *_OPTIONAL))
            check_columns_fit(sizes, display_path(path), packed, FileProblem, "make it with 'fedcert lab trace'")
            metadata = parquet.read_metadata(opened)
            file = parquet.ParquetFile(opened, metadata=metadata, read_dictionary=text_columns(metadata))
            # By and by: room is made for as many rows as a part claims to have.
            batches = list(file.iter_batches(_BATCH, columns=[*_COLUMNS, *_OPTIONAL]))
            table = arrow.Table.from_batches(batches) if batches else file.schema_arrow.empty_table()
        columns = table.column_names
        header = json.loads((table.schema.metadata or {}).get(b"fedcert", b"{}"))
    except (OSError, arrow.ArrowException, ValueError, RuntimeError) as error:
        raise FileProblem(f"cannot read the trace {display_path(path)}: {str(error).splitlines()[0][:200]}") from None
    if not isinstance(header, dict) or header.get("schema") != SCHEMA:
        raise FileProblem(f"{display_path(path)} is no trace of fedcert ({SCHEMA}); make it with 'fedcert lab trace'")
    missing = sorted(set(_FACTS) - set(header))
    missing += [name for name in _COLUMNS if name not in columns]
    if missing:
        raise DataProblem(f"the trace {display_path(path)} lacks {', '.join(missing)}; make it anew")
    if len(set(columns)) < len(columns):
        raise DataProblem(f"the trace {display_path(path)} has a column twice; make it anew")
    _check_header(header, path)
    try:
        present = (*_COLUMNS, *(name for name in _OPTIONAL if name in columns))
        split = _splits_in(table["split"])
        arrays = {name: table[name].combine_chunks().to_numpy(zero_copy_only=False) for name in present[1:]}
    except (arrow.ArrowException, ValueError, IndexError, RuntimeError) as error:
        raise DataProblem(
            f"the trace {display_path(path)} cannot be read: {str(error).splitlines()[0][:200]}"
        ) from None
    experiment = _experiment(header["experiment"], path)
    _check_rows(arrays, split, len(header["classes"]), experiment, path)
    clients, target = (_examples(arrays, split == place) for place in range(len(_SPLITS)))
    facts = {name: header[name] for name in _FACTS} | {"experiment": experiment, "classes": tuple(header["classes"])}
    return Trace(**facts, clients=clients, target=target)


def _splits_in(column: Any) -> npt.NDArray[np.int8]:
    """The place of each row's split in `_SPLITS`, -1 for another; a text is held once, however long it is."""
    parts = [np.zeros(0, dtype=np.int8)]
    for chunk in column.chunks:
        encoded = chunk if hasattr(chunk, "dictionary") else chunk.dictionary_encode()
        known = [_SPLITS.index(name) if name in _SPLITS else -1 for name in encoded.dictionary.to_pylist()]
        parts.append(np.array([*known, -1], dtype=np.int8)[encoded.indices.fill_null(len(known)).to_numpy()])
    return np.concatenate(parts)


def _check_size(footer: ParquetFooter) -> None:
    """Check that a file's parts are as large as the whole.

    Raises:
        ValueError: they are not.
    """
    if footer.rows_of_groups != footer.rows or footer.rows > _MOST_ROWS:
        raise ValueError(f"its parts do not add up to {footer.rows} rows, or are more than {_MOST_ROWS:,}")


def _check_header(header: dict[str, Any], path: Path) -> None:
    """Check the types of what a trace says about itself."""
    classes, rounds, accuracy = header["classes"], header["rounds"], header["accuracy"]
    good = {
        "classes": isinstance(classes, list) and bool(classes) and all(isinstance(name, str) for name in classes),
        "model": isinstance(header["model"], str),
        "rounds": type(rounds) is int and rounds >= 0,
        "accuracy": isinstance(accuracy, dict)
        and {"clean", "noisy"} <= set(accuracy)
        and all(type(value) in (int, float) for value in accuracy.values()),
        "about": isinstance(header["about"], dict),
    }
    wrong = [name for name, fine in good.items() if not fine]
    if wrong:
        says = f"says {preview(header[wrong[0]])} for {wrong[0]}"
        raise DataProblem(f"the trace {display_path(path)} {says}, which a trace of fedcert never does; make it anew")


def _experiment(given: Any, path: Path) -> Experiment:
    """A trace's settings; an error names the trace."""
    try:
        return Experiment.of(given)
    except CallError as error:
        raise DataProblem(f"the trace {display_path(path)}: {error}") from None
    except InvalidValue as error:
        raise error.at(f"the trace {display_path(path)}") from None


def _check_rows(
    arrays: dict[str, Any], split: npt.NDArray[Any], classes: int, experiment: Experiment, path: Path
) -> None:
    kinds = {"radius": "f"}
    whole = all(value.dtype.kind in kinds.get(name, "i") and np.isfinite(value).all() for name, value in arrays.items())
    if not whole or (split < 0).any():
        raise DataProblem(
            f"the trace {display_path(path)} must hold numbers, and the splits client and target; make it anew"
        )
    limits = dict.fromkeys(("label", "predicted", "clean"), classes) | {"correct": (experiment.smoothing.n0 or 0) + 1}
    inside = all(
        ((arrays[name] >= 0) & (arrays[name] < limit)).all() for name, limit in limits.items() if name in arrays
    )
    held = arrays["client"][split == 0]
    inside &= bool(((held >= 0) & (held < experiment.clients)).all())
    if not inside or (arrays["radius"] < 0).any() or (arrays["samples"] < 0).any():
        raise DataProblem(f"the trace {display_path(path)} holds classes or figures out of their range; make it anew")


def _examples(arrays: dict[str, Any], chosen: npt.NDArray[np.bool_]) -> Examples:
    kinds = {"radius": np.float64}
    return Examples(**{name: value[chosen].astype(kinds.get(name, np.int32)) for name, value in arrays.items()})


def _rounded_down(radius: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Radii as multiples of 2⁻²⁰ that are no larger; a certified one stays above 0."""
    steps = np.floor(radius * 2**20)
    return np.where(radius > 0, np.maximum(steps, 1) / 2**20, 0).astype(np.float32)
