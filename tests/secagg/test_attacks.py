"""What a lying server, alone or with sites, can do to a secure sum: it is refused, or learns no more than the sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy import stats

import fedcert.secagg.client
from fedcert._schema.encoding import decoded, encoded
from fedcert.errors import Refused
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.state_store import InMemoryStore
from fedcert.report.privacy import PrivacyBudget
from fedcert.report.request import PrivateSum
from fedcert.secagg.binding import bound_seed, delivery_digest, mask_seed
from fedcert.secagg.client import HOLDERS, SecAggClient
from fedcert.secagg.differencing_guard import DifferencingGuard
from fedcert.secagg.masks import agreed, stream
from fedcert.secagg.messages import SEALED_BYTES, Confirmations, Delivery, Keys, Masked, Survivors
from fedcert.secagg.server import SecAggServer
from fedcert.secagg.shamir import SHARE_BYTES, secret_of
from secure_sums import Party, private_request

VICTIM, FRIEND = "site-000", "site-001"


def views(attack: Callable[[int], np.ndarray], inputs: tuple[int, int], times: int = 150) -> None:
    """Check that what an attack gives looks the same for two inputs: uniform, and alike."""
    seen = [np.concatenate([attack(one) for _ in range(times)]).astype(np.float64) / 2.0**64 for one in inputs]
    for values in seen:
        assert stats.kstest(values, "uniform").pvalue > 1e-4
    assert stats.ks_2samp(*seen).pvalue > 1e-4


def vector_of(message: Any) -> np.ndarray:
    assert isinstance(message, Masked)
    return np.frombuffer(decoded(message.vector), dtype="<u8")


def delivered(party: Party) -> bytes:
    """The digest of who is in the sum, on which masks depend."""
    return delivery_digest(party.server._salt, party.server.received[1])


def without_pairs(party: Party, secret: bytes, own: str, hidden: np.ndarray, others: set[str]) -> np.ndarray:
    """A site's numbers without the masks of pairs, for one who has its key for masks."""
    keys = {name: join.key for name, join in party.server._of(type(party.server.received[0][own])).items()}
    place, private = party.server._place, X25519PrivateKey.from_private_bytes(secret)
    for name in others:
        first, second = sorted((own, name), key=place.__getitem__)
        seed = mask_seed(agreed(private, decoded(keys[name])), party.server._salt, first, second)
        mask = stream(bound_seed(seed, delivered(party)), len(hidden))
        hidden = hidden - mask if own == first else hidden + mask
    return hidden


def test_a_live_client_declared_dropped_whose_late_message_the_server_keeps() -> None:
    """The others help to take off the masks of pairs; its own mask stays, and under it every input looks alike."""

    def attack(number: int) -> np.ndarray:
        party = Party.of(4, length=8, threshold=3)
        party.vectors = {**party.vectors, VICTIM: np.full(8, number, dtype=np.uint64)}
        party.stage()
        party.stage()
        late = vector_of(party.step(VICTIM, party.server.message_for(VICTIM)))
        party.stage(without={VICTIM})
        party.stage()
        answers = party.stage()
        place = party.server._place
        secret = secret_of({place[by]: decoded(one.keys[VICTIM]) for by, one in answers.items()})  # type: ignore[attr-defined]
        assert all(VICTIM not in one.own for one in answers.values())  # type: ignore[attr-defined]
        return without_pairs(party, secret, VICTIM, late, set(party.vectors) - {VICTIM})

    views(attack, (0, 123_456_789), times=40)


