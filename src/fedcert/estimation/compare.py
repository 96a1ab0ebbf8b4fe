"""How far an estimated curve is from the truth: the paper's RMSE and MAPE."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedcert._arrays import Floats
from fedcert._schema.declare import optional, required
from fedcert._schema.field_types import Number, Whole
from fedcert._schema.record import Record
from fedcert.errors import CallError, FedcertWarning, preview
from fedcert.report import Report

if TYPE_CHECKING:
    from fedcert.estimation.result import Estimate

_OTHER_MIX = 0.02
"""Total variation between the truth's class mix and the target's, beyond chance, that can move a curve by as much."""
_SETTINGS = {"is_population": "kind of certificates (--procedure)"}
"""Names of settings for which the field's name will not do."""


@dataclass(frozen=True, kw_only=True)
class Comparison(Record):
    """Errors of an estimated curve over the radii.

    Attributes:
        rmse: root of the mean squared error, over all radii.
        mape: mean of |error| / truth over the radii whose truth is above 0; None where there is none.
        radii: how many radii were compared.
        left_out: how many of them MAPE leaves out, because the truth is 0 there.

    Examples:
        >>> compare([0.9, 0.5], [0.8, 0.5]).rmse > 0
        True
    """

    NOUN: ClassVar[str] = "comparison with the truth"

    rmse: float = required(Number(least=0))
    mape: float | None = optional(Number(least=0))
    radii: int = required(Whole(least=1))
    left_out: int = required(Whole())


def compare(estimated: Estimate | Sequence[float], truth: Report | Sequence[float]) -> Comparison:
    """Compare an estimate with the truth: a report on examples of the target itself. Or two curves over the same radii.

    The paper divides sums over 21 radii by 20; here they are means over the radii used.

    Args:
        estimated: the estimate, or its curve.
        truth: the report, of the estimate's model and noise, or the true curve.

    Raises:
        CallError: the curves have different lengths, are empty, or hold what is no finite number; or the report is
            about another model or other noise than the estimate.

    Examples:
        >>> errors = compare([0.8, 0.4, 0.1], [0.8, 0.5, 0.0])
        >>> round(errors.rmse, 4), round(errors.mape, 4), errors.left_out
        (0.0816, 0.1, 1)
    """
    true = _numbers(true_curve(truth, estimated), "truth")
    curve = _numbers(getattr(estimated, "certified_accuracy", estimated), "estimated")
    if curve.ndim != 1 or curve.shape != true.shape or not len(curve):
        raise CallError(
            f"both curves must have the same number of radii, but have shapes {curve.shape} and {true.shape}"
        )
    if not (np.isfinite(curve).all() and np.isfinite(true).all()):
        raise CallError("both curves must hold finite numbers")
    error = curve - true
    known = true > 0
    mape = float(np.mean(np.abs(error[known]) / true[known])) if known.any() else None
    rmse = float(np.sqrt(np.mean(error**2)))
    return Comparison(rmse=rmse, mape=mape, radii=len(curve), left_out=int((~known).sum()))


def true_curve(truth: Report | Sequence[float], estimated: Estimate | Sequence[float]) -> Sequence[float]:
    """The target's own curve at an estimate's radii, by its votes: of a report, or as it is given.

    Raises:
        CallError: the report has no examples, or is about another model, noise or kind of certificates.
    """
    from fedcert.estimation.clients.readings import own_curve  # a client compares nothing
    from fedcert.estimation.result import Estimate

    if not isinstance(truth, Report):
        return truth
    if not isinstance(estimated, Estimate):
        raise CallError("a report is compared with an estimate; give that itself, not its curve")
    if not truth.examples:
        raise CallError("the truth has no examples, so there is nothing to compare with")
    votes = estimated.smoothing.is_population
    for name in ("model", "classes", *(() if votes else ("radii",))):
        if getattr(truth, name) != getattr(estimated, name):
            raise CallError(f"the truth must have the estimate's {name}; certify it with the same settings")
    for name in ("is_population", "noise", "sigma", "lattice", "precision"):
        if getattr(truth.smoothing, name) != getattr(estimated.smoothing, name):
            raise CallError(
                f"the truth must have the estimate's {_SETTINGS.get(name, name)}; certify it with the same settings"
            )
    _check_mix(truth, estimated)
    return own_curve(truth, estimated.votes, estimated.radii) if votes else own_curve(truth)


def _check_mix(truth: Report, estimated: Estimate) -> None:
    """Warn where the truth's examples have another class mix than the target."""
    counts = np.array(truth.label_counts, dtype=float)
    target = np.array([estimated.target.distribution.get(name, 0.0) for name in estimated.classes])
    missed = float(np.abs(counts / counts.sum() - target).sum()) / 2
    # About what the mix of so many examples drawn from the target misses: Σ √(p(1 − p)/2πn) on average.
    chance = float(np.sqrt(target * (1 - target) / (2 * np.pi * counts.sum())).sum())
    if missed > _OTHER_MIX + 2 * chance:
        warnings.warn(
            f"the class mix of the truth's examples is not the target's (total variation {missed:.1%}), so it is the "
            "truth about another population: take a sample with the target's class mix",
            FedcertWarning,
            stacklevel=3,
        )


def _numbers(curve: object, name: str) -> Floats:
    try:
        return np.asarray(curve, dtype=float)
    except (TypeError, ValueError):
        raise CallError(f"{name} must be a curve, a number for each radius, but is {preview(curve)}") from None


def check_comparable(estimates: Sequence[Estimate]) -> None:
    """Check that estimates are about the same model, target and radii, smoothed alike.

    Raises:
        CallError: they are not.
    """
    first = estimates[0]
    for other in estimates[1:]:
        for name in ("model", "classes", "radii", "smoothing", "votes"):
            if getattr(other, name) != getattr(first, name):
                raise CallError(
                    f"estimates side by side must have the same {name}, but those by {first.method} and {other.method} "
                    "do not; show each by itself"
                )
        if other.target.distribution != first.target.distribution:
            raise CallError(
                f"estimates side by side must be for the same target, but those by {first.method} and {other.method} "
                f"are for {first.target.name!r} and {other.target.name!r}, which differ; show each by itself"
            )
