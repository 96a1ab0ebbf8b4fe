"""An estimate's interval, and what it promises in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.clients.protocol import Clients
from fedcert.estimation.intervals.cluster_robust import ClientEffects, half_lengths
from fedcert.estimation.intervals.half_lengths import (
    FINITE,
    POINTWISE,
    SIMULTANEOUS,
    asymptotic,
    contradicted,
    ends,
    finite_sample,
)
from fedcert.estimation.intervals.ingredients import Uncertainty
from fedcert.estimation.methods.registry import Settings

CLUSTERED = "cluster-robust"
SCREENED = ", after screening"


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
        reach: the ends without that, into which the point is clipped.
        statement: what it says of itself.
        contradicted: whether nothing that can be lies within it.
    """

    lower: Floats
    upper: Floats
    reach: tuple[Floats, Floats]
    statement: IntervalStatement
    contradicted: bool


def make_interval(
    uncertainty: Uncertainty, target: Floats, pool: Clients, settings: Settings, effects: ClientEffects | None = None
) -> IntervalResult:
    """The interval that the settings ask for.

    Args:
        uncertainty: what it is made of.
        target: the target's class distribution.
        pool: what is known of the clients.
        settings: confidence and kind.
        effects: how clients differ, where they do by more than their class mixes and chance explain.
    """
    asked = (settings.confidence, settings.simultaneous, settings.target_examples)
    finite = settings.interval == FINITE
    half = finite_sample(uncertainty, *asked) if finite else asymptotic(uncertainty, target, *asked)
    if effects is not None:
        spread = effects.spread(target, uncertainty.weights)
        further = _of_target(uncertainty, target, settings)
        half = half_lengths(spread, uncertainty.bias, settings.confidence, settings.simultaneous, half, further)
    failure = pool.smoothing.failure_probability
    lower, upper = ends(uncertainty.centre, half, failure, settings.simultaneous)
    reach = ends(uncertainty.centre, half, 0.0, settings.simultaneous)
    impossible = contradicted(uncertainty.centre, half, settings.simultaneous)
    return IntervalResult(lower, upper, reach, interval_statement(pool, settings, effects is not None), impossible)


def _of_target(uncertainty: Uncertainty, target: Floats, settings: Settings) -> Floats:
    """The variance that a finite target set adds."""
    accuracy = uncertainty.class_accuracy
    if settings.target_examples is None or accuracy is None:
        return np.zeros(len(uncertainty.centre))
    return np.asarray(target @ (accuracy * (1 - accuracy)) / settings.target_examples, dtype=np.float64)


def interval_statement(pool: Clients, settings: Settings, clustered: bool = False) -> IntervalStatement:
    """What the intervals that the settings ask for say of themselves."""
    scope = SIMULTANEOUS if settings.simultaneous else POINTWISE
    size = settings.target_examples
    estimand = "population" if size is None else f"a set of {size} examples from the population"
    failure = pool.smoothing.failure_probability
    kind = (CLUSTERED if clustered else settings.interval) + (SCREENED if settings.screen else "")
    return IntervalStatement(kind, scope, estimand, _guarantee(pool, settings, scope, estimand, failure, clustered))


def _guarantee(pool: Clients, settings: Settings, scope: str, estimand: str, failure: float, clustered: bool) -> str:
    if not pool.alike:
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
    strength = "at least" if settings.interval == FINITE else "approximately, for many examples,"
    if getattr(pool, "noise", None) is not None:
        strength = "approximately, to first order in the noise that was added for privacy,"
    if settings.screen:
        strength = "approximately, because clients were screened by what they report,"
    return (
        f"With probability {strength} {settings.confidence:g}, for {scope}, the interval covers the certified accuracy "
        f"of the target ({estimand}) that CERTIFY is expected to report with these settings; and the lower end, which "
        f"allows for certificates that fail (probability {failure:g} each), is below its true robust accuracy. Assumes "
        "that every client's examples of a class come from the same distribution as the target's (label shift), and "
        "independent examples and noise."
    )