def test_all_but_two_collude_where_everybody_is_needed() -> None:
    """With the threshold at the whole roster, the two honest sites' sum is known, and nothing else."""

    def attack(number: int) -> np.ndarray:
        party = Party.of(5, length=8, threshold=5)
        colluding = set(party.vectors) - {VICTIM, FRIEND}
        party.vectors = {
            **party.vectors,
            VICTIM: np.full(8, number, dtype=np.uint64),
            FRIEND: np.full(8, 10**6, dtype=np.uint64) - np.full(8, number, dtype=np.uint64),
        }
        for _ in range(2):
            party.stage()
        hidden = vector_of(party.stage()[VICTIM])
        party.stage()
        answers = party.stage()
        assert party.server.total is not None
        # The sum gives away the honest ones' sum, as it must.
        rest = party.server.total - sum(party.vectors[name] for name in colluding)  # type: ignore[operator]
        assert (rest == 10**6).all()
        # Whatever the colluding sites and the server know of the victim: its own mask, and their pairs' masks.
        place = party.server._place
        seed = secret_of({place[by]: decoded(one.own[VICTIM]) for by, one in answers.items()})  # type: ignore[attr-defined]
        hidden = hidden - stream(bound_seed(seed, delivered(party)), 8)
        keys = {name: join.key for name, join in party.server.received[0].items()}  # type: ignore[attr-defined]
        for name in colluding:
            known = party.secrets[name]
            first, second = sorted((VICTIM, name), key=place.__getitem__)
            shared = agreed(X25519PrivateKey.from_private_bytes(known), decoded(keys[VICTIM]))
            seed = mask_seed(shared, party.server._salt, first, second)
            mask = stream(bound_seed(seed, delivered(party)), 8)
            hidden = hidden - mask if first == VICTIM else hidden + mask
        # Shares of the victim's key for masks: three of the five that it takes tell nothing.
        return hidden

    original = Party.stage

    def stage(self: Party, *arguments: Any, **changes: Any) -> Any:
        answers = original(self, *arguments, **changes)
        if self.server.stage == 1:
            self.secrets = {n: decoded(m.get(self.server.session)["secret"]) for n, m in self.memories.items()}  # type: ignore
        return answers

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Party, "stage", stage)
        views(attack, (0, 999_999), times=30)


def test_too_few_colluding_sites_cannot_open_a_share() -> None:
    party = Party.of(7, threshold=5)
    party.stage()
    party.stage()
    parts = {}
    for name in sorted(party.vectors)[3:]:  # four of seven, one less than it takes
        site = party.site(name)
        site.mask(party.server.message_for(name), party.vectors[name])  # type: ignore[arg-type]
        parts[party.server._place[name]] = decoded(party.memories[name].get(site.session)["parts"][VICTIM])  # type: ignore[index]
    known = party.memories[VICTIM].get(party.server.session)
    assert known is not None
    secret = decoded(known["secret"]) + decoded(known["seed"])
    assert secret_of({point: part[:SHARE_BYTES] for point, part in parts.items()}) != secret[:32]
    parts[party.server._place[VICTIM]] = decoded(known["parts"][VICTIM])
    assert secret_of(parts) == secret


def test_swapped_keys_are_found_before_a_number_leaves() -> None:
    """The server puts keys of its own in place of another site's: what that site sealed does not open."""
    party = Party.of(4, threshold=3)
    party.stage()
    own = encoded(X25519PrivateKey.generate().public_key().public_bytes_raw())

    def swapped(told: Keys) -> Keys:
        return replace(told, keys={**told.keys, FRIEND: own})

    party.stage(changed={VICTIM: swapped})
    with pytest.raises(Refused) as caught:
        party.step(VICTIM, party.server.message_for(VICTIM))
    assert str(caught.value) == (
        "what came from 'site-001' was not sealed by it for this site in this sum: a key, the roster or the message was "
        "changed on the way"
    )


