"""Post-stratification: the pooled accuracy on each class, weighted by the target's mix."""

from __future__ import annotations

import numpy as np

from fedcert.errors import EstimationProblem
from fedcert.estimation.blup import blup
from fedcert.estimation.federation import Federation
from fedcert.estimation.linear_model import decreasing
from fedcert.estimation.methods import Answer, Settings
from fedcert.estimation.simplex import Floats
from fedcert.estimation.uncertainty import Uncertainty


def poststratified(federation: Federation, target: Floats, settings: Settings) -> Answer:
    """The clients' pooled accuracy on each class, weighted by the target's mix.

    Where only some clients tell counts per class, theirs and the others' curves enter one linear model (`blup`).
    Classes that nobody holds are carried as ignorance: half of their share in the point, all of it in the interval.

    Raises:
        EstimationProblem: no client tells counts per class.
    """
    if federation.class_totals is None:
        raise EstimationProblem(
            "no report has counts per class, which post-stratification needs; use --method blup, "
            "or have the sites certify with --class-counts"
        )
    if not federation.opens.all():
        answer = blup(federation, target, settings)
        closed = int((~federation.opens).sum())
        told = (
            f"{closed} of {len(federation.clients)} clients tell no counts per class: one linear model uses both kinds"
        )
        return Answer(
            answer.certified_accuracy, None, weights_note=answer.weights_note, uncertainty=answer.uncertainty,
            settings=answer.settings, details={**answer.details, "partly_open": told},
        )  # fmt: skip
    labels, certified = federation.class_totals
    held = labels > 0
    missing = float(target[~held].sum())
    accuracy = np.divide(certified, labels[:, None], out=np.zeros_like(certified), where=held[:, None])
    centre = target @ accuracy + missing / 2
    loads = np.where(held, target**2 / np.where(held, labels, 1.0), 0.0)[:, None] * federation.class_design_effects
    smooth = (certified + 0.5) / (labels[:, None] + 1)
    uncertainty = Uncertainty(centre, missing / 2, loads, loads.sum(axis=0), smooth)
    return Answer(
        decreasing(centre), None, weights_note="classes are weighted, not clients", uncertainty=uncertainty,
        settings=settings.used("confidence"), details={"missing_share": missing},
    )  # fmt: skip
