"""Conclusions in plain language."""

from __future__ import annotations

from fedcert.estimation.result import Estimate, WhatIf
from fedcert.estimation.summary import (
    at_radius,
    copies_of,
    headline,
    method_of,
    method_title,
    mix_of,
    relied_on,
    share,
    verdict,
)
from fedcert.population.passes import farthest_ratio
from fedcert.report import Request
from fedcert.report.farthest import radii_warning
from fedcert.report.input_range import units_warning

__all__ = [
    "accuracy_of",
    "at_radius",
    "class_intervals",
    "copies_of",
    "headline",
    "method_of",
    "method_title",
    "mix_of",
    "relied_on",
    "request_lines",
    "request_warnings",
    "share",
    "verdict",
]


def accuracy_of(result: Estimate | WhatIf) -> str:
    """What is estimated, in words."""
    if result.votes is None:
        return "certified accuracy"
    return f"proven accuracy ({copies_of(result.votes).removeprefix('the ')})"


def request_warnings(request: Request) -> list[str]:
    """What looks like a mistake in a request: units that do not go together, radii that cannot be certified."""
    units = None
    if request.input_range is not None:
        units = units_warning(request.input_range, request.smoothing.sigma)
    sentences = [] if units is None else [units]
    if (far := radii_warning(request.smoothing, request.radii)) is not None:
        sentences.append(far)
    return sentences


def request_lines(request: Request) -> list[str]:
    """What a request's settings can show."""
    smoothing = request.smoothing
    if smoothing.votes is None:
        return [f"These settings can certify radii up to {smoothing.largest_radius or 0.0:.3f}."]
    farthest = farthest_ratio(smoothing.noise, smoothing.n, smoothing.votes) * smoothing.sigma
    return [
        f"{smoothing.n} noisy passes per example, for {copies_of(smoothing.votes)}, on average over the population: "
        f"enough up to about radius {farthest:.3g} for most models, which an estimate checks.",
    ]


def class_intervals(estimate: Estimate) -> str:
    """What holds of the intervals of single classes, in one sentence; empty where there are none."""
    if estimate.by_class is None:
        return ""
    if estimate.by_class.scope is not None:
        return f"The per-class intervals hold for {estimate.by_class.scope}, the weakest included."
    return (
        "Each interval holds for a class chosen in advance, not for one picked by its estimate, such as the weakest; "
        "--all-classes gives intervals that do."
    )
