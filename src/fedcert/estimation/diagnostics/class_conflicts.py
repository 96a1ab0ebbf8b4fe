"""Classes about which two groups of clients contradict each other, so that no majority decides who is right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Floats
from fedcert.errors import preview
from fedcert.estimation.clients import ReportedClients
from fedcert.estimation.diagnostics.robust_fit import ClientDesigns, LinearFit, Spread

_LEAST = 0.005
"""A movement of the estimate that would change no decision, whichever side is right about the class."""
_NEARLY_ALL = 0.8
"""Of a client's examples, from which on it stands for the class."""
_DECIDES = 0.2
"""Share of a class's examples from which on such clients can decide it."""
_FEWEST_OTHERS = 30
"""Examples of the class at the others: with fewer their counts say nothing of it."""
_CUT = 5.0
"""Standard deviations between the two: beyond screening's own, since whole groups average chance out."""
_WEIGHT = 3.0
"""Times the median client that a client weighs at most in the fit, as in screening."""
_MOST_CLASSES = 30
"""Classes that are looked at: each takes a fit."""


def conflicting_class(clients: ReportedClients, mix: Floats) -> tuple[float, str] | None:
    """The class of which clients that hold little else contradict the others most; the deviation, and a sentence.

    Screening goes by the majority of the clients, and a class may have another one: those who hold nothing else. For
    each class that matters to the target and that such clients decide, their common curve is compared with what all
    others' counts say of it.

    Args:
        clients: whole clients, not reduced by screening.
        mix: the target's class mix.
    """
    worst: tuple[float, str] | None = None
    totals, pure = clients.labels, clients.mixes > _NEARLY_ALL
    for column in np.argsort(-mix, kind="stable")[:_MOST_CLASSES]:
        if mix[column] < _LEAST:
            break
        group = pure[:, column]
        share = clients.label_counts[group, column].sum() / max(totals[column], 1.0)
        others = clients.label_counts[~group, column].sum()
        if share < _DECIDES or others < _FEWEST_OTHERS:
            continue
        apart = _group_deviation(clients.label_counts, clients.certified_counts, clients.design_effects, group)
        moved = mix[column] * share * np.abs(apart.own - apart.expected).max()
        if moved < _LEAST or apart.deviation <= _CUT:
            continue
        if worst is None or apart.deviation > worst[0]:
            worst = apart.deviation, _worded(clients, int(column), int(group.sum()), float(share), apart)
    return worst


def _worded(clients: ReportedClients, column: int, count: int, share: float, apart: _GroupDeviation) -> str:
    index = int(np.argmax(np.abs(apart.own - apart.expected)))
    who = f"{count} clients hold little else" if count > 1 else "one client holds little else"
    return (
        f"What is known of {preview(clients.classes[column])} is contradictory: {who}, and {share:.0%} of its "
        f"examples. At radius {clients.radii[index]:g} these have {apart.own[index]:.1%}, and the others' counts say "
        f"{np.clip(apart.expected[index], 0, 1):.1%}. One side is wrong, or the class is not equally hard everywhere."
    )


@dataclass(frozen=True)
class _GroupDeviation:
    """How far a group of clients, taken together, is from what the others' explain.

    Attributes:
        deviation: root mean squared, in standard deviations of chance or of the clients' spread.
        own: the group's curve.
        expected: what the others predict for its class mix.
    """

    deviation: float
    own: Floats
    expected: Floats


def _group_deviation(
    labels: Floats, certified: Floats, design_effects: Floats | None, group: npt.NDArray[np.bool_]
) -> _GroupDeviation:
    """How far a group of clients, taken as one, is from the linear model that is fitted to all others.

    Args:
        labels, certified, design_effects: as for `deviations`; every client holds examples.
        group: which clients, by a mask; not all.
    """
    rest = ClientDesigns.of(labels, certified, design_effects, np.flatnonzero(~group))
    model = LinearFit.fitted(rest, np.minimum(1.0, _WEIGHT * float(np.median(rest.worth)) / rest.worth))
    spread = Spread.of(model.deviations(rest, model.factors), rest.worth)
    effects = None if design_effects is None else design_effects[group].max(axis=0, keepdims=True)
    together = ClientDesigns.of(
        labels[group].sum(axis=0, keepdims=True), certified[group].sum(axis=0, keepdims=True), effects,
        np.zeros(1, dtype=np.int64),
    )  # fmt: skip
    tolerance = spread.tolerance(together.worth / group.sum())  # clients differ one by one, and average out
    deviation = model.deviations(together, np.zeros(1)) / tolerance
    return _GroupDeviation(float(deviation[0]), together.curves[0], (together.design @ model.coefficients)[0])
