"""The reports of a federation as arrays: what every estimator starts from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedcert.errors import EstimationProblem
from fedcert.estimation.simplex import Floats
from fedcert.report import Report, Smoothing, check_together, common_smoothing
from fedcert.report.kinds import LARGEST_COUNT


@dataclass(frozen=True)
class Federation:
    """Clients that hold test examples, and their counts.

    Attributes:
        clients: names, sorted.
        classes: class names in index order.
        radii: increasing radii.
        label_counts: clients x classes.
        certified_counts: clients x radii.
        model: what all of them certified.
        smoothing: how; the smallest n and the largest failure probability among them.
        opens: which clients tell counts per class.
        class_totals: their examples per class, and certified ones, classes x radii; None if nobody tells.
        design_effects: variance inflation, clients x radii; 1 where examples are independent.
        class_design_effects: that of the totals, the largest of the clients that tell; one per radius.
        alike: whether all of them drew the same samples at the same failure probability.
        largest_radii: the largest radius that each client's settings can certify.
        excluded: client -> why it is left out.
    """

    clients: tuple[str, ...]
    classes: tuple[str, ...]
    radii: tuple[float, ...]
    label_counts: npt.NDArray[np.int64]
    certified_counts: npt.NDArray[np.int64]
    model: str
    smoothing: Smoothing
    opens: npt.NDArray[np.bool_]
    class_totals: tuple[Floats, Floats] | None
    design_effects: Floats
    class_design_effects: Floats
    alike: bool
    largest_radii: Floats
    excluded: Mapping[str, str]

    @classmethod
    def of(cls, reports: Sequence[Report]) -> Federation:
        """Put reports together.

        Raises:
            CannotCombine: they do not belong together.
            EstimationProblem: no client has any test example.
        """
        check_together(reports)
        # By name, so that the order in which reports arrive decides nothing.
        held = sorted((report for report in reports if report.examples > 0), key=lambda report: report.client)
        if not held:
            raise EstimationProblem("no client has any test example, so there is nothing to estimate from")
        total = sum(report.examples for report in held)
        if total > LARGEST_COUNT:
            raise EstimationProblem(f"the clients claim {total} examples together, more than can be counted (2^53)")
        opens = np.array([report.class_certified_counts is not None for report in held])
        effects = np.array([report.design_effect or [1.0] * len(report.radii) for report in held])
        return cls(
            clients=tuple(report.client for report in held),
            classes=held[0].classes,
            radii=held[0].radii,
            label_counts=np.array([report.label_counts for report in held], dtype=np.int64),
            certified_counts=np.array([report.certified_counts for report in held], dtype=np.int64),
            model=held[0].model,
            smoothing=common_smoothing(held),
            opens=opens,
            class_totals=_class_totals(held),
            design_effects=effects,
            class_design_effects=effects[opens].max(axis=0) if opens.any() else np.ones(len(held[0].radii)),
            alike=len({report.smoothing for report in held}) == 1,
            largest_radii=np.array([report.smoothing.largest_radius for report in held]),
            excluded={report.client: "it has no test examples" for report in reports if report.examples == 0},
        )

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Examples per client."""
        return np.asarray(self.label_counts.sum(axis=1), dtype=np.int64)

    @property
    def mixes(self) -> Floats:
        """Class distribution of each client, clients x classes."""
        return np.asarray(self.label_counts / self.sizes[:, None], dtype=np.float64)

    @property
    def certified_accuracy(self) -> Floats:
        """Certified accuracy of each client, clients x radii."""
        return np.asarray(self.certified_counts / self.sizes[:, None], dtype=np.float64)

    @property
    def pool(self) -> Floats:
        """Class distribution of all clients' examples together."""
        return np.asarray(self.label_counts.sum(axis=0) / self.label_counts.sum(), dtype=np.float64)


def _class_totals(reports: Sequence[Report]) -> tuple[Floats, Floats] | None:
    rows = [report.class_certified_counts for report in reports if report.class_certified_counts is not None]
    if not rows:
        return None
    labels = [report.label_counts for report in reports if report.class_certified_counts is not None]
    certified = np.zeros((len(labels[0]), len(rows[0][0])))
    for row in rows:  # one at a time: all at once would be clients x classes x radii
        certified += np.array(row)
    return np.sum(labels, axis=0).astype(np.float64), certified
