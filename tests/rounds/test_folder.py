"""A run on disk: what arrived is there, whoever dies; one process at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from factories import NOW, answer, request
from fedcert.errors import CallError, FedcertWarning, FileProblem, QuorumMissed, Refused
from fedcert.rounds import CertificationRound, RunFolder
from fedcert.rounds.folder import file_name


def events(path: Path) -> list[str]:
    return [json.loads(line)["event"] for line in (path / "log.ndjson").read_text().splitlines()]


def test_a_round_that_is_opened_again_has_what_was_taken(tmp_path: Path) -> None:
    asked = request()
    with RunFolder(tmp_path / "run", asked) as folder:
        CertificationRound(asked, folder, clock=lambda: NOW).take(answer(asked))
    with RunFolder(tmp_path / "run") as folder:
        one = CertificationRound(folder=folder, clock=lambda: NOW)
        assert one.request.digest == asked.digest
        assert list(one.reports) == ["site-a"]
        one.take(answer(asked, "site-b"))
        made = one.conclude()
        assert made.clients == 2
        folder.keep_estimate(made)
    assert events(tmp_path / "run") == ["asked", "answered", "resumed", "answered", "estimated"]


def test_who_failed_in_an_earlier_run_is_waited_for_again(tmp_path: Path) -> None:
    asked = request()
    with RunFolder(tmp_path, asked) as folder:
        CertificationRound(asked, folder, clock=lambda: NOW).fail("site-b", "its memory is full")
    with RunFolder(tmp_path) as folder:
        one = CertificationRound(folder=folder, clock=lambda: NOW)
        assert one.waiting_for == ["site-a", "site-b", "site-c"]
        assert one.missing["site-b"] == "its memory is full"
        one.fail("site-b", "its memory is full again")
        assert one.waiting_for == ["site-a", "site-c"]
        one.rejoin("site-b")
        assert one.waiting_for == ["site-a", "site-b", "site-c"]


def test_an_estimate_that_no_longer_follows_is_put_aside(tmp_path: Path) -> None:
    asked = request()
    with RunFolder(tmp_path, asked) as folder:
        one = CertificationRound(asked, folder, clock=lambda: NOW)
        one.take(answer(asked))
        folder.keep_estimate(one.conclude(quorum=1))
        assert (tmp_path / "estimate.json").exists()
        with pytest.raises(QuorumMissed):
            one.conclude(quorum=1.0)
    assert not (tmp_path / "estimate.json").exists()
    assert (tmp_path / "estimates" / "0001.json").exists()
    assert events(tmp_path)[-2:] == ["estimated", "no estimate"]


def test_refusals_and_troubles_are_logged(tmp_path: Path) -> None:
    asked = request()
    with RunFolder(tmp_path, asked) as folder:
        one = CertificationRound(asked, folder, clock=lambda: NOW)
        with pytest.raises(Exception, match="no report"):
            one.take("{", sender="site-a")
        one.fail("site-b", "x" * 10_000)
    lines = [json.loads(line) for line in (tmp_path / "log.ndjson").read_text().splitlines()]
    assert [(line["event"], line.get("client")) for line in lines[1:]] == [("refused", "site-a"), ("failed", "site-b")]
    assert len(lines[2]["reason"]) == 500


def test_what_else_lies_in_the_folder_does_not_count(tmp_path: Path) -> None:
    asked = request()
    with RunFolder(tmp_path, asked) as folder:
        CertificationRound(asked, folder, clock=lambda: NOW).take(answer(asked))
    reports = tmp_path / "reports"
    (reports / file_name("site-b")).write_text(answer(asked, "site-b", request="sha256:" + "0" * 64).dumps())
    (reports / file_name("stranger")).write_text(answer(asked, "stranger").dumps())
    (reports / "copy.json").write_text(answer(asked, "site-c").dumps())
    (reports / "torn.json").write_text("{")
    (reports / "folder.json").mkdir()
    (reports / "._site.json").write_text("a file system's own")
    with RunFolder(tmp_path) as folder, pytest.warns(FedcertWarning, match="does not count") as told:
        one = CertificationRound(folder=folder, clock=lambda: NOW)
    assert list(one.reports) == ["site-a"]
    assert len(told) == 5


def test_reasons_are_remembered(tmp_path: Path) -> None:
    with RunFolder(tmp_path, request()) as folder:
        one = CertificationRound(folder=folder, clock=lambda: NOW)
        one.fail("site-b", "disk broke")
        with pytest.raises(Refused):
            one.take("{", sender="site-c")
    with (tmp_path / "log.ndjson").open("a") as log:
        log.write('{"event": "fail')
    with RunFolder(tmp_path) as folder:
        one = CertificationRound(folder=folder, clock=lambda: NOW)
    assert one.missing["site-a"] == "it has not answered"
    assert one.missing["site-b"] == "disk broke"
    assert one.missing["site-c"].startswith("its answer was refused: the answer is no report")


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with RunFolder(tmp_path, request()), pytest.raises(CallError, match="another run is using the folder"):
        RunFolder(tmp_path)
    RunFolder(tmp_path).close()


def test_another_request_needs_another_folder(tmp_path: Path) -> None:
    RunFolder(tmp_path, request()).close()
    with pytest.raises(CallError, match="is the folder of another request; name another folder for this one"):
        RunFolder(tmp_path, request())
    with pytest.raises(CallError, match="holds no request to go on with"):
        RunFolder(tmp_path / "new")


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileProblem, match="cannot use the folder"):
        RunFolder(tmp_path / "file", request())


@pytest.mark.parametrize(
    "client", ["site-07", "../../etc/passwd", "CON", "a/b\\c", "ä" * 200, "Site-07", ".hidden", "-rf"]
)
def test_names_of_files_are_safe_and_their_own(client: str) -> None:
    name = file_name(client)
    assert "/" not in name
    assert "\\" not in name
    assert len(name) < 120
    assert not name.startswith(".")
    assert name.lower() != file_name(client.swapcase()).lower() or client == client.swapcase()


_COORDINATOR = """
import sys, time
from pathlib import Path
sys.path[:0] = {paths}
from factories import NOW, answer
from fedcert.rounds import CertificationRound, RunFolder
folder = RunFolder(Path({folder!r}))
one = CertificationRound(folder=folder, clock=lambda: NOW)
for number, client in enumerate(("site-a", "site-b", "site-c")):
    if client not in one.reports:
        one.take(answer(one.request, client))
        print(client, flush=True)
    if number == {stop}:
        time.sleep(60)
"""


def test_a_coordinator_that_is_killed_loses_no_answer(tmp_path: Path) -> None:
    RunFolder(tmp_path, request()).close()
    paths = [str(Path(__file__).parent.parent), *sys.path]

    def coordinator(stop: int) -> subprocess.Popen[str]:
        code = textwrap.dedent(_COORDINATOR.format(paths=paths, folder=str(tmp_path), stop=stop))
        return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)

    for stop in (0, 1):
        process = coordinator(stop)
        assert process.stdout is not None
        assert process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        process.wait()
        process.stdout.close()
        time.sleep(0.05)
    last = coordinator(9)
    out, _ = last.communicate(timeout=60)
    assert out.split() == ["site-c"]  # nobody is asked twice
    with RunFolder(tmp_path) as folder:
        assert len(CertificationRound(folder=folder).reports) == 3


def test_a_reason_is_forgotten_once_its_client_has_answered(tmp_path: Path) -> None:
    asked = request()
    with RunFolder(tmp_path, asked) as folder:
        one = CertificationRound(asked, folder, clock=lambda: NOW)
        one.fail("site-a", "disk broke")
        one.fail("site-b", "disk broke")
        one.take(answer(asked), sender="site-a")
        assert folder.failures() == {"site-b": "disk broke"}
