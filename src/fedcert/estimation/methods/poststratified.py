"""Post-stratification: the pooled accuracy on each class, weighted by the target's mix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedcert._arrays import Floats
from fedcert.errors import EstimationProblem
from fedcert.estimation.clients import Clients, all_disclose
from fedcert.estimation.intervals.ingredients import Uncertainty, grouping_factor
from fedcert.estimation.methods.blup import blup
from fedcert.estimation.methods.linear_model import decreasing
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
    if not all_disclose(clients):
        point = blup(clients, target, settings)
        others = clients.count - clients.n_with_class_counts
        note = f"{others} of {clients.count} clients tell no counts per class: one linear model uses both kinds"
        return replace(point, details={**point.details, "partly_open": note})
    curve, uncertainty = from_totals(clients, target)
    return PointEstimate(
        curve, None, weights_note="classes are weighted, not clients", uncertainty=uncertainty,
        settings=settings.used("confidence"), details={"missing_share": _missing(clients, target)},
    )  # fmt: skip


def from_totals(clients: Clients, target: Floats) -> tuple[Floats, Uncertainty]:
    """The curve and its uncertainty from totals per class, of all clients.

    Raises:
        EstimationProblem: no client discloses counts per class.
    """
    if clients.class_totals is None:
        raise EstimationProblem(NO_CLASS_COUNTS)
    labels, certified = clients.class_totals
    held = labels > 0
    missing = float(target[~held].sum())
    accuracy = np.divide(certified, labels[:, None], out=np.zeros_like(certified), where=held[:, None])
    centre = target @ accuracy + missing / 2
    by_class = np.where(held, target**2 / np.where(held, labels, 1.0), 0.0)[:, None] * grouping_factor(clients)
    smooth = (np.clip(certified, 0.0, labels[:, None]) + 0.5) / (labels[:, None] + 1)
    noise = _noise(clients, target, labels, smooth)
    fallback = clients.fallback_curve
    point = centre if fallback is None else target @ accuracy + missing * fallback
    bias = missing / 2 + _noise_bias(clients, target, labels)
    return decreasing(point), Uncertainty(centre, bias, by_class, by_class.sum(axis=0), smooth, noise=noise)


def _missing(clients: Clients, target: Floats) -> float:
    """The target's share of classes that no client holds."""
    return 0.0 if clients.class_totals is None else float(target[clients.class_totals[0] <= 0].sum())


def _noise_bias(clients: Clients, target: Floats, labels: Floats) -> float:
    """An upper bound on the bias that noise in n causes in k/n.

    With variances v in what is certified and v' in what is not it is (L v' - (1 - L) v)/n², to second order. A single
    class's is well below its standard error; but it does not average out over many classes, as chance does.
    """
    variances = clients.noise_variance
    if variances is None:
        return 0.0
    held = labels > 0
    return float(np.sum(np.where(held, target / np.where(held, labels, 1.0) ** 2, 0.0)) * np.max(variances))


def _noise(clients: Clients, target: Floats, labels: Floats, accuracy: Floats) -> tuple[Floats, Floats] | None:
    """Variance that noise for privacy adds to Σ p(S) k/n: an upper bound, and at the estimated accuracies.

    A class's error is (1 - L) e - L e', over n, of the noise e in what is certified and e' in what is not; to first
    order in the noise of n.
    """
    variances = clients.noise_variance
    if variances is None:
        return None
    inside, outside = variances
    held = labels > 0
    scale = np.where(held, (target / np.where(held, labels, 1.0)) ** 2, 0.0)
    most = scale.sum() * np.maximum(inside, outside)
    estimated = np.sum(scale[:, None] * ((1 - accuracy) ** 2 * inside + accuracy**2 * outside), axis=0)
    return most, estimated