def test_a_server_that_swaps_all_keys_gets_shares_that_it_cannot_open() -> None:
    """What is sealed needs the cards' secrets too."""
    party = Party.of(4, threshold=3)
    party.stage()
    made = {name: X25519PrivateKey.generate() for name in party.vectors}

    def swapped(told: Keys) -> Keys:
        keys = {name: encoded(key.public_key().public_bytes_raw()) for name, key in made.items()}
        return replace(told, keys={**keys, VICTIM: told.keys[VICTIM]})

    sealed = party.step(VICTIM, swapped(party.server.message_for(VICTIM)))  # type: ignore[arg-type]
    # The server plays the friend with its own key for masks, and any card but the friend's.
    stranger = Party.of(4).known[1]
    cards = [keys.card for keys in party.known if keys.name != FRIEND]
    theirs = Keyring.of([*cards, replace(stranger, name=FRIEND).card])
    fake = SecAggClient(party.request, replace(stranger, name=FRIEND), theirs, type(party.memories[VICTIM])())
    fake.join()
    fake._state["secret"] = encoded(made[FRIEND].private_bytes_raw())
    keys = swapped(party.server.message_for(VICTIM))  # type: ignore[arg-type]
    fake._state["join"]["key"] = keys.keys[FRIEND]
    fake.share(keys)
    boxes = {VICTIM: sealed.sealed[FRIEND]}  # type: ignore[attr-defined]
    others = {name: encoded(bytes(SEALED_BYTES)) for name in party.vectors if name not in (VICTIM, FRIEND)}
    with pytest.raises(Refused, match="what came from 'site-000' was not sealed by it for this site"):
        fake.mask(
            Delivery(session=party.server.session, client=FRIEND, sealed={**boxes, **others}), party.vectors[FRIEND]
        )


def test_shares_swapped_between_sites_do_not_open() -> None:
    party = Party.of(4, threshold=3)
    party.stage()
    party.stage()

    def swapped(told: Delivery) -> Delivery:
        sealed = dict(told.sealed)
        sealed["site-001"], sealed["site-002"] = sealed["site-002"], sealed["site-001"]
        return replace(told, sealed=sealed)

    with pytest.raises(Refused, match="was not sealed by it for this site in this sum"):
        party.step(VICTIM, swapped(party.server.message_for(VICTIM)))  # type: ignore[arg-type]
    with pytest.raises(Refused, match="^the delivery is for 'site-001', not for this site$"):
        party.step(VICTIM, party.server.message_for(FRIEND))


def test_shares_of_an_earlier_sum_do_not_open() -> None:
    party = Party.of(4, threshold=3)
    old = party.stage() and party.stage()
    again = Party(party.known, party.vectors, private_request(sorted(party.vectors), 3))
    again.stage()
    again.stage()
    told = again.server.message_for(VICTIM)
    assert isinstance(told, Delivery)
    with pytest.raises(Refused, match="was not sealed by it for this site in this sum"):
        again.step(VICTIM, replace(told, sealed={**told.sealed, FRIEND: old[FRIEND].sealed[VICTIM]}))  # type: ignore[attr-defined]


def test_another_roster_under_the_same_nonce_is_refused() -> None:
    party = Party.of(5, threshold=4)
    party.stage()
    smaller = replace(party.request, roster=tuple(sorted(party.vectors)[:4]))
    with pytest.raises(
        Refused, match="^this site has taken part in a sum with the same nonce and another roster or other"
    ):
        SecAggClient(smaller, party.known[0], party.ring, party.memories[VICTIM])


def test_two_overlapping_rosters_cannot_be_subtracted() -> None:
    """A sum over all, then one over all but the victim: every honest site refuses the second."""
    party = Party.of(5, threshold=4)
    party.run()
    others = sorted(set(party.vectors) - {VICTIM})
    second = Party(party.known, party.vectors, private_request(others, 4), memories=party.memories)
    with pytest.raises(Refused) as caught:
        second.stage()
    assert str(caught.value).startswith(
        "of the sites that an earlier sum was over, 1 is not on this roster: two sums over different sites can be "
        "subtracted"
    )


