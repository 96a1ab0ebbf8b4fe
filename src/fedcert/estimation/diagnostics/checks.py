"""Checks that a reader needs before relying on an estimate: one sentence and one verdict each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcert._arrays import Floats
from fedcert._schema.declare import required
from fedcert._schema.field_types import Enumerated, Nullable, Number, Text
from fedcert._schema.record import Record
from fedcert.errors import preview
from fedcert.estimation.clients import Clients, ReportedClients
from fedcert.estimation.diagnostics.label_shift import ShiftTest
from fedcert.population.passes import passes_needed
from fedcert.report import Smoothing

OK, LOOK, DO_NOT_RELY = "ok", "look", "don't rely on it"
_NOTABLE, _SERIOUS = 0.02, 0.1
"""Shares of the target: below the first they are within what a typical interval allows for, above the second they
decide the estimate."""
_THIN, _MANY = 30, 200
"""Examples: the interval of a proportion is ±18 and ±7 percentage points wide with so many."""
_FEW_CLIENTS, _DOMINANT = 3, 0.5
"""With so few clients each one counts; beyond, a client that carries half of the weight is worth a look."""
_TOO_MANY = 0.3
"""Share of clients that screening may leave out: its fit tolerates nearly half, less a margin."""
_MOST_LISTED = 10
"""Classes that a sentence names."""


@dataclass(frozen=True)
class Check(Record):
    """One check.

    Attributes:
        name: what was checked.
        verdict: "ok", "look" or "don't rely on it".
        figure: the number behind it.
        sentence: the same in words.
    """

    NOUN: ClassVar[str] = "check"

    name: str = required(Text())
    verdict: str = required(Enumerated((OK, LOOK, DO_NOT_RELY)))
    figure: float | None = required(Nullable(Number()))
    sentence: str = required(Text(longest=2000))


def missing_classes(clients: Clients, target: Floats) -> Check:
    """How much of the target consists of classes that no client has test examples of."""
    missing = np.flatnonzero((clients.labels == 0) & (target > 0))
    share = float(target[missing].sum())
    if not len(missing):
        return Check("missing classes", OK, 0.0, "Every class of the target has test examples at some client.")
    named = ", ".join(preview(clients.classes[index]) for index in missing[:_MOST_LISTED])
    named += f" and {len(missing) - _MOST_LISTED} more" if len(missing) > _MOST_LISTED else ""
    fewest = clients.fewest_holders
    who = "No client has" if fewest == 1 else f"Fewer than {fewest} clients, if any, have"
    sentence = f"{who} test examples of {named}, {share:.1%} of the target: nothing is known about them."
    return Check("missing classes", LOOK if share <= _NOTABLE else DO_NOT_RELY, share, sentence)


def same_settings(clients: Clients) -> Check:
    """Whether all clients drew the same samples at the same failure probability."""
    if clients.smoothing.is_population:
        sentence = f"All clients counted right answers among {clients.smoothing.n} noisy passes of each example."
        return Check("same settings", OK, None, sentence)
    if clients.same_settings:
        sentence = "All clients certified with the same samples and failure probability."
        return Check("same settings", OK, None, sentence)
    sentence = (
        "Clients certified with different numbers of samples or failure probabilities: those with fewer samples "
        "certify less of the same examples, which pulls the estimate down."
    )
    return Check("same settings", LOOK, None, sentence)


def secret_seeds(clients: Clients) -> Check | None:
    """Which clients' noise could be known beforehand; None where all is well, or nothing is said of seeds."""
    fixed = clients.fixed_seeds if isinstance(clients, ReportedClients) else ()
    if not fixed:
        return None
    named = ", ".join(preview(client) for client in fixed[:_MOST_LISTED])
    named += f" and {len(fixed) - _MOST_LISTED} more" if len(fixed) > _MOST_LISTED else ""
    sentence = (
        f"The seed of the noise was fixed at {named}: the supplier of the model could know the noise, and fit the "
        "model to it. For a test that is fine; a site that certifies in earnest leaves --seed out."
    )
    return Check("secret seeds", LOOK, float(len(fixed)), sentence)


