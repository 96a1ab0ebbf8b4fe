"""Signatures: tampering and forgery are named; who is trusted is not screened out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from factories import NOW, ROSTER, answer, request
from fedcert._files.atomic import write_whole
from fedcert.errors import CallError, InvalidValue, Refused
from fedcert.privacy.keys.identity import Card, Identity, read_identity, write_identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.keys.signing import sign, signer
from fedcert.report import Report, Request
from fedcert.rounds import CertificationRound, RunFolder

KEYS = {name: Identity.new(name) for name in (*ROSTER, "coordinator")}
RING = Keyring.of(keys.card for keys in KEYS.values())


def begun(**changes: Any) -> CertificationRound:
    return CertificationRound(request(), clock=lambda: NOW, trusted=RING, **changes)


def test_a_signature_survives_files_and_says_whose_it_is() -> None:
    asked = sign(request(), KEYS["coordinator"])
    again = Request.from_json(json.loads(asked.dumps()))
    assert signer(again, RING) == "coordinator"
    assert again.digest == replace(asked, signature=None).digest
    report = Report.from_json(json.loads(sign(answer(asked), KEYS["site-a"]).dumps()))
    assert signer(report, RING) == "site-a"


@pytest.mark.parametrize(
    "change",
    [
        {"certified_counts": (41, 25), "class_certified_counts": None},
        {"client": "site-b"},
        {"created": "2026-11-15T12:00:11Z"},
        {"extra": {"x-note": "hello"}},
        {"abstained": 3},
    ],
)
def test_whatever_is_changed_after_signing_is_found(change: dict[str, Any]) -> None:
    one = begun()
    report = replace(sign(answer(one.request), KEYS["site-a"]), **change)
    with pytest.raises(Refused, match="was changed after it was signed$"):
        one.take(report)


def test_forged_reports_are_named() -> None:
    one = begun()
    with pytest.raises(Refused, match="^the report of 'site-a' is not signed, but its key is known: it may be forged$"):
        one.take(answer(one.request))
    forged = sign(answer(one.request), Identity.new("site-a"))
    with pytest.raises(
        Refused, match="^the report of 'site-a' is signed with another key than its own: it may be forge"
    ):
        one.take(forged)
    with pytest.raises(CallError, match="^the keys are those of 'site-b', but the report is of 'site-a'$"):
        sign(answer(one.request), KEYS["site-b"])


def test_an_answer_to_an_earlier_request_cannot_be_played_again() -> None:
    old = sign(answer(request()), KEYS["site-a"])
    with pytest.raises(Refused, match="answers another request"):
        begun().take(old)


def test_a_request_changed_on_the_way_is_found() -> None:
    asked = sign(request(), KEYS["coordinator"])
    with pytest.raises(Refused, match="^the request was changed after it was signed$"):
        signer(replace(asked, roster=("site-a",)), RING)
    assert signer(request(), RING) is None
    assert signer(sign(request(), Identity.new("coordinator")), RING) is None


def test_everybody_who_signed_is_trusted_and_nobody_is_screened() -> None:
    one = begun()
    for client in ROSTER:
        one.take(sign(answer(one.request, client), KEYS[client]))
    made = one.conclude()
    assert made.checks[-1].sentence == "All 3 reports are signed by keys that are trusted."
    assert made.interval is not None
    assert "screen" not in made.interval.kind


def liars_round(signing: bool) -> CertificationRound:
    """Nine honest clients and one that claims that all is certified."""
    names = tuple(f"site-{number}" for number in range(10))
    keys = {name: Identity.new(name) for name in names}
    ring = Keyring.of(keys[name].card for name in (names if signing else names[1:]))
    one = CertificationRound(request(roster=names), clock=lambda: NOW, trusted=ring)
    for name in names:
        report = answer(
            one.request, name, label_counts=(300, 200), certified_counts=(300, 200),
            class_certified_counts=((200, 140), (100, 60)),
        )  # fmt: skip
        if name == names[0]:
            report = replace(
                report, label_counts=(3000, 2000), certified_counts=(5000, 5000),
                class_certified_counts=((3000, 3000), (2000, 2000)),
            )  # fmt: skip
        one.take(sign(report, keys[name]))
    return one


def test_a_stranger_who_lies_is_screened_out_by_default() -> None:
    one = liars_round(signing=False)
    made = one.conclude()
    assert list(made.excluded) == ["site-0"]
    check = made.checks[-1]
    assert (check.name, check.verdict) == ("signatures", "warning")
    assert check.sentence == ("1 of 10 reports are not signed by a key that is trusted: 'site-0'. They were screened.")
    assert made.certified_accuracy[0] == pytest.approx(0.5 * 200 / 300 + 0.5 * 100 / 200)
    taken = one.conclude(screen=False)
    assert taken.excluded == {}
    assert taken.checks[-1].sentence.endswith("They were not screened: what they say is taken as it is.")


def test_a_lone_liar_with_a_valid_signature_moves_the_estimate_by_its_capped_weight_at_most() -> None:
    """Ten times as many examples as the others are cut to three times: it weighs 3 of 12."""
    one = liars_round(signing=True)
    honest = 0.5 * 200 / 300 + 0.5 * 100 / 200
    made = one.conclude(screen=True)
    assert made.excluded == {}
    share = 3 / 12
    assert abs(made.certified_accuracy[0] - honest) <= share * (1 - honest) + 1e-9
    freely = one.conclude(screen=False)
    assert abs(freely.certified_accuracy[0] - honest) > 2 * share * (1 - honest)


def test_a_run_folder_that_is_opened_again_checks_signatures_again(tmp_path: Path) -> None:
    asked = request()
    with RunFolder(tmp_path, asked) as folder:
        one = CertificationRound(asked, folder, clock=lambda: NOW, trusted=RING)
        one.take(sign(answer(asked), KEYS["site-a"]))
    (file,) = (tmp_path / "reports").iterdir()
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document | {"abstained": 2}))
    with RunFolder(tmp_path) as folder, pytest.warns(match="was changed after it was signed"):
        one = CertificationRound(folder=folder, clock=lambda: NOW, trusted=RING)
    assert one.reports == {}
    file.write_text(json.dumps(document))
    with RunFolder(tmp_path) as folder:
        one = CertificationRound(folder=folder, clock=lambda: NOW, trusted=RING)
    assert one.vouched == {"site-a"}


def test_keys_are_written_for_their_owner_alone_and_never_over_others(tmp_path: Path) -> None:
    file = tmp_path / "site-a.json"
    write_identity(KEYS["site-a"], file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_identity(file) == KEYS["site-a"]
    with pytest.raises(CallError, match="exists already, and keys are never overwritten; name another file$"):
        write_identity(KEYS["site-b"], file)
    file.chmod(0o644)
    with pytest.raises(CallError, match="holds secret keys, but others may read it; run: chmod 600"):
        read_identity(file)


def test_secrets_are_in_no_text() -> None:
    keys = KEYS["site-a"]
    assert keys.signing not in repr(keys)
    with pytest.raises(InvalidValue) as caught:
        Identity.from_json(keys.to_json() | {"signing": keys.signing[:-5]})
    assert keys.signing[:20] not in str(caught.value)
    assert "but is 'something else, not shown here'" in str(caught.value)


def test_a_card_with_another_name_or_key_is_no_card() -> None:
    card = KEYS["site-a"].card
    for change in (
        {"name": "site-b"},
        {"agreement": KEYS["site-b"].card.agreement},
        {"signing": KEYS["site-b"].card.signing},
    ):
        with pytest.raises(InvalidValue, match="signature must be one by the card's own signing key over its name"):
            Card.from_json(card.to_json() | change)


def test_a_keyring_keeps_the_first_keys_of_a_name() -> None:
    other = Identity.new("site-a").card
    with pytest.raises(CallError, match="^'site-a' has other keys in the keyring; if they were really replaced"):
        RING.with_cards([other])
    assert RING.with_cards([KEYS["site-a"].card]) == RING
    replaced = RING.without(["site-a"]).with_cards([other])
    assert replaced.members["site-a"].signing == other.signing
    with pytest.raises(CallError, match="^'nobody' is not in the keyring$"):
        RING.without(["nobody"])


def test_fingerprints_differ_with_name_and_keys() -> None:
    prints = {keys.card.fingerprint for keys in KEYS.values()} | {
        replace(KEYS["site-a"], name="site-z").card.fingerprint
    }
    assert len(prints) == len(KEYS) + 1
    assert all(len(one) == 29 for one in prints)


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from fedcert.cli.main import run

    monkeypatch.chdir(tmp_path)
    for name in ("coordinator", *ROSTER[:2]):
        assert run(["keys", "new", name, "--out", f"{name}.json"]) == 0
    assert run(["keys", "trust", "ring.json", "coordinator.card.json", "site-a.card.json", "site-b.card.json"]) == 0
    assert "Wrote ring.json: 3 members." in capsys.readouterr().out
    Path("classes.txt").write_text("cat\ndog\n")
    asking = ["request", "--model-id", answer(request()).model, "--sigma", "0.25", "--classes", "classes.txt"]
    assert (
        run(
            [
                *asking,
                "--procedure",
                "sequential",
                "--radii",
                "0,0.25",
                "--sign",
                "coordinator.json",
                "--out",
                "request.json",
            ]
        )
        == 0
    )
    asked = Request.from_json(json.loads(Path("request.json").read_text()))
    back = tmp_path / "back"
    back.mkdir()
    for name in ROSTER[:2]:
        write_whole(back / f"{name}.json", sign(answer(asked, name), read_identity(tmp_path / f"{name}.json")).dumps())
    assert run(["collect", "back", "--request", "request.json", "--trusted", "ring.json", "--verbose"]) == 0
    assert "All 2 reports are signed by keys that are trusted." in " ".join(capsys.readouterr().out.split())
    assert run(["keys", "trust", "ring.json", "--remove", "site-b"]) == 0
    assert run(["collect", "back", "--request", "request.json", "--trusted", "ring.json", "--json"]) == 0
    made = json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))
    assert made["checks"][-1]["verdict"] == "warning"
    assert run(["keys", "show", "ring.json"]) == 0
    assert capsys.readouterr().out.startswith("coordinator, ")
    assert run(["keys", "trust", "ring.json"]) == 2
    assert run(["keys", "show", "back/site-a.json"]) == 1
    assert run(["keys", "new", "a\x1b", "--out", "x.json"]) == 2


def test_certify_checks_keys_and_asker_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fedcert.cli.main import run

    monkeypatch.chdir(tmp_path)
    (tmp_path / "ward2.py").write_text("def make():\n    return lambda batch: (batch[:, 0] > 0.5).astype(int)\n")
    import numpy as np

    x = np.random.default_rng(0).random((20, 4), dtype=np.float32)
    np.savez("data.npz", x=x, y=(x[:, 0] > 0.5).astype(int))
    for name in ("coordinator", "site-a"):
        assert run(["keys", "new", name, "--out", f"{name}.json"]) == 0
    assert run(["keys", "trust", "ring.json", "coordinator.card.json"]) == 0
    Path("classes.txt").write_text("cat\ndog\n")
    asking = ["request", "--model-id", "m", "--sigma", "0.25", "--classes", "classes.txt"]
    assert run([*asking, "--sign", "coordinator.json", "--out", "signed.json"]) == 0
    assert run([*asking, "--out", "plain.json"]) == 0
    call = ["certify", "ward2:make", "data.npz", "--model-id", "m", "--client", "site-a", "--out", "report.json"]
    keys = ["--sign", "site-a.json", "--trusted", "ring.json"]
    capsys.readouterr()
    assert run([*call, "--request", "plain.json", *keys]) == 1
    assert "error: the request is not signed; ask the coordinator for a signed one" in capsys.readouterr().err
    assert run([*call, "--request", "signed.json", "--sign", "coordinator.json"]) == 2
    assert "--sign: the keys are those of 'coordinator', but --client is 'site-a'" in capsys.readouterr().err
    assert run([*call, "--sigma", "0.25", "--trusted", "ring.json"]) == 2
    assert run([*call, "--request", "signed.json", *keys]) == 0
    assert "note: the request is signed by coordinator" in capsys.readouterr().err
    report = Report.from_json(json.loads(Path("report.json").read_text()))
    assert signer(report, Keyring.of([read_identity(tmp_path / "site-a.json").card])) == "site-a"
