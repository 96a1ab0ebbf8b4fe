"""Federations drawn from a trace: reports of its clients or of resampled ones, and targets of any mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedcert._schema.declare import shared_fields
from fedcert.errors import DataProblem
from fedcert.estimation.clients.readings import own_curve
from fedcert.lab.populations.mixes import Mix, draw_mix, largest_set
from fedcert.lab.populations.partition import Indices, Partition
from fedcert.lab.traces.trace import Examples, Trace
from fedcert.report import Report, Smoothing, Table, Target
from fedcert.report.smoothing import DEFAULT_VOTES, POPULATION
from fedcert.report.table.bulk import CountColumns, NotPlain, fast_table
from fedcert.report.table.parquet import Header


@dataclass(frozen=True)
class Drawn:
    """A federation and its target.

    Attributes:
        reports: a row for each client, those without examples included.
        target: the target's class mix.
        truth: certified accuracy of the target's own examples, at each radius; with population certificates, what is
            proven of the vote's accuracy on them.
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
    experiment, split = trace.experiment, _Split.of(trace, parts)
    certified = trace.clients.certified(experiment.radii)[split.held].T
    rows = np.stack([split.by_class(split.cell[reached]) for reached in certified], axis=2)
    try:
        return split.table(trace, experiment.smoothing, experiment.radii, rows, class_counts=class_counts)
    except NotPlain:
        raise DataProblem("the trace holds certificates that its settings cannot give; make it anew") from None


def vote_smoothing(trace: Trace, votes: int = DEFAULT_VOTES) -> Smoothing:
    """The settings of population certificates whose passes are the trace's samples of selection.

    Args:
        trace: the trace.
        votes: noisy copies that vote on an answer, an odd number.
    """
    settings = trace.experiment.smoothing
    return Smoothing(
        noise=settings.noise, norm=settings.norm, sigma=settings.sigma, n=trace.passes, procedure=POPULATION,
        precision=settings.precision, lattice=settings.lattice, votes=votes,
    )  # fmt: skip


def vote_table_of(
    trace: Trace,
    smoothing: Smoothing,
    radii: Sequence[float],
    parts: Sequence[Indices] | None = None,
    *,
    class_counts: bool = True,
) -> Table:
    """The clients' reports with population certificates: histograms of right answers.

    Args:
        trace: a trace with right answers.
        smoothing: see `vote_smoothing`.
        radii: increasing radii that the request would name.
        parts: as for `table_of`.
        class_counts: whether reports disclose counts per class.

    Raises:
        DataProblem: the trace has no right answers.
    """
    split, cells = _Split.of(trace, parts), smoothing.n + 1
    correct = right_answers(trace, trace.clients)[split.held]
    rows = np.bincount(split.cell * cells + correct, minlength=split.cells * cells)
    rows = rows.reshape(split.clients, split.classes, cells)
    return split.table(trace, smoothing, radii, rows, class_counts=class_counts)


def right_answers(trace: Trace, examples: Examples) -> npt.NDArray[np.int32]:
    """How many of the samples of selection were predicted right (K), of each example of one split.

    Raises:
        DataProblem: the trace does not hold it.
    """
    if not trace.has_correct or examples.correct is None:
        raise DataProblem(
            "the trace has no right answers (its column 'correct'), since an earlier version of fedcert made it; make "
            "it anew with 'fedcert lab trace'"
        )
    return examples.correct


