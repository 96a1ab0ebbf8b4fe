"""Whether the clients look as if each class were the same everywhere: the assumption that everything rests on.

The tests ask whether clients need an effect of their own, of variance τ², besides their class mixes and chance, at one
radius. They are likelihood-ratio tests calibrated by simulation, so neither needs more clients than classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Floats, Integers
from fedcert.estimation.clients.reported import ReportedClients

LEVEL = 0.03
"""Below the usual 5%, because accuracies are estimated: so that the size stays at or below 5%."""
_REPLICATES = 499
_FEWEST_CLIENTS = 3
_MOST_CELLS = 20_000
"""Clients x classes that are simulated; of more clients, a random part is looked at, which is plenty."""
_CELLS_AT_ONCE = 2**22
_MOST_EXAMPLES = 10**9
"""Of a class, that numpy's hypergeometric draws allow."""
_CLASS_GRID = np.concatenate([[0.0], np.geomspace(1e-4, 0.25, 16)])
"""Variances between classes that are tried; accuracies in [0, 1] have no larger one."""
_CLIENT_GRID = np.concatenate([[0.0], np.geomspace(1e-5, 0.25, 16)])
"""Variances between clients that are tried."""
_CLOSEST_TO_CERTAIN = 0.02
_ROUNDS = 3


@dataclass(frozen=True)
class ShiftTest:
    """A test of label shift.

    Attributes:
        probability: the p-value; None where the clients are too few to tell, or nothing differs at any radius.
        radius: the radius whose counts were looked at.
        clients: how many clients were looked at.
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

    Where clients tell counts per class, those clients are tested by them; otherwise all clients by their curves. Where
    only some tell, both tests are made, and the smaller p-value is doubled.

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
    everyone = _some(np.arange(federation.count), most, generator)
    tellers = _some(np.flatnonzero(federation.opens), most, generator)
    if len(everyone) < _FEWEST_CLIENTS or not 0 < pooled[index] < 1:
        return ShiftTest(None, radius, len(everyone))
    found = []
    if federation.class_totals is not None and len(tellers) >= _FEWEST_CLIENTS:
        examples, certified = federation.class_totals
        rows = _counts(federation, tellers, index)
        found.append(probability_from_class_counts(*rows, examples, certified[:, index], generator, replicates))
    if not found or not federation.opens.all():
        found.append(probability_from_curves(*_counts(federation, everyone, index), generator, replicates))
    return ShiftTest(min(1.0, len(found) * min(found)), radius, len(everyone))


def _counts(federation: ReportedClients, chosen: Integers, index: int) -> tuple[Integers, Integers, Floats]:
    """Label counts, certified counts and design effects of some clients at one radius."""
    effects = np.ones(len(chosen)) if federation.design_effects is None else federation.design_effects[chosen, index]
    return (
        np.rint(federation.label_counts[chosen]).astype(np.int64),
        np.rint(federation.certified_counts[chosen, index]).astype(np.int64),
        np.asarray(effects, dtype=np.float64),
    )


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

    Guarantee: approximate. Var e is taken large rather than small, so the test errs towards not rejecting where clients
    do not tell the classes apart.

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
        inside = np.clip(accuracy, _CLOSEST_TO_CERTAIN, 1 - _CLOSEST_TO_CERTAIN)
        # L(1 - L) of an estimate that is hardly shrunk is too small by its variance, on average; else this is too much.
        spread = np.minimum(inside * (1 - inside) + np.diag(uncertain), 0.25)
        noise = mixes @ spread * effects / sizes
    root = np.linalg.cholesky(uncertain + 1e-12 * np.eye(len(accuracy)))
    drawn = accuracy + generator.standard_normal((replicates, len(accuracy))) @ root.T
    drawn = np.clip(drawn, _CLOSEST_TO_CERTAIN, 1 - _CLOSEST_TO_CERTAIN)
    expected = drawn @ mixes.T
    simulated = _simulated(labels, drawn, generator) / sizes
    # Replicates have independent examples; they are spread about their mean as wide as the clients' may be.
    simulated = expected + np.sqrt(noise * sizes / ((drawn * (1 - drawn)) @ mixes.T)) * (simulated - expected)
    statistics = _ratio(np.vstack([observed, simulated]), mixes, noise)
    return float(np.mean(statistics >= statistics[0] - 1e-9))


def probability_from_class_counts(
    labels: Integers,
    certified: Integers,
    effects: Floats,
    examples: Floats,
    successes: Floats,
    generator: np.random.Generator,
    replicates: int,
) -> float:
    """The p-value where the certified counts of each class, all clients together, are known too.

    A client's residual is its certified count less what its labels and the classes' pooled accuracies make one expect,
    per example. The statistic is the likelihood ratio of its variance under label shift against that plus τ².

    Guarantee: under label shift and with independent examples, given a class's totals all ways to place its certified
    examples among its examples are equally likely. Federations are simulated by just that (hypergeometric draws), so
    the size is at most the level, for any number of clients of any size. Design effects other than 1 stretch the
    simulated residuals, which is approximate.

    Args:
        labels: clients x classes; every client holds an example.
        certified: one per client.
        effects: variance inflation, one per client.
        examples: of each class, those clients' and any others' that the totals include.
        successes: certified ones among them.
        generator: of the simulated federations.
        replicates: how many of them.
    """
    held = labels.sum(axis=0) > 0
    labels, examples, successes = labels[:, held], examples[held], successes[held]
    sizes, share = labels.sum(axis=1).astype(np.float64), successes / examples
    # Variance of a residual given the totals.
    scale = share * (1 - share) * examples / np.maximum(examples - 1, 1)
    variance = (labels * (1 - labels / examples)) @ scale * effects / sizes**2
    told = variance > 0
    if not told.any():
        return 1.0
    placed = np.zeros((replicates, len(labels)))
    for column, total, right in zip(labels.T, examples.astype(np.int64), successes.astype(np.int64), strict=True):
        who = np.flatnonzero(column)
        if 0 < right < total:
            placed[:, who] += _placed(column[who], int(total), int(right), replicates, generator)
    residuals = np.vstack([certified - labels @ share, np.sqrt(effects) * placed]) / sizes
    squares, variance = residuals[:, told] ** 2, variance[told]
    deviance = np.stack([
        np.log(variance + extra).sum() + squares @ (1 / (variance + extra)) for extra in _CLIENT_GRID
    ])  # fmt: skip
    statistics = deviance[0] - deviance.min(axis=0)
    return float(np.mean(statistics >= statistics[0] - 1e-9))


def _placed(held: Integers, total: int, right: int, replicates: int, generator: np.random.Generator) -> Floats:
    """Of a class's certified examples, placed at random: how many more than expected each client gets."""
    everyone = np.append(held, total - held.sum())
    share = right / total
    if total < _MOST_EXAMPLES:
        drawn = generator.multivariate_hypergeometric(everyone, right, size=replicates, method="marginals")
        return np.asarray(drawn[:, :-1] - held * share, dtype=np.float64)
    more = generator.binomial(everyone, share, size=(replicates, len(everyone))) - everyone * share
    return np.asarray(more[:, :-1] - more.sum(axis=1, keepdims=True) * (held / total), dtype=np.float64)


