"""Noisy sums add up, and a site's policy bounds what they come to."""

from __future__ import annotations

import pytest

from fedcert.errors import Refused
from fedcert.privacy.dp.accounting import epsilon_of, rho_of, spend
from fedcert.privacy.state_store import InMemoryStore
from fedcert.report.privacy import PrivacyBudget


def test_sums_are_noted_once_and_add_up_until_the_bound() -> None:
    memory, budget = InMemoryStore(), PrivacyBudget(epsilon=1)
    for nonce in ("a", "b", "a", "b"):
        spend(memory, nonce, budget, 2.0, 1e-6)
    kept = memory.get("spent")
    assert kept is not None
    assert set(kept) == {"a", "b"}
    together = epsilon_of(sum(kept.values()), 1e-6)
    assert together == pytest.approx(epsilon_of(2 * rho_of(1, 1e-6), 1e-6))
    assert 1.3 < together < 1.6  # well below 2: losses add up as rho does
    account = spend(memory, "c", budget, 2.0, 1e-6)
    assert str(account).startswith("this site's 3 releases with noise come to epsilon 1.")
    with pytest.raises(Refused, match="with this release, 4 with noise would come to epsilon .* allows 2 in all"):
        spend(memory, "d", budget, 2.0, 1e-6)
    assert set(memory.get("spent") or ()) == {"a", "b", "c"}
    spend(memory, "z", budget, None, 1e-6)
