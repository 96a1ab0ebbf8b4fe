"""Whether the clients look as if each class were the same everywhere: the assumption that everything rests on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedcert.estimation.federation import Federation
from fedcert.estimation.linear_model import Fit
from fedcert.estimation.simplex import Floats

_REPLICATES = 499
_CLIENTS_PER_CLASS = 1.5
_MOST_CELLS = 50_000
"""Clients x classes that are simulated; of more clients, a random part is looked at, which is plenty."""
_CELLS_AT_ONCE = 2**22


@dataclass(frozen=True)
class ShiftTest:
    """A test of label shift.

    Attributes:
        probability: the p-value; None where the clients are too few to tell.
        radius: the radius whose counts were looked at.
        clients: how many clients were looked at.
    """

    probability: float | None
    radius: float
    clients: int


def label_shift_test(federation: Federation, fitted: Fit, seed: int = 0) -> ShiftTest:
    """Cochran's Q of what the class mixes do not explain, calibrated by simulation.

    At the radius where the clients' pooled accuracy is closest to one half, each client's residual c - p·L is squared
    and divided by its binomial variance; L is found by least squares. Small clients are far from normal, so Q is
    compared with the same sum in federations simulated from the fitted accuracies and the clients' own labels. The
    design effects that clients report enter the variances.

    With fewer than one and a half clients per class hardly any residual is left, and there is no test.
    """
    pooled = federation.certified_counts.sum(axis=0) / federation.sizes.sum()
    index = int(np.argmin(np.abs(pooled - 0.5)))
    radius = federation.radii[index]
    generator = np.random.default_rng(seed)
    chosen = np.arange(len(federation.clients))
    most = _MOST_CELLS // len(federation.classes)
    if len(chosen) > most:
        chosen = np.sort(generator.choice(len(chosen), most, replace=False))
    labels = federation.label_counts[chosen].astype(np.int64)
    held = labels.sum(axis=0) > 0
    labels = labels[:, held]
    if len(labels) < _CLIENTS_PER_CLASS * labels.shape[1] + 1 or not 0 < pooled[index] < 1:
        return ShiftTest(None, radius, len(labels))
    accuracy = np.clip(fitted.class_accuracy[held, index], 0.02, 0.98)
    sizes = labels.sum(axis=1).astype(np.float64)
    plain = labels @ (accuracy * (1 - accuracy)) / sizes
    # L(1 - L) of an estimated L is too small by its variance, on average: at least what the model says of it.
    uncertain = np.diag(fitted.shrunk)[held] * float(np.mean(accuracy * (1 - accuracy)))
    variance = (plain + labels @ uncertain / sizes) * _effects(federation, chosen, index)
    observed = federation.certified_counts[chosen, index] / sizes
    # Replicates have independent examples; they are spread about their mean as wide as the clients' must be.
    expected = labels @ accuracy / sizes
    simulated = _simulated(labels, accuracy, generator) / sizes
    simulated = expected + np.sqrt(variance / plain) * (simulated - expected)
    everything = np.vstack([observed, simulated])
    statistics = _cochran(everything, labels / sizes[:, None], sizes / variance)
    return ShiftTest(float(np.mean(statistics >= statistics[0] * (1 - 1e-12))), radius, len(labels))


def _effects(federation: Federation, chosen: npt.NDArray[np.int64], index: int) -> Floats:
    if federation.design_effects is None:
        return np.ones(len(chosen))
    return np.asarray(federation.design_effects[chosen, index], dtype=np.float64)


def _simulated(
    labels: npt.NDArray[np.int64], accuracy: Floats, generator: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Certified counts of simulated federations, replicates x clients; drawn some at a time, to spare memory."""
    step = max(1, _CELLS_AT_ONCE // labels.size)
    parts = []
    for start in range(0, _REPLICATES, step):
        count = min(step, _REPLICATES - start)
        parts.append(generator.binomial(labels, accuracy, size=(count, *labels.shape)).sum(axis=2))
    return np.concatenate(parts)


def _cochran(curves: Floats, mixes: Floats, weights: Floats) -> Floats:
    """Σ weight·(c - p·L)² for each row of curves, with L by weighted least squares."""
    root = np.sqrt(weights)
    base, _ = np.linalg.qr(root[:, None] * mixes)
    scaled = curves * root
    return np.asarray(np.sum(scaled**2, axis=1) - np.sum((scaled @ base) ** 2, axis=1), dtype=np.float64)
