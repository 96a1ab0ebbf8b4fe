"""Conclusions in plain language."""

from __future__ import annotations

from collections.abc import Sequence

from fedcert.estimation.diagnostics.checks import DO_NOT_RELY, LOOK, OK, Check
from fedcert.estimation.result import Estimate, WhatIf
from fedcert.population.passes import farthest_ratio
from fedcert.report import Request


def at_radius(estimate: Estimate, index: int = 0) -> str:
    """The certified accuracy at a radius, in one sentence.

    Args:
        estimate: the estimate.
        index: of the radius.
    """
    accuracy, radius = estimate.certified_accuracy[index], estimate.radii[index]
    unchanged = "as they are" if radius == 0 else f"however they are changed within an L2 distance of {radius:g}"
    if estimate.smoothing.norm != "l2" and radius:
        unchanged = unchanged.replace("L2", estimate.smoothing.norm.upper())
    between = ""
    if estimate.lower is not None and estimate.upper is not None and estimate.confidence is not None:
        ends = f"{100 * estimate.lower[index]:.1f} and {100 * estimate.upper[index]:.1f}"
        between = f" (between {ends}, confidence {share(estimate.confidence)})"
    about = f"about {100 * accuracy:.1f}{between}"
    if estimate.votes is not None:
        who = f"{copies_of(estimate.votes)} is proven to classify {about} right on average"
        return f"Of 100 examples of the target, {who}, {unchanged}."
    return f"Of 100 examples of the target, {about} are certified to be classified right, {unchanged}."


def copies_of(votes: int) -> str:
    """What answers, in words."""
    return "one fresh noisy copy" if votes == 1 else f"the vote of {votes} fresh noisy copies"


def accuracy_of(result: Estimate | WhatIf) -> str:
    """What is estimated, in words."""
    if result.votes is None:
        return "certified accuracy"
    return f"proven accuracy ({copies_of(result.votes).removeprefix('the ')})"


def about_the_vote(votes: int) -> str:
    """What a population certificate is about, and what not, in one sentence."""
    return (
        f"This is about the population and about answers by {copies_of(votes)} with secret noise (fedcert predict "
        f"--votes {votes}), not about single images."
    )


def request_lines(request: Request) -> list[str]:
    """What a request's settings can show."""
    smoothing = request.smoothing
    if smoothing.votes is None:
        return [f"These settings can certify radii up to {smoothing.largest_radius:.3f}."]
    farthest = farthest_ratio(smoothing.noise, smoothing.n, smoothing.votes) * smoothing.sigma
    return [
        f"{smoothing.n} noisy passes of each example prove what {copies_of(smoothing.votes)} keeps, on average over "
        f"the population; they are enough up to about radius {farthest:.3g}.",
    ]


def class_intervals(estimate: Estimate) -> str:
    """What holds of the intervals of single classes, in one sentence; empty where there are none."""
    if estimate.by_class is None:
        return ""
    if estimate.by_class.scope is not None:
        return f"The classes' intervals hold for {estimate.by_class.scope}, the weakest included."
    return (
        "Each interval holds for its class by itself, not for a class picked by its estimate, such as the weakest: for "
        "that, ask for all classes at once (--all-classes)."
    )


def share(value: float) -> str:
    """A share in percent, never rounded up to all of it.

    Examples:
        >>> share(0.95), share(0.999)
        ('95%', '99.9%')
    """
    return f"{100 * value:.10g}%"


def method_of(estimate: Estimate) -> str:
    """The method's name as tables have it; where it was chosen automatically, the chosen one."""
    return estimate.used_method.upper()


def default_radius(estimate: Estimate) -> int:
    """The index of a radius to begin with: about a quarter of the way, where robustness begins to matter."""
    wanted = estimate.radii[0] + (estimate.radii[-1] - estimate.radii[0]) / 4
    return min(range(len(estimate.radii)), key=lambda index: abs(estimate.radii[index] - wanted))


def verdict(estimate: Estimate) -> tuple[str, str]:
    """Whether to rely on an estimate: the gravest of its checks, and that in words."""
    return relied_on(estimate.checks)


def relied_on(checks: Sequence[Check]) -> tuple[str, str]:
    """Whether to rely on what has passed or failed these checks: the gravest of them, and that in words."""
    wrong = [check for check in checks if check.verdict == DO_NOT_RELY]
    odd = [check for check in checks if check.verdict == LOOK]
    if wrong:
        return DO_NOT_RELY, f"Do not rely on it: {_first(wrong[0].sentence)}"
    if odd:
        points = "one point" if len(odd) == 1 else f"{len(odd)} points"
        return LOOK, f"Look at {points} before you rely on it: {_first(odd[0].sentence)}"
    return OK, "All checks passed."


def _first(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
