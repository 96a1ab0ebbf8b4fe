"""Screening: clients whose curves the others do not explain lose their weight, and huge ones are cut to size.

The method is unpublished; `tests/estimation/diagnostics/test_screening.py` holds what its constants achieve.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats
from fedcert.estimation.clients import ReportedClients

_CAP = 3.0
"""No client weighs more than so many clients of median size: one client must not dominate the fit."""
_FLAT, _OUT, _CUT, _FIRST_CUT = 1.0, 3.0, 4.0, 2.0
"""In standard deviations: full weight up to the first, none from the second, at which Tukey's biweight is about 90%
efficient. The fit itself is stricter: no flat part, and at its start the third in place of the second."""
_RATIO = 0.1
"""λ of the linear model, at its prior mean: it matters only where classes are as many as clients."""
_TYPICAL, _LARGE = 0.8, 1.0
"""The median deviation of honest clients (the root of χ²/df has 0.67 at 1 and 0.83 at 2 df); and one that chance
hardly leads to, from which on clients are taken to differ for other reasons than sampling."""
_FROM_CERTAIN = 0.02
"""Accuracies are kept so far from 0 and 1 in the variances, as in the test of label shift."""
_SINGLE_EXAMPLE = 1.5
"""A single example, however unlikely, is at most so many standard deviations: it alone never drops a client."""
_FEWEST = 3
"""With fewer clients there is no majority."""
_ROWS_FITTED, _ROWS_PER_STEP = 20_000, 50_000
"""Clients that the model is fitted to, plenty for its coefficients; clients judged at once, to bound the memory."""
_STEPS, _SETTLED = 40, 1e-3
"""Iterations of a fit at most, and the change of the weights at which it ends; a dozen are typical."""
_LEAST_LEFT = 1e-6
"""Of a client's residual after its own leverage, so that the division is defined."""
_CHANCE_ONLY = 1.05
"""Tolerances below it are called chance in words."""
_DROPPED, _NOTED = 0.01, 0.9
"""Below the first share a client is left out; below the second the estimate names it as reduced."""


@dataclass(frozen=True)
class Deviations:
    """How far each client is from the others.

    Attributes:
        cap: in (0, 1], what holds the client's examples to three times the median.
        claim: in (0, 1], what holds its weight to what its examples are worth by the design effect that it claims,
            where that is above the median client's.
        fitting: in [0, 1], Tukey's weight of its deviation: 0 for a client that is dropped.
        deviation: root mean squared deviation of its curve from what the other clients' say of its class mix, in
            standard deviations of chance.
        tolerance: what the deviation is divided by before it is judged; 1 where clients differ by chance only.
    """

    cap: Floats
    claim: Floats
    fitting: Floats
    deviation: Floats
    tolerance: Floats

    @property
    def factors(self) -> Floats:
        """The share of each client's examples that stays."""
        return np.asarray(self.cap * self.claim * self.fitting, dtype=np.float64)

    @property
    def stays(self) -> npt.NDArray[np.bool_]:
        """Which clients stay."""
        return np.asarray(self.claim * self.fitting >= _DROPPED, dtype=np.bool_)


@dataclass(frozen=True)
class Screened:
    """A federation after screening.

    Attributes:
        federation: the clients that stay, each reduced to the share that screening leaves.
        kept: the same clients with all of their examples.
        uncut: the same clients, each reduced by how it deviates and what it claims, but not for its size.
        dropped: client -> why it was left out.
        reduced: client -> why it counts for less.
        stays: which of the clients stay, by a mask.
        factors: the share of each of these that stays.
    """

    federation: ReportedClients
    kept: ReportedClients
    uncut: ReportedClients
    dropped: Mapping[str, str]
    reduced: Mapping[str, str]
    stays: npt.NDArray[np.bool_]
    factors: Floats

    def applied(self, federation: ReportedClients) -> ReportedClients:
        """The same clients, with other counts, after the same screening."""
        return federation.part(self.stays, self.dropped, self.factors)


