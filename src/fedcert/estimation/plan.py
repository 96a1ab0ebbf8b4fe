"""What an estimate could reach, from label histograms alone, before anyone certifies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcert._arrays import Floats
from fedcert._files.documents import read_documents
from fedcert._files.paths import check_readable, display_path, kind_of_path
from fedcert._files.saved import path_of
from fedcert._schema.field_types import MappingOf, Number, Whole
from fedcert._schema.summary import Summary
from fedcert._threads import single_blas_thread
from fedcert.errors import EstimationProblem, InvalidValue
from fedcert.estimation.clients import ReportedClients
from fedcert.estimation.intervals.finite_sample import finite_sample
from fedcert.estimation.intervals.information_bound import shortest_expected_length
from fedcert.estimation.intervals.ingredients import Uncertainty
from fedcert.estimation.methods.minimax import shortest_of_curves
from fedcert.estimation.methods.poststratified import poststratified
from fedcert.estimation.settings import Settings
from fedcert.estimation.target import distribution_of, target_of
from fedcert.population.passes import farthest_ratio
from fedcert.population.tables import SHIPPED_PASSES
from fedcert.report import Smoothing, load
from fedcert.report.load import Source
from fedcert.report.smoothing import DEFAULT_VOTES, MOST_VOTES, Odd

_HISTOGRAMS = MappingOf(
    MappingOf(Whole(), "class names to numbers of examples", least=1), "client names to histograms", least=1
)
_SHARE = Number(above=0, below=1)
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
        margin: without counts per class.
        class_margin: with counts per class from all clients (post-stratified).
        least_margin: the information bound without counts per class: with many examples, no valid interval is
            shorter on average.
        class_least_margin: the same with counts per class.
    """

    accuracy: float
    margin: float
    class_margin: float
    least_margin: float
    class_least_margin: float


@dataclass(frozen=True, repr=False)
class Plan:
    """What to expect of the finite-sample interval, by its margin of error: half of its length.

    Attributes:
        margin: without counts per class, where half of every class is right.
        class_margin: with counts per class from all clients (post-stratified), missing classes included.
        accuracies: the same at several accuracies, beside the information bound.
        clients: client -> about how much of the margin of error 1% more examples of its mix would take off.
        classes: class -> the same for 1% more examples of that class, with counts per class.
        missing: classes of the target that no client holds, and their share.
        examples: how many there are.
        needed: how many examples of the same mixes would reach the wanted margin without counts per class; None where
            none was wanted, infinity where no number would.
        class_needed: the same with counts per class.
        confidence: of the interval.
        wanted: the wanted margin of error; None where none was wanted.
        votes: noisy copies that vote, for `passes`.
        passes: noisy passes of each example -> up to which radius, in units of sigma, they are enough for population
            certificates.

    Examples:
        >>> import fedcert
        >>> print(fedcert.plan({"a": {"cat": 80, "dog": 20}, "b": {"cat": 10, "dog": 90}}, margin=0.05).examples)
        200
    """

    margin: float
    class_margin: float
    accuracies: tuple[AccuracyPlan, ...]
    clients: Mapping[str, float]
    classes: Mapping[str, float]
    missing: Mapping[str, float]
    examples: int
    needed: float | None
    class_needed: float | None
    confidence: float = 0.95
    wanted: float | None = None
    votes: int = DEFAULT_VOTES
    passes: Mapping[int, float] = field(default_factory=dict)

    def _summary(self) -> Summary:
        sentences = [
            f"With {self.examples:,} test examples, a {100 * self.confidence:.10g}% interval at one radius would have "
            f"a margin of error of about ±{self.margin:.3f} without counts per class, "
            f"±{self.class_margin:.3f} with them."
        ]
        if self.wanted is not None:
            words = (_needed(self.needed), _needed(self.class_needed))
            sentences.append(f"To reach ±{self.wanted:g}: {words[0]} without counts per class, {words[1]} with them.")
        problems = tuple(f"no client holds {name}, {share:.1%} of the target" for name, share in self.missing.items())
        rows = [("if this share is certified", "without counts per class", "with them")]
        rows += [(f"{row.accuracy:.0%}", f"±{row.margin:.3f}", f"±{row.class_margin:.3f}") for row in self.accuracies]
        return Summary(tuple(sentences), tuple(rows), problems)

    def __str__(self) -> str:
        return self._summary().text()

    def __repr__(self) -> str:
        return f"<Plan: ±{self.margin:.3f} without counts per class, ±{self.class_margin:.3f} with them>"

    def _repr_html_(self) -> str:
        return self._summary().html()


def _needed(examples: float | None) -> str:
    if examples is None or np.isinf(examples):
        return "no number of examples of these mixes"
    return f"about {examples:,.0f} examples of these mixes"


