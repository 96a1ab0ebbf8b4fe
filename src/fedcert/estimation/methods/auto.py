"""The method to use when nobody says which."""

from __future__ import annotations

from dataclasses import replace

from fedcert._arrays import Floats
from fedcert.estimation.clients.protocol import Clients
from fedcert.estimation.methods.blup import blup
from fedcert.estimation.methods.poststratified import poststratified
from fedcert.estimation.methods.registry import PointEstimate, Settings


def auto(pool: Clients, target: Floats, settings: Settings) -> PointEstimate:
    """Post-stratified where clients tell counts per class, else BLUP; the answer says which and why."""
    told = pool.open_count
    if told:
        answer, name = poststratified(pool, target, settings), "poststratified"
        why = f"{told} of {pool.count} clients tell counts per class"
    else:
        answer, name = blup(pool, target, settings), "blup"
        why = "no client tells counts per class"
    return replace(answer, details={**answer.details, "chosen": name, "because": why})
