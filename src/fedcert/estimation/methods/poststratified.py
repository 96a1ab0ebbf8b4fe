"""Post-stratification: the pooled accuracy on each class, weighted by the target's mix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedcert._arrays import Floats
from fedcert.errors import EstimationProblem
from fedcert.estimation.clients.protocol import Clients
from fedcert.estimation.intervals.ingredients import Uncertainty, grouping_factor
from fedcert.estimation.methods.blup import blup
from fedcert.estimation.methods.linear_model import decreasing
from fedcert.estimation.methods.registry import PointEstimate, Settings

NO_CLASS_COUNTS = (
    "no report has counts per class, which post-stratification needs; use --method blup, "
    "or have the sites certify with --class-counts"
)


def poststratified(pool: Clients, target: Floats, settings: Settings) -> PointEstimate:
    """The clients' pooled accuracy on each class, weighted by the target's mix.

    Where only some clients tell counts per class, theirs and the others' curves enter one linear model (`blup`).
    Classes that nobody holds are carried as ignorance: half of their share in the point, all of it in the interval.

    Raises:
        EstimationProblem: no client tells counts per class.
    """
    if pool.class_totals is None:
        raise EstimationProblem(NO_CLASS_COUNTS)
    if pool.open_count < pool.count:
        answer = blup(pool, target, settings)
        closed = pool.count - pool.open_count
        told = f"{closed} of {pool.count} clients tell no counts per class: one linear model uses both kinds"
        return replace(answer, details={**answer.details, "partly_open": told})
    curve, uncertainty = totals_answer(pool, target)
    return PointEstimate(
        curve, None, weights_note="classes are weighted, not clients", uncertainty=uncertainty,
        settings=settings.used("confidence"), details={"missing_share": _missing(pool, target)},
    )  # fmt: skip


def totals_answer(pool: Clients, target: Floats) -> tuple[Floats, Uncertainty]:
    """The curve and its uncertainty from totals per class, everybody's.

    Raises:
        EstimationProblem: nobody tells counts per class.
    """
    if pool.class_totals is None:
        raise EstimationProblem(NO_CLASS_COUNTS)
    labels, certified = pool.class_totals
    held = labels > 0
    missing = float(target[~held].sum())
    accuracy = np.divide(certified, labels[:, None], out=np.zeros_like(certified), where=held[:, None])
    centre = target @ accuracy + missing / 2
    loads = np.where(held, target**2 / np.where(held, labels, 1.0), 0.0)[:, None] * grouping_factor(pool)
    smooth = (np.clip(certified, 0.0, labels[:, None]) + 0.5) / (labels[:, None] + 1)
    noise = _noise(pool, target, labels, smooth)
    drowned = getattr(pool, "drowned", None)
    point = centre if drowned is None else target @ accuracy + missing * drowned
    bias = missing / 2 + _noise_bias(pool, target, labels)
    return decreasing(point), Uncertainty(centre, bias, loads, loads.sum(axis=0), smooth, noise=noise)


def _missing(pool: Clients, target: Floats) -> float:
    """The target's share of classes that nobody holds."""
    return 0.0 if pool.class_totals is None else float(target[pool.class_totals[0] <= 0].sum())


def _noise_bias(pool: Clients, target: Floats, labels: Floats) -> float:
    """What noise in n moves k/n on average, at most.

    With variances v in what is certified and v' in what is not it is (L v' - (1 - L) v)/n², to second order. A single
    class's is well below its standard error; but it does not average out over many classes, as chance does.
    """
    variances = getattr(pool, "noise", None)
    if variances is None:
        return 0.0
    held = labels > 0
    return float(np.sum(np.where(held, target / np.where(held, labels, 1.0) ** 2, 0.0)) * np.max(variances))


def _noise(pool: Clients, target: Floats, labels: Floats, accuracy: Floats) -> tuple[Floats, Floats] | None:
    """What noise for privacy does to Σ p(S) k/n, at most and as it seems.

    A class's error is (1 - L) e - L e', over n, of the noise e in what is certified and e' in what is not; to first
    order in the noise of n.
    """
    variances = getattr(pool, "noise", None)
    if variances is None:
        return None
    inside, outside = variances
    held = labels > 0
    scale = np.where(held, (target / np.where(held, labels, 1.0)) ** 2, 0.0)
    most = scale.sum() * np.maximum(inside, outside)
    seems = np.sum(scale[:, None] * ((1 - accuracy) ** 2 * inside + accuracy**2 * outside), axis=0)
    return most, seems
