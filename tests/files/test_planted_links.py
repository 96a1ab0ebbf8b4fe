"""Links, pipes and folders that others plant where they may write: nothing outside is overwritten, or read out."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factories import NOW, answer
from factories import request as plain_request
from fedcert import FedcertWarning, certify, collect
from fedcert.certification.journal import Journal
from fedcert.certification.seeds import Seed, keep_seed, kept_seed
from fedcert.cli.main import run
from fedcert.engines.figure import draw_estimate
from fedcert.engines.shared_folder import FolderTransport, take_part
from fedcert.errors import CallError, FedcertError, FileProblem, QuorumMissed
from fedcert.privacy.state_store import FolderStore
from fedcert.report import Sums, read_reports, write_whole
from fedcert.rounds import CertificationRound, RunFolder
from fedcert.rounds.folder import file_name
from fedcert.rounds.private import private_sums
from fedcert.secagg.participant import Participant
from secure_sums import FEW, KEYS, NAMES, RING, asked, in_process, reports, site

pytestmark = pytest.mark.skipif(os.name != "posix", reason="making links needs a privilege on Windows")
HIDDEN = '{"schema": "fedcert/identity/1", "name": "coordinator", "secret": "of-the-coordinator"}'


@contextmanager
def soon() -> Iterator[None]:
    """Fails where something waits for a pipe that nobody writes to."""

    def late(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Federation:
    """Five sites and a coordinator over a folder, each with a memory of its own, called once at a time."""

    def __init__(self, place: Path) -> None:
        self.place, self.shared, self.request = place, place / "shared", asked()
        self.shared.mkdir()
        self.own = reports(self.request)
        self.keys = place / "coordinator.keys.json"
        self.keys.write_text(HIDDEN)
        self.missing: dict[str, str] = {}

    def folder(self, way: str, name: str) -> Path:
        return self.shared / way / Path(file_name(name)).stem

    def memory(self, name: str) -> Path:
        return self.place / f"memory-{name}"

    def visit(self, name: str, begin: Callable[[Any], Participant] | None = None) -> bool:
        memory = FolderStore(self.memory(name))
        try:
            return take_part(
                self.shared, name, lambda: (begin or site(name, self.own[name], memory))(self.request), once=True
            )
        finally:
            memory.close()

    def visit_all(self) -> None:
        """Each does what it can."""
        for name in NAMES:
            with suppress(FedcertError):
                self.visit(name)

    def add_up(self, go_on: bool = False) -> Any:
        sums, self.missing = private_sums(
            FolderTransport(self.shared), self.request, RING, folder=self.place / "run", once=True, go_on=go_on
        )
        return sums

    def others(self, stages: int) -> None:
        """So many stages, without site-0 from where it stands."""
        for _ in range(stages):
            for name in NAMES[1:]:
                self.visit(name)
            self.add_up(go_on=True)

    def finish(self) -> Any:
        """The sum, by those who can take part."""
        for _ in range(6):
            self.visit_all()
            sums = self.add_up(go_on=True)
            if sums is not None:
                return sums
        return None


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


def plant(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def test_a_link_to_the_coordinators_keys_in_place_of_its_message(federation: Federation) -> None:
    link = federation.folder("to", "site-0") / "1.json"
    plant(link, federation.keys)
    federation.visit_all()
    assert federation.add_up() is None
    assert federation.keys.read_text() == HIDDEN
    assert federation.add_up() is None
    assert f"{link} must be a file, but is a link" in federation.missing["site-0"]
    federation.others(4)
    assert federation.keys.read_text() == HIDDEN
    assert federation.add_up() == in_process(federation.request, federation.own, {"site-0"})[0]


def test_a_link_to_a_sites_memory_in_place_of_why_it_refuses(federation: Federation) -> None:
    federation.memory("site-0").mkdir(mode=0o700)
    survivors = federation.memory("site-0") / "others-survivors.json"
    survivors.write_text("{}")
    plant(federation.folder("from", "site-0") / "0-trouble.json", survivors)
    lacking = RING.without(["site-4"])

    def wary(given: Any) -> Participant:
        from fedcert.privacy.state_store import InMemoryStore

        own = federation.own["site-0"]
        return Participant(given, KEYS["site-0"], lacking, InMemoryStore(), lambda: own, policy=FEW)

    with pytest.raises(FedcertError, match="1 on the roster are not in the keyring"):
        take_part(federation.shared, "site-0", lambda: wary(federation.request), once=True)
    assert survivors.read_text() == "{}"


@pytest.mark.parametrize("part", ["from/site", "from"])
def test_a_linked_folder_in_place_of_a_sites_answers(federation: Federation, part: str) -> None:
    elsewhere = federation.place / "elsewhere"
    elsewhere.mkdir()
    link = federation.folder("from", "site-0") if part == "from/site" else federation.shared / "from"
    plant(link, elsewhere)
    with pytest.raises(FileProblem, match=f"{link} must be a folder, but is a link"):
        federation.visit("site-0")
    assert not list(elsewhere.iterdir())
    if part == "from":
        with pytest.raises(QuorumMissed, match="is a link; remove it, or find out who put it there"):
            federation.add_up(go_on=True)
    else:
        assert federation.finish() == in_process(federation.request, federation.own, {"site-0"})[0]
        assert "is a link" in federation.missing["site-0"]
    assert not list(elsewhere.rglob("*.json"))


@pytest.mark.parametrize("part", ["to/site", "to"])
def test_a_linked_folder_in_place_of_the_coordinators_messages(federation: Federation, part: str) -> None:
    elsewhere = federation.place / "elsewhere"
    elsewhere.mkdir()
    link = federation.folder("to", "site-0") if part == "to/site" else federation.shared / "to"
    plant(link, elsewhere)
    federation.visit_all()
    federation.add_up()
    assert federation.add_up() is None
    assert not list(elsewhere.iterdir())
    failed = [name for name, reason in federation.missing.items() if "is a link" in reason]
    assert failed == (["site-0"] if part == "to/site" else list(NAMES))


def test_a_link_to_a_secret_in_place_of_an_answer_is_not_read(federation: Federation) -> None:
    link = federation.folder("from", "site-0") / "0.json"
    plant(link, federation.keys)
    assert federation.add_up() is None
    assert federation.missing["site-0"].startswith(f"{link} must be a file, but is a link")
    with pytest.raises(FileProblem, match="is a link"):
        federation.visit("site-0")
    link.unlink()
    assert federation.finish() == in_process(federation.request, federation.own)[0]


def test_a_secret_is_not_read_in_place_of_the_reason_for_a_failure(federation: Federation) -> None:
    secret = federation.place / "secret.json"
    secret.write_text('{"trouble": "the password is swordfish"}')
    plant(federation.folder("from", "site-0") / "0-trouble.json", secret)
    federation.add_up()
    assert "swordfish" not in federation.missing["site-0"]
    assert "is a link" in federation.missing["site-0"]


def test_a_hard_link_in_place_of_an_answer_is_not_read(federation: Federation) -> None:
    answer_file = federation.folder("from", "site-0") / "0.json"
    answer_file.parent.mkdir(parents=True)
    answer_file.hardlink_to(federation.keys)
    federation.add_up()
    assert "is a file with 2 names (hard links)" in federation.missing["site-0"]


def test_a_hard_link_in_place_of_a_message_is_replaced_not_written_to(federation: Federation) -> None:
    message = federation.folder("to", "site-0") / "1.json"
    message.parent.mkdir(parents=True)
    message.hardlink_to(federation.keys)
    assert federation.finish() == in_process(federation.request, federation.own)[0]
    assert federation.keys.read_text() == HIDDEN


def test_a_pipe_in_place_of_an_answer_is_named_and_not_waited_for(federation: Federation) -> None:
    pipe = federation.folder("from", "site-0") / "0.json"
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    with soon():
        federation.add_up()
        assert federation.missing["site-0"].startswith(f"{pipe} must be a file, but is a pipe")
        with pytest.raises(FileProblem, match="is a pipe"):
            federation.visit("site-0")
        assert federation.finish() == in_process(federation.request, federation.own, {"site-0"})[0]


def test_what_was_planted_is_noted_once_and_not_at_every_look(federation: Federation) -> None:
    plant(federation.folder("from", "site-0") / "0.json", federation.keys)
    transport = FolderTransport(federation.shared)
    transport.send(federation.request, 0, dict.fromkeys(NAMES, ""))
    assert [len(list(transport.poll(NAMES))) for _ in range(3)] == [1, 0, 0]


def swapped_at(moment: str, folder: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Puts a link in a folder's place the first time that something is done in it."""
    real, done = getattr(os, moment), []

    def swap(*given: Any, **named: Any) -> Any:
        if not done and str(given[0]).startswith((".fedcert-", str(folder / ".fedcert-"))):
            done.append(moment)
            folder.rename(folder.with_name("aside"))
            folder.symlink_to(elsewhere)
        return real(*given, **named)

    monkeypatch.setattr(os, moment, swap)
    return done


