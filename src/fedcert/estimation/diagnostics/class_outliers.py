"""Clients one of whose classes differs from the same class elsewhere, though their curves may look as expected."""

from __future__ import annotations

import numpy as np

from fedcert.estimation.clients import ReportedClients
from fedcert.estimation.diagnostics.label_shift import class_counts_at

_CUT = 4.0
"""Standard deviations of chance: among a thousand cells, chance exceeds it once in fifteen federations."""
_FROM_CERTAIN = 0.02
"""Accuracies are kept so far from 0 and 1 in the variances, as in the test of label shift."""


def suspected_by_class(federation: ReportedClients, radius: float) -> dict[str, str]:
    """Clients whose own class with the largest deviation is far from the other clients', and how far.

    Each cell, a client's examples of a class, is compared with that class's examples at all other clients that
    disclose counts per class. This names whom to ask; the test of label shift decides whether clients differ.

    Args:
        federation: clients whose counts are whole.
        radius: one of theirs, at which they are compared.
    """
    disclosing = np.flatnonzero(federation.has_class_counts)
    if federation.class_totals is None or len(disclosing) < 2:
        return {}
    index = federation.radii.index(radius)
    own = federation.label_counts[disclosing]
    right = class_counts_at(federation, disclosing, index).astype(np.float64)
    others, others_right = own.sum(axis=0) - own, right.sum(axis=0) - right
    share = np.clip(right.sum(axis=0) / np.maximum(own.sum(axis=0), 1), _FROM_CERTAIN, 1 - _FROM_CERTAIN)
    effects = 1.0 if federation.design_effects is None else federation.design_effects[disclosing, index][:, None]
    compared = (own > 0) & (others > 0)
    difference = right / np.maximum(own, 1) - others_right / np.maximum(others, 1)
    chance = share * (1 - share) * (effects / np.maximum(own, 1) + 1 / np.maximum(others, 1))
    deviations = np.where(compared, difference / np.sqrt(chance), 0.0)
    worst = np.abs(deviations).argmax(axis=1)
    suspects = {}
    for row in np.flatnonzero(np.abs(deviations).max(axis=1) >= _CUT):
        deviation = deviations[row, worst[row]]
        suspects[federation.clients[disclosing[row]]] = (
            f"its {federation.classes[worst[row]]!r} examples are {abs(deviation):.1f} standard deviations of chance "
            f"{'below' if deviation < 0 else 'above'} those of the others"
        )
    return suspects
