"""The page's sentences: verdict, answer in whole examples of 100, and target.

The script says the same of other radii and class mixes (`script/words.js`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedcert.estimation.diagnostics.checks import Check
from fedcert.estimation.result import Estimate
from fedcert.report import Target
from fedcert.show.sentences import copies_of, relied_on, share

TITLES = {"ok": "OK", "warning": "Warning", "unreliable": "Unreliable"}
"""Verdicts, as the banner names them."""
MIX_CHECKS = frozenset({
    "class coverage", "examples per class", "class-mix match", "effective sample size", "dominance", "consistency",
    "margin of error",
})  # fmt: skip
"""Checks that depend on the target's class mix; the others hold for every mix."""
_UNNAMED = "custom"
"""What a target is called that was given without a name."""
_ROUNDING = 1e-6
"""Of 100 examples: less than this is rounding, not a part of another example."""
_CLASSES_IN_A_TITLE, _CLASSES_IN_A_LINE = 3, 6
"""Classes that are named: a heading of two lines, a line of text."""


@dataclass(frozen=True)
class Banner:
    """The verdict as the page shows it.

    Attributes:
        verdict: "ok", "warning" or "unreliable".
        title: the verdict as a heading.
        words: why, in a sentence or two.
        more: that there is more to read under the checks; empty where there is not.
    """

    verdict: str
    title: str
    words: str
    more: str = ""


def banner(checks: Sequence[Check]) -> Banner:
    """The verdict on what has passed or failed these checks."""
    grade = relied_on(checks)[0]
    title = TITLES.get(grade, grade)
    if grade == "ok":
        count = len(checks)
        return Banner(grade, title, f"All {count} checks passed." if count > 1 else "All checks passed.")
    first = next(check for check in checks if check.verdict == grade)
    others = sum(check.verdict != "ok" for check in checks) - 1
    more = f" {others} more {'point' if others == 1 else 'points'} under “Checks”." if others else ""
    return Banner(grade, title, first.sentence, more)


def lasting(checks: Sequence[Check]) -> Banner:
    """The verdict by the checks that hold for every class mix."""
    return banner([check for check in checks if check.name not in MIX_CHECKS])


def of_100(value: float) -> str:
    """A share as whole examples of 100.

    Examples:
        >>> of_100(0.846), of_100(0.997), of_100(0.0)
        ('About 85 of 100', 'More than 99 of 100', 'None of 100')
    """
    count = 100 * value
    if count < 0.5:
        return "None of 100" if count < _ROUNDING else "Fewer than 1 of 100"
    if count >= 99.5:
        return "100 of 100" if count > 100 - _ROUNDING else "More than 99 of 100"
    return f"About {math.floor(count + 0.5)} of 100"


def range_of_100(lower: float, upper: float) -> str:
    """An interval in whole examples of 100, rounded outwards, so that it still covers what it covered.

    Examples:
        >>> range_of_100(0.774, 0.917)
        '77 to 92'
    """
    return f"{math.floor(100 * lower + _ROUNDING)} to {math.ceil(100 * upper - _ROUNDING)}"


def answer_at(estimate: Estimate, index: int, unit: str | None) -> tuple[str, str, str]:
    """The answer at a radius: the number, its interval and the rest of the sentence.

    Args:
        estimate: the estimate.
        index: of the radius.
        unit: the unit of radii, in words.
    """
    interval = ""
    if estimate.lower is not None and estimate.upper is not None:
        interval = f" ({range_of_100(estimate.lower[index], estimate.upper[index])})"
    proven = "certified to be classified correctly"
    if estimate.votes is not None:
        proven = f"proven to be classified correctly on average, by {copies_of(estimate.votes)}"
    radius = estimate.radii[index]
    change = "with no change to the input (radius 0)"
    if radius:
        units = f" ({unit})" if unit else ""
        change = f"under any change within {estimate.smoothing.norm.upper()} radius {radius:.9g}{units}"
    rest = f" examples of the target are {proven}, {change}."
    return of_100(estimate.certified_accuracy[index]), interval, rest


def margin(estimate: Estimate, index: int) -> str:
    """What the interval is, in one sentence, in whole points, rounded up; empty where there is none."""
    if estimate.lower is None or estimate.upper is None or estimate.confidence is None:
        return ""
    lower, upper = estimate.lower[index], estimate.upper[index]
    points = max(math.ceil(50 * (upper - lower) - _ROUNDING), 1)
    size = f"{points} point{'s' if points > 1 else ''}"
    interval = f"{range_of_100(lower, upper)} is the {share(estimate.confidence)} confidence interval."
    return f"{interval} Its margin of error (half its length) is at most {size}."


def measure(votes: int | None) -> tuple[str, str]:
    """What the page gives at each radius: its name, and what that means.

    Args:
        votes: noisy copies that vote on an answer; None for CERTIFY's certificates of single examples.
    """
    if votes is None:
        return "certified accuracy", (
            "The share of examples that are classified correctly, with a proof that no change within the radius can "
            "alter that. The accuracy without a proof is at least as high."
        )
    return "proven accuracy", (
        "A share of the answers that is proven to be correct on average, whatever is changed within the radius. It "
        "does not say which ones. The accuracy under an actual attack is at least as high."
    )


def heading_of(target: Target, classes: Sequence[str], votes: int | None) -> str:
    """The heading of a page without a title of its own."""
    what = measure(votes)[0].capitalize()
    if target.name == "uniform":
        return f"{what} with all classes equally frequent"
    if target.name != _UNNAMED:
        return f"{what} on “{target.name}”"
    return f"{what} on {mix_in_words(target, classes, _CLASSES_IN_A_TITLE)}"


def target_name(target: Target) -> str:
    """What the page calls the target; empty where it has no name."""
    return "" if target.name == _UNNAMED else target.name


def mix_in_words(target: Target, classes: Sequence[str], most: int = _CLASSES_IN_A_LINE) -> str:
    """A class mix in words, the most frequent classes first.

    Examples:
        >>> mix_in_words(Target(name="ward", distribution={"ill": 0.1, "well": 0.9}), ["ill", "well"])
        '90% well and 10% ill'
    """
    shares = [target.distribution.get(name, 0.0) for name in classes]
    held = sorted((index for index, part in enumerate(shares) if part > 0), key=lambda index: (-shares[index], index))
    if len(held) > most and shares[held[0]] - shares[held[-1]] < _ROUNDING:
        return f"{len(held):,} classes with {whole_percent(shares[held[0]])} each"
    most += len(held) == most + 1  # a single other class is named too
    named = [f"{whole_percent(shares[index])} {classes[index]}" for index in held[:most]]
    if rest := held[most:]:
        named.append(f"{whole_percent(sum(shares[index] for index in rest))} in {len(rest):,} other classes")
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def whole_percent(value: float) -> str:
    """A share in whole percent.

    Examples:
        >>> whole_percent(0.125), whole_percent(0.001)
        ('13%', '<1%')
    """
    return "<1%" if 0 < value < 0.005 else f"{math.floor(100 * value + 0.5)}%"