@pytest.mark.parametrize("moment", ["open", "replace"])
@pytest.mark.parametrize("way", ["to", "from"])
def test_a_folder_that_is_swapped_for_a_link_in_between(
    federation: Federation, way: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere, folder = federation.place / "elsewhere", federation.folder(way, "site-0")
    elsewhere.mkdir()
    (elsewhere / "0.json").write_text("kept")
    (elsewhere / "1.json").write_text("kept")
    for name in NAMES if way == "to" else NAMES[1:]:
        federation.visit(name)
    folder.mkdir(parents=True, exist_ok=True)
    done = swapped_at(moment, folder, elsewhere, monkeypatch)
    with suppress(FedcertError):
        federation.add_up() if way == "to" else federation.visit("site-0")
    assert done
    assert {file.name: file.read_text() for file in elsewhere.iterdir()} == {"0.json": "kept", "1.json": "kept"}


def test_a_pipe_that_is_swapped_in_between_is_not_waited_for(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation.visit("site-0")
    answer_file = federation.folder("from", "site-0") / "0.json"
    real, done = os.open, []

    def swap(path: Any, *given: Any, **named: Any) -> int:
        if not done and str(path).endswith("0.json"):
            done.append(path)
            answer_file.unlink()
            os.mkfifo(answer_file)
        return real(path, *given, **named)

    monkeypatch.setattr(os, "open", swap)
    with soon():
        federation.add_up()
    assert done
    assert "is a pipe" in federation.missing["site-0"]


# Folders that reports are handed in to


def test_a_link_in_an_inbox_is_named_and_the_other_reports_count(tmp_path: Path) -> None:
    request, inbox, outside = plain_request(), tmp_path / "inbox", tmp_path / "outside.json"
    inbox.mkdir()
    (inbox / "a.json").write_text(answer(request, "site-a").dumps())
    outside.write_text(answer(request, "site-b").dumps())
    (inbox / "b.json").symlink_to(outside)
    with pytest.warns(FedcertWarning, match=r"b\.json must be a file, but is a link"):
        made = collect(inbox, request=request, quorum=1)
    assert made.clients == 1
    with pytest.raises(FileProblem, match=r"b\.json must be a file, but is a link"):
        read_reports(inbox)
    assert len(read_reports(inbox / "b.json")) == 1, "a file that is named is the user's own choice"


def test_a_linked_table_in_an_inbox_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    from fedcert.report.table.parquet import write_parquet

    request, inbox = plain_request(), tmp_path / "inbox"
    inbox.mkdir()
    write_parquet(tmp_path / "t.parquet", [answer(request, "site-a"), answer(request, "site-b")])
    (inbox / "t.parquet").symlink_to(tmp_path / "t.parquet")
    with pytest.raises(FileProblem, match=r"t\.parquet must be a file, but is a link"):
        read_reports(inbox)
    assert run(["validate", str(inbox)]) == 1
    assert "must be a file, but is a link" in " ".join(capsys.readouterr().out.split())


# A run's folder


def begun(path: Path) -> tuple[Any, RunFolder]:
    request = plain_request()
    return request, RunFolder(path, request)


def keep(folder: RunFolder, round_: CertificationRound, name: str) -> None:
    """What leads to a file, or to something in a folder, of that name."""
    own = answer(round_.request)
    actions: dict[str, Callable[[], object]] = {
        "sums.json": lambda: folder.keep_sums(Sums.of([own])),
        "estimate.json": lambda: folder.keep_estimate(round_.conclude(quorum=1)),
        "settings.json": lambda: folder.keep_settings({"target": "uniform"}),
        "reports": lambda: round_.take(own),
        "replaced": lambda: folder.keep_report(own, "a correction"),
        "withdrawn": lambda: folder.withdraw(own),
        "estimates": lambda: folder.set_aside("nothing follows"),
    }
    actions[name]()


@pytest.mark.parametrize("name", ["estimate.json", "settings.json", "sums.json"])
def test_a_linked_file_in_a_runs_folder_leads_nowhere(tmp_path: Path, name: str) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(HIDDEN)
    request, folder = begun(tmp_path / "run")
    with folder:
        one = CertificationRound(request, folder, clock=lambda: NOW)
        one.take(answer(request))
        (tmp_path / "run" / name).symlink_to(keys)
        with pytest.raises(FileProblem, match=f"{name} must be a file, but is a link"):
            keep(folder, one, name)
    assert keys.read_text() == HIDDEN


def test_a_linked_picture_in_a_runs_folder_leads_nowhere(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    keys, request = tmp_path / "keys.json", plain_request()
    keys.write_text(HIDDEN)
    one = CertificationRound(request, clock=lambda: NOW)
    one.take(answer(request))
    (tmp_path / "estimate.png").symlink_to(keys)
    with pytest.warns(FedcertWarning, match="there is no picture: .*is a link"):
        draw_estimate(one.conclude(quorum=1), tmp_path)
    assert keys.read_text() == HIDDEN


@pytest.mark.parametrize("name", ["reports", "replaced", "withdrawn", "estimates"])
def test_a_linked_folder_in_a_runs_folder_leads_nowhere(tmp_path: Path, name: str) -> None:
    elsewhere, path = tmp_path / "elsewhere", tmp_path / "run"
    elsewhere.mkdir()
    request, folder = begun(path)
    with folder:
        one = CertificationRound(request, folder, clock=lambda: NOW)
        if name != "reports":
            one.take(answer(request))
            folder.keep_estimate(one.conclude(quorum=1))
        (path / name).symlink_to(elsewhere)
        with pytest.raises(FileProblem, match=f"{name} must be a folder, but is a link"):
            keep(folder, one, name)
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("how", ["link", "hard link"])
def test_the_log_of_a_run_is_not_appended_to_another_file(tmp_path: Path, how: str) -> None:
    keys, path = tmp_path / "keys.json", tmp_path / "run"
    keys.write_text(HIDDEN)
    path.mkdir()
    (path / "log.ndjson").symlink_to(keys) if how == "link" else (path / "log.ndjson").hardlink_to(keys)
    with pytest.raises(FileProblem, match=r"log\.ndjson must be a file"):
        begun(path)
    assert keys.read_text() == HIDDEN


def test_a_linked_report_in_a_runs_folder_does_not_count(tmp_path: Path) -> None:
    request, folder = begun(tmp_path / "run")
    folder.close()
    outside = tmp_path / "outside.json"
    outside.write_text(answer(request, "site-b").dumps())
    (tmp_path / "run" / "reports").mkdir()
    (tmp_path / "run" / "reports" / file_name("site-b")).symlink_to(outside)
    with RunFolder(tmp_path / "run") as again, pytest.warns(FedcertWarning, match="does not count: .* is a link"):
        assert not CertificationRound(folder=again, clock=lambda: NOW).reports


# What lies beside a report


def certified(out: Path, **more: Any) -> Any:
    x = np.linspace(0, 1, 24, dtype="float32").reshape(12, 2)
    return certify(
        lambda batch: (batch[:, 0] > 0.5).astype(int), x, [0] * 6 + [1] * 6, sigma=0.25, client="a", model_id="m",
        n=100, procedure="fixed", classes=["cat", "dog"], progress=False, seed_file=out, **more,
    )  # fmt: skip


def test_a_secret_seed_is_not_written_where_a_link_leads(tmp_path: Path) -> None:
    public, link = tmp_path / "public.seed", tmp_path / "shared" / "r.seed"
    plant(link, public)  # to nothing yet: the link would make it
    with pytest.raises(FileProblem, match=r"r\.seed must be a file, but is a link"):
        certified(link)
    assert not public.exists()
    link.unlink()
    keep_seed(public, Seed.fixed(1), "sha256:" + "0" * 64)
    before = public.read_bytes()
    plant(link, public)  # to a seed that who planted it knows
    with pytest.raises(FileProblem, match="is a link"):
        kept_seed(link, "sha256:" + "0" * 64)
    with pytest.raises(FileProblem, match="is a link"):
        keep_seed(link, Seed.fixed(2), "sha256:" + "0" * 64)
    assert public.read_bytes() == before


@pytest.mark.parametrize("how", ["link", "hard link"])
def test_a_journal_is_not_written_into_another_file(tmp_path: Path, how: str) -> None:
    victim, journal = tmp_path / "victim", tmp_path / "shared" / "r.journal"
    victim.write_bytes(b"")
    victim.chmod(0o644)
    journal.parent.mkdir()
    journal.symlink_to(victim) if how == "link" else journal.hardlink_to(victim)
    with pytest.raises(FileProblem, match=r"r\.journal must be a file"):
        Journal(journal, {"a": 1}, Seed.fixed(0))
    assert victim.read_bytes() == b""
    assert victim.stat().st_mode & 0o777 == 0o644


def test_a_link_is_followed_unless_another_user_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, link = tmp_path / "own.json", tmp_path / "shared" / "report.json"
    own.write_text("{}")
    plant(link, own)
    write_whole(link, "mine")
    assert (own.read_text(), link.is_symlink()) == ("mine", True)
    if os.geteuid() == 0:  # a link of the system's own user is as good as one's own
        os.chown(link, 12345, 12345, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(CallError, match="it is a link that another user made; remove it, or name the file"):
        write_whole(link, "stolen")
    assert own.read_text() == "mine"


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    """Its user has named it."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    request, folder = begun(tmp_path / "run")
    with folder:
        CertificationRound(request, folder, clock=lambda: NOW).take(answer(request))
    assert json.loads((tmp_path / "disk" / "reports" / file_name("site-a")).read_text())["client"] == "site-a"
