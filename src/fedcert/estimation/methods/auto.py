"""The method that is used where none is named."""

from __future__ import annotations

from dataclasses import replace

from fedcert._arrays import Floats
from fedcert.estimation.clients.known import Clients
from fedcert.estimation.methods.point_estimate import Chosen, PointEstimate
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.settings import Settings


def auto(clients: Clients, target: Floats, settings: Settings) -> PointEstimate:
    """Post-stratified where clients disclose counts per class, else BLUP; the estimate says which and why."""
    chosen = choose_method(clients)
    point = estimator(chosen.method)(clients, target, settings)
    details = {**point.details, "chosen": chosen.method, "because": chosen.because}
    return replace(point, details=details, chosen=chosen)


def choose_method(clients: Clients) -> Chosen:
    """The method that makes most of what the clients disclose, and why."""
    disclosing = clients.n_with_class_counts
    if disclosing:
        because = f"{disclosing} of {clients.count} clients tell counts per class"
        return Chosen(method="poststratified", because=because)
    return Chosen(method="blup", because="no client tells counts per class")
