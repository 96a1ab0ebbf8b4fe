"""The server's work: reports and a target in, an estimate out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from fedcert.errors import CallError, EstimationProblem, shown
from fedcert.estimation.checks import Check, missing_classes, radii_in_reach, reach, same_settings
from fedcert.estimation.federation import Federation
from fedcert.estimation.methods import Answer, Settings, estimator
from fedcert.estimation.paper import worst_spread
from fedcert.estimation.result import BiasBound, Estimate, Mismatch
from fedcert.estimation.simplex import Floats
from fedcert.estimation.target import distribution_of, target_of
from fedcert.report import Report, Target, read_reports
from fedcert.version import __version__

_ROUNDING = 1e-9
_ALIKE = (
    "A point estimate, without an interval. If every client's examples of a class come from the same distribution "
    "as the target's (label shift), its expectation differs from that of the target's certified accuracy, certified "
    "with the same settings, by at most the bias bound."
)
_UNLIKE = (
    "A point estimate, without an interval and without a guarantee: the clients certified with different settings, "
    "and those with fewer samples or a smaller failure probability certify less of the same examples."
)
_UNSTATED = "A point estimate, without an interval. Its method states no guarantee."


def estimate(
    reports: Report | str | Path | Iterable[Report | str | Path],
    target: object = "uniform",
    method: str = "ga",
    *,
    subsets: int = 1000,
    subset_size: int = 10,
    threshold: int = 50,
    seed: int = 0,
) -> Estimate:
    """Estimate the certified accuracy of a target population from the clients' reports.

    Args:
        reports: reports, or paths of files and folders that hold them.
        target: the target's class mix: "uniform", a mapping from class name to weight, a list of weights
            in class order, a JSON file's name, or "class=weight,…".
        method: "vw", "ap", "ga", or one that another package registers.
        subsets: random subsets of clients to draw (T; AP and GA).
        subset_size: clients in each (E; AP and GA).
        threshold: examples below which a client is small (τ; GA).
        seed: of the draws.

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
    settings = Settings(subsets, subset_size, threshold, seed)
    function = estimator(method)
    federation = Federation.of(_reports(reports))
    wanted = target_of(target, federation.classes)
    distribution = distribution_of(wanted, federation.classes)
    return _assemble(method, function(federation, distribution, settings), federation, wanted, distribution)


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


def _assemble(method: str, answer: Answer, federation: Federation, target: Target, distribution: Floats) -> Estimate:
    reached: dict[str, Any] = {}
    guarantee = answer.guarantee or _UNSTATED
    checks: list[Check] = [missing_classes(federation, distribution), same_settings(federation)]
    if answer.weights is not None:
        if not abs(answer.weights.sum() - 1) <= _ROUNDING:
            raise EstimationProblem(
                f"the weights of {shown(method)} must add up to 1, but add up to {answer.weights.sum()}"
            )
        guarantee = answer.guarantee or (_ALIKE if federation.alike else _UNLIKE)
        difference = distribution - answer.weights @ federation.mixes
        l2, tv = float(np.linalg.norm(difference)), float(np.abs(difference).sum() / 2)
        spread = worst_spread(len(federation.classes))
        reached = {
            "mismatch": Mismatch(l2=l2, tv=tv),
            "bias_bound": BiasBound(theorem_1=l2 * spread, spread=spread, sharp=tv),
            "weights": dict(zip(federation.clients, answer.weights.tolist(), strict=True)),
            "effective_examples": 1 / float(np.sum(answer.weights**2 / federation.sizes)),
        }
        checks.append(reach(tv))
    checks.append(radii_in_reach(federation))
    return Estimate(
        method=method,
        target=target,
        radii=federation.radii,
        # Rounding may leave a weighted mean a hair outside.
        certified_accuracy=tuple(np.clip(answer.certified_accuracy, 0.0, 1.0).tolist()),
        guarantee=guarantee,
        weights_note=answer.weights_note,
        largest_radius=float(federation.largest_radii.max()),
        clients=len(federation.clients),
        examples=int(federation.sizes.sum()),
        excluded=dict(federation.excluded),
        checks=tuple(checks),
        details=dict(answer.details),
        settings=dict(answer.settings),
        model=federation.model,
        smoothing=federation.smoothing,
        classes=federation.classes,
        software=f"fedcert {__version__}",
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **reached,
    )
