"""Post-stratification: the pooled accuracy on each class, weighted by the target's mix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedcert._arrays import Floats
from fedcert.errors import EstimationProblem
from fedcert.estimation.clients import Clients, all_disclose
from fedcert.estimation.intervals.ingredients import Uncertainty, at_all_radii, class_inflation
from fedcert.estimation.intervals.least_favourable.ends import Segment
from fedcert.estimation.intervals.least_favourable.segments import of_class_totals
from fedcert.estimation.methods.blup import blup
from fedcert.estimation.methods.linear_model import decreasing
from fedcert.estimation.methods.noisy_poststratified import noisy_poststratified
from fedcert.estimation.methods.point_estimate import PointEstimate
from fedcert.estimation.settings import Settings

NO_CLASS_COUNTS = (
    "no report has counts per class, which post-stratification needs; use --method blup, "
    "or have the sites certify with --class-counts"
)


def poststratified(clients: Clients, target: Floats, settings: Settings) -> PointEstimate:
    """The clients' pooled accuracy on each class, weighted by the target's mix.

    Where only some clients disclose counts per class, these and the others' curves enter one linear model (`blup`).
    Classes that no client holds are carried as ignorance: half of their share in the point, all of it in the interval.

    Raises:
        EstimationProblem: no client discloses counts per class.
    """
    if clients.class_totals is None:
        raise EstimationProblem(NO_CLASS_COUNTS)
    if clients.noisy_totals is not None:
        return noisy_poststratified(clients, clients.noisy_totals, target, settings)
    if not all_disclose(clients):
        point = blup(clients, target, settings)
        others = clients.count - clients.n_with_class_counts
        note = f"{others} of {clients.count} clients shared no counts per class: one linear model uses both kinds"
        return replace(point, details={**point.details, "partly_open": note})
    labels, certified = clients.class_totals
    held = labels > 0
    examples = np.where(held, labels, np.inf)  # of a class that no client holds, nothing counts
    missing = float(target[~held].sum())
    accuracy = np.divide(certified, labels[:, None], out=np.zeros_like(certified), where=held[:, None])
    centre = target @ accuracy + missing / 2
    by_class = at_all_radii(clients, target**2 / examples * class_inflation(clients))
    smooth = (np.clip(certified, 0.0, labels[:, None]) + 0.5) / (labels[:, None] + 1)

    def statistics(level: float) -> tuple[Segment, ...]:
        return of_class_totals(clients, target, target / examples, target @ accuracy, level)

    uncertainty = Uncertainty(
        centre, missing / 2, by_class, by_class.sum(axis=0), smooth, segments=statistics,
        class_variance=_class_variance(smooth, labels),
        example_weights=at_all_radii(clients, target / examples * class_inflation(clients)),
    )  # fmt: skip
    return PointEstimate(
        decreasing(centre), None, weights_note="classes are weighted, not clients", uncertainty=uncertainty,
        settings=settings.used("confidence"), details={"missing_share": missing},
    )  # fmt: skip


def _class_variance(smooth: Floats, labels: Floats) -> Floats:
    """The variance L(1 - L) of an example of each class, from the smoothed accuracy (k + ½)/(n + 1) of its n examples.

    Guarantee: never too small on average, whatever L and n. The smoothed accuracy's own variance makes its L(1 - L) too
    small by the factor 1 - n/(n + 1)² at L = ½, and by less elsewhere: it is divided by that.
    """
    return np.asarray(smooth * (1 - smooth) / (1 - labels / (labels + 1) ** 2)[:, None], dtype=np.float64)