def screen(federation: ReportedClients, seed: int = 0, trusted: Collection[str] = ()) -> Screened:
    """Leave out clients whose curves do not fit the others', and cut huge ones to three times the median size.

    A client that claims a larger design effect than the median client is judged more leniently, since its examples
    say less; it then counts for less by the same factor, so that nothing is gained by the claim.

    A trusted client is never left out, and is only cut to size: false counts of one of them move the estimate by its
    weight at most.

    Not detected: counts that a client of its size could report by chance (with fewer than some twenty examples each,
    that is much), false label counts, and lies of nearly half of the clients, or of those that hold a class. An interval made after screening is
    approximate, since what stays was chosen by its accuracies.

    Args:
        federation: the clients.
        seed: of the choice among more than 20,000 clients for the fit; all of them are judged.
        trusted: names of clients that stay.
    """
    screened = deviations(federation.label_counts, federation.certified_counts, federation.design_effects, seed)
    if trusted:
        known = np.array([client in trusted for client in federation.clients])
        ones = np.ones(len(known))
        screened = replace(
            screened,
            fitting=np.where(known, ones, screened.fitting),
            claim=np.where(known, ones, screened.claim),
        )
    stays, factors = screened.stays, screened.factors
    if not stays.any():  # no client fits any other: there is nothing to judge by
        stays, factors = np.ones(len(stays), dtype=np.bool_), screened.cap
    dropped, reduced = {}, {}
    for index in np.flatnonzero((screened.fitting < _NOTED) | (screened.cap < 1) | (screened.claim < 1)):
        client = federation.clients[index]
        reasons = []
        if screened.fitting[index] < _NOTED:
            reasons.append(_apart(screened, int(index)))
        if screened.claim[index] < 1:
            reasons.append(_claimed(federation, int(index)))
        if not stays[index]:
            dropped[client] = f"it was screened out: {' and '.join(reasons)}"
            continue
        if screened.cap[index] < 1:
            reasons.append(f"it has more than {_CAP:g} times the median client's examples")
        reduced[client] = f"it counts for {factors[index]:.0%} of its examples: {' and '.join(reasons)}"
    kept = federation.part(stays, dropped)
    part = federation.part(stays, dropped, factors[stays])
    uncut = federation.part(stays, dropped, (factors / screened.cap)[stays])
    return Screened(part, kept, uncut, dropped, reduced, stays, factors[stays])


def suspected(federation: ReportedClients, seed: int = 0) -> dict[str, str]:
    """Clients that screening would leave out, and how far each is from the others."""
    deviating = deviations(federation.label_counts, federation.certified_counts, federation.design_effects, seed)
    odd = np.flatnonzero(deviating.fitting < _DROPPED)
    return {federation.clients[index]: _apart(deviating, int(index)) for index in odd}


def _apart(screened: Deviations, index: int) -> str:
    measure = "of chance" if screened.tolerance[index] < _CHANCE_ONLY else "of the clients' spread"
    times = screened.deviation[index] / screened.tolerance[index]
    return f"its curve is {times:.1f} standard deviations {measure} from what the others predict for its class mix"


def _claimed(federation: ReportedClients, index: int) -> str:
    assert federation.design_effects is not None  # noqa: S101 (it claims one)
    effects = federation.design_effects.mean(axis=1)
    return f"it claims a design effect of {effects[index]:.3g}, and the median client one of {np.median(effects):.3g}"


