"""Checks that a reader needs before relying on an estimate: one sentence and one verdict each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedcert._arrays import Floats
from fedcert._schema.declare import required
from fedcert._schema.field_types import Enumerated, Nullable, Number, Text
from fedcert._schema.record import Record
from fedcert.errors import preview
from fedcert.estimation.clients import Clients
from fedcert.population.passes import passes_needed
from fedcert.report import Smoothing
from fedcert.report.farthest import farthest_radius

OK, WARNING, UNRELIABLE = "ok", "warning", "unreliable"
_NOTABLE, _SERIOUS = 0.02, 0.1
"""Shares of the target: below the first they are within what a typical interval allows for, above the second they
decide the estimate."""
_BELOW_CHANCE = 0.25
"""Share of the target in classes below chance that is a mistake of labels rather than a few weak classes."""
_THIN, _MANY = 30, 200
"""Examples: the interval of a proportion is ±18 and ±7 percentage points wide with so many."""
_WIDE, _VOID = 0.25, 0.4
"""Half-widths of intervals: a quarter leaves open whether half or all is certified, and 0.4 nearly everything."""
_MOST_LISTED = 10
"""Classes that a sentence names."""
_FAR_ENOUGH, _FLAT = 1.5, 0.97
"""Radii in sigma over which any curve should fall, and the share of accuracy that is too much to be left there: the
answer to 97 of 100 right examples would have to be the same for nearly all of their noisy copies. A ResNet-18 on
CIFAR-10 keeps 48% or 69% at 1.6 sigma (`benchmarks/results/population-h200.json`)."""
_LARGER = (1_000, 10_000, 100_000, 1_000_000)
"""Numbers of samples that people have time for."""


@dataclass(frozen=True)
class Check(Record):
    """One check.

    Attributes:
        name: what was checked.
        verdict: "ok", "warning" or "unreliable".
        figure: the number behind it.
        sentence: the same in words.
    """

    NOUN: ClassVar[str] = "check"

    name: str = required(Text())
    verdict: str = required(Enumerated((OK, WARNING, UNRELIABLE)))
    figure: float | None = required(Nullable(Number()))
    sentence: str = required(Text(longest=2000))


def verdict_of(checks: Sequence[Check]) -> str:
    """The gravest verdict; ok where there are no checks."""
    given = {check.verdict for check in checks}
    return next((verdict for verdict in (UNRELIABLE, WARNING) if verdict in given), OK)


def class_coverage(clients: Clients, target: Floats) -> Check:
    """How much of the target consists of classes that no client has test examples of."""
    missing = np.flatnonzero((clients.labels == 0) & (target > 0))
    share = float(target[missing].sum())
    if not len(missing):
        return Check("class coverage", OK, 0.0, "Every class of the target has test examples at some client.")
    named = ", ".join(preview(clients.classes[index]) for index in missing[:_MOST_LISTED])
    named += f" and {len(missing) - _MOST_LISTED} more" if len(missing) > _MOST_LISTED else ""
    fewest = clients.fewest_holders
    who = "No client has" if fewest == 1 else f"Fewer than {fewest} clients, if any, have"
    sentence = f"{who} test examples of {named} ({share:.1%} of the target), so their accuracy is unknown."
    return Check("class coverage", WARNING if share <= _NOTABLE else UNRELIABLE, share, sentence)


def class_mix_match(total_variation: float, whose: str = "the weighted clients") -> Check:
    """How far the mix that the weights reach is from the target's."""
    verdict = OK if total_variation <= _NOTABLE else WARNING if total_variation <= _SERIOUS else UNRELIABLE
    sentence = f"The class mix of {whose} differs from the target's by {total_variation:.1%} (total variation)"
    sentence += "." if verdict == OK else f", which alone can bias the estimate by up to {total_variation:.3f}."
    return Check("class-mix match", verdict, total_variation, sentence)


def examples_per_class(clients: Clients, target: Floats) -> Check:
    """Whether some class matters to the target but has few test examples."""
    totals = clients.labels
    thin = np.flatnonzero((totals > 0) & (totals < _THIN) & (target >= _NOTABLE))
    least = float(totals[(totals > 0) & (target > 0)].min(initial=totals.max()))
    if not len(thin):
        sentence = f"Every class that makes up at least {_NOTABLE:.0%} of the target has {_THIN}+ test examples."
        return Check("examples per class", OK, least, sentence)
    named = ", ".join(f"{preview(clients.classes[index])} ({totals[index]:.0f})" for index in thin[:_MOST_LISTED])
    sentence = f"Fewer than {_THIN} test examples across all clients: {named}. Little is known about these classes."
    return Check("examples per class", WARNING, least, sentence)


