"""The short answer of estimates and what-ifs: what `print` and a notebook show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedcert._schema.summary import Summary, spread
from fedcert.estimation.diagnostics.checks import OK, UNRELIABLE, WARNING, Check
from fedcert.report import Target

if TYPE_CHECKING:
    from fedcert.estimation.result import Estimate, WhatIf

_SHOWN_RADII = 7
"""Columns of the table: they fit a line of 100 characters beside the longest name of a row."""
_SHOWN_TARGETS = 10
"""Rows of a what-if's table: one screen."""
_MOST_SHARES = 8
"""Classes of a mix that a line names."""
_MOST_ABSENT = 3
"""Classes of share 0 that a line names: one that was forgotten shows here."""
_EQUAL = 1e-9
"""Shares this close are equal up to rounding."""
_SHOWN_PROBLEMS = 5
"""Failing checks that are listed: more belong in the checks themselves."""


def summary_of_estimate(estimate: Estimate) -> Summary:
    """The answer at one radius, the verdict, the curve at some radii, and the checks that did not pass."""
    index = headline(estimate)
    by = method_of(estimate)
    sentences = (
        at_radius(estimate, index),
        verdict_sentence(estimate.checks),
        f"Target: {estimate.target.name} ({mix_of(estimate.target)}). Method: {by}. "
        f"{_sizes(estimate.clients, estimate.examples)}.",
        *((estimate.classifier,) if estimate.classifier is not None else ()),
    )
    shown = spread(len(estimate.radii), _SHOWN_RADII, including=index)
    rows = [(_accuracy(estimate.votes), estimate.certified_accuracy)]
    if estimate.lower is not None and estimate.upper is not None:
        rows += [("lower bound", estimate.lower), ("upper bound", estimate.upper)]
    table = [("radius", *(f"{estimate.radii[column]:g}" for column in shown))]
    table += [(name, *(f"{curve[column]:.3f}" for column in shown)) for name, curve in rows]
    return Summary(sentences, tuple(table), problems_of(estimate.checks))


