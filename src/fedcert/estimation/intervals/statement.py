"""An estimate's interval, and its guarantee in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.clients import Clients
from fedcert.estimation.clients.readings import FARTHEST_OFFERED, MOST_VOTES_OFFERED, VoteReadings
from fedcert.estimation.intervals.cluster_robust import ClientEffects, half_widths
from fedcert.estimation.intervals.half_widths import allowed_ends, contradicted
from fedcert.estimation.intervals.ingredients import Uncertainty
from fedcert.estimation.intervals.noisy_sums import noisy_interval
from fedcert.estimation.intervals.registry import interval_kind
from fedcert.estimation.settings import Settings

CLUSTERED = "cluster-robust"
SCREENED = ", after screening"
POINTWISE, SIMULTANEOUS = "each radius", "all radii at once"


@dataclass(frozen=True)
class IntervalStatement:
    """What an interval says of itself.

    Attributes:
        kind: how it was made.
        scope: at one radius, or at all of them.
        estimand: about what.
        guarantee: what holds, in words.
    """

    kind: str
    scope: str
    estimand: str
    guarantee: str


@dataclass(frozen=True)
class IntervalResult:
    """An interval.

    Attributes:
        lower, upper: its ends at each radius, the lower one less the failure probability of certificates.
        point_range: the ends without that allowance, into which the point estimate is clipped.
        statement: what it says of itself.
        contradicted: whether no possible accuracies lie within it.
    """

    lower: Floats
    upper: Floats
    point_range: tuple[Floats, Floats]
    statement: IntervalStatement
    contradicted: bool


def make_interval(
    uncertainty: Uncertainty, target: Floats, clients: Clients, settings: Settings, effects: ClientEffects | None = None
) -> IntervalResult:
    """The interval that the settings ask for.

    Args:
        uncertainty: its ingredients.
        target: the target's class mix.
        clients: what is known of the clients.
        settings: confidence and kind.
        effects: client effects, where clients differ by more than their class mixes and chance explain.

    Raises:
        CallError: an unknown kind of interval.
    """
    lower, upper = interval_ends(uncertainty, target, clients, settings, effects)
    single_cells = uncertainty.segments is not None or clients.noisy_totals is not None
    statement = interval_statement(clients, settings, effects is not None, single_cells)
    return allowed_interval(
        lower, upper, statement, clients.smoothing.failure_probability or 0.0, settings.simultaneous
    )


def allowed_interval(
    lower: Floats, upper: Floats, statement: IntervalStatement, failure_probability: float, at_once: bool
) -> IntervalResult:
    """The interval within what accuracies can be.

    Args:
        lower, upper: its ends as tests gave them.
        statement: what it says of itself.
        failure_probability: of certificates of single examples.
        at_once: whether it holds for all radii at once, so that the curve's falling tightens it.
    """
    impossible = contradicted(lower, upper, at_once)
    point_range = allowed_ends(lower, upper, 0.0, at_once)
    lower, upper = allowed_ends(lower, upper, failure_probability, at_once)
    return IntervalResult(lower, upper, point_range, statement, impossible)


def interval_ends(
    uncertainty: Uncertainty, target: Floats, clients: Clients, settings: Settings, effects: ClientEffects | None
) -> tuple[Floats, Floats]:
    """Both ends of the interval that the settings ask for, not yet within [0, 1]; see `make_interval`."""
    kind = interval_kind(settings.interval)
    at_once, size = settings.simultaneous, settings.target_examples
    if clients.noisy_totals is not None and not kind.uses_variances:
        groups = np.full(len(clients.radii), float(clients.largest_group))
        lower, upper = noisy_interval(clients.noisy_totals, target, settings.confidence, at_once, size, groups)
    else:
        lower, upper = kind.ends(uncertainty, target, settings.confidence, at_once, size)
    if effects is not None:
        scores = effects.scores(target, uncertainty.weights)
        extra = _variance_of_target(uncertainty, target, settings)
        half = half_widths(scores, uncertainty.bias, settings.confidence, at_once, extra)
        lower, upper = np.minimum(lower, uncertainty.centre - half), np.maximum(upper, uncertainty.centre + half)
    return lower, upper


def _variance_of_target(uncertainty: Uncertainty, target: Floats, settings: Settings) -> Floats:
    """The variance that a finite target set adds."""
    spread = uncertainty.example_variance
    if settings.target_examples is None or spread is None:
        return np.zeros(len(uncertainty.centre))
    return np.asarray(target @ spread / settings.target_examples, dtype=np.float64)


def interval_statement(
    clients: Clients, settings: Settings, clustered: bool = False, single_cells: bool = True,
    readings: VoteReadings | None = None,
) -> IntervalStatement:  # fmt: skip
    """What the intervals that the settings ask for say of themselves.

    Args:
        clients: the clients.
        settings: confidence and kind.
        clustered: whether client effects are allowed for.
        single_cells: whether enough is known for least-favourable intervals.
        readings: how right answers were read, for population certificates.
    """
    chosen = readings is not None and readings.offered is not None
    scope = SIMULTANEOUS if settings.simultaneous or chosen else POINTWISE
    size = settings.target_examples
    estimand = "population" if size is None else f"a set of {size} examples from the population"
    kind = settings.interval if single_cells else interval_kind(settings.interval).otherwise
    kind = (CLUSTERED if clustered else kind) + (SCREENED if settings.screen else "")
    if readings is not None:
        guarantee = _vote_guarantee(clients, settings, scope, estimand, clustered, readings)
        return IntervalStatement(kind, scope, estimand, guarantee)
    return IntervalStatement(kind, scope, estimand, _guarantee(clients, settings, scope, estimand, clustered))


def _vote_guarantee(
    clients: Clients, settings: Settings, scope: str, estimand: str, clustered: bool, readings: VoteReadings
) -> str:
    probability = f"{_strength(clients, settings)} {settings.confidence:g}"
    if settings.target_examples is not None:  # of a set, scores stand for what the vote keeps of each example
        probability = f"of about {settings.confidence:g}"
    assumption = (
        "Assumes that every client's examples of a class come from the same distribution as the target's (label "
        "shift), and independent examples and noise."
    )
    if clustered:
        probability = f"of about {settings.confidence:g}"
        assumption = (
            "The clients differ by more than their class mixes and chance explain, so the interval allows for clients "
            "that differ at random. Assumes that the target is like the average client, class by class."
        )
    chosen = ""
    if readings.offered is not None:
        chosen = (
            " Radii or votes were chosen after the counts were made: the interval allows for any choice of radii to "
            f"{FARTHEST_OFFERED:g} sigma and of odd numbers of votes up to {MOST_VOTES_OFFERED}."
        )
    copies = f"the majority vote of {readings.votes} noisy copies" if readings.votes > 1 else "one noisy copy"
    return (
        f"With probability {probability}, for {scope}, the interval covers the accuracy on the target ({estimand}) "
        f"that is proven for the answer by {copies} of the input: whatever an attacker changes within the radius "
        "before the noise is drawn, the accuracy is not below it. It is about the population and about each answer by "
        f"itself, with noise that is secret; it is not about single images.{chosen} {assumption}"
    )


def _strength(clients: Clients, settings: Settings) -> str:
    """How sure the stated confidence is, in words."""
    if settings.screen:
        return "approximately, because clients were screened by what they report,"
    if clients.noisy_totals is not None and interval_kind(settings.interval).uses_variances:
        return "approximately, for many examples and to first order in the noise that was added for privacy,"
    return interval_kind(settings.interval).strength


def _guarantee(clients: Clients, settings: Settings, scope: str, estimand: str, clustered: bool) -> str:
    failure = clients.smoothing.failure_probability
    if not clients.same_settings:
        return (
            "None: the clients certified with different samples or failure probabilities, and those with fewer samples "
            "certify less of the same examples. The interval accounts for chance and class mixes only."
        )
    if clustered:
        return (
            "Approximate: the clients differ by more than their class mixes and chance explain, so the interval allows "
            f"for clients that differ at random. With probability of about {settings.confidence:g}, for {scope}, it "
            f"covers the certified accuracy of the target ({estimand}) that CERTIFY is expected to report, with each "
            "class as it is on average over such clients; the lower end also allows for certificates that fail "
            f"(probability {failure:g} each). Assumes that the target is like the average client, class by class."
        )
    return (
        f"With probability {_strength(clients, settings)} {settings.confidence:g}, for {scope}, the interval covers "
        f"the certified accuracy of the target ({estimand}) that CERTIFY is expected to report with these settings; "
        f"and the lower end, which allows for certificates that fail (probability {failure:g} each), is below its true "
        "robust accuracy. Assumes that every client's examples of a class come from the same distribution as the "
        "target's (label shift), and independent examples and noise."
    )
