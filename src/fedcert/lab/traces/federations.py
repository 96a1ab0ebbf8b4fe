"""Federations drawn from a trace: reports of its clients or of resampled ones, and targets of any mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedcert.errors import DataProblem
from fedcert.lab.populations.mixes import Mix, draw_mix, largest_set
from fedcert.lab.populations.partition import Indices, Partition
from fedcert.lab.traces.trace import Trace
from fedcert.report import Table, Target
from fedcert.report.table.bulk import CountColumns, NotPlain, fast_table
from fedcert.report.table.parquet import Header


@dataclass(frozen=True)
class Drawn:
    """A federation and its target.

    Attributes:
        reports: a row for each client, those without examples included.
        target: the target's class mix.
        truth: certified accuracy of the target's own examples, at each radius.
    """

    reports: Table
    target: Target
    truth: npt.NDArray[np.float64]


def table_of(trace: Trace, parts: Sequence[Indices] | None = None, *, class_counts: bool = True) -> Table:
    """The clients' reports, as columns: tables of the paper ask for thousands of them.

    Args:
        trace: the trace.
        parts: positions among the clients' examples that each client holds; as they were in training where None.
        class_counts: whether reports disclose counts per class.

    Raises:
        DataProblem: a radius is beyond what the settings can certify.
    """
    examples, experiment = trace.clients, trace.experiment
    if parts is None:
        parts = [np.flatnonzero(examples.client == client) for client in range(experiment.clients)]
    holder = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    held = np.concatenate(parts)
    cell = holder * len(trace.classes) + examples.label[held]
    cells = len(parts) * len(trace.classes)
    labels = np.bincount(cell, minlength=cells).reshape(len(parts), -1)
    certified = examples.certified(experiment.radii)[held].T
    rows = np.stack([np.bincount(cell[reached], minlength=cells) for reached in certified], axis=1)
    rows = rows.reshape(*labels.shape, len(experiment.radii))
    smoothing, radii = experiment.smoothing, experiment.radii
    header = Header(model=trace.model, smoothing=smoothing, radii=radii, classes=trace.classes)
    try:
        return fast_table(
            header.shared, [smoothing], np.zeros(len(parts), dtype=np.int32),
            {
                "client": [f"client-{number:03d}" for number in range(len(parts))],
                "request": [None], "seed": [None] * len(parts),
            },
            CountColumns(labels, rows.sum(axis=1), rows if class_counts else None),
        )  # fmt: skip
    except NotPlain:
        raise DataProblem("the trace holds certificates that its settings cannot give; make it anew") from None


def resample_clients(trace: Trace, partition: Partition, clients: int, generator: np.random.Generator) -> list[Indices]:
    """The clients' examples divided anew, among simulated clients."""
    return partition.divide(trace.clients.label.astype(np.int64), clients, generator)


def draw_target(
    trace: Trace, mix: Mix | None, generator: np.random.Generator
) -> tuple[Target, npt.NDArray[np.float64]]:
    """A target and its certified accuracy.

    Args:
        trace: the trace.
        mix: wanted class mix; the largest set that has it is drawn. All test images where None.
        generator: source of the draws.
    """
    labels = trace.target.label.astype(np.int64)
    chosen = np.arange(len(labels)) if mix is None else draw_mix(labels, mix, largest_set(labels, mix), generator)
    shares = np.bincount(labels[chosen], minlength=len(trace.classes)) / len(chosen)
    truth = np.asarray(trace.target.certified(trace.experiment.radii)[chosen].mean(axis=0))
    return Target(name="target", distribution=dict(zip(trace.classes, shares.tolist(), strict=True))), truth


def draw_federation(
    trace: Trace,
    generator: np.random.Generator,
    *,
    parts: Sequence[Indices] | None = None,
    mix: Mix | None = None,
    class_counts: bool = True,
) -> Drawn:
    """A federation and a target: see `table_of` and `draw_target`."""
    return Drawn(table_of(trace, parts, class_counts=class_counts), *draw_target(trace, mix, generator))
