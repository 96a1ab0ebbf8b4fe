"""An estimate from its parts: the curve, its interval, the checks, what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import numpy as np

from fedcert._arrays import Floats
from fedcert.errors import EstimationProblem, preview
from fedcert.estimation.clients.aggregated import AggregatedClients
from fedcert.estimation.clients.protocol import examples, pooled_mix
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.diagnostics.checks import (
    Check,
    allowed_for,
    consistency,
    influence,
    information,
    label_shift,
    missing_classes,
    privacy_noise,
    radii_in_reach,
    reach,
    same_settings,
    screening,
    thin_classes,
)
from fedcert.estimation.diagnostics.label_shift import ShiftTest, label_shift_test
from fedcert.estimation.diagnostics.screening import Screened
from fedcert.estimation.intervals.cluster_robust import ClientEffects, SummedEffects, effects_of
from fedcert.estimation.intervals.ingredients import Uncertainty, of_weights
from fedcert.estimation.intervals.statement import IntervalStatement, interval_statement, make_interval
from fedcert.estimation.methods.minimax import minimax_weights
from fedcert.estimation.methods.paper.estimators import worst_spread
from fedcert.estimation.methods.registry import PointEstimate, Settings
from fedcert.estimation.result import BiasBound, ClassCurves, Estimate, Interval, Mismatch, TargetCurve, WhatIf
from fedcert.estimation.weights import Weights
from fedcert.estimation.what_if import curves_for
from fedcert.report import Target
from fedcert.report.privacy import AddedNoise
from fedcert.version import __version__

WITH_CLASS_CURVES = ("poststratified", "blup")
"""Methods that know the curve of each class."""

_RECORDED = ("confidence", "interval", "simultaneous", "target_examples", "screen")
_ROUNDING = 1e-9
_SHIFT = 3
"""The place of the check of label shift."""
_MOST_NAMED = 1000
"""Of more clients that count for less, only the first are named."""
_MOST_CLASSES = 200
"""Of more classes, the curves are left out of the estimate: `what_if` gives them."""


def assemble(
    method: str,
    answer: PointEstimate,
    pool: ReportedClients | AggregatedClients,
    target: Target,
    distribution: Floats,
    settings: Settings,
    screened: Screened | None = None,
) -> Estimate:
    """The estimate, whole.

    Args:
        method: the estimator's name.
        answer: what it gave.
        pool: what it was given, after screening.
        target: the target population.
        distribution: its class mix.
        settings: what was asked for.
        screened: what screening did.

    Raises:
        EstimationProblem: the weights of another package's method do not add up to 1.
    """
    whole = pool if screened is None else screened.kept
    test = shift_test(whole, settings)
    checks: list[Check] = [
        missing_classes(whole, distribution),
        thin_classes(whole, distribution),
        same_settings(whole),
        label_shift(test, answer.uncertainty is not None),
    ]
    details = dict(answer.details)
    chosen = str(details.get("chosen", method))
    if screened is not None:
        checks.append(screening(len(screened.dropped), len(screened.reduced), whole.count))
        details["screened"] = dict(islice(screened.reduced.items(), _MOST_NAMED))
    parts: dict[str, Any] = {"guarantee": answer.guarantee or "A point estimate. Its method states no guarantee."}
    curve = answer.certified_accuracy
    reached = _reached(method, answer, pool)
    if reached is not None:
        parts |= _distances(*reached, distribution)
        # BLUP's own weights miss on purpose what they would have to pay for in chance; its interval's do not.
        missed = parts["mismatch"].tv if answer.uncertainty is None else answer.uncertainty.bias
        whose = "the interval's weights" if chosen == "blup" else "the weighted clients"
        checks += [reach(missed, whose), information(parts["effective_examples"], examples(whole))]
    if answer.weights is not None and isinstance(pool, ReportedClients):
        parts["weights"] = Weights(pool.clients, answer.weights)
        checks.append(influence(pool, answer.weights))
    if answer.uncertainty is not None:
        uncertainty, effects = allowing_for_shift(chosen, answer.uncertainty, pool, distribution, settings, test)
        bounds = make_interval(uncertainty, distribution, pool, settings, effects)
        if bounds.contradicted:
            checks.append(consistency())
        if isinstance(effects, SummedEffects):
            checks[_SHIFT] = allowed_for()
        curve = np.clip(curve, *bounds.reach)
        parts |= {
            "lower": tuple(bounds.lower.tolist()),
            "upper": tuple(bounds.upper.tolist()),
            "confidence": settings.confidence,
            "interval": _interval(bounds.statement),
            "guarantee": answer.guarantee or bounds.statement.guarantee,
            # A second sum tells of one target alone.
            "by_class": _by_class(
                chosen, uncertainty, None if isinstance(effects, SummedEffects) else effects, pool, settings
            ),
        }
    checks.append(radii_in_reach(pool))
    if isinstance(pool, AggregatedClients) and pool.sums.private is not None:
        checks.append(privacy_noise(pool.sums.noise or ""))
        details["privacy"] = _privacy(pool.sums.private)
    return Estimate(
        method=method,
        target=target,
        radii=pool.radii,
        # Rounding may leave a weighted mean a hair outside.
        certified_accuracy=tuple(np.clip(curve, 0.0, 1.0).tolist()),
        weights_note=answer.weights_note,
        largest_radius=pool.reach[1],
        clients=pool.count,
        examples=examples(whole),
        excluded=dict(pool.excluded),
        checks=tuple(checks),
        details=details,
        settings={**answer.settings, **settings.used(*_RECORDED)},
        model=pool.model,
        smoothing=pool.smoothing,
        classes=pool.classes,
        **_origin(),
        **parts,
    )


def assemble_what_if(
    method: str, pool: ReportedClients | AggregatedClients, targets: Sequence[Target], mixes: Floats, settings: Settings
) -> WhatIf:
    """The estimates of many targets, whole."""
    test = shift_test(pool, settings)
    effects = None
    if test is not None and test.rejects and isinstance(pool, ReportedClients):
        effects = effects_of(pool, method == "poststratified" and pool.open_count == pool.count, settings.seed)
    curves = curves_for(pool, mixes, method, settings, effects=effects)
    promised = interval_statement(pool, settings, effects is not None)
    return WhatIf(
        method=method,
        radii=pool.radii,
        classes=pool.classes,
        targets=tuple(
            TargetCurve(target=target, certified_accuracy=accuracy, lower=lower, upper=upper)
            for target, accuracy, lower, upper in zip(
                targets, _rows(curves.certified_accuracy), _rows(curves.lower), _rows(curves.upper), strict=True
            )
        ),
        confidence=settings.confidence,
        interval=_interval(promised),
        guarantee=promised.guarantee,
        checks=(same_settings(pool), label_shift(test, True), radii_in_reach(pool)),
        clients=pool.count,
        examples=examples(pool),
        settings=settings.used("confidence", "interval", "simultaneous", "target_examples"),
        model=pool.model,
        smoothing=pool.smoothing,
        **_origin(),
    )


def _origin() -> dict[str, Any]:
    return {"software": f"fedcert {__version__}", "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}


def _interval(statement: IntervalStatement) -> Interval:
    return Interval(kind=statement.kind, scope=statement.scope, estimand=statement.estimand)


def _by_class(
    method: str,
    uncertainty: Uncertainty,
    effects: ClientEffects | None,
    pool: ReportedClients | AggregatedClients,
    settings: Settings,
) -> ClassCurves | None:
    if method not in WITH_CLASS_CURVES or len(pool.classes) > _MOST_CLASSES:
        return None
    curves = curves_for(pool, np.eye(len(pool.classes)), method, settings, uncertainty, effects)
    return ClassCurves(
        certified_accuracy=_rows(curves.certified_accuracy), lower=_rows(curves.lower), upper=_rows(curves.upper)
    )


def _rows(matrix: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, matrix.tolist()))


def shift_test(pool: ReportedClients | AggregatedClients, settings: Settings) -> ShiftTest | None:
    """The test of label shift; None where only sums are known."""
    return label_shift_test(pool, settings.seed) if isinstance(pool, ReportedClients) else None


def allowing_for_shift(
    method: str,
    uncertainty: Uncertainty,
    pool: ReportedClients | AggregatedClients,
    distribution: Floats,
    settings: Settings,
    test: ShiftTest | None,
) -> tuple[Uncertainty, ClientEffects | None]:
    """What an interval is made of, and how clients differ, where the test of label shift rejects.

    Clients that differ are told apart by their weights. Where counts of some clients enter by class, the interval is
    then that of the minimax weights of everybody's curves.
    """
    if isinstance(pool, AggregatedClients):
        return uncertainty, _summed_effects(method, pool, distribution)
    if test is None or not test.rejects:
        return uncertainty, None
    by_class = method == "poststratified" and pool.open_count == pool.count
    if uncertainty.weights is None and not by_class:
        weights = minimax_weights(pool, distribution, settings)
        uncertainty = of_weights(pool, distribution, weights)
    return uncertainty, effects_of(pool, by_class, settings.seed)


def _summed_effects(method: str, pool: AggregatedClients, distribution: Floats) -> SummedEffects | None:
    """How clients differ, where a second sum tells that for this target."""
    told = pool.sums.spread
    if told is None or method != "poststratified" or np.abs(np.subtract(told.target, distribution)).max() > _ROUNDING:
        return None
    return SummedEffects(np.array(told.covariance), told.freedom)


def _reached(
    method: str, answer: PointEstimate, pool: ReportedClients | AggregatedClients
) -> tuple[Floats, float] | None:
    """The class mix that the weights make of the clients', and Σ a²/n; None for methods without weights."""
    if answer.weights is not None and isinstance(pool, ReportedClients):
        total = float(answer.weights.sum())
        if not abs(total - 1) <= _ROUNDING:
            raise EstimationProblem(f"the weights of {preview(method)} must add up to 1, but add up to {total}")
        return answer.weights @ pool.mixes, float(np.sum(answer.weights**2 / pool.sizes))
    if answer.rule is None:
        return None
    if pool.curves is None:  # totals alone: only weights by volume are known
        return pooled_mix(pool), 1 / examples(pool)
    return answer.rule.mix(pool.curves), answer.rule.squares(pool.curves)


def _distances(mix: Floats, squares: float, distribution: Floats) -> dict[str, Any]:
    difference = distribution - mix
    l2, tv = float(np.linalg.norm(difference)), float(np.abs(difference).sum() / 2)
    spread = worst_spread(len(distribution))
    return {
        "mismatch": Mismatch(l2=l2, tv=tv),
        "bias_bound": BiasBound(theorem_1=l2 * spread, spread=spread, sharp=tv),
        "effective_examples": 1 / squares,
    }


def _privacy(noise: AddedNoise) -> dict[str, Any]:
    """What was done to the counts before they left."""
    return noise.budget.to_json() | {"rho": noise.rho}
