"""The method to use when nobody says which."""

from __future__ import annotations

from dataclasses import replace

from fedcert.estimation.blup import blup
from fedcert.estimation.federation import Federation
from fedcert.estimation.methods import Answer, Settings
from fedcert.estimation.poststratify import poststratified
from fedcert.estimation.simplex import Floats


def auto(federation: Federation, target: Floats, settings: Settings) -> Answer:
    """Post-stratified where clients tell counts per class, else BLUP; the answer says which and why."""
    told = int(federation.opens.sum())
    if told:
        answer, name = poststratified(federation, target, settings), "poststratified"
        why = f"{told} of {len(federation.clients)} clients tell counts per class"
    else:
        answer, name = blup(federation, target, settings), "blup"
        why = "no client tells counts per class"
    return replace(answer, details={**answer.details, "chosen": name, "because": why})
