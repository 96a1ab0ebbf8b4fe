"""Class support: how many clients hold each class, summed before the counts, which leave out what too few hold."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

import numpy as np

from fedcert.errors import Refused
from fedcert.report import Report, Request
from fedcert.report.sums.algebra import counted
from fedcert.secagg.masks import Vector


@dataclass(frozen=True)
class ClassSupport:
    """The result of the aggregation before the counts.

    Attributes:
        holders: clients that hold each class.
        fewest: clients that must hold a class for its counts to be summed (min_clients_per_class).
        sites: how many clients that aggregation was over.
    """

    holders: tuple[int, ...]
    fewest: int
    sites: int

    @classmethod
    def of(cls, request: Request, total: Vector, sites: int) -> ClassSupport:
        """From the sum.

        Raises:
            Refused: it is no sum of honest answers, or no class is held by enough.
        """
        assert request.private is not None  # noqa: S101
        holders = tuple(total.astype(np.int64).tolist())
        if len(holders) != len(request.classes) or not all(0 <= count <= sites for count in holders):
            raise Refused("the numbers of holders are no sum of honest answers: somebody gave a false one")
        support = cls(holders, request.private.fewest_holders or 0, sites)
        if not any(support.kept):
            raise Refused(
                f"no class is held by {support.fewest} of the {sites} sites or more, as must be for its counts to be "
                "summed; nothing else is known of them"
            )
        return support

    @property
    def kept(self) -> tuple[bool, ...]:
        """Which classes enough clients hold."""
        return tuple(count >= self.fewest for count in self.holders)

    @property
    def purpose(self) -> str:
        """The purpose of the aggregation of counts that follows, unlike that of every other of the same request."""
        return "counts of " + hashlib.sha256(json.dumps([self.holders, self.fewest, self.sites]).encode()).hexdigest()

    def check_without(self, missing: int) -> None:
        """Check that classes are still held by enough, whichever clients have gone since.

        Raises:
            Refused: some class may be held by too few.
        """
        least = min(count for count, kept in zip(self.holders, self.kept, strict=True) if kept)
        if least - missing < self.fewest:
            raise Refused(
                f"{missing} sites have gone since holders were counted, and a class of {least} holders may now have "
                f"fewer than {self.fewest}: its counts do not leave"
            )

    def restricted(self, report: Report) -> Report:
        """A report about the classes that enough clients hold.

        Raises:
            Refused: it has no counts per class, so that others cannot be left out.
        """
        if all(self.kept):
            return report
        rows = report.class_procedure_counts
        if rows is None:
            raise Refused("classes that few sites hold cannot be left out of a report without counts per class")
        nothing = (0,) * len(report.procedure_counts)
        kept = tuple(row if keep else nothing for row, keep in zip(rows, self.kept, strict=True))
        labels = tuple(count if keep else 0 for count, keep in zip(report.label_counts, self.kept, strict=True))
        counts = counted(report.smoothing, (sum(column) for column in zip(*kept, strict=True)))
        counts |= {f"class_{name}": kept for name in counts}
        return replace(report, label_counts=labels, signature=None, **counts)


def holding(report: Report) -> Vector:
    """Which classes a client holds, as numbers to sum."""
    return np.array([int(count > 0) for count in report.label_counts], dtype=np.uint64)