@dataclass(frozen=True)
class _Split:
    """The clients' examples, divided.

    Attributes:
        clients: how many.
        classes: how many.
        held: positions of examples, one client after the other.
        cell: the client and class of each of them, as one number.
    """

    clients: int
    classes: int
    held: npt.NDArray[np.int64]
    cell: npt.NDArray[np.int64]

    @classmethod
    def of(cls, trace: Trace, parts: Sequence[Indices] | None) -> _Split:
        """The examples as `parts` divides them; as they were in training where None."""
        examples = trace.clients
        if parts is None:
            parts = [np.flatnonzero(examples.client == client) for client in range(trace.experiment.clients)]
        holder = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        held = np.concatenate(parts)
        return cls(len(parts), len(trace.classes), held, holder * len(trace.classes) + examples.label[held])

    @property
    def cells(self) -> int:
        return self.clients * self.classes

    def by_class(self, cell: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How many examples are in each cell, clients x classes."""
        return np.bincount(cell, minlength=self.cells).reshape(self.clients, self.classes)

    def table(
        self, trace: Trace, smoothing: Smoothing, radii: Sequence[float], rows: npt.NDArray[np.int64],
        *, class_counts: bool,
    ) -> Table:  # fmt: skip
        """The clients' reports of what was counted, clients x classes x outcomes."""
        header = Header(model=trace.model, smoothing=smoothing, radii=tuple(radii), classes=trace.classes)
        return fast_table(
            shared_fields(header), [smoothing], np.zeros(self.clients, dtype=np.int32),
            {
                "client": [f"client-{number:03d}" for number in range(self.clients)],
                "request": [None], "seed": [None] * self.clients, "input_range": [None] * self.clients,
            },
            CountColumns(self.by_class(self.cell), rows.sum(axis=1), rows if class_counts else None),
        )  # fmt: skip


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
    target, chosen = _drawn_target(trace, mix, generator)
    return target, np.asarray(trace.target.certified(trace.experiment.radii)[chosen].mean(axis=0))


def draw_voting_target(
    trace: Trace, smoothing: Smoothing, radii: Sequence[float], mix: Mix | None, generator: np.random.Generator
) -> tuple[Target, npt.NDArray[np.float64]]:
    """A target and what is proven of the vote's accuracy on its own examples, at each radius.

    Guarantee: before it is cut at 0 and 1, the expectation of the latter over the noise is no larger than the vote's
    accuracy on these examples, whatever changes them within the radius.

    Args:
        trace: a trace with right answers.
        smoothing: see `vote_smoothing`.
        radii: increasing radii.
        mix: as for `draw_target`.
        generator: source of the draws.

    Raises:
        DataProblem: the trace has no right answers.
    """
    correct = right_answers(trace, trace.target)
    target, chosen = _drawn_target(trace, mix, generator)
    own = Report(
        client=target.name,
        model=trace.model,
        smoothing=smoothing,
        radii=tuple(radii),
        classes=trace.classes,
        label_counts=np.bincount(trace.target.label[chosen], minlength=len(trace.classes)).tolist(),
        correct_counts=np.bincount(correct[chosen], minlength=smoothing.n + 1).tolist(),
    )
    return target, np.array(own_curve(own))


def _drawn_target(trace: Trace, mix: Mix | None, generator: np.random.Generator) -> tuple[Target, Indices]:
    labels = trace.target.label.astype(np.int64)
    chosen = np.arange(len(labels)) if mix is None else draw_mix(labels, mix, largest_set(labels, mix), generator)
    shares = np.bincount(labels[chosen], minlength=len(trace.classes)) / len(chosen)
    return Target(name="target", distribution=dict(zip(trace.classes, shares.tolist(), strict=True))), chosen


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


def draw_voting_federation(
    trace: Trace,
    radii: Sequence[float],
    generator: np.random.Generator,
    *,
    votes: int = DEFAULT_VOTES,
    parts: Sequence[Indices] | None = None,
    mix: Mix | None = None,
    class_counts: bool = True,
) -> Drawn:
    """A federation with population certificates, and a target: see `vote_table_of` and `draw_voting_target`."""
    smoothing = vote_smoothing(trace, votes)
    reports = vote_table_of(trace, smoothing, radii, parts, class_counts=class_counts)
    return Drawn(reports, *draw_voting_target(trace, smoothing, radii, mix, generator))