def summary_of_what_if(result: WhatIf) -> Summary:
    """The accuracy of each target at some radii, and the checks that did not pass."""
    count = len(result.targets)
    sentences = (
        f"{_accuracy(result.votes).capitalize()} of {count} target{'s' if count != 1 else ''} by "
        f"{method_title(result.method)}, each with its {share(result.confidence)} interval.",
        f"{_sizes(result.clients, result.examples)}.",
        verdict_sentence(result.checks),
    )
    shown = spread(len(result.radii), 3, including=(len(result.radii) - 1) // 4)
    table = [("target, at radius", *(f"{result.radii[column]:g}" for column in shown))]
    for curve in result.targets[:_SHOWN_TARGETS]:
        cells = (
            f"{curve.certified_accuracy[column]:.3f} ({curve.lower[column]:.3f} to {curve.upper[column]:.3f})"
            for column in shown
        )
        table.append((curve.target.name, *cells))
    more = count - _SHOWN_TARGETS
    if more > 0:
        table.append((f"{more} more", *("" for _ in shown)))
    return Summary(sentences, tuple(table), problems_of(result.checks))


def mix_of(target: Target) -> str:
    """A class mix in words: the largest shares, and how many classes have the rest.

    Examples:
        >>> mix_of(Target(name="ward", distribution={"ill": 0.1, "healthy": 0.9, "other": 0}))
        'healthy 90%, ill 10%, other 0%'
    """
    shares = sorted(((part, name) for name, part in target.distribution.items() if part > 0), key=lambda each: -each[0])
    if len(shares) > _MOST_SHARES and shares[0][0] - shares[-1][0] < _EQUAL:
        return f"{len(shares)} classes, {100 * shares[0][0]:.3g}% each"
    shown = _MOST_SHARES + (len(shares) == _MOST_SHARES + 1)  # a single other class is named too
    named = ", ".join(f"{name} {100 * part:.3g}%" for part, name in shares[:shown])
    rest = shares[shown:]
    named += f", {len(rest)} other classes {100 * sum(part for part, _ in rest):.3g}%" if rest else ""
    absent = [name for name, part in target.distribution.items() if not part > 0]
    if len(absent) > _MOST_ABSENT:
        return f"{named}, {len(absent)} other classes 0%"
    return ", ".join([named, *(f"{name} 0%" for name in absent)])


def verdict_sentence(checks: Sequence[Check]) -> str:
    """The gravest verdict, and how many checks passed."""
    passed = sum(check.verdict == OK for check in checks)
    return f"Verdict: {relied_on(checks)[0]} ({passed} of {len(checks)} checks passed)."


def problems_of(checks: Sequence[Check]) -> tuple[str, ...]:
    """The checks that did not pass, the gravest first."""
    failing = [check for verdict in (UNRELIABLE, WARNING) for check in checks if check.verdict == verdict]
    listed = tuple(f"{check.verdict}: {check.sentence}" for check in failing[:_SHOWN_PROBLEMS])
    more = len(failing) - len(listed)
    return (*listed, f"and {more} more") if more else listed


def _accuracy(votes: int | None) -> str:
    return "certified accuracy" if votes is None else f"proven accuracy ({votes} votes)"


def _sizes(clients: int, examples: int) -> str:
    return f"{clients:,} client{'s' if clients != 1 else ''}, {examples:,} test example{'s' if examples != 1 else ''}"


def at_radius(estimate: Estimate, index: int = 0) -> str:
    """The certified accuracy at a radius, in one sentence.

    Args:
        estimate: the estimate.
        index: of the radius.
    """
    radius = estimate.radii[index]
    where = (
        "On unchanged inputs (radius 0)" if radius == 0 else f"At {estimate.smoothing.norm.upper()} radius {radius:g}"
    )
    between = ""
    if estimate.lower is not None and estimate.upper is not None and estimate.confidence is not None:
        bounds = f"{100 * estimate.lower[index]:.1f}–{100 * estimate.upper[index]:.1f}"
        between = f" ({share(estimate.confidence)} CI {bounds})"
    about = f"{100 * estimate.certified_accuracy[index]:.1f}% of target examples{between}"
    if estimate.votes is not None:
        return f"{where}, {copies_of(estimate.votes)} is proven to be right on an estimated {about}, on average."
    return f"{where}, an estimated {about} are certifiably classified correctly."


def copies_of(votes: int) -> str:
    """What answers, in words."""
    return "one noisy copy" if votes == 1 else f"the majority vote of {votes} noisy copies"


def share(value: float) -> str:
    """A share in percent, never rounded up to all of it.

    Examples:
        >>> share(0.95), share(0.999)
        ('95%', '99.9%')
    """
    return f"{100 * value:.10g}%"


def method_of(estimate: Estimate) -> str:
    """The method's name as tables have it; where it was chosen automatically, the chosen one."""
    return method_title(estimate.used_method)


def method_title(name: str) -> str:
    """A method's name as tables have it; one that is not installed here goes by its own name."""
    from fedcert.estimation.methods.registry import METHODS  # it knows estimates itself

    return METHODS[name].title if name in METHODS else name


def headline(estimate: Estimate) -> int:
    """The index of the radius to begin with: the one that was asked for, or a quarter of the way to the last."""
    wanted = estimate.headline_radius
    if wanted is None:
        wanted = estimate.radii[0] + (estimate.radii[-1] - estimate.radii[0]) / 4
    return min(range(len(estimate.radii)), key=lambda index: abs(estimate.radii[index] - wanted))


def verdict(estimate: Estimate) -> tuple[str, str]:
    """Whether to rely on an estimate: the gravest of its checks, and that in words."""
    return relied_on(estimate.checks)


def relied_on(checks: Sequence[Check]) -> tuple[str, str]:
    """Whether to rely on what has passed or failed these checks: the gravest of them, and that in words."""
    wrong = [check for check in checks if check.verdict == UNRELIABLE]
    odd = [check for check in checks if check.verdict == WARNING]
    if wrong:
        return UNRELIABLE, f"Unreliable: {_first(wrong[0].sentence)}"
    if odd:
        count = "1 warning" if len(odd) == 1 else f"{len(odd)} warnings, the first"
        return WARNING, f"{count}: {_first(odd[0].sentence)}"
    return OK, "All checks passed."


def _first(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
