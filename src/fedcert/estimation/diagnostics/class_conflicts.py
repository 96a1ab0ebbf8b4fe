"""Classes about which two groups of clients contradict each other, so that no majority decides who is right."""

from __future__ import annotations

import numpy as np

from fedcert._arrays import Floats
from fedcert.errors import preview
from fedcert.estimation.clients import ReportedClients
from fedcert.estimation.diagnostics.screening import group_deviation

_MATTERS = 0.02
"""Share of the target from which on a class matters (as in the other checks)."""
_NEARLY_ALL = 0.8
"""Of a client's examples, from which on it stands for the class."""
_DECIDES = 0.5
"""Share of a class's examples with which such clients decide it."""
_CUT = 5.0
"""Standard deviations between the two: beyond screening's own, since whole groups average chance out."""
_MOST_CLASSES = 200
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
    for column in np.flatnonzero(mix >= _MATTERS)[:_MOST_CLASSES]:
        group = pure[:, column]
        share = clients.label_counts[group, column].sum() / max(totals[column], 1.0)
        if share < _DECIDES or group.all():
            continue
        found = group_deviation(clients.label_counts, clients.certified_counts, clients.design_effects, group)
        if found.deviation <= _CUT or (worst is not None and found.deviation <= worst[0]):
            continue
        index = int(np.argmax(np.abs(found.own - found.expected)))
        count = int(group.sum())
        who = f"{count} clients hold little else" if count > 1 else "one client holds little else"
        worst = found.deviation, (
            f"What is known of {preview(clients.classes[column])} is contradictory: {who}, and {share:.0%} of its "
            f"examples. At radius {clients.radii[index]:g} these have {found.own[index]:.1%}, and the others' counts "
            f"say {np.clip(found.expected[index], 0, 1):.1%}. One side is wrong, or the class is not equally hard "
            "everywhere."
        )
    return worst
