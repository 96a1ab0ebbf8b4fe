"""An estimate's interval, and its guarantee in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.clients import Clients
from fedcert.estimation.intervals.cluster_robust import ClientEffects, half_lengths
from fedcert.estimation.intervals.half_lengths import allowed_ends, contradicted
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
    kind = interval_kind(settings.interval)
    at_once = settings.simultaneous
    size = settings.target_examples
    if clients.noisy_totals is not None and not kind.uses_variances:
        groups = np.full(len(clients.radii), float(clients.largest_group))
        lower, upper = noisy_interval(clients.noisy_totals, target, settings.confidence, at_once, size, groups)
    else:
        lower, upper = kind.ends(uncertainty, target, settings.confidence, at_once, size)
    if effects is not None:
        scores = effects.scores(target, uncertainty.weights)
        extra = _variance_of_target(uncertainty, target, settings)
        half = half_lengths(scores, uncertainty.bias, settings.confidence, at_once, extra)
        lower, upper = np.minimum(lower, uncertainty.centre - half), np.maximum(upper, uncertainty.centre + half)
    impossible = contradicted(lower, upper, at_once)
    point_range = allowed_ends(lower, upper, 0.0, at_once)
    lower, upper = allowed_ends(lower, upper, clients.smoothing.failure_probability, at_once)
    single_cells = uncertainty.segments is not None or clients.noisy_totals is not None
    statement = interval_statement(clients, settings, effects is not None, single_cells)
    return IntervalResult(lower, upper, point_range, statement, impossible)


def _variance_of_target(uncertainty: Uncertainty, target: Floats, settings: Settings) -> Floats:
    """The variance that a finite target set adds."""
    spread = uncertainty.example_variance
    if settings.target_examples is None or spread is None:
        return np.zeros(len(uncertainty.centre))
    return np.asarray(target @ spread / settings.target_examples, dtype=np.float64)


def interval_statement(
    clients: Clients, settings: Settings, clustered: bool = False, single_cells: bool = True
) -> IntervalStatement:
    """What the intervals that the settings ask for say of themselves.

    Args:
        clients: the clients.
        settings: confidence and kind.
        clustered: whether client effects are allowed for.
        single_cells: whether enough is known for least-favourable intervals.
    """
    scope = SIMULTANEOUS if settings.simultaneous else POINTWISE
    size = settings.target_examples
    estimand = "population" if size is None else f"a set of {size} examples from the population"
    kind = settings.interval if single_cells else interval_kind(settings.interval).otherwise
    kind = (CLUSTERED if clustered else kind) + (SCREENED if settings.screen else "")
    return IntervalStatement(kind, scope, estimand, _guarantee(clients, settings, scope, estimand, clustered))


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
    strength = interval_kind(settings.interval).strength
    if clients.noisy_totals is not None and interval_kind(settings.interval).uses_variances:
        strength = "approximately, for many examples and to first order in the noise that was added for privacy,"
    if settings.screen:
        strength = "approximately, because clients were screened by what they report,"
    return (
        f"With probability {strength} {settings.confidence:g}, for {scope}, the interval covers the certified accuracy "
        f"of the target ({estimand}) that CERTIFY is expected to report with these settings; and the lower end, which "
        f"allows for certificates that fail (probability {failure:g} each), is below its true robust accuracy. Assumes "
        "that every client's examples of a class come from the same distribution as the target's (label shift), and "
        "independent examples and noise."
    )
