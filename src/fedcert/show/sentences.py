"""Conclusions in plain language."""

from __future__ import annotations

from fedcert.estimation.diagnostics.checks import DO_NOT_RELY, LOOK, OK
from fedcert.estimation.result import Estimate


def at_radius(one: Estimate, index: int = 0) -> str:
    """The certified accuracy at a radius, in one sentence.

    Args:
        one: the estimate.
        index: of the radius.
    """
    accuracy, radius = one.certified_accuracy[index], one.radii[index]
    unchanged = "as they are" if radius == 0 else f"however they are changed within an L2 distance of {radius:g}"
    if one.smoothing.norm != "l2" and radius:
        unchanged = unchanged.replace("L2", one.smoothing.norm.upper())
    between = ""
    if one.lower is not None and one.upper is not None and one.confidence is not None:
        ends = f"{100 * one.lower[index]:.1f} and {100 * one.upper[index]:.1f}"
        between = f" (between {ends}, confidence {share(one.confidence)})"
    return (
        f"Of 100 examples of the target, about {100 * accuracy:.1f}{between} are certified to be classified right, "
        f"{unchanged}."
    )


def share(value: float) -> str:
    """A share in percent, never rounded up to all of it.

    Examples:
        >>> share(0.95), share(0.999)
        ('95%', '99.9%')
    """
    return f"{100 * value:.10g}%"


def method_of(one: Estimate) -> str:
    """The method's name as tables have it; where it was chosen automatically, the one that was."""
    return str(one.details.get("chosen", one.method)).upper()


def default_radius(one: Estimate) -> int:
    """The index of a radius to begin with: about a quarter of the way, where robustness begins to tell."""
    wanted = one.radii[0] + (one.radii[-1] - one.radii[0]) / 4
    return min(range(len(one.radii)), key=lambda index: abs(one.radii[index] - wanted))


def verdict(one: Estimate) -> tuple[str, str]:
    """Whether to rely on an estimate: the gravest of its checks, and that in words."""
    wrong = [check for check in one.checks if check.verdict == DO_NOT_RELY]
    odd = [check for check in one.checks if check.verdict == LOOK]
    if wrong:
        return DO_NOT_RELY, f"Do not rely on it: {_first(wrong[0].sentence)}"
    if odd:
        points = "one point" if len(odd) == 1 else f"{len(odd)} points"
        return LOOK, f"Look at {points} before you rely on it: {_first(odd[0].sentence)}"
    return OK, "All checks passed."


def _first(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
