"""Federations drawn from a trace: reports of its clients, of clients that never were, and targets of any mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedcert.lab.populations.mixes import Mix, draw_mix, largest_set
from fedcert.lab.populations.partition import Indices, Partition
from fedcert.lab.traces.trace import Examples, Trace
from fedcert.report import Report, Target


@dataclass(frozen=True)
class Drawn:
    """A federation and its target.

    Attributes:
        reports: one for each client, those without examples included.
        target: the target's class mix.
        truth: certified accuracy of the target's own examples, at each radius.
    """

    reports: tuple[Report, ...]
    target: Target
    truth: npt.NDArray[np.float64]


def reports_of(
    trace: Trace, parts: Sequence[Indices] | None = None, *, class_counts: bool = True
) -> tuple[Report, ...]:
    """The clients' reports.

    Args:
        trace: the trace.
        parts: positions among the clients' examples that each client holds; as they were in training where None.
        class_counts: whether reports tell counts per class.
    """
    examples = trace.clients
    if parts is None:
        parts = [np.flatnonzero(examples.client == client) for client in range(trace.experiment.clients)]
    certified = examples.certified(trace.experiment.radii)
    classes = len(trace.classes)
    made = []
    for number, part in enumerate(parts):
        rows = np.zeros((classes, certified.shape[1]), dtype=np.int64)
        np.add.at(rows, examples.label[part], certified[part].astype(np.int64))
        made.append(
            Report(
                client=f"client-{number:03d}",
                model=trace.model,
                smoothing=trace.experiment.smoothing,
                radii=trace.experiment.radii,
                classes=trace.classes,
                label_counts=tuple(np.bincount(examples.label[part], minlength=classes).tolist()),
                certified_counts=tuple(rows.sum(axis=0).tolist()),
                class_certified_counts=tuple(map(tuple, rows.tolist())) if class_counts else None,
            )
        )
    return tuple(made)


def redrawn(trace: Trace, partition: Partition, clients: int, generator: np.random.Generator) -> list[Indices]:
    """The clients' examples spread anew, over clients that never were."""
    return partition.spread(trace.clients.label.astype(np.int64), clients, generator)


def target_of(trace: Trace, mix: Mix | None, generator: np.random.Generator) -> tuple[Target, npt.NDArray[np.float64]]:
    """A target and the truth about it.

    Args:
        trace: the trace.
        mix: wanted class mix; the largest set that has it is drawn. All test images where None.
        generator: source of the draws.
    """
    labels = trace.target.label.astype(np.int64)
    chosen = np.arange(len(labels)) if mix is None else draw_mix(labels, mix, largest_set(labels, mix), generator)
    shares = np.bincount(labels[chosen], minlength=len(trace.classes)) / len(chosen)
    truth = _certified(trace.target, trace.experiment.radii, chosen)
    return Target(name="target", distribution=dict(zip(trace.classes, shares.tolist(), strict=True))), truth


def drawn(
    trace: Trace,
    generator: np.random.Generator,
    *,
    parts: Sequence[Indices] | None = None,
    mix: Mix | None = None,
    class_counts: bool = True,
) -> Drawn:
    """A federation and a target: see `reports_of` and `target_of`."""
    return Drawn(reports_of(trace, parts, class_counts=class_counts), *target_of(trace, mix, generator))


def _certified(examples: Examples, radii: Sequence[float], chosen: Indices) -> npt.NDArray[np.float64]:
    return np.asarray(examples.certified(radii)[chosen].mean(axis=0))
