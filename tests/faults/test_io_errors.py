"""An error of the file system, or a kill, at every system call: nothing is torn, and the same work again is right.

Each piece of work is done once to count its calls, and then once for each call, which fails. The long ones take some
calls alone; `make faults` takes them all.
"""

from __future__ import annotations

import errno
import json
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factories import NOW, answer
from factories import request as plain_request
from faulty_calls import ALL, ERRORS, FaultyCalls, Tally, counted, died
from fedcert._files.line_log import LineLog
from fedcert._files.shared import SharedFolder
from fedcert.certification.data.local_data import data_of
from fedcert.certification.dataset_run import certify_dataset
from fedcert.certification.models.classifiers import ArrayClassifier
from fedcert.certification.plan import CertificationPlan
from fedcert.certification.progress import ProgressListener
from fedcert.certification.seeds import keep_seed, read_seed
from fedcert.engines.shared_folder import FolderTransport, take_part
from fedcert.errors import FedcertError, FedcertWarning, FileProblem, Refused
from fedcert.privacy.state_store import FolderStore
from fedcert.report import Report, Smoothing, read_record, write_whole
from fedcert.report.request import PrivateSum
from fedcert.rounds import CertificationRound, RunFolder
from fedcert.rounds.private import private_sums
from fedcert.secagg.participant import Participant
from secure_sums import COORDINATOR, FEW, KEYS, NAMES, RING, private_request, reports, sign

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="system calls are counted as on Linux")


def steps(some: int, more: int) -> Any:
    """Every how many calls one fails: in the fast tests, in the slow ones; each where all do (make faults)."""
    values = [pytest.param(1, id="all")] if ALL else [
        pytest.param(some, id="some"), pytest.param(more, id="more", marks=pytest.mark.slow)
    ]  # fmt: skip
    return pytest.mark.parametrize("step", values)


def errors_at(call: int) -> tuple[int, ...]:
    """With which errors a call fails: with one of them in turn, or with all."""
    return ERRORS if ALL else (ERRORS[call % len(ERRORS)],)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Warnings are sentences too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcertWarning)
        yield


def check_whole(folder: Path, but: tuple[str, ...] = ()) -> None:
    """Every JSON file below a folder is whole, and no draft has stayed."""
    for file in folder.rglob("*"):
        if file.suffix == ".json" and file.is_file():
            json.loads(file.read_text())
        assert file.suffix != ".part" or ".part" in but, file


# Writing a file


@pytest.mark.parametrize("older", [None, "older"])
@pytest.mark.parametrize("number", ERRORS)
def test_a_file_is_written_whole_or_stays_as_it_was(tmp_path: Path, older: str | None, number: int) -> None:
    file, content = tmp_path / "a.json", "new" * 1000

    def begin() -> None:
        file.unlink(missing_ok=True)
        if older is not None:
            file.write_text(older)

    begin()
    calls = counted(tmp_path, lambda: write_whole(file, content))
    assert {"open", "write", "fsync", "replace"} <= set(calls)
    for call in range(len(calls)):
        for lasting in (False, True):
            begin()
            possible = (older, content)
            with FaultyCalls(tmp_path, call, number, lasting=lasting).here(), suppress(FedcertError):
                write_whole(file, content)
                possible = (content,)
            assert (file.read_text() if file.exists() else None) in possible
            assert [each.name for each in tmp_path.iterdir()] in ([], ["a.json"])


def test_a_file_is_written_whole_or_stays_as_it_was_when_the_process_is_killed(tmp_path: Path) -> None:
    file, content = tmp_path / "a.json", "new" * 1000
    file.write_text("older")
    calls = counted(tmp_path, lambda: write_whole(file, content))
    for call in range(len(calls)):
        file.write_text("older")

        def work(call: int = call) -> None:
            with FaultyCalls(tmp_path, call, kill=True).here():
                write_whole(file, content)

        assert died(work)
        assert file.read_text() in ("older", content)


@pytest.mark.parametrize("number", ERRORS)
def test_a_line_of_a_log_is_there_whole_or_not_at_all(tmp_path: Path, number: int) -> None:
    def append(folder: Path, event: str) -> None:
        log = LineLog(SharedFolder(folder), folder / "log.ndjson")
        try:
            log.append({"event": event})
        finally:
            log.close()

    append(tmp_path, "first")
    before = (tmp_path / "log.ndjson").read_text()
    calls = counted(tmp_path, lambda: append(tmp_path, "second"))
    after = (tmp_path / "log.ndjson").read_text()
    for call in range(len(calls)):
        folder, possible = tmp_path / str(call), (before, after)
        folder.mkdir()
        (folder / "log.ndjson").write_text(before)
        with FaultyCalls(folder, call, number).here(), suppress(FedcertError):
            append(folder, "second")
            possible = (after,)
        assert (folder / "log.ndjson").read_text() in possible, calls[call]


# The journal of a certification