def plan(
    histograms: Mapping[str, Mapping[str, int]] | Source | Iterable[Source],
    target: object = "uniform",
    *,
    confidence: float = 0.95,
    margin: float | None = None,
    votes: int | None = None,
) -> Plan:
    """What an estimate could reach, from label histograms alone, before anyone certifies.

    Args:
        histograms: client -> class -> number of test examples; or a JSON file that holds that; or reports, as they are
            or in files or a folder, whose label counts are taken.
        target: the target's class mix, in a form that `estimate` takes.
        confidence: of the interval, at each radius.
        margin: a margin of error to reach; the plan then says how many examples that takes.
        votes: noisy copies that vote on an answer (11 where None), for which `passes` says how far passes reach.

    Raises:
        CallError: a target of the wrong form, or a file that is not there.
        InvalidValue: histograms or a number that break a rule.
        EstimationProblem: no client has any example.

    Examples:
        >>> made = plan({"a": {"cat": 80, "dog": 20}, "b": {"cat": 10, "dog": 90}}, "cat=0.5,dog=0.5")
        >>> made.examples, made.class_margin < made.margin < 0.2
        (200, True)
    """
    _SHARE.validate(confidence, "confidence")
    if margin is not None:
        _SHARE.validate(margin, "margin")
    voting: int = Odd(least=1, most=MOST_VOTES).validate(DEFAULT_VOTES if votes is None else votes, "votes")
    counts = _counts_of(histograms)
    classes = tuple(sorted({name for row in counts.values() for name in row}))
    shares = distribution_of(target_of(target, classes), classes)
    precision = plan_precision(counts, shares, classes, confidence, margin)
    reached = {n: farthest_ratio("gaussian", n, voting) for n in SHIPPED_PASSES}
    return replace(precision, votes=voting, passes=reached)


def _counts_of(given: object) -> Mapping[str, Mapping[str, int]]:
    if isinstance(given, (str, Path)):
        return _read(path_of(given))
    if isinstance(given, Mapping):
        return _checked(given)
    return _of_reports(given, "what was given")


def _read(path: Path) -> Mapping[str, Mapping[str, int]]:
    if kind_of_path(path) == "a folder" or path.suffix.lower() != ".json":
        return _of_reports(path, display_path(path))
    check_readable(path, (".json",))
    ((place, document),) = read_documents(path)
    if isinstance(document, Mapping) and str(document.get("schema", "")).startswith("fedcert/report/"):
        return _of_reports(path, display_path(path))
    try:
        return _checked(document)
    except InvalidValue as error:
        raise error.at(place, "give an object such as {'site-01': {'cat': 10, 'dog': 20}}") from None


def _of_reports(reports: Any, name: str) -> Mapping[str, Mapping[str, int]]:
    """The label counts of reports.

    Raises:
        EstimationProblem: there are sums, which have no clients.
    """
    table = load(reports).reports
    if table is None:
        raise EstimationProblem(f"{name} holds sums, which have no clients; give reports or histograms")
    return {
        client: dict(zip(table.classes, (int(count) for count in counts), strict=True))
        for client, counts in zip(table.clients, table.label_counts, strict=True)
    }


def _checked(document: object) -> Mapping[str, Mapping[str, int]]:
    counts: Mapping[str, Mapping[str, int]] = _HISTOGRAMS.validate(document, "the histograms")
    return counts


@single_blas_thread()
def plan_precision(
    histograms: Mapping[str, Mapping[str, int]],
    target: Floats,
    classes: tuple[str, ...],
    confidence: float,
    wanted: float | None,
) -> Plan:
    """Plan from each client's number of test examples per class.

    Args:
        histograms: client -> class -> test examples.
        target: the target's class distribution, in the order of `classes`.
        classes: class names.
        confidence: of the interval, at each radius.
        wanted: a margin of error to reach.

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
    halves, class_halves = (_half_widths(of, target, settings) for of in (curves, totals))
    labels = clients.labels
    assert curves.weights is not None  # noqa: S101
    missing = {name: float(share) for name, share, has in zip(classes, target, labels > 0, strict=True) if not has}

    def growth(function: Callable[[ReportedClients, Floats, Settings], Uncertainty]) -> float:
        longest = _expected(counts[held], tuple(names), classes, ACCURACIES[:1])
        return _growth(longest, target, settings, function, wanted or 0.0)

    squares = np.where(labels > 0, target**2 / np.where(labels > 0, labels, 1.0), 0.0)
    return Plan(
        margin=float(halves[0]),
        class_margin=float(class_halves[0]),
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
        confidence=confidence,
        wanted=wanted,
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


def _half_widths(of: Uncertainty, target: Floats, settings: Settings) -> Floats:
    lower, upper = finite_sample(of, target, settings.confidence, simultaneous=False, target_examples=None)
    return np.asarray((np.clip(upper, 0.0, 1.0) - np.clip(lower, 0.0, 1.0)) / 2, dtype=np.float64)


def _gains(of: Uncertainty, squares: Floats, half: float) -> list[float]:
    """What 1% more examples take off the part of the margin of error that is chance.

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
    """By which factor all clients must grow for a margin of error, which falls with the factor: bisection."""

    def reached(factor: float) -> bool:
        grown = replace(
            clients,
            label_counts=clients.label_counts * factor,
            certified_counts=clients.certified_counts * factor,
            class_rows=clients.class_rows * factor,
        )
        return float(_half_widths(function(grown, target, settings), target, settings)[0]) <= wanted

    low, high = 1 / _LARGEST_GROWTH, _LARGEST_GROWTH
    if not reached(high):
        return float("inf")
    for _ in range(_BISECTIONS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if reached(middle) else (middle, high)
        if high / low < _CLOSE_ENOUGH:
            break
    return high
