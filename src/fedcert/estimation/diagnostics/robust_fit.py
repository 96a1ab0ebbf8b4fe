"""The robust linear model behind screening: what the clients' class mixes explain of their curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats

_CUT, _FIRST_CUT = 4.0, 2.0
"""In standard deviations: no weight in the fit from the first, at which Tukey's biweight is about 90% efficient; at the
start of the fit from the second."""
_RATIO = 1.0
"""λ of the linear model: how much classes differ, in variances of an example. It matters only where classes are as many
as clients, or a client alone holds a class: its difference from the others must then be no surprise."""
_TYPICAL, _LARGE = 0.8, 1.0
"""The median deviation of honest clients (the root of χ²/df has 0.67 at 1 and 0.83 at 2 df); and one that chance
hardly leads to, from which on clients are taken to differ for other reasons than sampling."""
_FROM_CERTAIN = 0.02
"""Accuracies are kept so far from 0 and 1 in the variances, as in the test of label shift."""
_SINGLE_EXAMPLE = 1.5
"""A single example, however unlikely, is at most so many standard deviations: it alone never drops a client."""
_STEPS, _SETTLED = 40, 1e-3
"""Iterations of a fit at most, and the change of the weights at which it ends; a dozen are typical."""
_LEAST_LEFT = 1e-6
"""Of a client's residual after its own leverage, so that the division is defined."""


@dataclass(frozen=True)
class ClientDesigns:
    """Clients: their design (a one, then the class mix), their curves, and the independent examples they are worth."""

    design: Floats
    curves: Floats
    worth: Floats

    @classmethod
    def of(
        cls, labels: Floats, certified: Floats, design_effects: Floats | None, chosen: npt.NDArray[np.int64]
    ) -> ClientDesigns:
        """From counts, of the chosen clients."""
        sizes = labels[chosen].sum(axis=1)
        design = np.empty((len(sizes), labels.shape[1] + 1))
        design[:, 0] = 1.0
        np.divide(labels[chosen], sizes[:, None], out=design[:, 1:])
        worth = sizes if design_effects is None else sizes / design_effects[chosen].mean(axis=1)
        return cls(design, certified[chosen] / sizes[:, None], worth)


@dataclass(frozen=True)
class LinearFit:
    """The fitted model: coefficients (μ, then u), their covariance over σ², and the rows' factors in the fit."""

    coefficients: Floats
    covariance: Floats
    factors: Floats

    @classmethod
    def fitted(cls, rows: ClientDesigns, factors: Floats) -> LinearFit:
        """By least squares, each client counting for a share of what it is worth."""
        weighted = rows.design * (rows.worth * factors)[:, None]
        normal = weighted.T @ rows.design
        normal[np.arange(1, len(normal)), np.arange(1, len(normal))] += 1 / _RATIO
        covariance = np.asarray(np.linalg.inv(normal), dtype=np.float64)
        return cls(covariance @ (weighted.T @ rows.curves), covariance, factors)

    def deviations(self, rows: ClientDesigns, factors: Floats) -> Floats:
        """Each client's deviation from the fit without it; `factors` says how much of it the fit contains."""
        uncertain = rows.worth * np.einsum("ij,ij->i", rows.design @ self.covariance, rows.design)
        left = np.maximum(1 - factors * uncertain, _LEAST_LEFT)
        off = np.sum((rows.curves - rows.design @ self.coefficients) ** 2, axis=1) / left**2
        accuracy = np.clip(self.coefficients[0] + self.coefficients[1:], _FROM_CERTAIN, 1 - _FROM_CERTAIN)
        sampling = rows.design[:, 1:] @ np.sum(accuracy * (1 - accuracy), axis=1) / rows.worth
        single = rows.curves.shape[1] / (_SINGLE_EXAMPLE * rows.worth) ** 2
        return np.asarray(np.sqrt(off / (sampling * (1 + uncertain / left) + single)), dtype=np.float64)