def certified(folder: Path) -> Report:
    """What the command does: certify with a journal, keep the seed, write the report."""
    x = np.linspace(0, 1, 60).reshape(15, 4).astype(np.float32)
    data = data_of(x, (x[:, 0] > 0.5).astype(np.int64))
    classifier = ArrayClassifier(lambda batch: (batch[:, 0] > 0.5).astype(np.int64), "t")
    plan = CertificationPlan("site", Smoothing(sigma=0.25, n=100, procedure="fixed"), classes=("low", "high"))
    out = folder / "r.json"
    result = certify_dataset(
        plan, classifier, data, ProgressListener(), out.with_name("r.json.journal"), out.with_suffix(".seed")
    )
    keep_seed(out.with_suffix(".seed"), result.seed, result.work)
    write_whole(out, result.report.dumps())
    return result.report


def counts(report: Report) -> tuple[Any, ...]:
    return report.seed, report.label_counts, report.certified_counts, report.abstained


@pytest.mark.parametrize("kind", ["error", "full disk", "kill"])
def test_certification_is_resumed_to_the_same_report(tmp_path: Path, kind: str, tally: Tally) -> None:
    first = tmp_path / "first"
    first.mkdir()
    calls = counted(first, lambda: certified(first))
    wanted = counts(read_record(first / "r.json", Report))
    seed = (first / "r.seed").read_bytes()
    for call in range(len(calls)):
        for number in (errno.ENOSPC,) if kind != "error" else errors_at(call):
            folder = tmp_path / f"{call}-{number}"
            folder.mkdir()
            (folder / "r.seed").write_bytes(seed)  # the same work as the first

            def work(folder: Path = folder, call: int = call, number: int = number) -> None:
                with FaultyCalls(folder, call, number, lasting=kind == "full disk", kill=kind == "kill").here():
                    certified(folder)

            if kind == "kill":
                died(work)
            else:
                with suppress(FedcertError):
                    work()
            check_whole(folder, (".part",) if kind == "kill" else ())
            assert counts(certified(folder)) == wanted, (call, number)
            assert counts(read_record(folder / "r.json", Report)) == wanted
            assert read_seed(folder / "r.seed").value.statement == wanted[0]
            tally.faults += 1


# A run's folder

ASKED = plain_request()


@contextmanager
def opened(path: Path) -> Iterator[tuple[RunFolder, CertificationRound]]:
    with RunFolder(path, ASKED) as folder:
        yield folder, CertificationRound(ASKED, folder, clock=lambda: NOW)


def begin_run(path: Path) -> None:
    """Three reports and an estimate, as an earlier process left them."""
    with opened(path) as (folder, one):
        for name in ("site-a", "site-b", "site-c"):
            one.take(answer(one.request, name), place=f"{name}.json")
        folder.keep_estimate(one.conclude())
        folder.keep_message("", 0, "site-a", '{"first": 1}')
        (path / "estimate.png").write_bytes(b"its picture")


def go_on_with_run(path: Path) -> None:
    """A correction, a withdrawal, settings, another estimate, messages of a private sum."""
    with opened(path) as (folder, one):
        new = answer(one.request, "site-a", certified_counts=(39, 20), class_certified_counts=((24, 15), (15, 5)),
                     created="2026-11-15T12:00:20Z")  # fmt: skip
        for name, report in (("old", answer(one.request, "site-a")), ("new", new)):
            with suppress(Refused):  # the older one, when this is done again
                one.take(report, place=f"{name}.json")
        if "site-c" in one.reports:
            one.withdraw("site-c")
        one.fail("site-x", "it is not here")
        folder.keep_settings({"target": "uniform"})
        folder.keep_estimate(one.conclude(quorum=1))
        folder.keep_message("", 1, "site-a", '{"second": 2}')
        folder.close_stage("", 1, ["site-a"])


def state_of(path: Path) -> dict[str, Any]:
    with opened(path) as (folder, one):
        estimates = [read(file) for file in (path / "estimate.json", *sorted((path / "estimates").glob("*.json")))]
        events = [json.loads(line)["event"] for line in (path / "log.ndjson").read_text().splitlines()]
        return {
            "pictures": [file.name for file in sorted((path / "estimates").glob("*.png"))],
            "noted": {name for name in events if name in ("withdrawn", "corrected", "failed")},
            "reports": one.reports, "withdrawn": set(one.withdrawn), "corrections": one.corrections,
            "failures": folder.failures(), "settings": folder.settings(), "messages": folder.messages("", 1)[1],
            "documents": list(folder.messages("", 1)[0].values()), "estimates": estimates,
        }  # fmt: skip


def read(file: Path) -> dict[str, Any]:
    document = json.loads(file.read_text())
    return {name: value for name, value in document.items() if name != "created"}


