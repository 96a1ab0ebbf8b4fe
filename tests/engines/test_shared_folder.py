"""Private sums over folders, used the way people do: late, twice, half copied, with the wrong file."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedcert.cli.main import run
from fedcert.engines import shared_folder
from fedcert.engines.shared_folder import FolderTransport, take_part
from fedcert.privacy.state_store import InMemoryStore
from fedcert.report import Request
from fedcert.rounds.folder import file_name
from fedcert.rounds.private import private_sums
from fedcert.secagg.participant import Participant
from secure_sums import FEW, KEYS, NAMES, RING, asked, in_process, reports, site


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_a_site_that_overcomes_its_trouble_is_in_the_sum(tmp_path: Path) -> None:
    request = asked()
    own, memories = reports(request), {name: InMemoryStore() for name in NAMES}
    lacking = RING.without(["site-4"])
    with pytest.raises(Exception, match="1 on the roster are not in the keyring"):
        take_part(
            tmp_path, "site-0",
            lambda: Participant(request, KEYS["site-0"], lacking, InMemoryStore(), lambda: own["site-0"], policy=FEW),
            once=True,
        )  # fmt: skip

    def step() -> tuple[object, dict[str, str]]:
        return private_sums(FolderTransport(tmp_path), request, RING, folder=tmp_path / "run", once=True)

    def visit(names: tuple[str, ...]) -> None:
        for name in names:
            take_part(tmp_path, name, lambda name=name: site(name, own[name], memories[name])(request), once=True)

    visit(NAMES[1:])
    made, waiting = step()
    assert made is None
    assert list(waiting) == ["site-0"]
    assert waiting["site-0"].startswith("1 on the roster are not in the keyring")
    for _ in range(5):
        visit(NAMES)
        made, waiting = step()
    assert waiting == {}
    assert made == in_process(request, own)[0]


def test_why_a_site_was_left_out_is_known_to_the_end(tmp_path: Path) -> None:
    request = asked()
    own, memories = reports(request), {name: InMemoryStore() for name in NAMES}
    transport = FolderTransport(tmp_path)
    place = tmp_path / "from" / Path(file_name("site-0")).stem
    place.mkdir(parents=True)
    (place / "0-trouble.json").write_text(json.dumps({"trouble": "no data yet"}))
    missing: dict[str, str] = {}
    for number in range(5):
        for name in NAMES[1:]:
            take_part(tmp_path, name, lambda name=name: site(name, own[name], memories[name])(request), once=True)
        transport = FolderTransport(tmp_path)  # each time a program of its own
        made, missing = private_sums(transport, request, RING, folder=tmp_path / "run", once=True, go_on=number == 0)
    assert missing == {"site-0": "no data yet"}
    assert made == in_process(request, own, {"site-0"})[0]


def test_half_a_file_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = asked()
    take_part(tmp_path, "site-0", lambda: site("site-0", reports(request)["site-0"])(request), once=True)
    transport = FolderTransport(tmp_path)
    transport.send(request, 0, {"site-0": request.dumps()})
    file = next(tmp_path.rglob("0.json"))
    whole = file.read_text()
    file.write_text(whole[: len(whole) // 2])
    assert list(transport.poll({"site-0"})) == []
    old = time.time() - 3600
    file.write_text(whole)
    assert [reply.answer for reply in transport.poll({"site-0"})] == [whole]
    other = FolderTransport(tmp_path)
    other.send(request, 0, {"site-0": request.dumps()})
    file.write_text(whole[:-5])
    os.utime(file, (old, old))
    assert [reply.answer for reply in other.poll({"site-0"})] == [whole[:-5]], "it has been like this for an hour"
    monkeypatch.setattr(shared_folder, "_TORN", 7200.0)
    third = FolderTransport(tmp_path)
    third.send(request, 0, {"site-0": request.dumps()})
    assert list(third.poll({"site-0"})) == []


@pytest.fixture
def consortium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Request:
    """Three sites with keys, cards, a keyring, a signed request and their reports, in the current folder."""
    monkeypatch.chdir(tmp_path)
    names = ("a", "b", "c")
    for name in ("coordinator", *names):
        assert run(["keys", "new", name, "--out", f"{name}.keys.json", "--card", f"{name}.card.json"]) == 0
    assert run(["keys", "trust", "ring.json", *(f"{name}.card.json" for name in ("coordinator", *names))]) == 0
    Path("roster.txt").write_text("\n".join(names))
    Path("classes.txt").write_text("cat\ndog\n")
    Path("shared").mkdir()
    return ask("r.json")


def ask(out: str, *more: str) -> Request:
    called = [
        "request", "--model-id", "demo", "--sigma", "0.25", "--radii", "0,0.25,0.5", "--classes", "classes.txt",
        "--roster", "roster.txt", "--private", "--sign", "coordinator.keys.json", *more, "--out", out,
    ]  # fmt: skip
    assert run(called) == 0
    request = Request.from_json(json.loads(Path(out).read_text()))
    for name, report in reports(request).items():
        Path(f"{name}.json").write_text(report.dumps())
    return request


def joining(name: str, request: str = "r.json", keys: str | None = None) -> list[str]:
    return [
        "private", "join", f"{name}.json", "--request", request, "--trusted", "ring.json", "--folder", "shared",
        "--keys", keys or f"{name}.keys.json", "--memory", f"memory-{name}", "--once",
    ]  # fmt: skip


@pytest.mark.usefixtures("consortium")
def test_keys_and_cards_are_not_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in Path().glob("*.json")}
    assert run(["keys", "new", "d", "--out", "a.keys.json"]) == 2
    assert "a.keys.json exists already, and neither keys nor cards are overwritten" in told(capsys)
    assert run(["keys", "new", "d", "--out", "d.json", "--card", "a.keys.json"]) == 2
    assert "a.keys.json exists already" in told(capsys)
    assert run(["keys", "new", "d", "--out", "d.json", "--card", "d.json"]) == 2
    assert run(["keys", "new", "d", "--out", "d.json", "--card", "./shared/../d.json"]) == 2
    assert {path: path.read_bytes() for path in Path().glob("*.json")} == before


@pytest.mark.usefixtures("consortium")
def test_what_joining_notes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(joining("a")) == 0
    assert "note: makes the folder memory-a; keep it for good" in told(capsys)
    other = reports(Request.from_json(json.loads(Path("r.json").read_text())), seed=7)["a"]
    Path("a.json").write_text(other.dumps())
    assert run(joining("a")) == 0
    said = told(capsys)
    assert "note: a began this sum with another report; that one stays in it, not a.json" in said
    assert "makes the folder" not in said


@pytest.mark.usefixtures("consortium")
def test_what_is_wrong_with_the_keys_is_said_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(joining("a", keys="a.card.json")) == 1
    said = told(capsys)
    assert "chmod" not in said
    assert "fedcert/identity/1" in said
    assert run(["keys", "new", "a", "--out", "new.json"]) == 0
    assert run(joining("a", keys="new.json")) == 1
    assert "the keyring has other keys for 'a' than this site's own" in told(capsys)
    assert not list(Path("shared").rglob("0.json"))


@pytest.mark.usefixtures("consortium")
def test_who_is_late_hears_it_before_anything_is_shared(capsys: pytest.CaptureFixture[str]) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=2)
    ask("late.json", "--deadline", soon.isoformat(timespec="seconds").replace("+00:00", "Z"))
    time.sleep(2.1)
    assert run(joining("a", "late.json")) == 2
    assert "has passed; ask the coordinator for a new request" in told(capsys)
    assert not list(Path("shared").iterdir())


@pytest.mark.usefixtures("consortium")
def test_squares_are_over_five_sites_and_moments_over_fifty_where_nobody_says_otherwise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("roster.txt").write_text("\n".join("abcdef"))
    capsys.readouterr()
    assert ask("six.json", "--spread").private.threshold == 5  # type: ignore[union-attr]
    assert "sums of squares" not in told(capsys)
    assert ask("four.json", "--spread", "--threshold", "4").private.threshold == 4  # type: ignore[union-attr]
    assert "warning: sums of squares over 4 sites disclose much of each" in told(capsys)
    assert ask("moments.json", "--moments").private.threshold == 6  # type: ignore[union-attr]
    assert "over 6 sites disclose much of each; sites refuse fewer than 50 unless their policy" in told(capsys)


@pytest.mark.usefixtures("consortium")
def test_a_changed_signed_file_is_found_without_any_keyring(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "r.json"]) == 0
    document = json.loads(Path("r.json").read_text())
    document["smoothing"]["sigma"] = 0.5
    Path("changed.json").write_text(json.dumps(document))
    capsys.readouterr()
    assert run(["validate", "changed.json"]) == 1
    assert "the request was changed after it was signed" in " ".join(capsys.readouterr().out.split())
