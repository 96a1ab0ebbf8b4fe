"""The statistics whose tests make an interval, from what is known of the clients."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats
from fedcert.estimation.clients import Clients, ReportedClients, SufficientStatistics, examples
from fedcert.estimation.intervals.least_favourable.cells import Cells, ClassRows, client_rows
from fedcert.estimation.intervals.least_favourable.design import (
    CHANCE,
    DESIGNS,
    ENDS,
    WORTHWHILE,
    criterion,
    design_coefficients,
)
from fedcert.estimation.intervals.least_favourable.ends import Segment, Statistic, rejected_by_tilting
from fedcert.estimation.intervals.least_favourable.ranges import RANGE_SHARE, worth_ranges
from fedcert.estimation.methods.linear_weights import LinearWeights

Kind = TypeVar("Kind", bound=np.generic)

_BASE_SHARE = 0.2
"""Share of the error for the shortest honest interval's weights where other weights are used beside them: with many
examples tilting at a fifth of the error is still as sharp as Hoeffding's inequality at all of it."""
_CHECKED = (0.005, 0.01, *(step / 50 for step in range(1, 50)), 0.99, 0.995)
"""Values of θ at which that is checked."""
_MOST_SIZES, _GROUP_RATIO = 16, 1.25
"""Where clients' largest groups have more sizes than this, they are rounded up to powers of the ratio."""


def of_client_weights(
    federation: ReportedClients, target: Floats, weights: Floats, values: Floats, squares: Floats
) -> tuple[Segment, ...]:
    """One statistic for all θ: a weighted mean of the clients' curves.

    Args:
        federation: the clients.
        target: the target's class mix.
        weights: adding up to 1.
        values: the weighted mean at each radius.
        squares: Σ a²/n at each radius, design effects included.
    """
    used = weights != 0
    rows = client_rows(
        (weights / federation.sizes)[used], federation.label_counts[used], _part(_groups(federation), used),
        _part(_whole(federation), used),
    )  # fmt: skip
    return _alone(Statistic(values, Cells(target, rows), squares))


def of_rules(
    clients: Clients, target: Floats, base: LinearWeights, statistics: SufficientStatistics, level: float
) -> tuple[Segment, ...]:
    """Statistics by formula: `base`, and weights for one θ beside it where they are worth it.

    Guarantee: the interval is never longer than Hoeffding's with `base`, up to the distance between values of θ at
    which that is checked: other weights have their share of the error only if what is left for `base` is enough.

    Args:
        clients: known one by one, or all of them by their classes' totals.
        target: the target's class mix.
        base: the weights of the shortest honest interval.
        statistics: what the weights weigh: the clients' overall statistics, or all that they disclose.
        level: of the tests; it decides how much chance weighs beside bias.
    """
    shortest = _of_rule(clients, target, base, statistics)
    if statistics.clients < 2 or not shortest.cells.sum_squares > 0:
        return _alone(shortest)
    own = _own_rules(target, base, statistics, CHANCE * float(np.sqrt(2 * level)))
    if not any(own) or not _still_shorter(shortest, level, _BASE_SHARE):
        return _alone(shortest)
    segments: list[Segment] = []
    for end, rule in zip(ENDS, own, strict=True):
        tests: tuple[tuple[Statistic, float], ...] = ((shortest, 1.0),)
        if rule is not None:
            tests = ((_of_rule(clients, target, rule, statistics), 1 - _BASE_SHARE), (shortest, _BASE_SHARE))
        if rule is None and segments and len(segments[-1].statistics) == 1:
            segments.pop()
        segments.append(Segment(end, tests))
    return tuple(segments)


def _alone(statistic: Statistic) -> tuple[Segment, ...]:
    return (Segment(1.0, ((statistic, 1.0),)),)


def _own_rules(
    target: Floats, base: LinearWeights, statistics: SufficientStatistics, deviations: float
) -> list[LinearWeights | None]:
    """Weights for each θ of `DESIGNS`; None where those of the base are about as good.

    Other weights are worth most for θ next to 0 and 1: from there inwards, until they are not worth it.
    """

    def value(rule: LinearWeights, theta: float) -> float:
        return criterion(rule.mix(statistics), target, rule.sum_squared_weights(statistics), theta, deviations)

    rules: list[LinearWeights | None] = [None] * len(DESIGNS)
    for inwards in (range(len(DESIGNS)), reversed(range(len(DESIGNS)))):
        for place in inwards:
            theta = DESIGNS[place]
            if rules[place] is not None:
                break
            rule = LinearWeights(design_coefficients(statistics.labels_labels, target, theta, deviations))
            if not value(rule, theta) < WORTHWHILE * value(base, theta):
                break
            rules[place] = rule
    return rules


