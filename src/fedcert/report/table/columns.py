"""Many reports as columns: a million of them are a few arrays, checked by the same rules as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert.errors import CannotCombine
from fedcert.report.compatibility import check_compatible, check_once, check_together, joint
from fedcert.report.report import Report
from fedcert.report.smoothing import Smoothing
from fedcert.report.sums.groups import effect_bound, group_bound

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Table:
    """Reports that go together, one row each, in the order given.

    Attributes:
        task, model, radii, classes: what all of them share.
        request: digest of the request that all of them answer; None where they do not say, or not the same.
        smoothings: the settings that occur; they differ in n0, n and the failure probability only.
        settings: which of these each row has.
        clients: names, each once.
        label_counts: rows x classes.
        certified_counts: rows x radii.
        opens: which rows tell counts per class.
        class_rows: these, open rows x classes x radii, in the smallest type that holds them.
        design_effects: variance inflation, rows x radii, at least 1; None where nobody's examples come in groups.
        largest_groups: examples in each row's largest group, at most; None where nobody's examples come in groups.
    """

    task: str
    model: str
    request: str | None
    radii: tuple[float, ...]
    classes: tuple[str, ...]
    smoothings: tuple[Smoothing, ...]
    settings: npt.NDArray[np.int32]
    clients: tuple[str, ...]
    label_counts: Counts
    certified_counts: Counts
    opens: npt.NDArray[np.bool_]
    class_rows: npt.NDArray[np.unsignedinteger[Any]]
    design_effects: npt.NDArray[np.float64] | None
    largest_groups: Counts | None

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def smoothing(self) -> Smoothing:
        """The settings of all rows together: the smallest samples and the largest failure probability."""
        return joint(self.smoothings)

    @property
    def client(self) -> str:
        """Whose reports these are, for messages."""
        first = self.clients[0]
        return first if len(self) == 1 else f"{first} and {len(self) - 1} more"

    @classmethod
    def of(cls, reports: Sequence[Report]) -> Table:
        """Put reports into columns.

        Raises:
            CannotCombine: they do not belong together, or there are none.
        """
        check_together(reports)
        first = reports[0]
        smoothings = list(dict.fromkeys(report.smoothing for report in reports))
        position = {smoothing: index for index, smoothing in enumerate(smoothings)}
        rows = [report.class_certified_counts for report in reports if report.class_certified_counts is not None]
        shape = (len(rows), len(first.classes), len(first.radii))
        flat = [1.0] * len(first.radii)
        effects = [effect_bound(one.design_effect, one.largest_group, len(flat)) or flat for one in reports]
        groups = [group_bound(one.examples, one.design_effect, one.largest_group) for one in reports]
        grouped = any(report.design_effect is not None or report.largest_group is not None for report in reports)
        return cls(
            task=first.task,
            model=first.model,
            request=first.request if len({report.request for report in reports}) == 1 else None,
            radii=first.radii,
            classes=first.classes,
            smoothings=tuple(smoothings),
            settings=np.array([position[report.smoothing] for report in reports], dtype=np.int32),
            clients=tuple(report.client for report in reports),
            label_counts=np.array([report.label_counts for report in reports], dtype=np.int64),
            certified_counts=np.array([report.certified_counts for report in reports], dtype=np.int64),
            opens=np.array([report.class_certified_counts is not None for report in reports]),
            class_rows=smallest(np.array(rows, dtype=np.int64).reshape(shape)),
            design_effects=np.array(effects) if grouped else None,
            largest_groups=np.array(groups, dtype=np.int64) if grouped else None,
        )

    @classmethod
    def joined(cls, tables: Sequence[Table]) -> Table:
        """Several tables one below the other.

        Raises:
            CannotCombine: they do not belong together, a client appears twice, or there are none.
        """
        if not tables:
            raise CannotCombine("there are no reports to combine; give at least one")
        check_compatible(tables)
        first = tables[0]
        clients = tuple(client for table in tables for client in table.clients)
        check_once(clients)
        if len(tables) == 1:
            return first
        smoothings = list(dict.fromkeys(smoothing for table in tables for smoothing in table.smoothings))
        settings = [np.array([smoothings.index(one) for one in table.smoothings], dtype=np.int32) for table in tables]
        grouped = any(table.design_effects is not None for table in tables)
        requests = {table.request for table in tables}
        return cls(
            task=first.task,
            model=first.model,
            request=first.request if len(requests) == 1 else None,
            radii=first.radii,
            classes=first.classes,
            smoothings=tuple(smoothings),
            settings=np.concatenate([known[table.settings] for known, table in zip(settings, tables, strict=True)]),
            clients=clients,
            label_counts=np.concatenate([table.label_counts for table in tables]),
            certified_counts=np.concatenate([table.certified_counts for table in tables]),
            opens=np.concatenate([table.opens for table in tables]),
            class_rows=np.concatenate([table.class_rows for table in tables]),
            design_effects=np.concatenate([table.effects() for table in tables]) if grouped else None,
            largest_groups=np.concatenate([table.groups() for table in tables]) if grouped else None,
        )

    def effects(self) -> npt.NDArray[np.float64]:
        """The design effects, 1 where none are told."""
        plain = np.ones((len(self), len(self.radii)))
        return self.design_effects if self.design_effects is not None else plain

    def groups(self) -> Counts:
        """The largest groups, 1 where none are told."""
        return self.largest_groups if self.largest_groups is not None else np.ones(len(self), dtype=np.int64)


def smallest(counts: Counts) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Counts in the smallest unsigned type that holds them: rows per class are most of a table."""
    kinds = (np.uint8, np.uint16, np.uint32)
    most = int(counts.max(initial=0))
    kind = next((kind for kind in kinds if most <= np.iinfo(kind).max), np.uint64)
    return counts.astype(kind)
