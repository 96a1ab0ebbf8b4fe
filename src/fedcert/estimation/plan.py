"""What an estimate could reach, from label histograms alone, before anyone certifies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fedcert._arrays import Floats
from fedcert._threads import single_blas_thread
from fedcert.errors import EstimationProblem
from fedcert.estimation.clients import ReportedClients
from fedcert.estimation.intervals.finite_sample import finite_sample
from fedcert.estimation.intervals.information_bound import shortest_expected_length
from fedcert.estimation.intervals.ingredients import Uncertainty
from fedcert.estimation.methods.minimax import shortest_of_curves
from fedcert.estimation.methods.poststratified import poststratified
from fedcert.estimation.settings import Settings
from fedcert.report import Smoothing

ACCURACIES = (0.5, 0.1, 0.01)
"""Accuracies that are planned for: the one of the largest variance, and two that large radii have."""
_LARGEST_GROWTH = 1e6
"""More than any client will grow."""
_BISECTIONS, _CLOSE_ENOUGH = 40, 1.005
"""Halvings at most, and the ratio of the ends at which they stop: two digits of a plan are plenty."""
_GROWTH = 0.01
"""The growth whose effect is reported."""


@dataclass(frozen=True)
class AccuracyPlan:
    """What to expect at one accuracy, all classes alike.

    Attributes:
        accuracy: the certified accuracy.
        half_length: without counts per class.
        class_half_length: with counts per class from all clients (post-stratified).
        least_half_length: the information bound without counts per class: with many examples, no valid interval is
            shorter on average.
        class_least_half_length: the same with counts per class.
    """

    accuracy: float
    half_length: float
    class_half_length: float
    least_half_length: float
    class_least_half_length: float


@dataclass(frozen=True)
class PrecisionPlan:
    """What to expect of the finite-sample interval.

    Attributes:
        half_length: without counts per class, where half of every class is certified.
        class_half_length: with counts per class from all clients (post-stratified), missing classes included.
        accuracies: the same at several accuracies, beside the information bound.
        clients: client -> about how much of the half-length 1% more examples of its mix would take off.
        classes: class -> the same for 1% more examples of that class, with counts per class.
        missing: classes of the target that no client holds, and their share.
        examples: how many there are.
        needed: how many examples of the same mixes would reach the wanted half-length without counts per class; None
            where none was wanted, infinity where no number would.
        class_needed: the same with counts per class.
    """

    half_length: float
    class_half_length: float
    accuracies: tuple[AccuracyPlan, ...]
    clients: Mapping[str, float]
    classes: Mapping[str, float]
    missing: Mapping[str, float]
    examples: int
    needed: float | None
    class_needed: float | None


@single_blas_thread()
def plan_precision(
    histograms: Mapping[str, Mapping[str, int]],
    target: Floats,
    classes: tuple[str, ...],
    confidence: float,
    wanted: float | None,
) -> PrecisionPlan:
    """Plan from each client's number of test examples per class.

    Args:
        histograms: client -> class -> test examples.
        target: the target's class distribution, in the order of `classes`.
        classes: class names.
        confidence: of the interval, at each radius.
        wanted: a half-length to reach.

    Raises:
        EstimationProblem: no client has any example.
    """
    counts = np.array([[row.get(name, 0) for name in classes] for row in histograms.values()], dtype=np.float64)
    held = counts.sum(axis=1) > 0
    if not held.any():
        raise EstimationProblem("no client has any test example, so there is nothing to plan with")
    names = [name for name, has in zip(histograms, held, strict=True) if has]
    settings = Settings(confidence=confidence)
    clients = _expected(counts[held], tuple(names), classes, ACCURACIES)
    curves, totals = _of_curves(clients, target, settings), _of_totals(clients, target, settings)
    halves, class_halves = (_half_lengths(of, target, settings) for of in (curves, totals))
    labels = clients.labels
    assert curves.weights is not None  # noqa: S101
    missing = {name: float(share) for name, share, has in zip(classes, target, labels > 0, strict=True) if not has}

    def growth(function: Callable[[ReportedClients, Floats, Settings], Uncertainty]) -> float:
        longest = _expected(counts[held], tuple(names), classes, ACCURACIES[:1])
        return _growth(longest, target, settings, function, wanted or 0.0)

    squares = np.where(labels > 0, target**2 / np.where(labels > 0, labels, 1.0), 0.0)
    return PrecisionPlan(
        half_length=float(halves[0]),
        class_half_length=float(class_halves[0]),
        accuracies=tuple(
            AccuracyPlan(
                accuracy, float(half), float(class_half),
                shortest_expected_length(clients.overall_statistics.labels_labels, target, accuracy, confidence) / 2,
                shortest_expected_length(np.diag(labels), target, accuracy, confidence) / 2,
            )
            for accuracy, half, class_half in zip(ACCURACIES, halves, class_halves, strict=True)
        ),
        clients=dict(zip(names, _gains(curves, curves.weights**2 / clients.sizes, halves[0]), strict=True)),
        classes=dict(zip(classes, _gains(totals, squares, class_halves[0]), strict=True)),
        missing={name: share for name, share in missing.items() if share > 0},
        examples=int(clients.sizes.sum()),
        needed=None if wanted is None else clients.sizes.sum() * growth(_of_curves),
        class_needed=None if wanted is None else clients.sizes.sum() * growth(_of_totals),
    )  # fmt: skip


def _expected(
    labels: Floats, names: tuple[str, ...], classes: tuple[str, ...], accuracies: tuple[float, ...]
) -> ReportedClients:
    """Clients that have certified each of these accuracies of every class, in place of radii."""
    smoothing = Smoothing(sigma=1.0)
    cells = labels[:, :, None] * np.array(accuracies)
    return ReportedClients(
        clients=names, classes=classes, radii=tuple(map(float, range(len(accuracies)))), label_counts=labels,
        certified_counts=cells.sum(axis=1), model="", smoothing=smoothing,
        has_class_counts=np.ones(len(labels), dtype=np.bool_), class_rows=cells, same_settings=True,
        max_radius_range=(smoothing.largest_radius or 0.0,) * 2, excluded={},
    )  # fmt: skip


def _of_curves(clients: ReportedClients, target: Floats, settings: Settings) -> Uncertainty:
    return shortest_of_curves(clients.without_class_counts(), target, settings)


def _of_totals(clients: ReportedClients, target: Floats, settings: Settings) -> Uncertainty:
    uncertainty = poststratified(clients, target, settings).uncertainty
    assert uncertainty is not None  # noqa: S101
    return uncertainty


def _half_lengths(of: Uncertainty, target: Floats, settings: Settings) -> Floats:
    lower, upper = finite_sample(of, target, settings.confidence, simultaneous=False, target_examples=None)
    return np.asarray((np.clip(upper, 0.0, 1.0) - np.clip(lower, 0.0, 1.0)) / 2, dtype=np.float64)


def _gains(of: Uncertainty, squares: Floats, half: float) -> list[float]:
    """What 1% more examples take off the part of the half-length that is chance.

    By the envelope theorem the weights may stay as they are while a client grows a little.
    """
    total = float(squares.sum())
    chance = max(half - of.bias, 0.0)
    return (_GROWTH * chance * squares / (2 * total) if total > 0 else squares).tolist()  # type: ignore[no-any-return]


def _growth(
    clients: ReportedClients,
    target: Floats,
    settings: Settings,
    function: Callable[[ReportedClients, Floats, Settings], Uncertainty],
    wanted: float,
) -> float:
    """By which factor all clients must grow for a half-length; it falls with the factor, which bisection inverts."""

    def reached(factor: float) -> bool:
        grown = replace(
            clients,
            label_counts=clients.label_counts * factor,
            certified_counts=clients.certified_counts * factor,
            class_rows=clients.class_rows * factor,
        )
        return float(_half_lengths(function(grown, target, settings), target, settings)[0]) <= wanted

    low, high = 1 / _LARGEST_GROWTH, _LARGEST_GROWTH
    if not reached(high):
        return float("inf")
    for _ in range(_BISECTIONS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if reached(middle) else (middle, high)
        if high / low < _CLOSE_ENOUGH:
            break
    return high
