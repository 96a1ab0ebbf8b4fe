"""Clients one of whose classes differs from the same class elsewhere, though their curves may look as expected."""

from __future__ import annotations

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.clients import ReportedClients
from fedcert.estimation.diagnostics.label_shift import class_counts_at

_CUT = 4.0
"""Standard deviations of chance: among a thousand cells, chance exceeds it once in fifteen federations."""
_MOST_SUSPECTS = 10
"""Clients that are set aside in turn; a sentence names fewer."""
_MOST_CELLS = 1_000_000
"""Clients x classes that are compared, a tenth of a second for each suspect; of more, screening alone names clients."""
_FROM_CERTAIN = 0.02
"""Accuracies are kept so far from 0 and 1 in the variances, as in the test of label shift."""


def suspected_by_class(federation: ReportedClients, radius: float) -> dict[str, str]:
    """Clients whose own class with the largest deviation is far from the other clients', and how far.

    Each cell, a client's examples of a class, is compared with that class's examples at all other clients that
    disclose counts per class. The client of the largest deviation is set aside before the rest are compared again, so
    that its counts accuse no other. This names whom to ask; the test of label shift decides whether clients differ.

    At most ten are named, and none among more than a million cells.

    Args:
        federation: clients whose counts are whole.
        radius: one of theirs, at which they are compared.
    """
    disclosing = np.flatnonzero(federation.has_class_counts)
    if not 0 < len(disclosing) * len(federation.classes) <= _MOST_CELLS:
        return {}
    index = federation.radii.index(radius)
    own = federation.label_counts[disclosing]
    right = class_counts_at(federation, disclosing, index).astype(np.float64)
    effects = np.ones(len(disclosing))
    if federation.design_effects is not None:
        effects = federation.design_effects[disclosing, index]
    suspects: dict[str, str] = {}
    left = np.arange(len(disclosing))
    while len(left) > 1 and len(suspects) < _MOST_SUSPECTS:
        deviations = _deviations(own[left], right[left], effects[left])
        row, column = np.unravel_index(np.abs(deviations).argmax(), deviations.shape)
        deviation = deviations[row, column]
        if abs(deviation) < _CUT:
            break
        suspects[federation.clients[disclosing[left[row]]]] = (
            f"its {federation.classes[column]!r} examples are {abs(deviation):.1f} standard deviations of chance "
            f"{'below' if deviation < 0 else 'above'} those of the others"
        )
        left = np.delete(left, row)
    return suspects


def _deviations(own: Floats, right: Floats, effects: Floats) -> Floats:
    """How far each cell of clients and classes is from the other clients' of its class; 0 where these hold none."""
    others, others_right = own.sum(axis=0) - own, right.sum(axis=0) - right
    share = np.clip(right.sum(axis=0) / np.maximum(own.sum(axis=0), 1), _FROM_CERTAIN, 1 - _FROM_CERTAIN)
    difference = right / np.maximum(own, 1) - others_right / np.maximum(others, 1)
    chance = share * (1 - share) * (effects[:, None] / np.maximum(own, 1) + 1 / np.maximum(others, 1))
    return np.asarray(np.where((own > 0) & (others > 0), difference / np.sqrt(chance), 0.0), dtype=np.float64)