def effective_sample_size(effective: float, total: int) -> Check:
    """How many examples of one sample from the target would be as informative as the weighted clients."""
    sentence = f"Effective sample size: {effective:,.0f} of {total:,} test examples."
    verdict = OK if effective >= _MANY else WARNING if effective >= _THIN else UNRELIABLE
    if verdict != OK and effective < total / 2:
        sentence += (
            " The clients' class mixes are a poor match for this target; counts per class or more clients would help."
        )
    elif verdict != OK:
        sentence += " More test examples would help."
    return Check("effective sample size", verdict, effective, sentence)


def margin_of_error(lower: Floats, upper: Floats, clients_differ: bool) -> Check | None:
    """Whether the interval says anything; None where it does.

    Args:
        lower, upper: its ends.
        clients_differ: whether it allows for clients that differ, which lengthens it.
    """
    margin = float(np.max(upper - lower)) / 2
    if margin <= _WIDE:
        return None
    sentence = f"The margin of error is up to {100 * margin:.0f} points: the interval says little"
    if clients_differ:
        sentence += ". It allows for clients that differ: look at the check of label shift first."
    else:
        sentence += ". More test examples, counts per class or less noise would shorten it."
    return Check("margin of error", WARNING if margin <= _VOID else UNRELIABLE, margin, sentence)


def classes_below_chance(classes: Sequence[str], target: Floats, upper: Floats) -> Check | None:
    """Classes that are right less than half as often as by guessing, where they matter; None where they do not.

    Args:
        classes: their names.
        target: their shares.
        upper: the upper bound of each class's accuracy at the smallest radius.
    """
    below = np.flatnonzero((upper < 1 / (2 * len(classes))) & (target > 0))
    share = float(target[below].sum())
    if share < _BELOW_CHANCE:
        return None
    named = ", ".join(preview(classes[index]) for index in below[:_MOST_LISTED])
    named += f" and {len(below) - _MOST_LISTED} more" if len(below) > _MOST_LISTED else ""
    sentence = (
        f"Hardly any answers to {named} are right: fewer than half of what guesses would be ({1 / len(classes):.1%}). "
        "Check that labels and the model's outputs have the same order of classes at the sites."
    )
    return Check("class accuracy", WARNING, share, sentence)


def truth_agrees(radius: float, true: Sequence[float], estimated: Sequence[float]) -> Check:
    """Whether a labelled sample of the target agrees with the estimate, by their intervals.

    Args:
        radius: where they are furthest apart.
        true: the sample's accuracy there, and its interval.
        estimated: the estimate, and its interval.
    """
    gap = max(true[1] - estimated[2], estimated[1] - true[2])
    own, other = (f"{value:.1%} ({low:.1%} to {high:.1%})" for value, low, high in (true, estimated))
    if gap <= 0:
        sentence = f"The labelled sample agrees with the estimate: {own} against {other} at radius {radius:g}."
        return Check("labelled sample", OK, gap, sentence)
    sentence = (
        f"The labelled sample contradicts the estimate: {own} against {other} at radius {radius:g}. The target differs "
        "from the clients, or the sample was not certified or labelled as they were."
    )
    return Check("labelled sample", UNRELIABLE, gap, sentence)


def privacy_noise(words: str) -> Check:
    """Noise that was added for privacy, which the interval allows for."""
    sentence = (
        f"The sums include {words}. The interval allows for it. A class below the noise counts as held by no client."
    )
    return Check("privacy noise", OK, None, sentence)


def consistency() -> Check:
    """The clients' counts contradict each other."""
    sentence = (
        "The clients' counts contradict each other: no per-class accuracies explain them all. Either a class is not "
        "equally hard everywhere, or some counts are wrong."
    )
    return Check("consistency", UNRELIABLE, None, sentence)


