"""A name is proven by its keys, for one question at one place; no other proof will do."""

from __future__ import annotations

import pytest

from fedcert.errors import Refused
from fedcert.privacy.keys.identity import Identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.keys.name_proof import check_name, name_proof, new_challenge

SITE, OTHER = Identity.new("site-a"), Identity.new("site-b")
RING = Keyring.of([SITE.card, OTHER.card])
ASKED = new_challenge()


def test_a_member_proves_its_name() -> None:
    check_name(RING, "site-a", name_proof(SITE, ASKED, "7"), ASKED, "7")


def test_a_name_that_no_member_has_needs_no_proof() -> None:
    check_name(RING, "site-z", None, ASKED, "7")


def test_challenges_are_fresh() -> None:
    assert len({new_challenge() for _ in range(100)}) == 100
    assert len(ASKED) == 32


@pytest.mark.parametrize(
    "proof",
    [
        pytest.param(name_proof(SITE, new_challenge(), "7"), id="of an earlier question"),
        pytest.param(name_proof(SITE, ASKED, "8"), id="of a question that went elsewhere"),
        pytest.param(name_proof(Identity.new("site-a"), ASKED, "7"), id="by other keys in that name"),
        pytest.param(name_proof(OTHER, ASKED, "7"), id="by another member"),
        pytest.param(name_proof(SITE, ASKED + "6", ""), id="cut in another place"),
        pytest.param("", id="empty"),
        pytest.param("é" * 88, id="no base64"),
        pytest.param("A" * 200, id="of a wrong length"),
    ],
)
def test_no_other_proof_will_do(proof: str) -> None:
    with pytest.raises(
        Refused, match=r"^a client calls itself 'site-a', but not with the keys that the keyring has for"
    ):
        check_name(RING, "site-a", proof, ASKED, "7")


def test_a_members_name_without_proof_is_refused() -> None:
    said = (
        "^a client calls itself 'site-a' and gives no proof of it: it is an impostor, or the site is to answer with its "
        r"keys \(keys=\)$"
    )
    with pytest.raises(Refused, match=said):
        check_name(RING, "site-a", None, ASKED, "7")


def test_a_proof_is_a_signature_of_nothing_else() -> None:
    """A coordinator chooses challenge and place: neither makes it a signature of a report, a request or a card."""
    from fedcert.privacy.keys.framing import framed
    from fedcert.privacy.keys.identity import verified

    chosen = "fedcert signature 1\n{}"
    proof = name_proof(SITE, chosen, "")
    key = SITE.public[0]
    assert verified(key, proof, framed(["fedcert name 1", chosen, "site-a", ""]))
    for other in (chosen.encode(), framed(["fedcert card 1", "site-a", chosen]), framed([chosen, "site-a", ""])):
        assert not verified(key, proof, other)