def deviations(labels: Floats, certified: Floats, design_effects: Floats | None = None, seed: int = 0) -> Deviations:
    """How far each client's curve is from what the others' explain.

    A linear model, c = p·L with the differences between classes shrunk a little, is fitted with Tukey's biweight of
    the clients' deviations and sizes up to the cap. It is fitted from two starts, and that one is taken which more
    clients fit: the common curve, which no minority can bend, and weights that fall as one over the deviation, which
    do not mind how much classes differ. A client's deviation is against the fit without itself; it allows for that
    fit's uncertainty, for the reported design effect and for the single examples of small clients. If most clients
    deviate more than chance allows, be it because examples come in groups or because clients differ, all are judged
    by that wider measure: a federation without label shift is not thinned.

    Guarantees: factors are in [0, 1]; up to 20,000 clients nothing depends on their order beyond rounding, and of more
    than that all are judged, by a fit to a random 20,000 of them. A client without examples, and every client among
    fewer than three, has deviation 0 and factor 1.

    Args:
        labels: clients x classes.
        certified: clients x radii.
        design_effects: clients x radii, Σ m²/n over the sizes m of groups; None where all examples are independent.
        seed: of the choice among more than 20,000 clients.
    """
    sizes = labels.sum(axis=1)
    held = np.flatnonzero(sizes > 0)
    cap, claim, fitting, tolerance = np.ones((4, len(sizes)))
    deviation = np.zeros(len(sizes))
    if len(held) < _FEWEST:
        return Deviations(cap, claim, fitting, deviation, tolerance)
    if design_effects is not None:
        effects = design_effects.mean(axis=1)
        claim = np.minimum(1.0, np.median(effects[held]) / effects)
    cap[held] = np.minimum(1.0, _CAP * float(np.median(sizes[held])) / sizes[held])
    chosen = held
    if len(held) > _ROWS_FITTED:
        chosen = np.sort(np.random.default_rng(seed).choice(held, _ROWS_FITTED, replace=False))
    rows = _Rows.of(labels, certified, design_effects, chosen)
    model, spread = _robust_fit(rows, cap[chosen])
    contained = np.zeros(len(sizes))
    contained[chosen] = model.factors
    for start in range(0, len(held), _ROWS_PER_STEP):
        part = held[start : start + _ROWS_PER_STEP]
        rows = _Rows.of(labels, certified, design_effects, part)
        deviation[part] = model.deviations(rows, contained[part])
        tolerance[part] = spread.tolerance(rows.worth)
    fitting = _biweight(np.maximum(deviation / tolerance - _FLAT, 0.0), _OUT - _FLAT)
    return Deviations(cap, claim, fitting, deviation, tolerance)


@dataclass(frozen=True)
class GroupDeviation:
    """How far a group of clients, taken together, is from what the others' explain.

    Attributes:
        deviation: root mean squared, in standard deviations of chance or of the clients' spread.
        own: the group's curve.
        expected: what the others predict for its class mix.
    """

    deviation: float
    own: Floats
    expected: Floats


def group_deviation(
    labels: Floats, certified: Floats, design_effects: Floats | None, group: npt.NDArray[np.bool_]
) -> GroupDeviation:
    """How far a group of clients, taken as one, is from the linear model that is fitted to all others.

    Args:
        labels, certified, design_effects: as for `deviations`; every client holds examples.
        group: which clients, by a mask; not all.
    """
    rest = _Rows.of(labels, certified, design_effects, np.flatnonzero(~group))
    model = _Model.fitted(rest, np.minimum(1.0, _CAP * float(np.median(rest.worth)) / rest.worth))
    spread = _Spread.of(model.deviations(rest, model.factors), rest.worth)
    effects = None if design_effects is None else design_effects[group].max(axis=0, keepdims=True)
    together = _Rows.of(
        labels[group].sum(axis=0, keepdims=True), certified[group].sum(axis=0, keepdims=True), effects,
        np.zeros(1, dtype=np.int64),
    )  # fmt: skip
    tolerance = spread.tolerance(together.worth / group.sum())  # clients differ one by one, and average out
    deviation = model.deviations(together, np.zeros(1)) / tolerance
    return GroupDeviation(float(deviation[0]), together.curves[0], (together.design @ model.coefficients)[0])


@dataclass(frozen=True)
class _Rows:
    """Clients: their design (a one, then the class mix), their curves, and the independent examples they are worth."""

    design: Floats
    curves: Floats
    worth: Floats

    @classmethod
    def of(
        cls, labels: Floats, certified: Floats, design_effects: Floats | None, chosen: npt.NDArray[np.int64]
    ) -> _Rows:
        sizes = labels[chosen].sum(axis=1)
        design = np.empty((len(sizes), labels.shape[1] + 1))
        design[:, 0] = 1.0
        np.divide(labels[chosen], sizes[:, None], out=design[:, 1:])
        worth = sizes if design_effects is None else sizes / design_effects[chosen].mean(axis=1)
        return cls(design, certified[chosen] / sizes[:, None], worth)


