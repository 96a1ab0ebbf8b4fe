"""The reports of a federation as arrays: what every estimator starts from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats
from fedcert._schema.field_types import LARGEST_COUNT
from fedcert.errors import EstimationProblem
from fedcert.estimation.clients.statistics import SufficientStatistics
from fedcert.report import Report, Smoothing, Table
from fedcert.report.compatibility import joint

_CELLS_AT_ONCE = 2**24


@dataclass(frozen=True, eq=False)
class ReportedClients:
    """Clients that hold test examples, and their counts. It is a `Clients` whose clients are known.

    Counts are whole numbers, unless screening made a client count for less.

    Attributes:
        clients: names, sorted.
        classes: class names in index order.
        radii: increasing radii.
        label_counts: clients x classes.
        certified_counts: clients x radii.
        model: what all of them certified.
        smoothing: how; the smallest n and the largest failure probability among them.
        opens: which clients tell counts per class.
        class_rows: these, open clients x classes x radii, before any screening.
        factors: what screening leaves of each client; None where it left all of everybody.
        design_effects: variance inflation, clients x radii; None where all examples are independent.
        largest_groups: examples in each client's largest group, at most; None where all are independent.
        alike: whether all of them drew the same samples at the same failure probability.
        reach: the least and the most of the largest radii that the clients' settings can certify.
        excluded: client -> why it is left out.
    """

    clients: tuple[str, ...]
    classes: tuple[str, ...]
    radii: tuple[float, ...]
    label_counts: Floats
    certified_counts: Floats
    model: str
    smoothing: Smoothing
    opens: npt.NDArray[np.bool_]
    class_rows: npt.NDArray[Any]
    alike: bool
    reach: tuple[float, float]
    excluded: Mapping[str, str]
    factors: Floats | None = None
    design_effects: Floats | None = None
    largest_groups: npt.NDArray[np.int64] | None = None

    @classmethod
    def of(cls, reports: Sequence[Report] | Table) -> ReportedClients:
        """Put reports together.

        Raises:
            CannotCombine: they do not belong together.
            EstimationProblem: no client has any test example.
        """
        table = reports if isinstance(reports, Table) else Table.of(reports)
        sizes = table.label_counts.sum(axis=1)
        # By name, so that the order in which reports arrive decides nothing.
        order = sorted(np.flatnonzero(sizes > 0).tolist(), key=table.clients.__getitem__)
        if not order:
            raise EstimationProblem("no client has any test example, so there is nothing to estimate from")
        total = int(sizes.sum(dtype=np.float64))
        if total > LARGEST_COUNT:
            raise EstimationProblem(f"the clients claim {total} examples together, more than can be counted (2^53)")
        position = np.cumsum(table.has_class_counts) - 1  # of each open row among the open ones
        occurring = [table.smoothings[index] for index in np.unique(table.settings[order])]
        caps = [smoothing.largest_radius for smoothing in occurring]
        return cls(
            clients=tuple(table.clients[row] for row in order),
            classes=table.classes,
            radii=table.radii,
            label_counts=table.label_counts[order].astype(np.float64),
            certified_counts=table.certified_counts[order].astype(np.float64),
            model=table.model,
            smoothing=joint(occurring),
            opens=table.has_class_counts[order],
            class_rows=table.class_rows[[position[row] for row in order if table.has_class_counts[row]]],
            alike=len(occurring) == 1,
            reach=(min(caps), max(caps)),
            excluded={table.clients[row]: "it has no test examples" for row in np.flatnonzero(sizes == 0)},
            design_effects=None if table.design_effects is None else table.design_effects[order],
            largest_groups=None if table.largest_groups is None else table.largest_groups[order],
        )

    def closed(self) -> ReportedClients:
        """The same clients, none of whom tells counts per class: what the paper's reports say."""
        return replace(self, opens=np.zeros(self.count, dtype=np.bool_), class_rows=self.class_rows[:0])

    @property
    def fewest_holders(self) -> int:
        """Nothing was left out of reports."""
        return 1

    @property
    def count(self) -> int:
        """How many clients hold examples."""
        return len(self.clients)

    @property
    def open_count(self) -> int:
        """How many of them tell counts per class."""
        return int(self.opens.sum())

    @cached_property
    def sizes(self) -> Floats:
        """Examples per client."""
        return np.asarray(self.label_counts.sum(axis=1), dtype=np.float64)

    @cached_property
    def mixes(self) -> Floats:
        """Class distribution of each client, clients x classes."""
        return np.asarray(self.label_counts / self.sizes[:, None], dtype=np.float64)

    @property
    def certified_accuracy(self) -> Floats:
        """Certified accuracy of each client, clients x radii."""
        return np.asarray(self.certified_counts / self.sizes[:, None], dtype=np.float64)

    @cached_property
    def labels(self) -> Floats:
        """Examples per class."""
        return np.asarray(self.label_counts.sum(axis=0), dtype=np.float64)

    @cached_property
    def certified(self) -> Floats:
        """Certified examples per radius."""
        return np.asarray(self.certified_counts.sum(axis=0), dtype=np.float64)

    @cached_property
    def class_totals(self) -> tuple[Floats, Floats] | None:
        """Examples per class and certified ones, classes x radii, of those who tell; None if nobody does."""
        if not self.opens.any():
            return None
        factors = np.ones(len(self.class_rows)) if self.factors is None else self.factors[self.opens]
        certified = np.zeros(self.class_rows.shape[1:])
        step = max(1, _CELLS_AT_ONCE // certified.size)
        for start in range(0, len(factors), step):  # some at a time: in full precision they may not fit
            piece = slice(start, start + step)
            certified += np.tensordot(factors[piece], self.class_rows[piece].astype(np.float64), axes=1)
        return np.asarray(self.label_counts[self.opens].sum(axis=0), dtype=np.float64), certified

    @cached_property
    def curves(self) -> SufficientStatistics:
        """Sums over all clients as the paper's protocol knows them."""
        return SufficientStatistics.of_clients(self.label_counts, self.certified_counts)

    @cached_property
    def evidence(self) -> SufficientStatistics:
        """All that is told: counts per class of those who tell, curves of the others."""
        if self.class_totals is None:
            return self.curves
        closed = ~self.opens
        return SufficientStatistics.of_both(
            SufficientStatistics.of_clients(self.label_counts[closed], self.certified_counts[closed]), self.class_totals
        )

    @property
    def effects(self) -> Floats:
        """The largest design effect of any client at each radius."""
        if self.design_effects is None:
            return np.ones(len(self.radii))
        return np.asarray(self.design_effects.max(axis=0), dtype=np.float64)

    @property
    def largest_group(self) -> int:
        """Examples in the largest group of any client, at most; 1 where all are independent."""
        return 1 if self.largest_groups is None else int(self.largest_groups.max())

    def part(
        self, chosen: npt.NDArray[Any], excluded: Mapping[str, str], factors: Floats | None = None
    ) -> ReportedClients:
        """Some of the clients, perhaps counting for less.

        Args:
            chosen: which clients stay, by a mask.
            excluded: the others -> why.
            factors: what is left of each client that stays; None for all of everybody.
        """
        kept = np.flatnonzero(chosen)
        scale = np.ones(len(kept)) if factors is None else factors
        return replace(
            self,
            clients=tuple(self.clients[index] for index in kept),
            label_counts=self.label_counts[kept] * scale[:, None],
            certified_counts=self.certified_counts[kept] * scale[:, None],
            opens=self.opens[kept],
            class_rows=self.class_rows[chosen[self.opens]],
            factors=factors,
            design_effects=None if self.design_effects is None else self.design_effects[kept],
            largest_groups=None if self.largest_groups is None else self.largest_groups[kept],
            excluded={**self.excluded, **excluded},
        )
