"""Whether the clients look as if each class were the same everywhere: the assumption that everything rests on.

The tests ask whether clients need an effect of their own, of variance τ², besides their class mixes and chance, at one
radius. They are likelihood-ratio tests calibrated by simulation, so neither needs more clients than classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Floats, Integers
from fedcert.estimation.clients import ReportedClients
from fedcert.estimation.reml import CLASS_VARIANCES, RestrictedLikelihood

LEVEL = 0.03
"""Nominal level; the accuracies are estimated, and in simulations the size of the test is then at most 5%."""
_REPLICATES = 499
"""Simulated federations: the p-value of a test at 3% is then known to 0.8%."""
_FEWEST_CLIENTS = 3
"""With two clients, an effect of each cannot be distinguished from their mixes."""
_MOST_CELLS = 20_000
"""Clients x classes that are simulated, which bounds the work; of more clients, a random part is tested."""
_CELLS_AT_ONCE = 2**22
"""Simulated counts held at once: 32 MB."""
_MOST_EXAMPLES = 10**9
"""Of a class, that numpy's hypergeometric draws allow."""
_CLIENT_VARIANCES = np.concatenate([[0.0], np.geomspace(1e-5, 0.25, 16)])
"""Values of τ² that are tried: none, and standard deviations from 0.003 to ½; a factor of two apart."""
_FINE_CLASS_VARIANCES = np.concatenate([[0.0], np.geomspace(1e-5, 0.25, 60)])
"""Values of σ² for the fit that federations are simulated from, which is made once and can afford a fine grid."""
_FROM_CERTAIN = 0.02
"""Accuracies of simulated classes are kept this far from 0 and 1: twice as far as those of intervals, because too
little noise in the simulation would let the test reject too often."""
_ROUNDS = 3
"""Fits of the classes' accuracies and of the noise in turn, each of which changes less than the one before."""
_LARGEST_VARIANCE = 0.25
"""Of an example that is certified or not."""
_ROUNDING = 1e-9
"""Statistics this close are tied."""
_JITTER = 1e-12
"""Added to a covariance matrix so that its Cholesky factor exists."""


@dataclass(frozen=True)
class ShiftTest:
    """A test of label shift.

    Attributes:
        probability: the p-value; None where the clients are too few, or nothing differs at any radius.
        radius: the radius whose counts were tested.
        clients: how many clients were tested.
    """

    probability: float | None
    radius: float
    clients: int

    @property
    def rejects(self) -> bool:
        """Whether the clients differ by more than their class mixes and chance explain."""
        return self.probability is not None and self.probability < LEVEL


