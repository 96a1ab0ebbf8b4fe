"""The paper's tables from traces: each row's published figures, and ours on the plain and on a shifted target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fedcert._files.paths import display_path, kind_of_path
from fedcert.errors import CallError, DataProblem, preview
from fedcert.lab.paper.evaluation import Errors, evaluate
from fedcert.lab.paper.published import FIGURE_2, TABLES, Row, Setting
from fedcert.lab.traces.trace import Trace, read_trace

SHIFT = 0.4
"""L2 distance of the shifted target's class mix from that of the clients' pool."""


@dataclass(frozen=True)
class Reproduced:
    """A row of a table, ours beside the paper's.

    Attributes:
        row: the paper's; its errors are None where the paper prints none.
        trace: the trace it comes from.
        plain: errors by method on all test images.
        shifted: errors by method on targets at a distance.
    """

    row: Row
    trace: Trace
    plain: dict[str, Errors]
    shifted: dict[str, Errors]


def trace_path(folder: Path, setting: Setting) -> Path:
    """Where the trace of a setting is."""
    return folder / f"{setting.name}.parquet"


def missing_traces(name: str, folder: Path) -> list[Setting]:
    """Settings of a table or figure whose traces are not there."""
    return [each for each in settings_of(name) if kind_of_path(trace_path(folder, each)) != "a file"]


def settings_of(name: str) -> list[Setting]:
    """What was trained for a table or figure.

    Raises:
        CallError: the paper has no such table.
    """
    if name == "figure2":
        return [FIGURE_2[0]]
    if name not in TABLES:
        raise CallError(f"the paper has {', '.join(TABLES)} and figure2, but not {name!r}; 'vote' is fedcert's own")
    return list(dict.fromkeys(row.setting for row in TABLES[name]))


def reproduce(
    name: str, folder: Path, *, draws: int, seed: int = 0, on_row: Callable[[int, int], None] = lambda *_: None
) -> Iterator[Reproduced]:
    """A table's rows, from traces; rows whose traces are not there are left out.

    Args:
        name: "table1" to "table5".
        folder: where the traces are.
        draws: federations for each row.
        seed: of the draws.
        on_row: called with the rows done and all rows.

    Raises:
        CallError: the paper has no such table, or none of its traces is there.
        DataProblem: a trace is not of the setting in its name, or one split of it is empty.
    """
    gone = missing_traces(name, folder)
    rows = [row for row in TABLES[name] if row.setting not in gone]
    if not rows:
        raise CallError(
            f"{display_path(folder)} has none of the traces {', '.join(setting.name for setting in gone)}; "
            "give the folder that has them (--traces), or make them (--run)"
        )
    for number, row in enumerate(rows):
        trace = _trace_of(folder, row.setting)
        errors = partial(evaluate, trace, draws=draws, subsets=row.subsets, subset_size=row.subset_size, seed=seed)
        yield Reproduced(row, trace, errors(), errors(shift=SHIFT))
        on_row(number + 1, len(rows))


def distances(folder: Path, *, draws: int, seed: int = 0) -> dict[float, dict[str, Errors]]:
    """Figure 2: errors of every method at growing distances of the target's mix.

    Raises:
        CallError: the trace is missing.
        DataProblem: it is not of the setting in its name, or one split of it is empty.
    """
    setting, wanted = FIGURE_2
    if missing_traces("figure2", folder):
        raise CallError(
            f"{display_path(folder)} lacks the trace {setting.name}; give its folder (--traces), or make it (--run)"
        )
    trace = _trace_of(folder, setting)
    return {distance: evaluate(trace, draws=draws, shift=distance, seed=seed) for distance in wanted}


def _trace_of(folder: Path, setting: Setting) -> Trace:
    """The trace of a setting, checked to be of the setting in its name, under which its numbers are printed."""
    path = trace_path(folder, setting)
    trace = read_trace(path)
    wanted = setting.experiment(trace.rounds)
    for name in ("network", "data", "partition", "clients", "train_share", "radii"):
        _check_same(path, name, getattr(trace.experiment, name), getattr(wanted, name))
    _check_same(path, "algorithm", trace.experiment.training.algorithm, wanted.training.algorithm)
    for part, examples in (("clients", trace.clients), ("target", trace.target)):
        if not len(examples):
            raise DataProblem(f"the trace {display_path(path)} has no examples of the {part}; make it anew (--run)")
    return trace


def _check_same(path: Path, name: str, actual: object, wanted: object) -> None:
    if actual != wanted:
        raise DataProblem(
            f"the trace {display_path(path)} must be of {name} {preview(wanted)}, but is of {preview(actual)}; "
            "give the folder that has the right one (--traces), or make it anew (--run)"
        )
