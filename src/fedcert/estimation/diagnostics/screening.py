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
from fedcert.estimation.diagnostics.robust_fit import ClientDesigns, biweight, robust_fit

_CAP = 3.0
"""No client weighs more than so many clients of median size: one client must not dominate the fit."""
_FLAT, _OUT = 1.0, 3.0
"""In standard deviations: full weight up to the first, none from the second, which chance hardly ever reaches."""
_ENOUGH_TRUSTED = 0.25
"""Share of all examples, after huge clients are cut, with which trusted clients are the yardstick."""
_FEWEST = 3
"""With fewer clients there is no majority."""
_ROWS_FITTED, _ROWS_PER_STEP = 20_000, 50_000
"""Clients that the model is fitted to, plenty for its coefficients; clients judged at once, to bound the memory."""
_CHANCE_ONLY = 1.05
"""Tolerances below it are called chance in words."""
_LEAST_PULL = 1e-9
"""Keeps a division defined where nothing is taken away."""
_DROPPED, _NOTED = 0.01, 0.9
"""Below the first share a client is left out; below the second the estimate names it as reduced."""


ASYMMETRIC = 2.3
"""Standard deviations to one side that honest clients pull in 2 of 100 federations: they differ to both sides, liars in
concert to one."""


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
        above: by how much its curve is above what the others' say of its class mix, on average over the radii.
    """

    cap: Floats
    claim: Floats
    fitting: Floats
    deviation: Floats
    tolerance: Floats
    above: Floats

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
        dropped: client -> why it was left out.
        reduced: client -> why it counts for less.
        asymmetry: by how many standard deviations more the examples that are taken away pull to one side than they
            would if each deviating client might as well deviate to the other.
        asymmetry_left: the same of the clients that stay and count for less.
        stays: which of the clients stay, by a mask.
        factors: the share of each of these that stays.
        uncut: the same, reduced by how it deviates and what it claims, but not for its size.
        spread: how many times chance the variance of their curves is, on average over their examples; 1 where clients
            differ by chance only.
    """

    federation: ReportedClients
    kept: ReportedClients
    dropped: Mapping[str, str]
    reduced: Mapping[str, str]
    asymmetry: float
    asymmetry_left: float
    stays: npt.NDArray[np.bool_]
    factors: Floats
    uncut: Floats
    spread: float

    def applied(self, federation: ReportedClients) -> ReportedClients:
        """The same clients, with other counts, after the same screening."""
        return federation.part(self.stays, self.dropped, self.factors)


def screen(federation: ReportedClients, seed: int = 0, trusted: Collection[str] = ()) -> Screened:
    """Leave out clients whose curves do not fit the others', and cut huge ones to three times the median size.

    A client that claims a larger design effect than the median client is judged more leniently, since its examples
    say less; it then counts for less by the same factor, so that nothing is gained by the claim.

    Trusted clients with a quarter of the examples or more are the yardstick for the others. One is never left out, and
    is only cut to size: false counts of one of them move the estimate by its weight at most.

    Not detected: counts that a client of its size could report by chance (with fewer than some twenty examples each,
    that is much), false label counts, and lies of nearly half of the clients, or of those that hold a class
    (`class_conflicts` looks for these). An interval made after screening is approximate, since what stays was chosen by
    its accuracies.

    Args:
        federation: the clients.
        seed: of the choice among more than 20,000 clients for the fit; all of them are judged.
        trusted: names of clients that stay.
    """
    known = np.array([client in trusted for client in federation.clients])
    screened = deviations(federation.label_counts, federation.certified_counts, federation.design_effects, seed, known)
    if trusted:
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
    uncut = (factors / screened.cap)[stays]
    spread = float(np.average(screened.tolerance[stays] ** 2, weights=part.sizes))
    pulls = np.sqrt(federation.sizes) * (1 - screened.claim * screened.fitting) * screened.above
    asymmetry, left = (
        float(np.abs(some.sum()) / max(np.linalg.norm(some), _LEAST_PULL)) for some in (pulls, pulls[stays])
    )
    return Screened(part, kept, dropped, reduced, asymmetry, left, stays, factors[stays], uncut, spread)


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


def deviations(
    labels: Floats,
    certified: Floats,
    design_effects: Floats | None = None,
    seed: int = 0,
    trusted: npt.NDArray[np.bool_] | None = None,
) -> Deviations:
    """How far each client's curve is from what the others' explain.

    A linear model, c = p·L with the differences between classes shrunk a little, is fitted with Tukey's biweight of
    the clients' deviations and sizes up to the cap. It is fitted from two starts, and that one is taken which more
    clients fit: the common curve, which no minority can bend, and weights that fall as one over the deviation, which
    do not mind how much classes differ. A client's deviation is against the fit without itself; it allows for that
    fit's uncertainty, for the reported design effect and for the single examples of small clients. If most clients
    deviate more than chance allows, be it because examples come in groups or because clients differ, all are judged
    by that wider measure: a federation without label shift is not thinned. Where trusted clients have enough examples,
    the model is fitted to these alone: then no majority of others can bend it.

    Guarantees: factors are in [0, 1]; up to 20,000 clients nothing depends on their order beyond rounding, and of more
    than that all are judged, by a fit to a random 20,000 of them. A client without examples, and every client among
    fewer than three, has deviation 0 and factor 1.

    Args:
        labels: clients x classes.
        certified: clients x radii.
        design_effects: clients x radii, Σ m²/n over the sizes m of groups; None where all examples are independent.
        seed: of the choice among more than 20,000 clients.
        trusted: which clients are trusted, by a mask.
    """
    sizes = labels.sum(axis=1)
    held = np.flatnonzero(sizes > 0)
    cap, claim, fitting, tolerance = np.ones((4, len(sizes)))
    deviation, above = np.zeros((2, len(sizes)))
    if len(held) < _FEWEST:
        return Deviations(cap, claim, fitting, deviation, tolerance, above)
    if design_effects is not None:
        effects = design_effects.mean(axis=1)
        claim = np.minimum(1.0, np.median(effects[held]) / effects)
    cap[held] = np.minimum(1.0, _CAP * float(np.median(sizes[held])) / sizes[held])
    chosen = held
    if trusted is not None and (cap * sizes)[trusted].sum() >= _ENOUGH_TRUSTED * (cap * sizes).sum():
        chosen = held[trusted[held]]
    if len(chosen) > _ROWS_FITTED:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, _ROWS_FITTED, replace=False))
    rows = ClientDesigns.of(labels, certified, design_effects, chosen)
    model, spread = robust_fit(rows, cap[chosen])
    contained = np.zeros(len(sizes))
    contained[chosen] = model.factors
    for start in range(0, len(held), _ROWS_PER_STEP):
        part = held[start : start + _ROWS_PER_STEP]
        rows = ClientDesigns.of(labels, certified, design_effects, part)
        deviation[part] = model.deviations(rows, contained[part])
        tolerance[part] = spread.tolerance(rows.worth)
        above[part] = np.mean(rows.curves - rows.design @ model.coefficients, axis=1)
    fitting = biweight(np.maximum(deviation / tolerance - _FLAT, 0.0), _OUT - _FLAT)
    return Deviations(cap, claim, fitting, deviation, tolerance, above)
