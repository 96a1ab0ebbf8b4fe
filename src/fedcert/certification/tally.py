"""What a report counts, from what became of each example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert.certification.certify import CertificateTable
from fedcert.certification.data.local_data import LocalData
from fedcert.certification.scheduler import Certificate


@dataclass(frozen=True)
class Tally:
    """Counts of a report.

    Attributes:
        labels: examples of each class.
        certified: those of each class (rows) that are right and certified at each radius (columns).
        abstained: right selections that could not be certified at all.
    """

    labels: npt.NDArray[np.int64]
    certified: npt.NDArray[np.int64]
    abstained: int

    @classmethod
    def of(
        cls, outcomes: Sequence[Certificate], labels: npt.NDArray[np.int64], classes: int, radii: Sequence[float]
    ) -> Tally:
        """Count outcomes; `labels` are those of all of the client's examples."""
        made = CertificateTable.of(outcomes)
        mine = labels[[outcome.index for outcome in outcomes]] if outcomes else np.zeros(0, dtype=np.int64)
        counts, certified = np.zeros(classes, dtype=np.int64), np.zeros((classes, len(radii)), dtype=np.int64)
        np.add.at(counts, mine, 1)
        np.add.at(certified, mine, made.certified(mine, radii).astype(np.int64))
        return cls(counts, certified, int(((made.selected == mine) & made.abstains).sum()))


def design_effects(data: LocalData, indices: Sequence[int], radii: int) -> dict[str, Any]:
    """What a report tells of examples that come in groups.

    The design effect is Σ m²/n over the groups' sizes m: the most that examples which belong together can inflate a
    variance. It is reached when all examples of a group are alike, and it keeps Hoeffding's inequality exact, in which
    a group of m examples is one variable between 0 and m.
    """
    if data.groups is None or not len(indices):
        return {}
    _, sizes = np.unique(data.groups[list(indices)], return_counts=True)
    effect = float(np.sum(sizes.astype(np.float64) ** 2) / sizes.sum())
    return {"design_effect": (effect,) * radii, "largest_group": int(sizes.max())}
