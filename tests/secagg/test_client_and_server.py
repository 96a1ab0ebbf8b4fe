"""The secure sum is exact whoever drops out; below its threshold there is none."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from fedcert.errors import InvalidValue, QuorumMissed, Refused
from fedcert.secagg.messages import CLIENT_MESSAGES as STAGES
from secure_sums import Party, identities, private_request


def dropping(names: Sequence[str], count: int, stage: int | None, seed: int = 0) -> list[set[str]]:
    """Who leaves in each stage: all in one, or spread over all of them."""
    generator = random.Random(seed)
    leaving: list[set[str]] = [set() for _ in STAGES]
    for name in generator.sample(list(names), count):
        leaving[generator.randrange(len(STAGES)) if stage is None else stage].add(name)
    return leaving


@pytest.mark.parametrize("stage", [*range(5), None])
@pytest.mark.parametrize(("count", "gone"), [(3, 0), (10, 1), (10, 3)])
def test_the_sum_is_exact_whoever_drops_out(count: int, gone: int, stage: int | None) -> None:
    party = Party.of(count)
    total = party.run(dropping(list(party.vectors), gone, stage, seed=count + gone))
    assert (total == party.expected()).all()
    # A site that leaves after its numbers have arrived is in the sum all the same.
    assert len(party.server.survivors) >= count - gone


@pytest.mark.parametrize(
    ("gone", "stage"), [(0, None), (10, None), (30, 0), (30, 1), (30, 2), (30, 3), (30, 4), (30, None)]
)
def test_a_hundred_sites(gone: int, stage: int | None) -> None:
    party = Party.of(100, length=30)
    total = party.run(dropping(list(party.vectors), gone, stage, seed=gone))
    assert (total == party.expected()).all()


def test_numbers_are_summed_mod_2_to_the_64() -> None:
    party = Party.of(3)
    party.vectors = {name: np.array([2**63, 2**64 - 1, 0, 1, 7], dtype=np.uint64) for name in party.vectors}
    assert party.run().tolist() == [2**63, 2**64 - 3, 0, 3, 21]


@pytest.mark.parametrize("stage", range(5))
def test_below_the_threshold_there_is_no_sum_and_a_sentence(stage: int) -> None:
    party = Party.of(10)
    gone = [set[str]() for _ in range(5)]
    gone[stage] = set(sorted(party.vectors)[:4])
    with pytest.raises(QuorumMissed) as caught:
        party.run(gone)
    assert str(caught.value) == (
        f"6 clients sent their {STAGES[stage].NOUN}, but a private sum needs 7; nothing is known of anybody's numbers"
    )
    assert party.server.total is None


def test_a_sum_of_two_is_refused() -> None:
    party = Party.of(3, threshold=2)
    with pytest.raises(Refused, match="^the sum may be over as few as 2 clients, but this site wants at least 3$"):
        party.stage()


def test_a_site_may_want_more_than_three() -> None:
    known = identities(5)
    party = Party(
        known, {one.name: np.zeros(1, np.uint64) for one in known}, private_request([o.name for o in known], 4)
    )
    from fedcert.secagg.client import SecAggClient

    with pytest.raises(Refused, match="as few as 4 clients, but this site wants at least 5"):
        SecAggClient(party.request, known[0], party.ring, party.memories["site-000"], fewest=5)


@pytest.mark.parametrize("threshold", [1, 2, 5, 11])
def test_a_threshold_must_be_more_than_half(threshold: int) -> None:
    names = [f"site {number}" for number in range(10)]
    with pytest.raises(InvalidValue, match="threshold must be"):
        private_request(names, threshold)


def test_a_private_sum_needs_a_roster() -> None:
    with pytest.raises(InvalidValue, match="^roster must be a list of names where the sum is private, but is null$"):
        private_request(["a", "b", "c"], roster=None)


def test_the_same_question_again_gets_the_same_answer() -> None:
    """A coordinator that died before it heard an answer asks again."""
    party = Party.of(4)
    for stage in range(5):
        told = party.server.message_for("site-001")
        first = party.step("site-001", told)
        assert party.step("site-001", told) == first
        answers = party.stage()
        assert answers["site-001"] == first
        if stage < 4:
            party.server.stage -= 1
            party.server.take(first)  # once more is no harm
            party.server.stage += 1


def test_secrets_are_forgotten_when_the_sum_is_done() -> None:
    party = Party.of(3)
    party.run()
    for memory in party.memories.values():
        kept = memory.get(party.server.session)
        assert kept is not None
        assert set(kept) == {"join", "done", "last", "answer", "over"}


def test_a_message_too_early_or_too_late() -> None:
    party, other = Party.of(3), Party.of(3)
    join = party.step("site-000", None)
    party.server.take(join)
    with pytest.raises(Refused, match="^a message of 'site-000' is of another sum$"):
        other.server.take(join)
    with pytest.raises(Refused, match="the delivery came before the list of keys"):
        party.site("site-000").mask(
            __import__("fedcert.secagg.messages", fromlist=["Delivery"]).Delivery(
                session=party.server.session, client="site-000", sealed={}
            ),
            party.vectors["site-000"],
        )
    late = Party.of(4)
    last = late.step("site-003", None)
    late.stage(without={"site-003"})
    with pytest.raises(Refused, match="^the join of 'site-003' came too late$"):
        late.server.take(last)
