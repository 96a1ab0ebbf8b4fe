"""A site whose memory is set back, restored from a backup say, and asked again."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fedcert._schema.encoding import decoded, decoded_numbers, encoded
from fedcert.privacy.keys.signing import sign
from fedcert.privacy.state_store import InMemoryStore
from fedcert.report.privacy import PrivacyBudget
from fedcert.report.request import PrivateSum
from fedcert.secagg import client, server
from fedcert.secagg.binding import bound_seed, common_key, delivery_digest, hash_of_key, tags_of
from fedcert.secagg.masks import Vector, stream
from fedcert.secagg.messages import COMMON_BYTES, Delivery, Masked
from fedcert.secagg.participant import Participant
from fedcert.secagg.shamir import secret_of
from fedcert.secagg.vectors import VectorLayout
from secure_sums import COORDINATOR, KEYS, RING, Party, asked, reports

VICTIM, FRIEND = "site-000", "site-001"


def unbound(seed: bytes, *_: bytes) -> bytes:
    """Masks as they would be if they did not depend on who is in the sum."""
    return seed


class SetBackParty(Party):
    """Sites with a server that has them answer again."""

    def masked_again(self, delivery: Delivery, checked: bool = False) -> Masked:
        """What the victim answers to a delivery, after which its memory is put back as it was."""
        memory = self.memories[VICTIM]
        before = copy.deepcopy(memory.texts)
        site = self.site(VICTIM)
        site.checked = checked
        answer = site.mask(delivery, self.vectors[VICTIM])
        memory.texts = before
        return answer


def numbers(message: Masked, count: int) -> Vector:
    found = decoded_numbers(message.vector, count)
    assert found is not None
    return found


@pytest.mark.parametrize("colluders", [(), ("site-003", "site-004")])
@pytest.mark.parametrize("bound", [False, True])
def test_numbers_are_not_in_the_differences_of_answers_over_other_sites(
    monkeypatch: pytest.MonkeyPatch, colluders: tuple[str, ...], bound: bool
) -> None:
    """The attack: the mask shared with each other site is what changes when that site is left out.

    Of colluding sites the server knows these masks anyhow. It succeeds against masks that do not depend on the set.
    """
    if not bound:
        monkeypatch.setattr(client, "bound_seed", unbound)
        monkeypatch.setattr(server, "bound_seed", unbound)
    party = SetBackParty.of(5, length=3, threshold=4)
    party.stage()
    party.stage()
    delivery = party.server.message_for(VICTIM)
    assert isinstance(delivery, Delivery)
    full = numbers(party.masked_again(delivery), 3)
    masks: Vector = np.zeros(3, dtype=np.uint64)
    for other in sorted(delivery.sealed):
        if other in colluders:
            state = party.memories[other].get(party.server.session) or {}
            place = state["pairs"]["with"].index(VICTIM)
            seed = decoded(state["pairs"]["keys"])[96 * place + 64 : 96 * place + 96]
            everybody = delivery_digest(bytes.fromhex(party.server.session), party.vectors)
            masks += stream(bound_seed(seed, everybody) if bound else seed, 3)  # the victim's place is the first
        else:
            sealed = {name: box for name, box in delivery.sealed.items() if name != other}
            masks += full - numbers(party.masked_again(Delivery(**{**vars(delivery), "sealed": sealed})), 3)
    for _ in range(3):
        party.stage()
    assert (party.server.total == party.expected()).all()
    revealed: Any = party.server.received[4]
    shares = {party.server._place[name]: decoded(revealed[name].own[VICTIM]) for name in sorted(revealed)[:4]}
    own = secret_of(shares)
    if bound:
        own = bound_seed(own, delivery_digest(bytes.fromhex(party.server.session), party.vectors))
    found = full - masks - stream(own, 3)
    assert (found == party.vectors[VICTIM]).all() == (not bound)


@pytest.mark.parametrize("bound", [False, True])
def test_numbers_are_not_in_the_difference_of_their_tags(monkeypatch: pytest.MonkeyPatch, bound: bool) -> None:
    """The attack: a site that colludes seals another part of the common key, and the tags change by a known factor."""
    if not bound:
        monkeypatch.setattr(client, "hash_of_key", lambda salt, key: bytes(32))
    party = SetBackParty.of(5, length=3, threshold=4)
    party.stage()
    party.stage()
    delivery = party.server.message_for(VICTIM)
    assert isinstance(delivery, Delivery)
    salt = bytes.fromhex(party.server.session)

    # Whoever colludes reads all parts of the key that were sealed for it.
    parts: dict[str, bytes] = {}
    liar = party.site(FRIEND)
    own: Any = party.server.message_for(FRIEND)
    for name, box in own.sealed.items():
        opened = ChaCha20Poly1305(liar._pairs_kept()[name].channel).decrypt(
            liar._nonce(FRIEND, name), decoded(box), liar._context(name, FRIEND)
        )
        parts[name] = opened[-COMMON_BYTES:]
    parts[FRIEND] = decoded(liar._state["common"])
    channel = ChaCha20Poly1305(liar._pairs_kept()[VICTIM].channel)
    nonce, context = liar._nonce(VICTIM), liar._context(FRIEND, VICTIM)
    share = channel.decrypt(nonce, decoded(delivery.sealed[FRIEND]), context)[:-COMMON_BYTES]
    answers, keys = [], []
    for part in (b"a" * COMMON_BYTES, b"b" * COMMON_BYTES):
        sealed = {**delivery.sealed, FRIEND: encoded(channel.encrypt(nonce, share + part, context))}
        answers.append(numbers(party.masked_again(Delivery(**{**vars(delivery), "sealed": sealed}), checked=True), 6))
        keys.append(common_key(salt, {**parts, FRIEND: part}))
    one, nothing = np.ones(3, dtype=np.uint64), np.zeros(3, dtype=np.uint64)
    added = [tags_of(nothing, key, VICTIM) for key in keys]
    factors = [tags_of(one, key, VICTIM) - base for key, base in zip(keys, added, strict=True)]
    difference = answers[1][3:] - answers[0][3:] - (added[1] - added[0])
    expected = (factors[1] - factors[0]) * party.vectors[VICTIM]
    assert (difference == expected).all() == (not bound)
    assert (answers[0][:3] == answers[1][:3]).all()
    assert hash_of_key(salt, keys[0]) != hash_of_key(salt, keys[1])


def test_a_site_that_begins_again_adds_the_same_noise() -> None:
    """Other noise on the same numbers would average out, and the account would know of one sum."""
    budget = PrivacyBudget(epsilon=1)
    request = sign(replace(asked(), private=PrivateSum(threshold=4, budget=budget)), COORDINATOR)
    own, memory = replace(reports(request)["site-0"], seed="sha256:" + "0" * 64), InMemoryStore()

    def numbers_added() -> Vector:
        site = Participant(request, KEYS["site-0"], RING, memory, lambda: own)
        site.join()
        assert site.account is not None
        assert site.account.releases == 1
        counts = site._chain.counts()
        assert counts is not None
        return site._numbers(counts)

    first = numbers_added()
    assert (numbers_added() == first).all()
    assert (first != VectorLayout(request).pack(own)).any()
