"""Conclusions in plain language."""

from __future__ import annotations

from fedcert.estimation.result import Estimate, WhatIf
from fedcert.estimation.summary import (
    at_radius,
    copies_of,
    headline,
    method_of,
    method_title,
    relied_on,
    share,
    verdict,
)
from fedcert.population.passes import farthest_ratio
from fedcert.report import Request, Target

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

_MOST_SHARES = 8
"""Classes of a mix that a line names."""
_EQUAL = 1e-9
"""Shares this close are equal up to rounding."""


def accuracy_of(result: Estimate | WhatIf) -> str:
    """What is estimated, in words."""
    if result.votes is None:
        return "certified accuracy"
    return f"proven accuracy ({copies_of(result.votes).removeprefix('the ')})"


def request_warnings(request: Request) -> list[str]:
    """What a request's settings cannot show, though it asks for it."""
    largest = request.smoothing.largest_radius
    beyond = [] if largest is None else [radius for radius in request.radii if radius > largest]
    if not beyond:
        return []
    return [
        f"{len(beyond)} of {len(request.radii)} radii are out of reach (from {beyond[0]:g} on): use a larger sigma or "
        "smaller radii"
    ]


def request_lines(request: Request) -> list[str]:
    """What a request's settings can show."""
    smoothing = request.smoothing
    if smoothing.votes is None:
        return [f"These settings can certify radii up to {smoothing.largest_radius or 0.0:.3f}."]
    farthest = farthest_ratio(smoothing.noise, smoothing.n, smoothing.votes) * smoothing.sigma
    return [
        f"{smoothing.n} noisy passes per example certify {copies_of(smoothing.votes)}, on average over the population, "
        f"with little loss up to about radius {farthest:.3g} for typical models.",
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


def mix_of(target: Target) -> str:
    """A class mix in words: the largest shares, and how many classes have the rest.

    Examples:
        >>> mix_of(Target(name="ward", distribution={"ill": 0.1, "healthy": 0.9, "other": 0}))
        'healthy 90%, ill 10%'
    """
    shares = sorted(((part, name) for name, part in target.distribution.items() if part > 0), key=lambda each: -each[0])
    if len(shares) > _MOST_SHARES and shares[0][0] - shares[-1][0] < _EQUAL:
        return f"{len(shares)} classes, {100 * shares[0][0]:.3g}% each"
    named = ", ".join(f"{name} {100 * part:.3g}%" for part, name in shares[:_MOST_SHARES])
    rest = shares[_MOST_SHARES:]
    return named + (f", {len(rest)} more {100 * sum(part for part, _ in rest):.3g}%" if rest else "")