def flat_curve(smoothing: Smoothing, radii: Sequence[float], curve: Floats) -> Check | None:
    """Whether accuracy falls with the radius as it must where noise matters; None where that cannot be seen.

    Noise that changes no answer is mostly noise in the wrong units: images from 0 to 255 with a sigma that was meant
    for images from 0 to 1.
    """
    farthest = min(radii[-1], smoothing.largest_radius or radii[-1])
    last = max(index for index, radius in enumerate(radii) if radius <= farthest)
    if radii[last] - radii[0] < _FAR_ENOUGH * smoothing.sigma or not curve[0] > 0:
        return None
    kept = float(curve[last] / curve[0])
    at = f"from {curve[0]:.1%} at radius {radii[0]:g} to {curve[last]:.1%} at radius {radii[last]:g}"
    if kept < _FLAT:
        return Check("shape of the curve", OK, kept, f"Accuracy falls {at}.")
    sentence = (
        f"The curve is flat: {at}. Noise of sigma {smoothing.sigma:g} hardly changes any answer. Check that sigma is "
        "in the units of the inputs: inputs from 0 to 255 need a sigma 255 times that of inputs from 0 to 1; and that "
        "the model does not answer the same for nearly every input."
    )
    return Check("shape of the curve", WARNING, kept, sentence)


def enough_passes(
    smoothing: Smoothing, votes: int, radii: Sequence[float], left_open: Floats, headline: float
) -> Check:
    """Whether the noisy passes of population certificates are enough for all radii.

    Args:
        smoothing: of the reports.
        votes: noisy copies that vote on an answer.
        radii: of the estimate.
        left_open: at each radius, the estimate from scores above what the vote keeps less that from scores below it:
            about the most that more passes could add.
        headline: the radius that is quoted first. Beyond it, too few passes make the estimate lower than it need be,
            which is worth saying but no reason to doubt it.
    """
    most, passes = max(float(left_open.max(initial=0.0)), 0.0), f"{smoothing.n} passes"
    short = np.flatnonzero(left_open > _NOTABLE)
    if not len(short):
        sentence = f"{passes} per example are enough: more would add at most about {most:.1%} at any radius."
        return Check("radii in reach", OK, most, sentence)
    first, worst = radii[short[0]], radii[int(np.argmax(left_open))]
    sentence = (
        f"{passes} per example are too few at {len(short)} of {len(radii)} radii, from {first:g} on: the estimate may "
        f"be too low by up to about {most:.1%} (at radius {worst:g})."
    )
    typical = passes_needed(smoothing.noise, votes, radii[-1] / smoothing.sigma)
    if typical is None:
        sentence += " Not even hundreds of passes reach the largest radius: ask for smaller radii."
    else:
        more = max(typical, 2 * smoothing.n)
        sentence += f" More passes (--n {more}) would raise it."
    far = radii[-1] > farthest_radius(smoothing)
    return Check("radii in reach", WARNING if far or first <= headline else OK, most, sentence)


def certifiable_radii(clients: Clients) -> Check:
    """Whether the clients' settings can certify all of the radii."""
    least, most = clients.max_radius_range
    beyond = sum(radius > most for radius in clients.radii)
    partly = sum(least < radius <= most for radius in clients.radii)
    sentence = f"These settings can certify all of the radii (up to {most:.3f})."
    if beyond:
        sentence = (
            f"{beyond} of {len(clients.radii)} radii are beyond {most:.3f}, the largest that these settings can "
            f"certify, so accuracy is 0 there by construction. {_remedy(clients.smoothing, clients.radii[-1])}"
        )
    if partly:
        sentence += (
            f" At {partly} radii beyond {least:.3f} some clients drew too few samples to certify anything, "
            "which lowers the estimate there."
        )
    return Check("radii in reach", WARNING if beyond or partly else OK, most, sentence)


def _remedy(smoothing: Smoothing, radius: float) -> str:
    """How to certify a radius that is out of reach, in a sentence."""
    # Theorem 1 of Cohen et al.: sigma·Φ⁻¹(p) with p = failure probability^(1/n), where all n answers agree.
    passes = next((n for n in _LARGER if (replace(smoothing, n=n).largest_radius or 0.0) >= radius), None)
    if passes is None:
        return "Use a larger sigma or smaller radii."
    return f"Use a larger sigma or smaller radii; more samples (n = {passes:,}) would reach {radius:g} too."
