"""Many reports as columns: a million of them are a few arrays, checked by the same rules as one."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert._schema.declare import shared_fields
from fedcert.errors import CannotCombine, FedcertWarning
from fedcert.report.compatibility import check_compatible, check_once, check_together, joint
from fedcert.report.fields import FIXED_SEED
from fedcert.report.input_range import InputRange
from fedcert.report.report import Report
from fedcert.report.smoothing import Smoothing
from fedcert.report.sums.groups import effects_or_ones, group_bound

Counts = npt.NDArray[np.int64]
_SEED_SUMS = 2**128
"""What sums of seeds' hashes are taken by: as many bits as a salt needs."""


@dataclass(frozen=True, eq=False)
class Table:
    """Reports that go together, one row each, in the order given.

    Attributes:
        header: the fields that all of them share, with the settings of one of them.
        request: digest of the request that all of them answer; None where they do not say, or not the same.
        fixed_seeds: the clients whose reports say that their seed was fixed.
        input_ranges: the coarse ranges of inputs that reports state, each with the clients that state it.
        seed_sum: of hashes of what the reports say of their seeds, mod 2^128: random, as seeds are secret, and the same
            however the reports are grouped.
        smoothings: the settings that occur; they differ in n0, n and the failure probability only.
        settings: which of these each row has.
        clients: names, each once.
        label_counts: rows x classes.
        procedure_counts: rows x entries: certified examples at each radius, or examples by right answers among n.
        has_class_counts: which rows disclose counts per class.
        class_rows: these counts, disclosing rows x classes x entries, in the smallest type that holds them.
        design_effects: Σ m²/n over the sizes m of groups, rows x radii; None where all examples are independent.
        largest_groups: examples in each row's largest group, at most; None where all examples are independent.
    """

    header: Mapping[str, Any]
    request: str | None
    smoothings: tuple[Smoothing, ...]
    settings: npt.NDArray[np.int32]
    clients: tuple[str, ...]
    label_counts: Counts
    procedure_counts: Counts
    has_class_counts: npt.NDArray[np.bool_]
    class_rows: npt.NDArray[np.unsignedinteger[Any]]
    design_effects: npt.NDArray[np.float64] | None = None
    largest_groups: Counts | None = None
    fixed_seeds: tuple[str, ...] = ()
    input_ranges: Mapping[InputRange, tuple[str, ...]] = field(default_factory=dict)
    seed_sum: int = 0

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def model(self) -> str:
        """Digest of the model that all clients certified."""
        return str(self.header["model"])

    @property
    def radii(self) -> tuple[float, ...]:
        """Increasing radii."""
        return tuple(self.header["radii"])

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in index order."""
        return tuple(self.header["classes"])

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
        position = _positions(report.smoothing for report in reports)
        rows = [report.class_procedure_counts for report in reports if report.class_procedure_counts is not None]
        shape = (len(rows), len(first.classes), len(first.procedure_counts))
        grouped = any(report.design_effect is not None or report.largest_group is not None for report in reports)
        effects = [effects_or_ones(report.design_effect, report.largest_group, len(report.radii)) for report in reports]
        groups = [group_bound(report.examples, report.design_effect, report.largest_group) for report in reports]
        return cls(
            header=shared_fields(first),
            request=common_request(report.request for report in reports),
            smoothings=tuple(position),
            settings=np.array([position[report.smoothing] for report in reports], dtype=np.int32),
            clients=tuple(report.client for report in reports),
            label_counts=np.array([report.label_counts for report in reports], dtype=np.int64),
            procedure_counts=np.array([report.procedure_counts for report in reports], dtype=np.int64),
            has_class_counts=np.array([report.class_procedure_counts is not None for report in reports]),
            class_rows=smallest(np.array(rows, dtype=np.int64).reshape(shape)),
            design_effects=np.array(effects) if grouped else None,
            largest_groups=np.array(groups, dtype=np.int64) if grouped else None,
            fixed_seeds=with_fixed_seeds((report.client for report in reports), (report.seed for report in reports)),
            input_ranges=by_input_range((report.client, report.input_range) for report in reports),
            seed_sum=sum_of_seeds((report.client for report in reports), (report.seed for report in reports)),
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
        clients = tuple(client for table in tables for client in table.clients)
        check_once(clients)
        if len(tables) == 1:
            return tables[0]
        position = _positions(smoothing for table in tables for smoothing in table.smoothings)
        settings = [
            np.array([position[smoothing] for smoothing in table.smoothings], dtype=np.int32)[table.settings]
            for table in tables
        ]
        grouped = any(table.design_effects is not None for table in tables)
        return cls(
            header=tables[0].header,
            request=common_request(table.request for table in tables),
            smoothings=tuple(position),
            settings=np.concatenate(settings),
            clients=clients,
            label_counts=np.concatenate([table.label_counts for table in tables]),
            procedure_counts=np.concatenate([table.procedure_counts for table in tables]),
            has_class_counts=np.concatenate([table.has_class_counts for table in tables]),
            class_rows=np.concatenate([table.class_rows for table in tables]),
            design_effects=np.concatenate([table.effects() for table in tables]) if grouped else None,
            largest_groups=np.concatenate([table.groups() for table in tables]) if grouped else None,
            fixed_seeds=tuple(client for table in tables for client in table.fixed_seeds),
            input_ranges=by_input_range(
                (client, bounds) for table in tables for bounds, names in table.input_ranges.items() for client in names
            ),
            seed_sum=sum(table.seed_sum for table in tables) % _SEED_SUMS,
        )

    def effects(self) -> npt.NDArray[np.float64]:
        """The design effects, 1 for independent examples."""
        return np.ones((len(self), len(self.radii))) if self.design_effects is None else self.design_effects

    def groups(self) -> Counts:
        """The largest groups, 1 for independent examples."""
        return np.ones(len(self), dtype=np.int64) if self.largest_groups is None else self.largest_groups


def _positions(smoothings: Iterable[Smoothing]) -> dict[Smoothing, int]:
    """The settings that occur, each once, and which of them each is."""
    return {smoothing: index for index, smoothing in enumerate(dict.fromkeys(smoothings))}


def common_request(requests: Iterable[str | None]) -> str | None:
    """The request that all reports answer; None where they answer several, which is warned of, or none."""
    distinct = set(requests)
    if len(distinct) > 1:
        what = "the reports answer different requests" if None not in distinct else "not all reports answer a request"
        warnings.warn(
            f"{what}; fedcert collect takes those that answer one, and names the others",
            FedcertWarning,
            stacklevel=2,
        )
    return distinct.pop() if len(distinct) == 1 else None


def with_fixed_seeds(clients: Iterable[str], seeds: Iterable[str | None]) -> tuple[str, ...]:
    """The clients whose seed was fixed."""
    return tuple(client for client, seed in zip(clients, seeds, strict=True) if seed == FIXED_SEED)


def by_input_range(stated: Iterable[tuple[str, InputRange | None]]) -> dict[InputRange, tuple[str, ...]]:
    """The ranges of inputs that clients state, each with these clients."""
    clients: dict[InputRange, list[str]] = {}
    for client, bounds in stated:
        if bounds is not None:
            clients.setdefault((bounds[0], bounds[1]), []).append(client)
    return {bounds: tuple(names) for bounds, names in clients.items()}


def sum_of_seeds(clients: Iterable[str], seeds: Iterable[str | None]) -> int:
    """See `Table.seed_sum`."""
    secret = (f"{client} {seed}" for client, seed in zip(clients, seeds, strict=True) if seed not in (None, FIXED_SEED))
    return sum(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little") for text in secret) % _SEED_SUMS


def smallest(counts: Counts) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Counts in the smallest unsigned type that holds them: rows per class are most of a table."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))