def _class_accuracy(observed: Floats, mixes: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Mean and covariance of the classes' accuracies given the clients', without client effects; σ² by REML."""
    weighted = mixes / noise[:, None]
    matrix, plain = mixes.T @ weighted, weighted.sum(axis=0)
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, 0.0)
    ones, cross = vectors.T @ plain, vectors.T @ (weighted.T @ observed)
    total, first, second = (1 / noise).sum(), (observed / noise).sum(), (observed**2 / noise).sum()

    def deviance(variance: float) -> float:
        shrink = variance / (1 + variance * values)
        left = total - shrink @ ones**2
        rest = first - shrink @ (ones * cross)
        return float(second - shrink @ cross**2 - rest**2 / left + np.log1p(variance * values).sum() + np.log(left))

    grid = np.concatenate([[0.0], np.geomspace(1e-5, 0.25, 60)])
    variance = float(grid[int(np.argmin([deviance(point) for point in grid]))])
    shrink = variance / (1 + variance * values)
    left = total - shrink @ ones**2
    mean = (first - shrink @ (ones * cross)) / left
    pulled = vectors @ (shrink * ones)
    accuracy = mean + vectors @ (shrink * (cross - ones * mean))
    sway = 1 - pulled  # how a class's accuracy moves with the mean
    covariance = (vectors * shrink) @ vectors.T + np.outer(sway, sway) / left
    return np.asarray(accuracy, dtype=np.float64), np.asarray(covariance, dtype=np.float64)


def _ratio(curves: Floats, mixes: Floats, noise: Floats) -> Floats:
    """Twice the log restricted likelihood ratio of τ² = 0 for each row of curves."""
    best = []
    for client in _CLIENT_GRID:
        weights = 1 / (noise + client)
        weighted = mixes * weights[:, None]
        values, vectors = np.linalg.eigh(mixes.T @ weighted)
        values = np.maximum(values, 0.0)
        ones = vectors.T @ weighted.sum(axis=0)
        cross = (curves @ weighted) @ vectors
        total, first, second = weights.sum(), curves @ weights, curves**2 @ weights
        shrink = _CLASS_GRID[:, None] / (1 + _CLASS_GRID[:, None] * values)
        left = total - shrink @ ones**2
        rest = first - (shrink * ones) @ cross.T
        quadratic = second - shrink @ (cross**2).T - rest**2 / left[:, None]
        determinant = np.log1p(_CLASS_GRID[:, None] * values).sum(axis=1) + np.log(left) - np.log(weights).sum()
        best.append(np.min(quadratic + determinant[:, None], axis=0))
    return np.asarray(best[0] - np.min(best, axis=0), dtype=np.float64)


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
