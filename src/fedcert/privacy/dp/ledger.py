"""The budget ledger of a client: what its noisy sums cost together, since zCDP adds up."""

from __future__ import annotations

from fedcert.errors import Refused
from fedcert.privacy.dp.accounting import epsilon_of, rho_of
from fedcert.privacy.state_store import StateStore
from fedcert.report.privacy import PrivacyBudget


def spend(memory: StateStore, nonce: str, budget: PrivacyBudget, most: float | None) -> None:
    """Note what a noisy sum costs, before it begins; the same one again costs nothing more.

    Args:
        memory: what the client remembers.
        nonce: of the request.
        budget: what is asked.
        most: the epsilon that all sums may cost together, at this budget's delta; None for no bound.

    Raises:
        Refused: with this sum it would be more; nothing is noted.
    """
    costs = memory.get("spent") or {}
    if nonce in costs:
        return
    wanted = {**costs, nonce: rho_of(budget.epsilon, budget.delta)}
    together = epsilon_of(sum(wanted.values()), budget.delta)
    if most is not None and together > most * (1 + 1e-6):  # `rho_of` is found by bisection
        raise Refused(
            f"with {len(costs)} noisy sums before it this one would come to epsilon {together:.3g} at delta "
            f"{budget.delta:g}, but this site's policy allows {most:g} in all (total_epsilon)"
        )
    memory.put("spent", wanted)
