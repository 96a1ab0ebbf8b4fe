"""The server's work: reports and a target in, an estimate out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from fedcert.errors import CallError, EstimationProblem, shown
from fedcert.estimation.bounded import bounded
from fedcert.estimation.checks import (
    Check,
    information,
    label_shift,
    missing_classes,
    radii_in_reach,
    reach,
    same_settings,
    thin_classes,
)
from fedcert.estimation.evidence import Evidence
from fedcert.estimation.federation import Federation
from fedcert.estimation.label_shift import label_shift_test
from fedcert.estimation.linear_model import fit
from fedcert.estimation.methods import Answer, Settings, estimator
from fedcert.estimation.paper import worst_spread
from fedcert.estimation.result import BiasBound, Estimate, Interval, Mismatch
from fedcert.estimation.simplex import Floats
from fedcert.estimation.target import distribution_of, target_of
from fedcert.report import Report, Target, read_reports
from fedcert.version import __version__

_ROUNDING = 1e-9


def estimate(
    reports: Report | str | Path | Iterable[Report | str | Path],
    target: object = "uniform",
    method: str = "auto",
    *,
    subsets: int = 1000,
    subset_size: int = 10,
    threshold: int = 50,
    seed: int = 0,
    confidence: float = 0.95,
    interval: str = "finite-sample",
    simultaneous: bool = False,
    target_examples: int | None = None,
    non_negative: bool = False,
) -> Estimate:
    """Estimate the certified accuracy of a target population from the clients' reports.

    Args:
        reports: reports, or paths of files and folders that hold them.
        target: the target's class mix: "uniform", a mapping from class name to weight, a list of weights
            in class order, a JSON file's name, or "class=weight,…".
        method: "auto" (post-stratified where clients tell counts per class, else BLUP), "poststratified", "blup",
            "minimax", the paper's "vw", "ap" and "ga", or one that another package registers.
        subsets: random subsets of clients to draw (T; AP and GA).
        subset_size: clients in each (E; AP and GA).
        threshold: examples below which a client is small (τ; GA).
        seed: of the draws.
        confidence: of the interval.
        interval: "finite-sample" (holds for any number of examples) or "asymptotic" (shorter, right for many).
        simultaneous: an interval for all radii at once, rather than for each.
        target_examples: the target is a finite set of so many examples, rather than the population they come from.
        non_negative: keep the weights of minimax and BLUP at or above 0.

    Raises:
        CannotCombine: reports that do not belong together.
        CallError: an unknown method, a setting or target of the wrong form.
        InvalidValue: a report or a target that breaks a rule.
        EstimationProblem: no client has any test example.

    Examples:
        >>> from fedcert.report import Report
        >>> def site(name, labels, certified):
        ...     return Report(client=name, model="demo", smoothing={"sigma": 0.25}, radii=[0, 0.5],
        ...                   classes=["cat", "dog"], label_counts=labels, certified_counts=certified)
        >>> reports = [site("a", [80, 20], [90, 50]), site("b", [20, 80], [60, 20])]
        >>> result = estimate(reports, target="cat=1,dog=1", method="ap")
        >>> [round(accuracy, 6) for accuracy in result.certified_accuracy]
        [0.75, 0.35]
        >>> {client: round(weight, 6) for client, weight in result.weights.items()}
        {'a': 0.5, 'b': 0.5}
    """
    settings = Settings(
        subsets, subset_size, threshold, seed, confidence, interval, simultaneous, target_examples, non_negative
    )
    function = estimator(method)
    federation = Federation.of(_reports(reports))
    wanted = target_of(target, federation.classes)
    distribution = distribution_of(wanted, federation.classes)
    answer = function(federation, distribution, settings)
    return _assemble(method, answer, federation, wanted, distribution, settings)


def _reports(reports: Report | str | Path | Iterable[Report | str | Path]) -> tuple[Report, ...]:
    if isinstance(reports, (str, Path, Report)):
        reports = [reports]
    if not isinstance(reports, Iterable):
        raise CallError(f"reports must be reports or paths, but is {shown(reports)}")
    read: list[Report] = []
    for report in reports:
        if isinstance(report, Report):
            read.append(report)
        elif isinstance(report, (str, Path)):
            read.extend(read_reports(report))
        else:
            raise CallError(f"reports must be reports or paths, but one is {type(report).__name__}")
    return tuple(read)


def _assemble(
    method: str, answer: Answer, federation: Federation, target: Target, distribution: Floats, settings: Settings
) -> Estimate:
    checks: list[Check] = [
        missing_classes(federation, distribution),
        thin_classes(federation, distribution),
        same_settings(federation),
        label_shift(label_shift_test(federation, fit(Evidence.of(federation)), settings.seed)),
    ]
    parts: dict[str, Any] = {"guarantee": answer.guarantee or "A point estimate. Its method states no guarantee."}
    curve = answer.certified_accuracy
    if answer.weights is not None:
        parts |= _reached(method, answer.weights, federation, distribution)
        checks += [reach(parts["mismatch"].tv), information(federation, answer.weights)]
    if answer.uncertainty is not None:
        bounds = bounded(answer.uncertainty, distribution, federation, settings)
        curve = np.clip(curve, *bounds.reach)
        parts |= {
            "lower": tuple(bounds.lower.tolist()),
            "upper": tuple(bounds.upper.tolist()),
            "confidence": settings.confidence,
            "interval": Interval(kind=settings.interval, scope=bounds.scope, estimand=bounds.estimand),
            "guarantee": answer.guarantee or bounds.guarantee,
        }
    checks.append(radii_in_reach(federation))
    return Estimate(
        method=method,
        target=target,
        radii=federation.radii,
        # Rounding may leave a weighted mean a hair outside.
        certified_accuracy=tuple(np.clip(curve, 0.0, 1.0).tolist()),
        weights_note=answer.weights_note,
        largest_radius=float(federation.largest_radii.max()),
        clients=len(federation.clients),
        examples=int(federation.sizes.sum()),
        excluded=dict(federation.excluded),
        checks=tuple(checks),
        details=dict(answer.details),
        settings={**answer.settings, **settings.used("confidence", "interval", "simultaneous", "target_examples")},
        model=federation.model,
        smoothing=federation.smoothing,
        classes=federation.classes,
        software=f"fedcert {__version__}",
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **parts,
    )


def _reached(method: str, weights: Floats, federation: Federation, distribution: Floats) -> dict[str, Any]:
    """What the weights make of the clients' mixes."""
    if not abs(weights.sum() - 1) <= _ROUNDING:
        raise EstimationProblem(f"the weights of {shown(method)} must add up to 1, but add up to {weights.sum()}")
    difference = distribution - weights @ federation.mixes
    l2, tv = float(np.linalg.norm(difference)), float(np.abs(difference).sum() / 2)
    spread = worst_spread(len(federation.classes))
    return {
        "mismatch": Mismatch(l2=l2, tv=tv),
        "bias_bound": BiasBound(theorem_1=l2 * spread, spread=spread, sharp=tv),
        "weights": dict(zip(federation.clients, weights.tolist(), strict=True)),
        "effective_examples": 1 / float(np.sum(weights**2 / federation.sizes)),
    }