def mix_reached(total_variation: float, whose: str = "the weighted clients") -> Check:
    """How far the mix that the weights reach is from the target's."""
    verdict = OK if total_variation <= _NOTABLE else LOOK if total_variation <= _SERIOUS else DO_NOT_RELY
    sentence = f"The class mix of {whose} differs from the target's in {total_variation:.1%} of the examples"
    sentence += "." if verdict == OK else f": the estimate may be off by up to {total_variation:.3f} for that alone."
    return Check("reach", verdict, total_variation, sentence)


def thin_classes(clients: Clients, target: Floats) -> Check:
    """Whether some class matters to the target but has few test examples."""
    totals = clients.labels
    thin = np.flatnonzero((totals > 0) & (totals < _THIN) & (target >= _NOTABLE))
    least = float(totals[(totals > 0) & (target > 0)].min(initial=totals.max()))
    if not len(thin):
        sentence = f"Every held class that is at least {_NOTABLE:.0%} of the target has {_THIN} test examples or more."
        return Check("thin classes", OK, least, sentence)
    named = ", ".join(f"{preview(clients.classes[index])} ({totals[index]:.0f})" for index in thin[:_MOST_LISTED])
    sentence = f"Few test examples, all clients together, of {named}: little is known about them."
    return Check("thin classes", LOOK, least, sentence)


def information(effective: float, total: int) -> Check:
    """How many examples of one sample the weighted clients are worth."""
    sentence = f"The estimate is as informative as {effective:,.0f} examples of one sample, of {total:,}"
    verdict = OK if effective >= _MANY else LOOK if effective >= _THIN else DO_NOT_RELY
    if verdict == OK:
        sentence += "."
    elif effective < total / 2:
        sentence += ": the clients' mixes fit this target badly. Counts per class or further clients would help."
    else:
        sentence += ": more examples would help."
    return Check("information", verdict, effective, sentence)


def shift_allowed_for() -> Check:
    """Clients may differ, and the interval allows for it by a second sum."""
    sentence = (
        "Sums do not tell whether each class is the same at all clients (label shift); the interval allows for clients "
        "that differ, by a second sum."
    )
    return Check("label shift", OK, None, sentence)


def privacy_noise(words: str) -> Check:
    """Noise that was added for privacy, which the interval allows for."""
    sentence = f"The sums hold {words}. The interval allows for it; a class within the noise counts as held by nobody."
    return Check("privacy noise", OK, None, sentence)


def consistency() -> Check:
    """The clients' counts contradict each other."""
    sentence = (
        "No accuracies that fall with the radius, from 1 to 0, explain what the clients report: a class cannot be the "
        "same everywhere, or some counts are wrong."
    )
    return Check("consistency", DO_NOT_RELY, None, sentence)


def influence(federation: ReportedClients, weights: Floats) -> Check:
    """Whether one client decides."""
    heaviest = int(np.argmax(np.abs(weights)))
    share = float(abs(weights[heaviest]) / np.abs(weights).sum())
    client = preview(federation.clients[heaviest])
    if federation.count <= _FEW_CLIENTS:
        sentence = f"With so few clients each one counts: {client} carries {share:.1%} of the weight, signs aside."
        return Check("influence", OK, share, sentence)
    if share > _DOMINANT:
        sentence = f"{client} alone carries {share:.0%} of the weight: look at its report."
        return Check("influence", LOOK, share, sentence)
    sentence = f"No client carries more than {share:.1%} of the weight, signs aside ({client})."
    return Check("influence", OK, share, sentence)