@dataclass(frozen=True)
class Spread:
    """How much more than by chance most clients deviate.

    Attributes:
        factor: of the variance, at least 1: examples that come in groups.
        per_example: added to the variance, relative to that of one example: clients that differ.
    """

    factor: float
    per_example: float

    @classmethod
    def of(cls, deviations: Floats, worth: Floats) -> Spread:
        """From the clients' deviations and what they are worth."""
        factor = max(1.0, float(np.median(deviations)) / _TYPICAL) ** 2
        # With this much added, exactly half of the deviations are above _LARGE.
        return cls(factor, max(0.0, float(np.median(((deviations / _LARGE) ** 2 - 1) / worth))))

    def tolerance(self, worth: Floats) -> Floats:
        """What to divide deviations by: the more lenient of the two."""
        return np.asarray(np.sqrt(np.maximum(self.factor, 1 + self.per_example * worth)), dtype=np.float64)


def robust_fit(rows: ClientDesigns, cap: Floats) -> tuple[LinearFit, Spread]:
    """The model that the more clients fit, of two starts, and the spread of the clients that have a weight in it."""
    models = [_biweight_fit(rows, cap, start) for start in (_common_curve(rows), _gentle_fit(rows))]
    deviations = [model.deviations(rows, model.factors) for model in models]
    best = int(np.argmin([np.sum(np.minimum(some / _CUT, 1.0) ** 2) for some in deviations]))
    kept = models[best].factors > 0
    if not kept.any():
        kept[:] = True
    return models[best], Spread.of(deviations[best][kept], rows.worth[kept])


def _biweight_fit(rows: ClientDesigns, cap: Floats, model: LinearFit) -> LinearFit:
    """Iterated from a model. The median deviation, if large, is the scale, so that most clients keep a weight."""
    fitting, cut = np.ones(len(rows.worth)), _FIRST_CUT
    for _ in range(_STEPS):
        deviations = model.deviations(rows, model.factors)
        scale = max(1.0, float(np.median(deviations)) / _TYPICAL)
        before, fitting = fitting, biweight(deviations / scale, cut)
        model = LinearFit.fitted(rows, cap * fitting)
        cut = _CUT
        if np.abs(fitting - before).max() < _SETTLED:
            break
    return model


def _common_curve(rows: ClientDesigns) -> LinearFit:
    """All that is known of any class is one common curve, that of least summed deviation: a convex problem.

    Sizes hardly matter to it: what is not known of the classes is most of the variance.
    """
    classes = rows.design.shape[1] - 1
    covariance = np.diag(np.append(0.0, np.full(classes, _RATIO)))
    outside = np.zeros(len(rows.worth))
    precision = 1 / (1 / rows.worth + _RATIO * np.sum(rows.design[:, 1:] ** 2, axis=1))
    weights = precision
    for _ in range(_STEPS):
        curve = weights @ rows.curves / weights.sum()
        model = LinearFit(np.vstack([curve, np.zeros((classes, len(curve)))]), covariance, outside)
        before, weights = weights, precision / np.maximum(model.deviations(rows, outside), 1.0)
        if np.abs(weights - before).max() < _SETTLED * precision.max():
            break
    return model


def _gentle_fit(rows: ClientDesigns) -> LinearFit:
    """Weights that fall as one over the deviation; clients above the median weigh as the median one."""
    size = np.minimum(1.0, float(np.median(rows.worth)) / rows.worth)
    fitting = np.ones(len(rows.worth))
    for _ in range(_STEPS):
        model = LinearFit.fitted(rows, size * fitting)
        before, fitting = fitting, 1 / np.maximum(model.deviations(rows, model.factors), 1.0)
        if np.abs(fitting - before).max() < _SETTLED:
            break
    return model


def biweight(deviations: Floats, cut: float) -> Floats:
    """Tukey's biweight: 1 without deviation, 0 from the cut on."""
    return np.asarray(np.maximum(1 - (deviations / cut) ** 2, 0.0) ** 2, dtype=np.float64)
