"""Noisy sums add up, and a site's policy bounds what they come to."""

from __future__ import annotations

from contextlib import suppress

import pytest

from fedcert.errors import FileProblem, Refused
from fedcert.privacy.dp.accounting import Account, epsilon_of, rho_of, spend
from fedcert.privacy.policy import Policy
from fedcert.privacy.state_store import InMemoryStore
from fedcert.report.privacy import PrivacyBudget
from fedcert.report.request import PrivateSum
from secure_sums import private_request


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


def test_two_hundred_sums_of_epsilon_1_are_not_taken_in_silence() -> None:
    """By default a site's releases come to epsilon 10 at most, at one delta whatever each was asked with."""
    memory, rules = InMemoryStore(), Policy()

    def take(number: int) -> Account:
        budget = PrivacyBudget(epsilon=1, delta=1e-6 if number % 2 else 1e-8)
        return spend(memory, str(number), budget, rules.total_epsilon, rules.total_delta)

    accounts: list[Account] = []
    with suppress(Refused):
        for number in range(200):
            accounts.append(take(number))
    assert [account.releases for account in accounts] == list(range(1, len(accounts) + 1))
    assert {account.delta for account in accounts} == {1e-5}
    assert 50 < len(accounts) < 100
    assert accounts[-1].epsilon <= 10
    with pytest.raises(Refused, match=r"but this site's policy allows 10 in all \(total_epsilon\)"):
        take(len(accounts))


def test_the_largest_delta_holds_without_a_largest_epsilon() -> None:
    asked = private_request(
        ["a", "b", "c"], 3, private=PrivateSum(threshold=3, budget=PrivacyBudget(epsilon=1, delta=1e-4))
    )
    with pytest.raises(Refused, match=r"^delta is 0.0001, but this site's policy allows at most 1e-05 .largest_delta"):
        Policy().check_asked(asked)
    Policy(largest_delta=1e-4).check_asked(asked)


@pytest.mark.parametrize("kept", [{"a": "1"}, {"a": -1.0}, {"a": None}])
def test_an_account_of_another_shape_is_one_sentence(kept: dict[str, object]) -> None:
    memory = InMemoryStore()
    memory.put("spent", kept)
    with pytest.raises(FileProblem, match="account of noise"):
        spend(memory, "b", PrivacyBudget(epsilon=1), 10.0, 1e-5)