def test_a_client_that_drops_out_of_a_second_sum_is_not_told_by_the_difference() -> None:
    party = Party.of(5, threshold=4)
    party.run()
    again = Party(party.known, party.vectors, private_request(sorted(party.vectors), 4), memories=party.memories)
    again.stage()
    again.stage()
    again.stage(without={VICTIM})
    with pytest.raises(
        Refused, match="^an earlier sum was over other sites .*: the difference would be over 1 of them"
    ):
        again.stage()


def summing_again(party: Party, names: set[str], **changes: Any) -> Party:
    """Another request to sites that remember, among those of the names that are there."""
    roster = [one.name for one in party.known]
    again = Party(
        party.known, party.vectors, private_request(roster, party.server.threshold, **changes), party.memories
    )
    again.run([set(roster) - names, set(), set(), set(), set()])
    return again


def test_a_sum_over_all_sites_works_again_after_some_dropped_out() -> None:
    """Three of ten drop out: their sum, which the difference is, may be known. Two of ten would be too few."""
    party = Party.of(10, threshold=6)
    everyone = set(party.vectors)
    party.run([{"site-007", "site-008", "site-009"}, set(), set(), set(), set()])
    for _ in range(2):
        again = summing_again(party, everyone)
        assert (again.server.total == again.expected()).all()
    for gone in ({VICTIM}, {VICTIM, FRIEND}, {"site-009"}, {"site-007", "site-008", "site-009", VICTIM}):
        with pytest.raises(
            Refused, match="^an earlier sum was over other sites .*: the difference would be over [123] of"
        ):
            summing_again(party, everyone - gone)
    # Three others instead would leave both differences large enough, but no site that knows of all three sums.
    with pytest.raises(Refused, match="and nothing else changed"):
        summing_again(party, everyone - {"site-004", "site-005", "site-006"})


def test_sums_that_no_single_site_knows_of_do_not_add_up() -> None:
    """A sum over all, one over half of them, one over the other half but one site: they would give that site away."""
    party = Party.of(21, threshold=11)
    names = sorted(party.vectors)
    summing_again(party, set(names))
    for half in (set(names[1:11]), set(names[11:])):
        roster = sorted(half)
        smaller = Party(party.known, party.vectors, private_request(roster, 6), party.memories)
        with pytest.raises(Refused, match="and nothing else changed"):
            smaller.run([set(names) - half, set(), set(), set(), set()])


def test_a_noisy_sum_goes_by_its_budget_whoever_is_in_it() -> None:
    party = Party.of(5, threshold=4)
    party.run([{VICTIM}, set(), set(), set(), set()])
    noisy = PrivateSum(threshold=4, budget=PrivacyBudget(epsilon=1))
    again = summing_again(party, set(party.vectors), private=noisy)
    assert (again.server.total == again.expected()).all()
    with pytest.raises(Refused, match="the difference would be over 1 of them"):
        summing_again(party, set(party.vectors))


@pytest.mark.parametrize("seed", range(20))
def test_no_combination_of_sums_tells_of_fewer_sites_than_they_want(seed: int) -> None:
    """All sums that every site in them lets through, searched for a combination over too few sites."""
    generator = np.random.default_rng(seed)
    names = [f"s{number}" for number in range(12)]
    memories, taken = {name: InMemoryStore() for name in names}, []
    for _ in range(150):
        over = set(generator.choice(names, generator.integers(3, 13), replace=False).tolist())
        request = private_request(sorted(over), len(over))
        kept = {name: dict(memories[name].texts) for name in over}
        try:
            for name in sorted(over):
                DifferencingGuard(memories[name], request, "counts", 3).bind(over)
        except Refused:
            for name, texts in kept.items():  # the strongest attack: who confirmed in vain forgets it
                memories[name].texts = texts
            continue
        if over not in taken:
            taken.append(over)
    rows = np.array([[name in over for name in names] for over in taken], dtype=float)
    for size in (1, 2):
        for few in combinations(range(len(names)), size):  # is there a combination that is zero elsewhere only?
            rest = np.delete(rows, few, axis=1)
            assert np.linalg.matrix_rank(rest) == np.linalg.matrix_rank(rows)
    assert taken