def label_shift_test(federation: ReportedClients, seed: int = 0, replicates: int = _REPLICATES) -> ShiftTest:
    """Test label shift at the radius where the clients' pooled accuracy is closest to one half.

    Clients that disclose counts per class are tested by them; otherwise all clients by their curves. Where only some
    disclose them, both tests are made, and the smaller p-value is doubled.

    Args:
        federation: clients whose counts are whole (not screened ones).
        seed: of the simulated federations.
        replicates: how many of them.
    """
    pooled = federation.certified / federation.labels.sum()
    index = int(np.argmin(np.abs(pooled - 0.5)))
    radius = federation.radii[index]
    generator = np.random.default_rng(seed)
    most = max(_MOST_CELLS // len(federation.classes), _FEWEST_CLIENTS)
    chosen = _some(np.arange(federation.count), most, generator)
    disclosing = _some(np.flatnonzero(federation.has_class_counts), most, generator)
    if len(chosen) < _FEWEST_CLIENTS or not 0 < pooled[index] < 1:
        return ShiftTest(None, radius, len(chosen))
    probabilities = []
    if federation.class_totals is not None and len(disclosing) >= _FEWEST_CLIENTS:
        examples, certified = federation.class_totals
        labels, _, effects = _counts(federation, disclosing, index)
        cells = class_counts_at(federation, disclosing, index)
        totals = examples, certified[:, index]
        probabilities.append(probability_from_class_counts(labels, cells, effects, *totals, generator, replicates))
    if not probabilities or not federation.has_class_counts.all():
        probabilities.append(probability_from_curves(*_counts(federation, chosen, index), generator, replicates))
    return ShiftTest(min(1.0, len(probabilities) * min(probabilities)), radius, len(chosen))


def _counts(federation: ReportedClients, chosen: Integers, index: int) -> tuple[Integers, Integers, Floats]:
    """Label counts, certified counts and design effects of some clients at one radius."""
    effects = np.ones(len(chosen)) if federation.design_effects is None else federation.design_effects[chosen, index]
    return (
        np.rint(federation.label_counts[chosen]).astype(np.int64),
        np.rint(federation.certified_counts[chosen, index]).astype(np.int64),
        np.asarray(effects, dtype=np.float64),
    )


def class_counts_at(federation: ReportedClients, chosen: Integers, index: int) -> Integers:
    """Certified counts of some disclosing clients at one radius, clients x classes."""
    position = np.cumsum(federation.has_class_counts) - 1  # of each disclosing client among them
    counts: Floats = federation.class_rows[position[chosen], :, index].astype(np.float64)
    return np.rint(counts).astype(np.int64)


def _some(clients: Integers, most: int, generator: np.random.Generator) -> Integers:
    return clients if len(clients) <= most else np.sort(generator.choice(clients, most, replace=False))


def probability_from_curves(
    labels: Integers, certified: Integers, effects: Floats, generator: np.random.Generator, replicates: int
) -> float:
    """The p-value from label counts and certified counts of clients, at one radius.

    The model: c = μ + p·u + b + e with Var u = σ² per class, Var b = τ² per client and Var e = p·L(1 - L)·effect/n. The
    statistic is the restricted likelihood ratio of τ² = 0, over a grid of both variances. It is compared with that of
    federations simulated without client effects: the classes' accuracies are drawn from what the fit without client
    effects leaves possible, counts from them.

    Guarantee: approximate. Var e is taken large rather than small, so the test errs towards not rejecting where the
    clients' mixes do not distinguish the classes.

    Args:
        labels: clients x classes; every client holds an example.
        certified: one per client; neither all nor none of the examples.
        effects: variance inflation, one per client.
        generator: of the simulated federations.
        replicates: how many of them.
    """
    labels = labels[:, labels.sum(axis=0) > 0]
    sizes = labels.sum(axis=1).astype(np.float64)
    mixes, observed = labels / sizes[:, None], certified / sizes
    pooled = float(certified.sum() / sizes.sum())
    noise = pooled * (1 - pooled) * effects / sizes
    for _ in range(_ROUNDS):
        accuracy, uncertain = _class_accuracy(observed, mixes, noise)
        inside = np.clip(accuracy, _FROM_CERTAIN, 1 - _FROM_CERTAIN)
        # L(1 - L) of an estimate that is hardly shrunk is too small by its variance, on average; else this is too much.
        spread = np.minimum(inside * (1 - inside) + np.diag(uncertain), _LARGEST_VARIANCE)
        noise = mixes @ spread * effects / sizes
    root = np.linalg.cholesky(uncertain + _JITTER * np.eye(len(accuracy)))
    drawn = accuracy + generator.standard_normal((replicates, len(accuracy))) @ root.T
    drawn = np.clip(drawn, _FROM_CERTAIN, 1 - _FROM_CERTAIN)
    expected = drawn @ mixes.T
    simulated = _simulated(labels, drawn, generator) / sizes
    # Replicates have independent examples; they are spread about their mean as wide as the clients' may be.
    simulated = expected + np.sqrt(noise * sizes / ((drawn * (1 - drawn)) @ mixes.T)) * (simulated - expected)
    statistics = _ratio(np.vstack([observed, simulated]), mixes, noise)
    return float(np.mean(statistics >= statistics[0] - _ROUNDING))


def probability_from_class_counts(
    labels: Integers,
    certified: Integers,
    effects: Floats,
    examples: Floats,
    successes: Floats,
    generator: np.random.Generator,
    replicates: int,
) -> float:
    """The p-value where the certified counts of each class are known too.

    A cell's residual is the certified count of a client's examples of a class, less what the class's pooled accuracy
    makes one expect. There are two statistics. One is the likelihood ratio of the variance of a client's residuals,
    added up and per example, under label shift against that plus τ²: clients that are better or worse as a whole. The
    other is Pearson's, the sum over cells of squared residuals over their variances: clients that are worse in one
    class and better in another. The smaller of their p-values is compared with that of the simulated federations.

    Guarantee: under label shift and with independent examples, given a class's totals all ways to place its certified
    examples among its examples are equally likely. Federations are simulated by just that (hypergeometric draws), so
    the size is at most the level, for any number of clients of any size. Design effects other than 1 stretch the
    simulated residuals, which is approximate.

    Args:
        labels: clients x classes; every client holds an example.
        certified: clients x classes.
        effects: variance inflation, one per client.
        examples: of each class, those clients' and any others' that the totals include.
        successes: certified ones among them.
        generator: of the simulated federations.
        replicates: how many of them.
    """
    held = labels.sum(axis=0) > 0
    labels, certified, examples, successes = labels[:, held], certified[:, held], examples[held], successes[held]
    sizes, share = labels.sum(axis=1).astype(np.float64), successes / examples
    # Variance of a residual given the totals.
    scale = share * (1 - share) * examples / np.maximum(examples - 1, 1)
    variance = (labels * (1 - labels / examples)) @ scale * effects / sizes**2
    informative = variance > 0
    if not informative.any():
        return 1.0
    added, pearson = np.zeros((replicates + 1, len(labels))), np.zeros(replicates + 1)
    for column, own, total, right in zip(
        labels.T, certified.T, examples.astype(np.int64), successes.astype(np.int64), strict=True
    ):
        holders = np.flatnonzero((column > 0) & (column < total))
        if 0 < right < total and len(holders):
            counts, stretch = column[holders], np.sqrt(effects[holders])
            placed = stretch * _placed(counts, int(total), int(right), replicates, generator)
            cells = np.vstack([own[holders] - counts * (right / total), placed])
            added[:, holders] += cells
            chance = right / total * (1 - right / total) * total / (total - 1)
            pearson += cells**2 @ (1 / (chance * counts * (1 - counts / total) * stretch**2))
    residuals = added / sizes
    squares, variance = residuals[:, informative] ** 2, variance[informative]
    deviance = np.stack([
        np.log(variance + extra).sum() + squares @ (1 / (variance + extra)) for extra in _CLIENT_VARIANCES
    ])  # fmt: skip
    least = np.minimum(_p_values(deviance[0] - deviance.min(axis=0)), _p_values(pearson))
    return float(np.mean(least <= least[0] + _ROUNDING))


def _p_values(statistics: Floats) -> Floats:
    """Each one's p-value among all of them: the share that is as large."""
    below = np.searchsorted(np.sort(statistics), statistics - _ROUNDING * np.maximum(1.0, np.abs(statistics)))
    return np.asarray(1 - below / len(statistics), dtype=np.float64)


def _placed(held: Integers, total: int, right: int, replicates: int, generator: np.random.Generator) -> Floats:
    """Of a class's certified examples, placed at random: how many more than expected each client gets."""
    parts = np.append(held, total - held.sum())
    share = right / total
    if total < _MOST_EXAMPLES:
        drawn = generator.multivariate_hypergeometric(parts, right, size=replicates, method="marginals")
        return np.asarray(drawn[:, :-1] - held * share, dtype=np.float64)
    more = generator.binomial(parts, share, size=(replicates, len(parts))) - parts * share
    return np.asarray(more[:, :-1] - more.sum(axis=1, keepdims=True) * (held / total), dtype=np.float64)


def _class_accuracy(observed: Floats, mixes: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Mean and covariance of the classes' accuracies given the clients', without client effects; σ² by REML."""
    likelihood = RestrictedLikelihood.of(observed[None, :], mixes, 1 / noise)
    best = int(np.argmin(likelihood.deviance(_FINE_CLASS_VARIANCES)[:, 0]))
    return likelihood.class_accuracy(float(_FINE_CLASS_VARIANCES[best]))


def _ratio(curves: Floats, mixes: Floats, noise: Floats) -> Floats:
    """Twice the log restricted likelihood ratio of τ² = 0 for each row of curves."""
    least = [
        RestrictedLikelihood.of(curves, mixes, 1 / (noise + variance)).deviance(CLASS_VARIANCES).min(axis=0)
        for variance in _CLIENT_VARIANCES
    ]
    return np.asarray(least[0] - np.min(least, axis=0), dtype=np.float64)


def _simulated(labels: Integers, accuracy: Floats, generator: np.random.Generator) -> Integers:
    """Certified counts of simulated federations, replicates x clients; accuracies are replicates x classes."""
    clients, classes = np.nonzero(labels)
    counts = labels[clients, classes]
    starts = np.searchsorted(clients, np.arange(len(labels)))
    step = max(1, _CELLS_AT_ONCE // len(counts))
    return np.concatenate([
        np.add.reduceat(generator.binomial(counts, accuracy[start : start + step][:, classes]), starts, axis=1)
        for start in range(0, len(accuracy), step)
    ])  # fmt: skip
