"""Estimates and what-ifs from their parts: curves and intervals, checks, and the record of what they rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from fedcert._arrays import Floats
from fedcert.errors import EstimationProblem, preview
from fedcert.estimation.accuracy import radius_among
from fedcert.estimation.clients import AggregatedClients, Clients, ReportedClients, examples, pooled_mix
from fedcert.estimation.clients.readings import Reading
from fedcert.estimation.diagnostics import checks, client_checks
from fedcert.estimation.diagnostics.checks import Check
from fedcert.estimation.diagnostics.screening import ASYMMETRIC
from fedcert.estimation.influence import depends_on_odd_clients
from fedcert.estimation.intervals.cluster_robust import SummedEffects
from fedcert.estimation.intervals.statement import IntervalStatement
from fedcert.estimation.methods.paper.estimators import worst_spread
from fedcert.estimation.methods.point_estimate import PointEstimate
from fedcert.estimation.methods.registry import Method
from fedcert.estimation.mix_evaluator import MixEstimate, MixEvaluator
from fedcert.estimation.prepared import PreparedClients
from fedcert.estimation.result import Estimate, WhatIf
from fedcert.estimation.result_parts import ALL_CLASSES, BiasBound, ClassCurves, Interval, Mismatch, TargetCurve
from fedcert.estimation.settings import OF_INTERVALS
from fedcert.estimation.target import distribution_of
from fedcert.estimation.weights import Weights
from fedcert.report import Target
from fedcert.report.classifier import classifier_sentence
from fedcert.report.provenance import provenance

_ROUNDING = 1e-9
"""Weights that add up to 1 within this do so up to rounding, for millions of clients."""
_MOST_NAMED = 1000
"""Clients reduced by screening that an estimate names: its file must stay readable."""
_MOST_DOUBTED = 10
"""Targets of a what-if for which the clients are compared with a screened federation."""
_MOST_CLASSES = 200
"""Of more classes, the curves are left out of the estimate: `what_if` gives them."""


def assemble(prepared: PreparedClients, method: Method, target: Target) -> Estimate:
    """The estimate of a method for a target.

    Raises:
        CallError: the method cannot be loaded.
        EstimationProblem: the method needs more than is known, or its weights do not add up to 1.
    """
    clients, settings = prepared.clients, prepared.settings
    evaluator = MixEvaluator(prepared, method)
    evaluation = evaluator.at(distribution_of(target, clients.classes))
    point, interval = evaluation.point, evaluation.interval
    reached = _Reached.of(method.name, evaluation, clients)
    screened = None if prepared.screened is None else dict(islice(prepared.screened.reduced.items(), _MOST_NAMED))
    recorded: dict[str, Any] = {"screened": screened, "privacy": _privacy(clients)}
    by_class = None if interval is None else _class_curves(evaluator, point)
    stated = "A point estimate. Its method states no guarantee." if interval is None else interval.statement.guarantee
    return Estimate(
        method=method.name,
        target=target,
        radii=clients.radii,
        certified_accuracy=_row(evaluation.curve),
        lower=None if interval is None else _row(interval.lower),
        upper=None if interval is None else _row(interval.upper),
        confidence=None if interval is None else settings.confidence,
        interval=None if interval is None else _interval(interval.statement),
        guarantee=point.guarantee or stated,
        by_class=by_class,
        mismatch=None if reached is None else reached.mismatch,
        bias_bound=None if reached is None else reached.bias_bound,
        weights=_weights(point, clients),
        weights_note=point.weights_note,
        effective_examples=None if reached is None else reached.effective,
        largest_radius=None if prepared.vote is not None else clients.max_radius_range[1],
        votes=_votes(prepared),
        classifier=classifier_sentence(clients.smoothing, _votes(prepared)),
        headline_radius=radius_among(clients.radii, settings.radius),
        clients=clients.count,
        examples=examples(prepared.whole),
        excluded=dict(clients.excluded),
        checks=tuple(_checks(prepared, method, evaluation, reached, by_class)),
        details={**point.details, **{name: value for name, value in recorded.items() if value is not None}},
        settings={**point.settings, **settings.recorded()},
        model=clients.model,
        smoothing=clients.smoothing,
        classes=clients.classes,
        chosen=point.chosen,
        **recorded,
        **provenance(),
    )


def assemble_what_if(prepared: PreparedClients, method: Method, targets: Sequence[Target]) -> WhatIf:
    """The estimates of a method for many targets.

    Raises:
        EstimationProblem: the method needs more than is known.
    """
    clients, settings = prepared.clients, prepared.settings
    evaluator = MixEvaluator(prepared, method)
    evaluations = [evaluator.at(distribution_of(target, clients.classes)) for target in targets]
    statement = _common_statement(evaluator, evaluations)
    return WhatIf(
        method=method.name,
        radii=clients.radii,
        classes=clients.classes,
        targets=tuple(
            TargetCurve(target=target, certified_accuracy=curve, lower=lower, upper=upper)
            for target, curve, lower, upper in zip(targets, *_rows(evaluations), strict=True)
        ),
        confidence=settings.confidence,
        interval=_interval(statement),
        guarantee=statement.guarantee,
        checks=(
            client_checks.same_settings(clients),
            client_checks.label_shift(prepared.shift_test, True, prepared.suspects),
            _radii_check(prepared, method, evaluations),
            *_doubts(prepared, [evaluation.mix for evaluation in evaluations]),
        ),
        votes=_votes(prepared),
        classifier=classifier_sentence(clients.smoothing, _votes(prepared)),
        clients=clients.count,
        examples=examples(clients),
        settings=settings.recorded(*OF_INTERVALS),
        model=clients.model,
        smoothing=clients.smoothing,
        **provenance(),
    )


def _doubts(prepared: PreparedClients, mixes: Sequence[Floats]) -> list[Check]:
    """Why the estimates for some of many targets are in doubt: for the first of them, each kind once."""
    doubts: dict[str, Check] = {}
    for mix in mixes[:_MOST_DOUBTED]:
        for check in (depends_on_odd_clients(prepared, mix), client_checks.class_conflict(prepared.whole, mix)):
            if check is not None:
                doubts.setdefault(check.name, check)
    return list(doubts.values())


def _votes(prepared: PreparedClients) -> int | None:
    """Noisy copies that vote on an answer; None for CERTIFY."""
    return None if prepared.vote is None else prepared.vote.readings.votes


def _common_statement(evaluator: MixEvaluator, evaluations: Sequence[MixEstimate]) -> IntervalStatement:
    """What the intervals say of themselves; of several that differ, those without a second sum say less."""
    statements = {evaluation.interval.statement for evaluation in evaluations if evaluation.interval is not None}
    return statements.pop() if len(statements) == 1 else evaluator.statement


def _interval(statement: IntervalStatement) -> Interval:
    return Interval(kind=statement.kind, scope=statement.scope, estimand=statement.estimand)


def _row(curve: Floats) -> tuple[float, ...]:
    return tuple(curve.tolist())


def _rows(evaluations: Sequence[MixEstimate]) -> tuple[tuple[tuple[float, ...], ...], ...]:
    """Curves, lower and upper ends, one row per evaluation."""
    bounded = [(each.curve, each.interval.lower, each.interval.upper) for each in evaluations if each.interval]
    if len(bounded) < len(evaluations):
        raise EstimationProblem("a what-if needs a method with intervals, and this one gives none")
    return tuple(tuple(map(_row, column)) for column in zip(*bounded, strict=True))


def _class_curves(evaluator: MixEvaluator, point: PointEstimate) -> ClassCurves | None:
    known = evaluator.method.class_curves or point.chosen is not None
    if not known or len(evaluator.prepared.clients.classes) > _MOST_CLASSES:
        return None
    curves, lower, upper = _rows(evaluator.by_class())
    scope = ALL_CLASSES if evaluator.prepared.settings.all_classes else None
    return ClassCurves(certified_accuracy=curves, lower=lower, upper=upper, scope=scope)


def _weights(point: PointEstimate, clients: Clients) -> Weights | None:
    if point.weights is None or not isinstance(clients, ReportedClients):
        return None
    return Weights(clients.clients, point.weights)


def _checks(
    prepared: PreparedClients,
    method: Method,
    evaluation: MixEstimate,
    reached: _Reached | None,
    by_class: ClassCurves | None,
) -> list[Check]:
    """All checks, in the order in which people read them."""
    clients, whole, point, interval = prepared.clients, prepared.whole, evaluation.point, evaluation.interval
    passed = [
        checks.class_coverage(whole, evaluation.mix),
        checks.examples_per_class(whole, evaluation.mix),
        client_checks.same_settings(whole),
        client_checks.shift_allowed_for()
        if isinstance(evaluation.effects, SummedEffects)
        else client_checks.label_shift(prepared.shift_test, interval is not None, prepared.suspects),
    ]
    if prepared.screened is not None:
        dropped, reduced = prepared.screened.dropped, prepared.screened.reduced
        asymmetric = prepared.screened.asymmetry_left > ASYMMETRIC and prepared.clients_differ
        passed.append(client_checks.screening(len(dropped), len(reduced), whole.count, asymmetric))
    elif (odd := depends_on_odd_clients(prepared, evaluation.mix)) is not None:
        passed.append(odd)
    if (conflict := client_checks.class_conflict(whole, evaluation.mix)) is not None:
        passed.append(conflict)
    if reached is not None:
        passed.append(checks.class_mix_match(reached.missed, reached.whose))
        passed.append(checks.effective_sample_size(reached.effective, examples(whole)))
    if point.weights is not None and isinstance(clients, ReportedClients):
        passed.append(client_checks.dominance(clients, point.weights))
    if interval is not None and interval.contradicted:
        passed.append(checks.consistency())
    passed.append(_radii_check(prepared, method, [evaluation]))
    if interval is not None:
        margin = checks.margin_of_error(interval.lower, interval.upper, prepared.clients_differ)
        passed += [margin] if margin is not None else []
    if (flat := checks.flat_curve(clients.smoothing, clients.radii, evaluation.curve)) is not None:
        passed.append(flat)
    if by_class is not None and clients.radii[0] == 0:
        first = np.array([curve[0] for curve in by_class.upper])
        below = checks.classes_below_chance(clients.classes, evaluation.mix, first)
        passed += [below] if below is not None else []
    if (seeds := client_checks.secret_seeds(whole)) is not None:
        passed.append(seeds)
    if (ranges := client_checks.input_ranges(whole)) is not None:
        passed.append(ranges)
    if (same := client_checks.same_data(whole)) is not None:
        passed.append(same)
    if (sizes := client_checks.site_sizes(clients, evaluation.mix)) is not None:
        passed.append(sizes)
    if isinstance(clients, AggregatedClients) and clients.sums.private is not None:
        passed.append(checks.privacy_noise(clients.sums.noise or ""))
    return passed


def _radii_check(prepared: PreparedClients, method: Method, evaluations: Sequence[MixEstimate]) -> Check:
    """Whether the samples are enough for the radii, for these targets."""
    if prepared.vote is None:
        return checks.certifiable_radii(prepared.clients)
    readings, clients = prepared.vote.readings, prepared.clients
    above = clients.read(Reading(readings.radii, np.array([design.upper for design in readings.designs])))
    estimator = method.estimator()
    gaps = [
        estimator(above, each.mix, prepared.settings).certified_accuracy - each.point.certified_accuracy
        for each in evaluations
    ]
    radii, quoted = readings.radii, prepared.settings.radius
    headline = radii[0] + (radii[-1] - radii[0]) / 4 if quoted is None else quoted
    return checks.enough_passes(clients.smoothing, readings.votes, radii, np.max(gaps, axis=0), headline)


@dataclass(frozen=True)
class _Reached:
    """What the weights of a method reach.

    Attributes:
        mismatch: between the target's class mix and theirs.
        bias_bound: what it can cost.
        effective: 1 / Σ a²/n.
        missed: the total variation that the interval's weights miss, or the method's own where it has no interval.
        whose: in words, whose weights these are.
    """

    mismatch: Mismatch
    bias_bound: BiasBound
    effective: float
    missed: float
    whose: str

    @classmethod
    def of(cls, method: str, evaluation: MixEstimate, clients: Clients) -> _Reached | None:
        """Of a method's estimate; None for methods without weights."""
        point = evaluation.point
        reached = _mix_and_squares(method, point, clients)
        if reached is None:
            return None
        difference, spread = evaluation.mix - reached[0], worst_spread(len(evaluation.mix))
        mismatch = Mismatch(l2=float(np.linalg.norm(difference)), tv=float(np.abs(difference).sum() / 2))
        bound = BiasBound(theorem_1=mismatch.l2 * spread, spread=spread, sharp=mismatch.tv)
        # BLUP's own weights miss on purpose what they would have to pay for in chance; its interval's do not.
        missed = mismatch.tv if point.uncertainty is None else point.uncertainty.bias
        used = method if point.chosen is None else point.chosen.method
        whose = "the interval's weights" if used == "blup" else "the weighted clients"
        return cls(mismatch, bound, 1 / reached[1], missed, whose)


def _mix_and_squares(method: str, point: PointEstimate, clients: Clients) -> tuple[Floats, float] | None:
    """The class mix that the weights make of the clients', and Σ a²/n; None for methods without weights."""
    if point.weights is not None and isinstance(clients, ReportedClients):
        total = float(point.weights.sum())
        if not abs(total - 1) <= _ROUNDING:
            raise EstimationProblem(f"the weights of {preview(method)} must add up to 1, but add up to {total}")
        return point.weights @ clients.mixes, float(np.sum(point.weights**2 / clients.sizes))
    if point.rule is None:
        return None
    statistics = clients.overall_statistics
    if statistics is None:  # totals alone: only weights by volume are known
        return pooled_mix(clients), 1 / examples(clients)
    return point.rule.mix(statistics), point.rule.sum_squared_weights(statistics)


def _privacy(clients: Clients) -> Mapping[str, Any] | None:
    """What was done to the counts before they left the clients; None where they are exact."""
    noise = clients.sums.private if isinstance(clients, AggregatedClients) else None
    return None if noise is None else noise.budget.to_json() | {"rho": noise.rho}