def test_the_same_sites_may_sum_again() -> None:
    party = Party.of(5, threshold=4)
    party.run()
    again = Party(party.known, party.vectors, private_request(sorted(party.vectors), 4), memories=party.memories)
    assert (again.run() == again.expected()).all()


def test_different_survivors_told_to_different_sites_are_found() -> None:
    """The server tells the victim that it survived, and others that it did not: too few words agree."""
    party = Party.of(6, threshold=4)
    for _ in range(3):
        party.stage()
    everybody = tuple(sorted(party.vectors))
    without = tuple(name for name in everybody if name != VICTIM)

    def told(names: tuple[str, ...]) -> Survivors:
        return Survivors(session=party.server.session, survivors=names)

    words = {name: party.step(name, told(everybody if name <= "site-002" else without)) for name in everybody}
    party.server.stage = 4
    tags = {name: one.tags[VICTIM] for name, one in words.items() if VICTIM in one.tags}  # type: ignore[attr-defined]
    with pytest.raises(Refused, match="^3 gave their word on the survivors, but 4 must have done so$"):
        party.step(VICTIM, Confirmations(session=party.server.session, client=VICTIM, tags=tags))
    given = {name: one.tags for name, one in words.items() if name != VICTIM}  # type: ignore[attr-defined]
    other = {name: tags["site-003"] for name, tags in given.items() if "site-003" in tags}
    with pytest.raises(Refused, match="did not confirm the ones that this site received"):
        party.step("site-003", Confirmations(session=party.server.session, client="site-003", tags=other))


def test_a_site_gives_its_word_once() -> None:
    party = Party.of(5, threshold=3)
    for _ in range(3):
        party.stage()
    everybody = tuple(sorted(party.vectors))
    party.step(VICTIM, Survivors(session=party.server.session, survivors=everybody))
    with pytest.raises(
        Refused, match="^this site has answered another list of survivors in this sum, or a later step$"
    ):
        party.step(VICTIM, Survivors(session=party.server.session, survivors=everybody[:4]))


@pytest.mark.parametrize(
    ("survivors", "sentence"),
    [
        (("site-000", "site-001"), "the sum would be over 2 clients, but needs 3"),
        (("site-001", "site-002", "site-003"), "this site is not among the survivors"),
        (("site-000", "site-001", "stranger"), "'stranger' is among the survivors, but was not in the sum"),
    ],
)
def test_survivors_that_cannot_be(survivors: tuple[str, ...], sentence: str) -> None:
    party = Party.of(5, threshold=3)
    for _ in range(3):
        party.stage()
    with pytest.raises(Refused, match=f"^{sentence}$"):
        party.step(VICTIM, Survivors(session=party.server.session, survivors=survivors))


@pytest.mark.parametrize("which", ["own", "keys"])
def test_a_false_share_is_named(which: str) -> None:
    party = Party.of(6, threshold=4)
    party.stage()
    party.stage()
    party.stage(without={"site-005"})
    party.stage()
    message = party.step("site-002", party.server.message_for("site-002"))
    told = dict(getattr(message, which))
    owner = sorted(told)[0]
    told[owner] = encoded(bytes([decoded(told[owner])[0] ^ 1]) + decoded(told[owner])[1:])
    false = replace(message, **{which: told}).signed(party.known[2])
    with pytest.raises(Refused, match=f"^'site-002' revealed a false share of '{owner}', or was given one$"):
        party.server.take(false)
    party.stage(without={"site-002"})
    assert party.server.total is not None
    assert (party.server.total == party.expected()).all()


def test_an_unsigned_or_forged_message_is_refused() -> None:
    party = Party.of(3)
    join = party.step(VICTIM, None)
    for forged in (replace(join, client=FRIEND), replace(join, signature=None), join.signed(party.known[1])):
        with pytest.raises(Refused, match="^the signature of 'site-00.' is not right"):
            party.server.take(forged)


