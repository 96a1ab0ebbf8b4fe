"""What a client does with a message, whatever carried it: its keys sign, and its keyring decides whom it answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedcert
from fedcert import Report, Request
from fedcert.engines.client import PRIVATE, REPORT, reply_to, unable
from fedcert.engines.credentials import Credentials
from fedcert.errors import CallError
from fedcert.privacy.keys.identity import Identity, write_identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.keys.name_proof import check_name
from fedcert.privacy.keys.signing import sign, signer
from fedcert.privacy.policy import Policy
from fedcert.secagg.participant import ParticipantConfig

torch = pytest.importorskip("torch")

SITE, COORDINATOR = Identity.new("site-a"), Identity.new("coordinator")
RING = Keyring.of([SITE.card, COORDINATOR.card])
NETWORK = torch.nn.Linear(3, 2)
X = np.random.default_rng(0).random((12, 3), dtype=np.float32)
Y = NETWORK(torch.from_numpy(X)).argmax(dim=1).numpy()  # a model that is right
ASKED = fedcert.request(NETWORK, 0.25, ["low", "high"], roster=["site-a", "site-b"])


def replied(request: Request, credentials: Credentials, **changes: Any) -> dict[str, str]:
    return reply_to(
        REPORT, request.dumps(), None, NETWORK, NETWORK.state_dict, (X, Y), "site-a", credentials=credentials, seed=0,
        **changes,
    )  # fmt: skip


def test_a_report_is_signed_with_the_clients_keys() -> None:
    reply = replied(ASKED, Credentials(SITE))
    report = Report.from_json(json.loads(reply["report"]))
    assert signer(report, RING) == "site-a"
    plain = Report.from_json(json.loads(replied(ASKED, Credentials())["report"]))
    assert plain.signature is None
    assert plain.label_counts == report.label_counts


def test_a_request_by_a_member_is_answered_whatever_the_policy_wants() -> None:
    asked = sign(ASKED, COORDINATOR)
    for policy in (None, Policy(), Policy(signed_requests=True)):
        assert "report" in replied(asked, Credentials(SITE, RING), policy=policy)


@pytest.mark.parametrize("policy", [None, Policy(signed_requests=True)])
@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (ASKED, "the request is not signed; ask the coordinator for a signed one, and for its card"),
        (
            sign(ASKED, Identity.new("coordinator")),
            "the request is signed by a key that is not in the keyring; ask the coordinator for a signed one, and for its card",
        ),
    ],
)
def test_a_request_that_no_member_signed_is_not_answered(asked: Request, why: str, policy: Policy | None) -> None:
    assert replied(asked, Credentials(SITE, RING), policy=policy) == {"name": "site-a", "trouble": why}


def test_a_request_that_was_changed_is_not_answered_with_or_without_a_keyring() -> None:
    changed = sign(ASKED, COORDINATOR).to_json() | {"nonce": "0f" * 16}
    for credentials in (Credentials(), Credentials(keyring=RING)):
        reply = replied(Request.from_json(changed), credentials)
        assert reply == {"name": "site-a", "trouble": "the request was changed after it was signed"}


def test_a_policy_that_wants_signed_requests_needs_a_keyring() -> None:
    reply = replied(sign(ASKED, COORDINATOR), Credentials(SITE), policy=Policy(signed_requests=True))
    said = "this client's policy wants requests that a member of its keyring signed, but it was given no keyring (trusted=)"
    assert reply == {"name": "site-a", "trouble": said}


def test_whose_request_it_is_comes_before_any_work() -> None:
    def data() -> Any:
        raise AssertionError("nothing is to be loaded")

    reply = reply_to(
        REPORT, ASKED.dumps(), None, NETWORK, NETWORK.state_dict, data, "site-a", credentials=Credentials(None, RING)
    )
    assert reply["trouble"].startswith("the request is not signed")


def test_keys_come_as_values_or_as_files_and_give_the_name(tmp_path: Path) -> None:
    write_identity(SITE, tmp_path / "site-a.json")
    (tmp_path / "ring.json").write_text(RING.dumps())
    for keys, trusted in ((SITE, RING), (tmp_path / "site-a.json", str(tmp_path / "ring.json"))):
        own = Credentials.given(None, keys, trusted, None)
        assert (own.name, own.keyring) == ("site-a", RING)
        proof = own.proof_of_name("0f" * 16, "7")
        check_name(RING, "site-a", proof["proof"], "0f" * 16, "7")
        assert own.proof_of_name(None, "7") == {}  # a server that does not ask for one
    assert Credentials.given("site-a", None, None, None).proof_of_name("0f" * 16, "7") == {}


def test_a_participant_proves_its_name_with_its_own_keys(tmp_path: Path) -> None:
    participant = ParticipantConfig(SITE, RING, tmp_path)
    assert Credentials.given("another", None, None, participant).name == "site-a"
    for given in ({"keys": SITE, "trusted": None}, {"keys": None, "trusted": RING}):
        with pytest.raises(CallError, match="^a participant has keys and a keyring of its own; leave keys and trusted"):
            Credentials.given(None, participant=participant, **given)  # type: ignore[arg-type]


def test_keys_that_cannot_be_used_end_in_a_sentence_and_nothing_is_sent_unsigned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = r"^the keys are those of 'site-a', but this client is 'site-b'; give it keys in its own name \(fedcert keys new\)$"
    with pytest.raises(CallError, match=said):
        Credentials.given("site-b", SITE, None, None)
    with pytest.raises(CallError, match=r"there is no file .*none\.json") as error:
        Credentials.given(None, tmp_path / "none.json", None, None)
    assert unable("site-b", error.value) == {"name": "site-b", "trouble": str(error.value)}
    assert "this client, site-b, cannot use its keys" in caplog.text


def test_a_client_with_keys_gives_reports_and_no_private_sums() -> None:
    reply = reply_to(
        PRIVATE, ASKED.dumps(), None, NETWORK, NETWORK.state_dict, (X, Y), "site-a", credentials=Credentials(SITE)
    )
    assert reply == {"name": "site-a", "trouble": "this client gives reports, not private sums"}