def screening(dropped: int, reduced: int, kept: int) -> Check:
    """How many clients screening left out."""
    share = dropped / (dropped + kept)
    sentence = f"Screening left out {dropped} of {dropped + kept} clients, and {reduced} count for less"
    if not dropped:
        return Check("screening", OK, share, sentence + ".")
    sentence += ": the estimate says who and why."
    if share <= _TOO_MANY:
        return Check("screening", LOOK, share, sentence)
    return Check("screening", DO_NOT_RELY, share, sentence + " So many that it is not clear who is right.")


def label_shift(test: ShiftTest | None, allowed_for: bool) -> Check:
    """The result of the test of label shift, the assumption behind everything.

    Args:
        test: its result; None where only sums are known, which do not allow it.
        allowed_for: whether there is an interval, which then allows for clients that differ.
    """
    if test is None:
        sentence = "Sums do not tell whether each class is the same at all clients (label shift): single reports would."
        return Check("label shift", LOOK, None, sentence)
    if test.probability is None:
        sentence = "Too few clients, or all alike: no test of whether each class is the same everywhere (label shift)."
        return Check("label shift", LOOK, None, sentence)
    differ = f"differ at radius {test.radius:g}"
    if not test.rejects:
        chance = f"no more than their class mixes and chance explain (p = {test.probability:.3f})"
        return Check("label shift", OK, test.probability, f"The {test.clients} clients {differ} {chance}.")
    chance = f"by more than their class mixes and chance explain (p = {test.probability:.3f})"
    sentence = f"The clients {differ} {chance}: a class is not the same everywhere"
    if allowed_for:
        sentence += ". The interval allows for clients that differ at random, but not for a target unlike any of them."
        return Check("label shift", LOOK, test.probability, sentence)
    sentence += ", and the estimate does not account for that."
    return Check("label shift", DO_NOT_RELY, test.probability, sentence)


def enough_passes(smoothing: Smoothing, votes: int, radii: Sequence[float], left_open: Floats) -> Check:
    """Whether the noisy passes of population certificates are enough for all radii.

    Args:
        smoothing: of the reports.
        votes: noisy copies that vote on an answer.
        radii: of the estimate.
        left_open: at each radius, the estimate from scores above what the vote keeps less that from scores below it:
            about the most that more passes could add.
    """
    most, passes = max(float(left_open.max(initial=0.0)), 0.0), f"{smoothing.n} passes"
    short = np.flatnonzero(left_open > _NOTABLE)
    if not len(short):
        sentence = f"{passes} of each example are enough: more would add about {most:.1%} at most at any radius."
        return Check("radii in reach", OK, most, sentence)
    first, worst = radii[short[0]], radii[int(np.argmax(left_open))]
    sentence = (
        f"At {len(short)} of {len(radii)} radii, from {first:g} on, {passes} of each example are few: the estimate may "
        f"be too low by about {most:.1%} at most (at radius {worst:g})."
    )
    typical = passes_needed(smoothing.noise, votes, radii[-1] / smoothing.sigma)
    if typical is None:
        sentence += " Hundreds of passes would not be enough for the last of them: ask about smaller radii."
    else:
        more = max(typical, 2 * smoothing.n)
        sentence += f" More passes would show more (--n {more})."
    return Check("radii in reach", LOOK, most, sentence)


def certifiable_radii(clients: Clients) -> Check:
    """Whether the clients' settings can certify all of the radii."""
    least, most = clients.max_radius_range
    beyond = sum(radius > most for radius in clients.radii)
    partly = sum(least < radius <= most for radius in clients.radii)
    sentence = f"All radii are at most {most:.3f}, the largest that these settings can certify."
    if beyond:
        sentence = (
            f"{beyond} of {len(clients.radii)} radii are above {most:.3f}, the largest that these settings can "
            "certify: certified accuracy is 0 there by construction, more samples (n) would tell."
        )
    if partly:
        sentence += (
            f" At {partly} radii above {least:.3f} some clients drew too few samples to certify anything, "
            "which pulls the estimate down there."
        )
    return Check("radii in reach", LOOK if beyond or partly else OK, most, sentence)
