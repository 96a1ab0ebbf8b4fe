"""The arrays that the page's script evaluates any class mix from; `mix_forms` makes them.

Post-stratified estimates need the totals of each class. BLUP and its interval need matrices of classes x classes, a few
for each radius where clients' examples come in groups or clients differ: every variance in an interval is a quadratic
form in the mix, or in the coefficients that give the clients their weights. These do not grow with the clients; the
label counts of each client, which the finite-sample interval of curves needs besides, do.

For population certificates there are such arrays of both ends of the interval, each from scores of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedcert._arrays import Floats


@dataclass(frozen=True)
class ClassCells:
    """Cells by class: see `ClassRows`.

    Attributes:
        group_sizes: how many examples' weight an example of each row has.
        examples: rows x classes.
        smooth: 1 for rows of independent examples, else 0.
    """

    group_sizes: Floats
    examples: Floats
    smooth: Floats


@dataclass(frozen=True)
class ClientCells:
    """Cells by client: see `client_rows`.

    Attributes:
        labels: examples, clients x classes.
        group_sizes: each client's largest group.
        smooth: 1 for clients that count in full, else 0.
    """

    labels: Floats
    group_sizes: Floats
    smooth: Floats


@dataclass(frozen=True)
class NoiseForms:
    """Noise for privacy in the classes' counts: see `NoisyTotals`, of which this is all but the counts themselves.

    Attributes:
        sizes: those that choose and weigh classes; 0 where a class is not held.
        sizes_variance, labels_variance: of the noise in these sizes, and in the examples of each class.
        certified_variance, covariance: of the noise in certified examples, and of both counts' noise, at each radius.
    """

    sizes: Floats
    sizes_variance: float
    labels_variance: float
    certified_variance: Floats
    covariance: Floats


@dataclass(frozen=True)
class ByClass:
    """For estimates that weigh classes.

    Attributes:
        labels: examples of each class.
        certified: certified ones, classes x radii.
        inflation: how much groups inflate the variance of each class.
        cells: of the least-favourable interval; None with noise for privacy, which has an interval of its own.
        noise: that noise; None where counts are exact.
        fallback_curve: see `Clients.fallback_curve`.
    """

    labels: Floats
    certified: Floats
    inflation: Floats
    cells: ClassCells | None
    noise: NoiseForms | None
    fallback_curve: Floats | None


@dataclass(frozen=True)
class ByClient:
    """For estimates that weigh clients, or everything that is disclosed, by a formula.

    Attributes:
        clients, examples: how many are weighed.
        labels_labels, labels_certified, rounding: see `SufficientStatistics`.
        values, vectors, ones: see `MixEigenbasis`.
        deviations: how many times sqrt(Σ a²/n) chance may cost.
        class_accuracy: the model's accuracy of each class, classes x radii.
        known: whether the clients are known one by one, so that nothing is rounded.
        factor: how much groups inflate variances, at each radius.
        squares: quadratic forms of Σ a²/n at each radius, groups included; None where `factor` is enough.
        variance: those of the estimated variance; None where squares stand for it.
        asymmetry: the same with each class's variance times 1 - 2L, L its accuracy.
        labels: examples of each class, where classes are weighed and nothing else; None where not.
        inflation: how much groups inflate the variance of each class, in the same case.
        client_cells, class_cells: of the least-favourable interval; None where there are none of the kind. With neither
            one, it is Hoeffding's.
    """

    clients: int
    examples: float
    labels_labels: Floats
    labels_certified: Floats
    rounding: float
    values: Floats
    vectors: Floats
    ones: Floats
    deviations: float
    class_accuracy: Floats
    known: bool
    factor: Floats
    squares: Floats | None
    variance: Floats | None
    asymmetry: Floats | None
    labels: Floats | None
    inflation: Floats | None
    client_cells: ClientCells | None
    class_cells: ClassCells | None


@dataclass(frozen=True)
class EffectForms:
    """Client effects, where clients differ: see `cluster_robust`.

    Attributes:
        variance, variance_error: τ² at each radius, and the variance of that estimate.
        moved, noise, scores: quadratic forms at each radius, of the effects' part of the variance over τ², of chance
            and of the sandwich; in the mix where classes are weighed, else in the coefficients.
    """

    variance: Floats
    variance_error: Floats
    moved: Floats
    noise: Floats
    scores: Floats


@dataclass(frozen=True)
class EndForms:
    """What one end of a vote's interval is computed from: see `EndOfInterval`.

    Attributes:
        low, width: the range of the scores at each radius; everything below is in shares of it.
        settings: those of the tests.
        by_class, by_client, client_effects: as of `MixForms`.
    """

    low: Floats
    width: Floats
    settings: Mapping[str, Any]
    by_class: ByClass | None
    by_client: ByClient | None
    client_effects: EffectForms | None


@dataclass(frozen=True)
class VoteForms:
    """The point and the ends of the interval of what a vote keeps: see `VoteEnds`.

    Attributes:
        class_accuracy: what the mix is multiplied with for the point, classes x radii; None with noise for privacy.
        held: 1 for classes that some client is known to hold, else 0.
        at_once: whether the interval holds for all radii at once.
        lower, upper: the ends.
    """

    class_accuracy: Floats | None
    held: Floats
    at_once: bool
    lower: EndForms
    upper: EndForms


@dataclass(frozen=True)
class MixForms:
    """An evaluator as arrays.

    Attributes:
        method: its name.
        no_interval: why the interval does not follow too, in words; None where it does.
        kind: of interval, as it says of itself.
        guarantee: what holds of the intervals, in words.
        settings: confidence, interval, simultaneous and target_examples.
        failure_probability: of certificates of single examples; 0 where there are none.
        pooled_mix: the clients' own class mix.
        by_class, by_client: for estimates that weigh the former or the latter; the other one is None. With a vote both
            are, but for noise for privacy, of which the point is by class.
        client_effects: where the interval allows for them.
        vote: population certificates: what takes the place of these three; else None.
    """

    method: str
    no_interval: str | None
    kind: str
    guarantee: str
    settings: Mapping[str, Any]
    failure_probability: float
    pooled_mix: Floats
    by_class: ByClass | None
    by_client: ByClient | None
    client_effects: EffectForms | None
    vote: VoteForms | None
