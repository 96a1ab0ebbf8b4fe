"""Clients known by their reports, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats
from fedcert._schema.field_types import LARGEST_COUNT
from fedcert.errors import EstimationProblem
from fedcert.estimation.clients.readings import Reading, Whole, named_readings, rounded_counts, rounding_key
from fedcert.estimation.clients.statistics import SufficientStatistics
from fedcert.report import Report, Smoothing, Table
from fedcert.report.compatibility import joint
from fedcert.report.input_range import InputRange
from fedcert.report.table.columns import smallest

_CELLS_AT_ONCE = 2**24
"""Counts converted to floats at once: 128 MB."""


@dataclass(frozen=True, eq=False)
class ReportedClients:
    """Clients that hold test examples, and their counts: `Clients` that are known one by one.

    Counts are whole numbers, unless screening reduced a client.

    Attributes:
        clients: names, sorted.
        classes: class names in index order.
        radii: increasing radii.
        label_counts: clients x classes.
        certified_counts: clients x radii; sums of scores where right answers are read.
        model: the model that all of them certified.
        smoothing: how; the smallest n and the largest failure probability among them.
        has_class_counts: which clients disclose counts per class.
        class_rows: these counts, disclosing clients x classes x radii, before any screening; examples by right answers
            (in place of radii) where these are read.
        factors: the share of each client that screening leaves; None without screening.
        design_effects: Σ m²/n over the sizes m of groups, clients x radii; None where all examples are independent.
        largest_groups: upper bound on the examples in each client's largest group; None where all are independent.
        same_settings: whether all of them drew the same samples at the same failure probability.
        max_radius_range: the least and the most of the largest radii that the clients' settings can certify.
        excluded: client -> why it is left out.
        fixed_seeds: the clients whose reports say that the seed of their noise was fixed.
        input_ranges: the coarse ranges of inputs that reports state, each with the clients that state it.
        correct_counts: population certificates: examples by right answers, clients x (n + 1), before any screening.
        reading: how these are read; None where counts are what they are.
        salt: of the rounding of these, see `rounding_key`.
    """

    clients: tuple[str, ...]
    classes: tuple[str, ...]
    radii: tuple[float, ...]
    label_counts: Floats
    certified_counts: Floats
    model: str
    smoothing: Smoothing
    has_class_counts: npt.NDArray[np.bool_]
    class_rows: npt.NDArray[Any]
    same_settings: bool
    max_radius_range: tuple[float, float]
    excluded: Mapping[str, str]
    factors: Floats | None = None
    design_effects: Floats | None = None
    largest_groups: npt.NDArray[np.int64] | None = None
    fixed_seeds: tuple[str, ...] = ()
    input_ranges: Mapping[InputRange, tuple[str, ...]] = field(default_factory=dict)
    correct_counts: Whole | None = None
    reading: Reading | None = None
    salt: str = ""

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
        position = np.cumsum(table.has_class_counts) - 1  # of each disclosing row among them
        occurring = [table.smoothings[index] for index in np.unique(table.settings[order])]
        caps = [smoothing.largest_radius or 0.0 for smoothing in occurring]
        entries, reading = table.procedure_counts[order], None
        if occurring[0].is_population:
            reading = named_readings(occurring[0], table.radii).lower
        return cls(
            clients=tuple(table.clients[row] for row in order),
            classes=table.classes,
            radii=table.radii,
            label_counts=table.label_counts[order].astype(np.float64),
            certified_counts=entries @ reading.scores.T if reading is not None else entries.astype(np.float64),
            model=table.model,
            smoothing=joint(occurring),
            has_class_counts=table.has_class_counts[order],
            class_rows=table.class_rows[[position[row] for row in order if table.has_class_counts[row]]],
            same_settings=len(occurring) == 1,
            max_radius_range=(min(caps), max(caps)),
            excluded={table.clients[row]: "it has no test examples" for row in np.flatnonzero(sizes == 0)},
            design_effects=None if table.design_effects is None else table.design_effects[order],
            largest_groups=None if table.largest_groups is None else table.largest_groups[order],
            fixed_seeds=tuple(sorted(table.fixed_seeds)),
            input_ranges=table.input_ranges,
            correct_counts=entries if reading is not None else None,
            reading=reading,
            salt=f"{table.request} {table.seed_sum:032x}",
        )

    def read(self, reading: Reading) -> ReportedClients:
        """The same clients, their right answers read otherwise."""
        assert self.correct_counts is not None  # noqa: S101
        counts = self.correct_counts @ reading.scores.T
        if self.factors is not None:
            counts = counts * self.factors[:, None]
        return replace(self._at(reading.radii), certified_counts=counts, reading=reading)

    def rounded(self, reading: Reading, side: str) -> ReportedClients:
        """The same clients with whole numbers of examples that count: scores as shares, rounded at random.

        Args:
            reading: of their right answers.
            side: of the interval, which has chances of its own.
        """
        assert self.correct_counts is not None  # noqa: S101
        assert self.factors is None  # noqa: S101 (screening comes after rounding)
        shares, key = reading.shares, rounding_key(side, self.salt, self.correct_counts, self.class_rows)
        counts = np.zeros((self.count, len(reading.radii)), dtype=np.int64)
        withheld = ~self.has_class_counts
        counts[withheld] = rounded_counts(self.correct_counts[withheld], shares, key + b"overall")
        by_class = rounded_counts(self.class_rows.reshape(-1, self.class_rows.shape[2]), shares, key)
        by_class = by_class.reshape(*self.class_rows.shape[:2], len(reading.radii))
        counts[self.has_class_counts] = by_class.sum(axis=1)
        return replace(
            self._at(reading.radii), certified_counts=counts.astype(np.float64), class_rows=smallest(by_class),
            correct_counts=None, reading=None,
        )  # fmt: skip

    def _at(self, radii: tuple[float, ...]) -> ReportedClients:
        """The same clients at other radii, but for their counts."""
        effects = self.design_effects
        if effects is not None:  # those of groups, which do not depend on the radius
            effects = np.repeat(effects.max(axis=1, keepdims=True), len(radii), axis=1)
        return replace(self, radii=radii, design_effects=effects)

    def without_class_counts(self) -> ReportedClients:
        """The same clients with what the paper's reports say: no counts per class."""
        return replace(self, has_class_counts=np.zeros(self.count, dtype=np.bool_), class_rows=self.class_rows[:0])

    @property
    def fewest_holders(self) -> int:
        """1: reports leave no class out."""
        return 1

    @property
    def noisy_totals(self) -> None:
        """None: reports are exact."""

    @property
    def fallback_curve(self) -> None:
        """None: without noise no count is below it."""

    @property
    def count(self) -> int:
        """Number of clients that hold examples."""
        return len(self.clients)

    @property
    def n_with_class_counts(self) -> int:
        """Number of clients that disclose counts per class."""
        return int(self.has_class_counts.sum())

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
        """Examples per class and certified ones (classes x radii), of clients that disclose them; None if none does."""
        if not self.has_class_counts.any():
            return None
        factors = np.ones(len(self.class_rows)) if self.factors is None else self.factors[self.has_class_counts]
        certified: Floats = np.zeros(self.class_rows.shape[1:])
        step = max(1, _CELLS_AT_ONCE // certified.size)
        for start in range(0, len(factors), step):
            piece = slice(start, start + step)
            certified += np.tensordot(factors[piece], self.class_rows[piece].astype(np.float64), axes=1)
        if self.reading is not None:
            certified = certified @ self.reading.scores.T
        return np.asarray(self.label_counts[self.has_class_counts].sum(axis=0), dtype=np.float64), certified

    @cached_property
    def overall_statistics(self) -> SufficientStatistics:
        """Sufficient statistics of the clients' mixes and overall counts, as in the paper's protocol."""
        return SufficientStatistics.of_clients(self.label_counts, self.certified_counts)

    @cached_property
    def statistics(self) -> SufficientStatistics:
        """Sufficient statistics: counts per class where disclosed, overall counts otherwise."""
        if self.class_totals is None:
            return self.overall_statistics
        rest = ~self.has_class_counts
        others = SufficientStatistics.of_clients(self.label_counts[rest], self.certified_counts[rest])
        return SufficientStatistics.of_both(others, self.class_totals)

    @property
    def largest_design_effects(self) -> Floats:
        """The largest design effect of any client at each radius."""
        if self.design_effects is None:
            return np.ones(len(self.radii))
        return np.asarray(self.design_effects.max(axis=0), dtype=np.float64)

    @property
    def largest_group(self) -> int:
        """An upper bound on the examples in any client's largest group; 1 where all are independent."""
        return 1 if self.largest_groups is None else int(self.largest_groups.max())

    def part(
        self, chosen: npt.NDArray[Any], excluded: Mapping[str, str], factors: Floats | None = None
    ) -> ReportedClients:
        """Some of the clients, perhaps counting for less.

        Args:
            chosen: which clients stay, by a mask.
            excluded: the others -> why.
            factors: the share of each client that stays; None for all of it.
        """
        kept = np.flatnonzero(chosen)
        scale = np.ones(len(kept)) if factors is None else factors
        return replace(
            self,
            clients=tuple(self.clients[index] for index in kept),
            label_counts=self.label_counts[kept] * scale[:, None],
            certified_counts=self.certified_counts[kept] * scale[:, None],
            has_class_counts=self.has_class_counts[kept],
            class_rows=self.class_rows[chosen[self.has_class_counts]],
            factors=factors,
            design_effects=None if self.design_effects is None else self.design_effects[kept],
            largest_groups=None if self.largest_groups is None else self.largest_groups[kept],
            excluded={**self.excluded, **excluded},
            correct_counts=None if self.correct_counts is None else self.correct_counts[kept],
        )
