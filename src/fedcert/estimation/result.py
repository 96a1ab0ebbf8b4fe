"""The estimate: what a server writes, plots and shows."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fedcert._files.saved import SavedRecord, path_of
from fedcert._schema.declare import defaulting, implied, optional, required
from fedcert._schema.field_types import ListOf, MappingOf, ModelName, Number, Text, Timestamp, Whole
from fedcert._schema.record import Nested
from fedcert._schema.summary import Summary
from fedcert.errors import CallError, InvalidValue
from fedcert.estimation.accuracy import AccuracyAtRadius, index_at
from fedcert.estimation.compare import Comparison
from fedcert.estimation.diagnostics.checks import Check, verdict_of
from fedcert.estimation.frames import distinct_names, frame_of
from fedcert.estimation.methods.point_estimate import Chosen
from fedcert.estimation.result_parts import (
    CURVE,
    CURVES,
    Anything,
    BiasBound,
    ClassCurves,
    Interval,
    Mismatch,
    TargetCurve,
    WorstCase,
    check_class_curves,
    check_curves,
)
from fedcert.estimation.summary import summary_of_estimate, summary_of_what_if
from fedcert.estimation.weights import WEIGHTS
from fedcert.report import Smoothing, Target
from fedcert.report.fields import CLASSES, RADII
from fedcert.report.smoothing import MOST_VOTES, Odd

if TYPE_CHECKING:
    import pandas

MOST_WEIGHTS = 10_000
"""More of them go to a file of their own: a document stays below a megabyte."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Estimate(SavedRecord):
    """The certified accuracy of a target population, at each radius.

    `print(estimate)`, and a notebook's cell that ends with one, show the answer at one radius, the verdict, the curve
    at some radii, and the checks that did not pass.

    Attributes:
        method: the estimator's name.
        target: the population's class mix.
        radii: increasing radii.
        certified_accuracy: the estimate at each.
        lower, upper: ends of the interval; null where the method has none.
        confidence: of the interval.
        interval: its kind, scope and estimand.
        guarantee: in words, what holds and under which assumptions.
        by_class: the curve of each class, as a by-product; null for methods that know none, and for very many classes.
        mismatch: between the target's mix and the one that the weights reach.
        bias_bound: what that mismatch can cost.
        weights: client -> weight; null for methods without.
        weights_file: the Parquet file beside the estimate's that holds them, where they are many.
        weights_note: why there are none.
        effective_examples: 1 / Σ a²/n: how many examples of one sample would be as informative.
        largest_radius: CERTIFY: the largest radius that any client's settings can certify; beyond it accuracy is 0.
        clients, examples: how many took part.
        excluded: client -> why it did not.
        checks: to be read before relying on it.
        details: the method's own (subset, groups, ties), and what has fields of its own below.
        settings: what to give the method to get the same again.
        model, smoothing, classes: what the reports share.
        software, created: what wrote it, and when.
        chosen: the method behind it and why, where it was chosen automatically.
        screened: client -> why screening reduced it; null without screening.
        worst_case: the interval with missing clients at their worst; null where that was not asked for.
        comparison: errors against the truth, where that is known.
        privacy: the noise or rounding that protects the clients' counts; null for exact counts.
        votes: population certificates: noisy copies that vote on an answer, which the accuracy is about.
        classifier: which smoothed classifier the accuracy is about and how to run it, in one sentence.
        headline_radius: the radius that summaries begin with; a quarter of the way to the last where null.

    Examples:
        >>> import fedcert
        >>> site = fedcert.Report(client="a", model="demo", smoothing={"sigma": 0.25}, radii=[0, 0.5], classes=["cat"],
        ...                       label_counts=[100], certified_counts=[90, 40])
        >>> result = fedcert.estimate(site)
        >>> result.at(0.5).certified_accuracy, result.largest_radius > 0.5, result.checks[0].verdict
        (0.4, True, 'ok')
        >>> print(result.at(0.5))
        radius 0.5: 0.400 (95% CI 0.302 to 0.503)
    """

    SCHEMA: ClassVar[str] = "fedcert/estimate/1"
    NOUN: ClassVar[str] = "estimate"
    REMEDY: ClassVar[str | None] = "run 'fedcert estimate' again"

    method: str = required(Text())
    target: Target = required(Nested(Target))
    radii: tuple[float, ...] = required(RADII)
    certified_accuracy: tuple[float, ...] = required(CURVE)
    lower: tuple[float, ...] | None = optional(CURVE)
    upper: tuple[float, ...] | None = optional(CURVE)
    confidence: float | None = optional(Number(above=0, below=1))
    interval: Interval | None = optional(Nested(Interval))
    guarantee: str = required(Text(longest=2000))
    by_class: ClassCurves | None = optional(Nested(ClassCurves))
    mismatch: Mismatch | None = optional(Nested(Mismatch))
    bias_bound: BiasBound | None = optional(Nested(BiasBound))
    weights: Mapping[str, float] | None = optional(WEIGHTS)
    weights_file: str | None = optional(Text())
    weights_note: str | None = optional(Text(longest=2000))
    effective_examples: float | None = optional(Number(least=0))
    largest_radius: float | None = implied(Number(least=0))
    clients: int = required(Whole(least=1))
    examples: int = required(Whole(least=1))
    excluded: Mapping[str, str] = defaulting(MappingOf(Text(longest=2000), "client names to reasons"), factory=dict)
    checks: tuple[Check, ...] = defaulting(ListOf(Nested(Check), "checks", least=0, most=1000), ())
    details: Mapping[str, Any] = defaulting(Anything(), factory=dict)
    settings: Mapping[str, Any] = defaulting(Anything(), factory=dict)
    model: str = required(ModelName())
    smoothing: Smoothing = required(Nested(Smoothing))
    classes: tuple[str, ...] = required(CLASSES)
    software: str | None = optional(Text())
    created: str | None = optional(Timestamp())
    chosen: Chosen | None = optional(Nested(Chosen), later=True)
    screened: Mapping[str, str] | None = optional(MappingOf(Text(longest=2000), "client names to reasons"), later=True)
    worst_case: WorstCase | None = optional(Nested(WorstCase), later=True)
    comparison: Comparison | None = optional(Nested(Comparison), later=True)
    privacy: Mapping[str, Any] | None = optional(Anything(), later=True)
    votes: int | None = optional(Odd(least=1, most=MOST_VOTES), later=True)
    classifier: str | None = optional(Text(longest=2000), later=True)
    headline_radius: float | None = optional(Number(least=0), later=True)

    def _check_consistency(self) -> None:
        """Check that the curves have one point per radius, and that CERTIFY's largest radius is there."""
        if self.largest_radius is None and not self.smoothing.is_population:
            expected = type(self).field_types()["largest_radius"].expected
            raise InvalidValue("largest_radius", expected, InvalidValue.MISSING)
        check_curves("", self, self.radii)
        if self.by_class is not None:
            check_class_curves(self.by_class, self.classes, self.radii)
        if self.worst_case is not None:
            check_curves("worst_case.", self.worst_case, self.radii)

    @property
    def used_method(self) -> str:
        """The method behind the estimate: the chosen one where it was chosen automatically."""
        chosen = upgraded(self).chosen
        return self.method if chosen is None else chosen.method

    @property
    def verdict(self) -> str:
        """Whether to rely on it, by the gravest of its checks: "ok", "warning" or "unreliable"."""
        return verdict_of(self.checks)

    def to_json(self) -> dict[str, Any]:
        """The estimate as plain JSON types; many weights are left to a file of their own."""
        if self.weights is None or len(self.weights) <= MOST_WEIGHTS:
            return super().to_json()
        note = f"{len(self.weights)} weights are too many for this document"
        return {**replace(self, weights=None).to_json(), "weights_note": note}

    def at(self, radius: float) -> AccuracyAtRadius:
        """The certified accuracy at a radius, with its interval.

        Between two radii of the curve, that of the larger one, which is never too high: certified accuracy falls with
        the radius. The `radius` of the answer says which it is about.

        Args:
            radius: a number from 0 up to the last radius of the curve.

        Raises:
            CallError: it is no such number.
        """
        index = index_at(self.radii, radius)
        lower, upper = (None if curve is None else curve[index] for curve in (self.lower, self.upper))
        return AccuracyAtRadius(self.radii[index], self.certified_accuracy[index], lower, upper, self.confidence)

    def to_frame(self, *, by_class: bool = False) -> pandas.DataFrame:
        """The curve as a pandas data frame: radius, certified_accuracy, lower and upper, one row per radius.

        Args:
            by_class: the curves of single classes instead, with the column class.

        Raises:
            MissingExtra: pandas is not installed (the extra "pandas").
            CallError: the estimate has no curves of single classes.
        """
        if not by_class:
            return frame_of(self.radii, {name: [getattr(self, name)] for name in CURVES})
        if self.by_class is None:
            raise CallError(f"the method {self.used_method!r} gives no curves of single classes; leave by_class out")
        curves = {name: getattr(self.by_class, name) for name in CURVES}
        return frame_of(self.radii, curves, {"class": self.classes})

    def save(self, path: str | Path) -> Path:
        """Write it as JSON, and very many weights to a Parquet file beside it.

        The file is written whole or not at all, and replaces an earlier one.

        Args:
            path: the file; its name must end in .json.

        Returns:
            The path.

        Raises:
            CallError: the name ends in something else, or the file cannot be written there.
            FileProblem: the disk is full, or the system refuses otherwise.
        """
        from fedcert.estimation.files import write_estimate  # it is about estimates itself

        return write_estimate(self, path_of(path))[0]

    def _summary(self) -> Summary:
        return summary_of_estimate(self)