@dataclass(frozen=True)
class _Model:
    """The fitted model: coefficients (μ, then u), their covariance over σ², and the rows' factors in the fit."""

    coefficients: Floats
    covariance: Floats
    factors: Floats

    @classmethod
    def fitted(cls, rows: _Rows, factors: Floats) -> _Model:
        weighted = rows.design * (rows.worth * factors)[:, None]
        normal = weighted.T @ rows.design
        normal[np.arange(1, len(normal)), np.arange(1, len(normal))] += 1 / _RATIO
        covariance = np.asarray(np.linalg.inv(normal), dtype=np.float64)
        return cls(covariance @ (weighted.T @ rows.curves), covariance, factors)

    def deviations(self, rows: _Rows, factors: Floats) -> Floats:
        """Each client's deviation from the fit without it; `factors` says how much of it the fit contains."""
        uncertain = rows.worth * np.einsum("ij,ij->i", rows.design @ self.covariance, rows.design)
        left = np.maximum(1 - factors * uncertain, _LEAST_LEFT)
        off = np.sum((rows.curves - rows.design @ self.coefficients) ** 2, axis=1) / left**2
        accuracy = np.clip(self.coefficients[0] + self.coefficients[1:], _FROM_CERTAIN, 1 - _FROM_CERTAIN)
        sampling = rows.design[:, 1:] @ np.sum(accuracy * (1 - accuracy), axis=1) / rows.worth
        single = rows.curves.shape[1] / (_SINGLE_EXAMPLE * rows.worth) ** 2
        return np.asarray(np.sqrt(off / (sampling * (1 + uncertain / left) + single)), dtype=np.float64)


@dataclass(frozen=True)
class _Spread:
    """How much more than by chance most clients deviate.

    Attributes:
        factor: of the variance, at least 1: examples that come in groups.
        per_example: added to the variance, relative to that of one example: clients that differ.
    """

    factor: float
    per_example: float

    @classmethod
    def of(cls, deviations: Floats, worth: Floats) -> _Spread:
        factor = max(1.0, float(np.median(deviations)) / _TYPICAL) ** 2
        # With this much added, exactly half of the deviations are above _LARGE.
        return cls(factor, max(0.0, float(np.median(((deviations / _LARGE) ** 2 - 1) / worth))))

    def tolerance(self, worth: Floats) -> Floats:
        """What to divide deviations by: the more lenient of the two."""
        return np.asarray(np.sqrt(np.maximum(self.factor, 1 + self.per_example * worth)), dtype=np.float64)


def _robust_fit(rows: _Rows, cap: Floats) -> tuple[_Model, _Spread]:
    """The model that the more clients fit, of two starts, and the spread of the clients that have a weight in it."""
    models = [_biweight_fit(rows, cap, start) for start in (_common_curve(rows), _gentle_fit(rows))]
    deviations = [model.deviations(rows, model.factors) for model in models]
    best = int(np.argmin([np.sum(np.minimum(some / _CUT, 1.0) ** 2) for some in deviations]))
    kept = models[best].factors > 0
    if not kept.any():
        kept[:] = True
    return models[best], _Spread.of(deviations[best][kept], rows.worth[kept])


def _biweight_fit(rows: _Rows, cap: Floats, model: _Model) -> _Model:
    """Iterated from a model. The median deviation, if large, is the scale, so that most clients keep a weight."""
    fitting, cut = np.ones(len(rows.worth)), _FIRST_CUT
    for _ in range(_STEPS):
        deviations = model.deviations(rows, model.factors)
        scale = max(1.0, float(np.median(deviations)) / _TYPICAL)
        before, fitting = fitting, _biweight(deviations / scale, cut)
        model = _Model.fitted(rows, cap * fitting)
        cut = _CUT
        if np.abs(fitting - before).max() < _SETTLED:
            break
    return model


def _common_curve(rows: _Rows) -> _Model:
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
        model = _Model(np.vstack([curve, np.zeros((classes, len(curve)))]), covariance, outside)
        before, weights = weights, precision / np.maximum(model.deviations(rows, outside), 1.0)
        if np.abs(weights - before).max() < _SETTLED * precision.max():
            break
    return model


def _gentle_fit(rows: _Rows) -> _Model:
    """Weights that fall as one over the deviation; clients above the median weigh as the median one."""
    size = np.minimum(1.0, float(np.median(rows.worth)) / rows.worth)
    fitting = np.ones(len(rows.worth))
    for _ in range(_STEPS):
        model = _Model.fitted(rows, size * fitting)
        before, fitting = fitting, 1 / np.maximum(model.deviations(rows, model.factors), 1.0)
        if np.abs(fitting - before).max() < _SETTLED:
            break
    return model


def _biweight(deviations: Floats, cut: float) -> Floats:
    return np.asarray(np.maximum(1 - (deviations / cut) ** 2, 0.0) ** 2, dtype=np.float64)
