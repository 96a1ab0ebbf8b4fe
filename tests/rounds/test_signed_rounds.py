"""Signed requests and reports are one behaviour, whichever transport carries them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from factories import MODEL, NOW, ROSTER, answer, ask_clients, request
from fedcert import Report, Request
from fedcert.engines.files import take_files
from fedcert.engines.in_process import InProcessTransport
from fedcert.errors import CallError
from fedcert.privacy.keys.identity import Identity, write_identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.keys.signing import sign, signer
from fedcert.rounds import CertificationRound, run_round

KEYS = {name: Identity.new(name) for name in (*ROSTER, "coordinator")}
RING = Keyring.of(keys.card for keys in KEYS.values())
SETTINGS: dict[str, Any] = {
    "classes": ("cat", "dog"),
    "smoothing": {"sigma": 0.25, "procedure": "sequential"},
    "radii": (0.0, 0.25),
    "seconds": 60.0,
}


def signing(name: str) -> Any:
    return lambda asked: sign(answer(asked, name, created=None), KEYS[name])


def run(clients: dict[str, Any], **changes: Any) -> Any:
    return run_round(InProcessTransport(clients), MODEL, sleep=lambda _: None, **{**SETTINGS, **changes})


def test_a_request_is_signed_with_the_coordinators_keys_and_reports_count_as_signed(tmp_path: Path) -> None:
    write_identity(KEYS["coordinator"], tmp_path / "coordinator.json")
    (tmp_path / "ring.json").write_text(RING.dumps())
    given = ((KEYS["coordinator"], RING), (tmp_path / "coordinator.json", str(tmp_path / "ring.json")))
    for number, (keys, trusted) in enumerate(given):
        folder = tmp_path / str(number)
        made = run({name: signing(name) for name in ROSTER}, keys=keys, trusted=trusted, run=folder)
        assert [check.sentence for check in made.checks if check.name == "signatures"] == [
            "All 3 reports are signed by keys that are trusted."
        ]
        kept = Request.from_json(json.loads((folder / "request.json").read_text()))
        assert signer(kept, RING) == "coordinator"
        assert "keys" not in json.loads((folder / "settings.json").read_text())


def test_a_member_answers_signed_or_not_at_all_in_process_and_in_files(tmp_path: Path) -> None:
    """A report in a member's name without its signature is refused, and one of a client without keys is taken."""
    asked = request(roster=(*ROSTER, "guest"))
    answers: dict[str, Report] = {
        "site-a": sign(answer(asked, "site-a"), KEYS["site-a"]),
        "site-b": answer(asked, "site-b"),
        "site-c": sign(answer(asked, "site-c"), Identity.new("site-c")),
        "guest": answer(asked, "guest"),
    }
    for name, report in answers.items():
        (tmp_path / f"{name}.json").write_text(report.dumps())
    carried, called = (CertificationRound(asked, clock=lambda: NOW, trusted=RING) for _ in range(2))
    take_files(carried, [tmp_path])
    ask_clients(called, {name: lambda _, name=name: answers[name] for name in answers})  # type: ignore[misc]
    for one in (carried, called):
        assert (sorted(one.reports), one.vouched) == (["guest", "site-a"], {"site-a"})
        assert "is not signed, but its key is known: it may be forged" in one.missing["site-b"]
        assert "is signed with another key than its own: it may be forged" in one.missing["site-c"]


def test_a_round_goes_on_with_the_keys_that_signed_its_request(tmp_path: Path) -> None:
    clients = {name: signing(name) for name in ROSTER}
    run(clients, keys=KEYS["coordinator"], trusted=RING, run=tmp_path / "signed")
    assert run({}, keys=KEYS["coordinator"], trusted=RING, run=tmp_path / "signed").clients == 3
    assert run({}, trusted=RING, run=tmp_path / "signed").clients == 3
    run(clients, trusted=RING, run=tmp_path / "unsigned")
    for folder, keys in (("signed", KEYS["site-a"]), ("unsigned", KEYS["coordinator"])):
        with pytest.raises(
            CallError, match=r"is not signed with these keys; give those that signed it, or name another"
        ):
            run({}, keys=keys, trusted=RING, run=tmp_path / folder)
        run({}, trusted=RING, run=tmp_path / folder)  # the folder is free again


@pytest.mark.parametrize("name", ["keys", "trusted"])
def test_keys_that_cannot_be_read_are_found_before_anyone_works(tmp_path: Path, name: str) -> None:
    with pytest.raises(CallError, match=r"there is no file .*none\.json"):
        run({}, **{name: tmp_path / "none.json"})
    with pytest.raises(CallError, match=f"{name} must be a path"):
        run({}, **{name: 5})