@steps(23, 8)
@pytest.mark.parametrize("kind", ["error", "full disk", "kill"])
def test_a_run_is_resumed_to_the_same_estimate(tmp_path: Path, kind: str, step: int, tally: Tally) -> None:
    """Wherever it stops: what was there is intact, and the first estimate is among the earlier ones."""
    path = tmp_path / "run"
    begin_run(path)
    before = {file.name: file.read_bytes() for file in (path / "reports").iterdir()}
    first = read(path / "estimate.json")
    calls = counted(path, lambda: go_on_with_run(path))
    after = {file.name: file.read_bytes() for file in (path / "reports").iterdir()}
    wanted = state_of(path)
    assert wanted["estimates"][1:] == [first]
    assert wanted["pictures"] == ["0001.png"]
    for call in range(step // 2, len(calls), step):
        for number in (errno.ENOSPC,) if kind != "error" else errors_at(call // step):
            shutil.rmtree(path)
            begin_run(path)

            def work(call: int = call, number: int = number) -> None:
                with FaultyCalls(path, call, number, lasting=kind == "full disk", kill=kind == "kill").here():
                    go_on_with_run(path)

            if kind == "kill":
                died(work)
            else:
                with suppress(FedcertError):
                    work()
            check_whole(path, (".part",) if kind == "kill" else ())
            for file in (path / "reports").glob("[!.]*"):
                assert file.read_bytes() in (before[file.name], after.get(file.name)), (call, file)
            go_on_with_run(path)
            assert state_of(path) == wanted, (call, calls[call], number)
            tally.faults += 1


# A private sum over a folder


class Sum:
    """Three sites and a coordinator over a folder. Each command is called again until it does not fail."""

    def __init__(self, place: Path) -> None:
        self.place, self.names = place, NAMES[:3]
        private = PrivateSum(threshold=3)
        self.request = sign(private_request(self.names, radii=(0.0, 0.25, 0.5), private=private), COORDINATOR)
        self.own = reports(self.request)
        (place / "shared").mkdir(parents=True)
        self.answers: dict[str, bytes] = {}
        self.sums: Any = None

    def visit(self, name: str) -> None:
        memory = FolderStore(self.place / f"memory-{name}")
        try:
            take_part(
                self.place / "shared",
                name,
                lambda: Participant(self.request, KEYS[name], RING, memory, lambda: self.own[name], policy=FEW),
                once=True,
            )
        finally:
            memory.close()

    def add_up(self) -> None:
        self.sums, _ = private_sums(
            FolderTransport(self.place / "shared"), self.request, RING, folder=self.place / "run", once=True
        )

    def check(self) -> None:
        """Nothing is torn, and no site's answer has changed."""
        check_whole(self.place, (".part",))
        for file in (self.place / "shared" / "from").rglob("[0-9].json"):
            assert self.answers.setdefault(str(file), file.read_bytes()) == file.read_bytes(), file

    def run(self, disturbed: Callable[[Callable[[], None]], None]) -> None:
        """The whole sum; each command is disturbed once, and then called again."""
        for _ in range(12):
            for name in self.names:
                disturbed(lambda name=name: self.visit(name))  # type: ignore[misc]
                self.check()
                self.visit(name)
            disturbed(self.add_up)
            self.check()
            self.add_up()
            if self.sums is not None:
                return
        pytest.fail("there is no sum")


def clear(sum_: Sum) -> tuple[Any, ...]:
    together = list(sum_.own.values())
    return (
        tuple(np.sum([report.label_counts for report in together], axis=0).tolist()),
        tuple(np.sum([report.certified_counts for report in together], axis=0).tolist()),
    )


def most_calls(place: Path) -> int:
    """The calls of the command that makes the most of them."""
    lengths: list[int] = []
    whole = Sum(place)
    whole.run(lambda work: lengths.append(len(counted(place, work))))
    return max(lengths)


@steps(71, 15)
@pytest.mark.parametrize("kind", ["error", "full disk"])
def test_a_private_sum_is_right_whichever_call_fails(tmp_path: Path, kind: str, step: int, tally: Tally) -> None:
    """In each command of sites and coordinator the same call fails, and the command is called again."""
    for call in range(step // 2, most_calls(tmp_path / "counted"), step):
        for number in (errno.ENOSPC,) if kind == "full disk" else errors_at(call // step):
            place = tmp_path / f"{call}-{number}"
            whole = Sum(place)

            def disturbed(
                work: Callable[[], None], place: Path = place, call: int = call, number: int = number
            ) -> None:
                with FaultyCalls(place, call, number, lasting=kind == "full disk").here() as calls:
                    with suppress(FedcertError):
                        work()
                    tally.faults += calls.failed is not None

            whole.run(disturbed)
            assert (whole.sums.label_counts, whole.sums.certified_counts) == clear(whole), (call, number)


@steps(97, 31)
def test_a_private_sum_is_right_wherever_its_processes_are_killed(tmp_path: Path, step: int, tally: Tally) -> None:
    for call in range(step // 2, most_calls(tmp_path / "counted"), step):
        place = tmp_path / str(call)
        whole = Sum(place)

        def disturbed(work: Callable[[], None], place: Path = place, call: int = call) -> None:
            def killed() -> None:
                with FaultyCalls(place, call, kill=True).here():
                    work()

            tally.faults += died(killed)

        whole.run(disturbed)
        assert (whole.sums.label_counts, whole.sums.certified_counts) == clear(whole), call


def test_an_error_while_the_work_begins_is_one_sentence(tmp_path: Path) -> None:
    with FaultyCalls(tmp_path, 0, errno.EACCES).here(), pytest.raises(FileProblem, match="Permission denied"):
        RunFolder(tmp_path / "run", plain_request())