def _still_shorter(statistic: Statistic, level: float, share: float) -> bool:
    """Whether this share of the error leaves the statistic's interval within Hoeffding's, for all θ."""
    cells = statistic.cells
    theta = np.array(_CHECKED)
    critical = theta + cells.excess + np.sqrt(level / 2 * min(float(statistic.squares.min()), cells.sum_squares))
    return bool(np.all(rejected_by_tilting(cells, critical, level - np.log(share)) >= theta))


def _of_rule(clients: Clients, target: Floats, rule: LinearWeights, statistics: SufficientStatistics) -> Statistic:
    rule = LinearWeights(rule.coefficients / float(rule.mix(statistics).sum()))  # adding up to 1 in spite of rounding
    curves_only = statistics is clients.overall_statistics
    rows = classes = None
    squares = np.zeros(len(clients.radii))
    if isinstance(clients, ReportedClients):
        withholds = np.full(clients.count, curves_only) | ~clients.has_class_counts
        if withholds.any():
            some = slice(None) if withholds.all() else withholds  # a million clients are not copied
            sizes, labels = clients.sizes[some], clients.label_counts[some]
            each = clients.mixes[some] @ rule.coefficients
            groups, whole = _part(_groups(clients), withholds), _part(_whole(clients), withholds)
            rows = client_rows(each, labels, groups, whole)
            effects = _part(clients.design_effects, withholds)
            squares = squares + (float((each**2) @ sizes) if effects is None else (each**2 * sizes) @ effects)
    if not curves_only:
        classes = class_rows(clients, rule.coefficients)
        squares = squares + float(np.sum(classes.weights**2 * classes.examples))
    return Statistic(rule.curve(statistics), Cells(target, rows, classes), squares)


def of_class_totals(
    clients: Clients, target: Floats, weights: Floats, values: Floats, level: float
) -> tuple[Segment, ...]:
    """One statistic for all θ: classes' totals, each example of class j weighing weights[j].

    Of independent examples the classes' accuracies have ranges, where the labels say that what is left of the error is
    enough for an interval within Hoeffding's.
    """
    rows = class_rows(clients, weights)
    squares = np.full(len(values), float(np.sum(rows.weights**2 * rows.examples)))
    statistic = Statistic(values, Cells(target, None, rows), squares)
    independent = len(rows.smooth) == 1 and bool(rows.smooth[0])
    if (
        independent
        and clients.class_totals is not None
        and worth_ranges(target, rows.examples[0], level)
        and _still_shorter(statistic, level, 1 - RANGE_SHARE)
    ):
        statistic = replace(statistic, certified=clients.class_totals[1])
    return _alone(statistic)


def of_pool(clients: Clients, target: Floats, values: Floats, squares: Floats) -> tuple[Segment, ...]:
    """One statistic for all θ: the certified share of all examples, from totals alone."""
    group = clients.largest_group
    each = np.full((1, len(target)), group / examples(clients))
    rows = ClassRows(each, clients.labels[None, :] / group, np.array([group == 1]))
    return _alone(Statistic(values, Cells(target, None, rows), squares))


def class_rows(clients: Clients, weights: Floats) -> ClassRows:
    """Cells of the classes' totals over the clients that disclose them, an example of class j weighing weights[j].

    Each client's largest group counts for its own examples. By Hölder's inequality a group's cumulant function is at
    most the sum of its examples' own with m times the weight, divided by m, whatever classes it spans.
    """
    if not isinstance(clients, ReportedClients):
        assert clients.class_totals is not None  # noqa: S101
        group = float(clients.largest_group)
        return ClassRows(weights[None, :] * group, clients.class_totals[0][None, :] / group, np.array([group == 1]))
    discloses = clients.has_class_counts
    labels = clients.label_counts[discloses]
    groups = np.ones(len(labels)) if clients.largest_groups is None else clients.largest_groups[discloses].astype(float)
    rounded = groups
    if len(set(groups.tolist())) > _MOST_SIZES:
        rounded = np.where(groups > 1, np.ceil(_GROUP_RATIO ** np.ceil(np.log(groups) / np.log(_GROUP_RATIO))), 1.0)
    whole = _whole(clients)
    smooth = np.ones(len(labels), dtype=np.bool_) if whole is None else whole[discloses]
    kinds = sorted(set(zip(rounded.tolist(), smooth.tolist(), strict=True)))
    parts = [labels[(rounded == group) & (smooth == alone)].sum(axis=0) / group for group, alone in kinds]
    return ClassRows(
        np.outer([group for group, _ in kinds], weights), np.array(parts),
        np.array([group == 1 and alone for group, alone in kinds]),
    )  # fmt: skip


def _groups(federation: ReportedClients) -> Floats | None:
    return None if federation.largest_groups is None else federation.largest_groups.astype(np.float64)


def _whole(federation: ReportedClients) -> npt.NDArray[np.bool_] | None:
    return None if federation.factors is None else np.asarray(federation.factors >= 1)


def _part(rows: npt.NDArray[Kind] | None, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[Kind] | None:
    return None if rows is None else rows[chosen]