def test_who_is_not_in_the_keyring_is_named() -> None:
    party = Party.of(4)
    ring = party.ring.without([FRIEND])
    with pytest.raises(Refused) as caught:
        SecAggClient(party.request, party.known[0], ring, party.memories[VICTIM])
    assert str(caught.value) == (
        "1 on the roster are not in the keyring ('site-001'); take their cards in, if you trust them: fedcert keys trust"
    )


def test_two_sums_under_way_at_once_are_not_subtracted() -> None:
    """Both go up to the word on survivors, one without the victim; a site gives its word on one set only."""
    party = Party.of(5, threshold=4)
    other = Party(party.known, party.vectors, private_request([one.name for one in party.known], 4), party.memories)
    for one, gone in ((party, set()), (other, {VICTIM})):
        one.stage()
        one.stage()
        one.stage(without=gone)
    party.stage()
    with pytest.raises(Refused, match="an earlier sum was over other sites"):
        other.stage()
    party.stage()
    assert (party.server.total == party.expected()).all()


def test_what_sites_hold_and_what_they_count_are_over_the_same_sites() -> None:
    """Counts over four and holders over five would tell which classes the fifth holds."""
    party = Party.of(5, threshold=4)
    party.run([{VICTIM}, set(), set(), set(), set()])
    request = private_request([one.name for one in party.known], 4)
    server = SecAggServer(request, party.ring, 2, purpose=HOLDERS, checked=True)
    bits = np.array([1, 0], dtype=np.uint64)

    def step(name: str) -> Any:
        identity = next(one for one in party.known if one.name == name)
        site = SecAggClient(request, identity, party.ring, party.memories[name], purpose=HOLDERS, checked=True)
        told = server.message_for(name)
        if told is None:
            return site.join()
        if server.stage == 2:
            return site.mask(told, bits)  # type: ignore[arg-type]
        return [None, site.share, None, site.confirm][server.stage](told)  # type: ignore[misc]

    for _ in range(3):
        for name in sorted(server.asked):
            server.take(step(name))
        server.close()
    with pytest.raises(Refused, match="an earlier sum was over other sites"):
        step(FRIEND)


def test_a_site_that_gives_a_false_word_does_not_stop_the_others() -> None:
    party = Party.of(5, threshold=3)
    for _ in range(4):
        party.stage()

    def false(told: Confirmations) -> Confirmations:
        name = next(iter(told.tags))
        return replace(told, tags={**told.tags, name: encoded(bytes(32))})

    party.stage(changed=dict.fromkeys(party.vectors, false))
    assert (party.server.total == party.expected()).all()


def test_a_key_that_nobody_can_use_is_found_at_once() -> None:
    party = Party.of(4, threshold=3)
    identity = party.known[0]
    join = party.step(identity.name, None)
    with pytest.raises(Refused, match="a public key is none that X25519 can use"):
        party.server.take(replace(join, key=encoded(bytes(32)), signature=None).signed(identity))


def test_a_share_that_is_none_is_found_by_whoever_gets_it() -> None:
    """Numbers above the prime, sealed as they should be, with the right hashes."""
    party = Party.of(4, threshold=3)
    party.stage()
    false = party.site(FRIEND)
    told = party.server.message_for(FRIEND)
    original = fedcert.secagg.client.shares_of
    try:
        fedcert.secagg.client.shares_of = lambda *given: {  # type: ignore[assignment]
            point: b"\xff" * len(share) for point, share in original(*given).items()
        }
        party.server.take(false.share(told))  # type: ignore[arg-type]
    finally:
        fedcert.secagg.client.shares_of = original
    for name in sorted(party.server.waiting_for):
        party.server.take(party.step(name, party.server.message_for(name)))
    party.server.close()
    with pytest.raises(Refused, match=f"what came from '{FRIEND}' is no share of a secret"):
        party.step(VICTIM, party.server.message_for(VICTIM))