def upgraded(estimate: Estimate) -> Estimate:
    """The same, with the fields filled that an earlier fedcert wrote to `details` alone."""
    details = estimate.details
    earlier: dict[str, Any] = {
        "chosen": {"method": details.get("chosen"), "because": details.get("because")},
        "worst_case": details.get("missing"),
        **{name: details.get(name) for name in ("screened", "comparison", "privacy")},
    }
    filled = estimate
    for name, value in earlier.items():
        if getattr(estimate, name) is None and value is not None:
            with contextlib.suppress(InvalidValue):  # the details of another package's method may be of any form
                change: dict[str, Any] = {name: value}
                filled = replace(filled, **change)
    return filled


@dataclass(frozen=True, kw_only=True, repr=False)
class WhatIf(SavedRecord):
    """The certified accuracy of many target populations, each with its own interval.

    Attributes:
        method: "poststratified" or "blup".
        radii: increasing radii.
        classes: class names in index order.
        targets: one curve per target mix.
        confidence: of each interval.
        interval: its kind, scope and estimand.
        guarantee: in words, what holds of each of them and under which assumptions.
        checks: to be read before relying on any of them.
        clients, examples: how many took part.
        settings: what to give to get the same again.
        model, smoothing: what the reports share.
        software, created: what wrote it, and when.
        votes, classifier: as of an `Estimate`.

    Examples:
        >>> import fedcert
        >>> site = fedcert.Report(client="a", model="demo", smoothing={"sigma": 0.25}, radii=[0],
        ...                       classes=["cat", "dog"], label_counts=[80, 20], certified_counts=[70],
        ...                       class_certified_counts=[[60], [10]])
        >>> result = fedcert.what_if(site, ["uniform"])
        >>> result.method, result.at(0)["uniform"].certified_accuracy
        ('poststratified', 0.625)
    """

    SCHEMA: ClassVar[str] = "fedcert/what-if/1"
    NOUN: ClassVar[str] = "what-if"
    REMEDY: ClassVar[str | None] = "run 'fedcert what-if' again"

    method: str = required(Text())
    radii: tuple[float, ...] = required(RADII)
    classes: tuple[str, ...] = required(CLASSES)
    targets: tuple[TargetCurve, ...] = required(ListOf(Nested(TargetCurve), "curves, one per target"))
    confidence: float = required(Number(above=0, below=1))
    interval: Interval = required(Nested(Interval))
    guarantee: str = required(Text(longest=2000))
    checks: tuple[Check, ...] = defaulting(ListOf(Nested(Check), "checks", least=0, most=1000), ())
    clients: int = required(Whole(least=1))
    examples: int = required(Whole(least=1))
    settings: Mapping[str, Any] = defaulting(Anything(), factory=dict)
    model: str = required(ModelName())
    smoothing: Smoothing = required(Nested(Smoothing))
    software: str | None = optional(Text())
    created: str | None = optional(Timestamp())
    votes: int | None = optional(Odd(least=1, most=MOST_VOTES), later=True)
    classifier: str | None = optional(Text(longest=2000), later=True)

    def _check_consistency(self) -> None:
        """Check that the curves have one point per radius."""
        for index, curve in enumerate(self.targets):
            check_curves(f"targets[{index}].", curve, self.radii)

    @property
    def verdict(self) -> str:
        """Whether to rely on them, by the gravest of the checks: "ok", "warning" or "unreliable"."""
        return verdict_of(self.checks)

    def at(self, radius: float) -> dict[str, AccuracyAtRadius]:
        """The certified accuracy of each target at a radius, with its interval, by the target's name.

        Args:
            radius: as for `Estimate.at`. Further targets of one name get a number: "custom", "custom (2)".

        Raises:
            CallError: it is no such number.
        """
        index = index_at(self.radii, radius)
        points: dict[str, AccuracyAtRadius] = {}
        for name, curve in zip(distinct_names(curve.target.name for curve in self.targets), self.targets, strict=True):
            accuracy, lower, upper = curve.certified_accuracy[index], curve.lower[index], curve.upper[index]
            points[name] = AccuracyAtRadius(self.radii[index], accuracy, lower, upper, self.confidence)
        return points

    def to_frame(self) -> pandas.DataFrame:
        """All curves as a pandas data frame: target, radius, certified_accuracy, lower and upper.

        Raises:
            MissingExtra: pandas is not installed (the extra "pandas").
        """
        curves = {name: [getattr(curve, name) for curve in self.targets] for name in CURVES}
        return frame_of(self.radii, curves, {"target": distinct_names(curve.target.name for curve in self.targets)})

    def _summary(self) -> Summary:
        return summary_of_what_if(self)
