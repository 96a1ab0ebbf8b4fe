"""Private rounds in one process and over a shared folder: the sums are those of the reports in the clear."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcert import estimate
from fedcert._schema.encoding import decoded, encoded
from fedcert.cli.main import run
from fedcert.engines import shared_folder
from fedcert.engines.in_process import InProcessTransport
from fedcert.engines.shared_folder import FolderTransport, take_part
from fedcert.errors import CallError, FileProblem, QuorumMissed, Refused
from fedcert.privacy.keys.identity import Identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.keys.signing import sign
from fedcert.privacy.policy import Policy
from fedcert.privacy.state_store import FolderStore, InMemoryStore
from fedcert.report import Report, Request, Smoothing, Sums
from fedcert.report.request import PrivateSum
from fedcert.rounds.private import estimate_from_sums, private_sums, run_private_round
from fedcert.secagg.messages import Totals
from fedcert.secagg.participant import Participant
from fedcert.secagg.second_sum import SecondSum
from fedcert.secagg.vectors import VectorLayout
from secure_sums import (
    COORDINATOR,
    FEW,
    KEYS,
    NAMES,
    POPULATION,
    PROCEDURES,
    RING,
    TOTALS,
    asked,
    in_process,
    private_request,
    reports,
    site,
)


@pytest.mark.parametrize("without", [set(), {"site-3"}])
@pytest.mark.parametrize("procedure", PROCEDURES)
def test_the_sums_are_those_of_the_reports(procedure: str, without: set[str]) -> None:
    request = asked(**PROCEDURES[procedure])
    own = reports(request)
    sums, missing = in_process(request, own, without)
    assert missing == dict.fromkeys(without, "it was never there")
    clear = Sums.of([report for name, report in own.items() if name not in without])
    for name in TOTALS:
        assert getattr(sums, name) == getattr(clear, name), name
    for method, close in (("poststratified", 1e-9), ("blup", 1e-6), ("minimax", 1e-6)):
        private = estimate(sums, method=method).certified_accuracy
        plain = estimate([r for name, r in own.items() if name not in without], method=method).certified_accuracy
        assert np.abs(np.subtract(private, plain)).max() < close, method


def test_right_answers_are_summed_without_classes_too() -> None:
    """Moments, of which products of right answers are sent as the triangle that they follow from."""
    private = PrivateSum(threshold=4, class_counts=False, moments=True)
    request = sign(private_request(NAMES, radii=(0.0, 0.5), smoothing=POPULATION, private=private), COORDINATOR)
    own = reports(request)
    assert VectorLayout(request).length == 1 + 2 + 17 + 21 + 21 + 3 + 2 * 17 + 17 * 18 // 2
    sums, _ = in_process(request, own)
    clear = Sums.of([Report(**{**report.__dict__, "class_correct_counts": None}) for report in own.values()])
    for name in TOTALS:
        assert getattr(sums, name) == getattr(clear, name), name
    assert sums.by_class is None


@pytest.mark.parametrize("changes", [{"n": 17}, {"votes": 13}, {"procedure": "fixed", "n": 1000}])
def test_all_sites_of_a_sum_have_one_number_of_passes(changes: dict[str, Any]) -> None:
    """One that counted something else is not in the sum; the others' is exact."""
    settings = {"sigma": 0.5, "procedure": "population", "n": 16} | changes
    request = asked(smoothing=POPULATION)
    own = reports(request)
    other = reports(asked(smoothing=Smoothing(**settings)))["site-2"]
    sums, missing = in_process(request, own | {"site-2": other})
    assert missing == {
        "site-2": "the report of 'site-2' has other smoothing than the private sum is over; certify with the request"
    }
    assert sums.correct_counts == Sums.of([own[name] for name in NAMES if name != "site-2"]).correct_counts


def test_who_is_missing_is_in_the_estimate() -> None:
    request = asked()
    sums, missing = in_process(request, reports(request), {"site-3"})
    made = estimate_from_sums(sums, request, missing, None, "auto")
    assert made.excluded == {"site-3": "it was never there"}
    assert (made.checks[-1].name, made.checks[-1].verdict) == ("missing clients", "warning")
    assert made.clients == 4


def test_below_the_threshold_there_is_no_number() -> None:
    request = asked()
    with pytest.raises(QuorumMissed) as caught:
        in_process(request, reports(request), {"site-3", "site-4"})
    assert str(caught.value) == (
        "3 clients sent their join, but a private sum needs 4; nothing is known of anybody's numbers; "
        "site-3: it was never there; site-4: it was never there"
    )


def test_design_effects_are_told_as_the_next_larger_step() -> None:
    request = asked()
    own = reports(request)
    own["site-1"] = Report(**{**own["site-1"].__dict__, "design_effect": (1.3, 1.2, 1.1), "largest_group": 3})
    sums, _ = in_process(request, own)
    assert sums.design_effect == (2**0.5,) * 3
    assert sums.largest_group == 4


def test_a_report_without_counts_per_class_cannot_be_summed() -> None:
    request = asked()
    own = reports(request)
    own["site-1"] = Report(**{**own["site-1"].__dict__, "class_certified_counts": None})
    _, missing = in_process(request, own)
    assert missing["site-1"] == (
        "the report of 'site-1' has no counts per class, which the private sum is over; certify with --class-counts "
        "(they leave the site under masks only)"
    )


def test_more_examples_than_a_sum_can_hold_are_refused() -> None:
    request = asked()
    layout = VectorLayout(request)
    assert layout.most_examples == 2**62 // (2**24 * 5)
    own = reports(request)["site-0"]
    huge = Report(**{**own.__dict__, "label_counts": (2**51, 2**51), "class_certified_counts": None})
    with pytest.raises(Refused, match="this site has 4,503,599,627,370,496 examples, but the request allows 100,000"):
        layout.pack(huge)
    private = replace(layout.private, most_examples=2**53)
    with pytest.raises(Refused, match="examples are more than a private sum can hold"):
        VectorLayout(replace(request, private=private)).pack(huge)


def test_a_total_of_more_examples_than_the_sites_may_have_is_no_honest_sum() -> None:
    request = asked()
    layout = VectorLayout(replace(request, private=replace(VectorLayout(request).private, most_examples=30)))
    total = np.sum(
        [VectorLayout(request).pack(report) for report in reports(request).values()], axis=0, dtype=np.uint64
    )
    with pytest.raises(Refused, match="the number of examples must be at most 150, as each of 5 sites may have 30"):
        layout.sums(total, 5)


@pytest.mark.parametrize("procedure", PROCEDURES)
def test_false_numbers_are_no_sum_of_honest_reports(procedure: str) -> None:
    request = asked(**PROCEDURES[procedure])
    layout = VectorLayout(request)
    total = np.sum([layout.pack(report) for report in reports(request).values()], axis=0, dtype=np.uint64)
    total[3] = 2**40  # certified examples of a class, or such of which no copy is right: more than it has
    with pytest.raises(
        Refused, match="the private sum is not one of honest reports .*; which site gave false numbers is unknown"
    ):
        layout.sums(total, 5)


def test_a_request_that_nobody_trusted_signed_is_refused() -> None:
    request = asked()
    own = reports(request)
    unsigned = Request(**{**request.__dict__, "signature": None})
    with pytest.raises(
        Refused, match="^the request is not signed by anybody in the keyring: a private sum starts with"
    ):
        site("site-0", own["site-0"])(unsigned)


def shared(
    folder: Path, request: Request, own: Mapping[str, Report], names: tuple[str, ...] = NAMES
) -> list[threading.Thread]:
    """Sites at work on a shared folder, each in a thread of its own."""

    def work(name: str) -> None:
        take_part(folder, name, lambda: site(name, own[name])(request), seconds=20.0)

    threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    return threads


@pytest.mark.parametrize("procedure", PROCEDURES)
def test_over_a_shared_folder_it_is_the_same_sum(tmp_path: Path, procedure: str) -> None:
    request = asked(**PROCEDURES[procedure])
    own = reports(request)
    threads = shared(tmp_path, request, own)
    sums, missing = private_sums(FolderTransport(tmp_path), request, RING, folder=tmp_path / "run", patience=20.0)
    for thread in threads:
        thread.join(20)
    expected, _ = in_process(request, own)
    assert sums == expected
    assert missing == {}


def test_step_by_step_as_people_carry_files(tmp_path: Path) -> None:
    """Everybody does what can be done now, stops, and comes back; programs start anew every time."""
    request = asked()
    own = reports(request)
    shared_folder = tmp_path / "shared"
    shared_folder.mkdir()
    memories = {name: tmp_path / f"memory-{name}" for name in NAMES}

    def go(name: str) -> bool:
        memory = FolderStore(memories[name])
        try:
            return take_part(shared_folder, name, lambda: site(name, own[name], memory)(request), once=True)
        finally:
            memory.close()

    def add_up(go_on: bool = False) -> Any:
        return private_sums(
            FolderTransport(shared_folder), request, RING, folder=tmp_path / "run", once=True, go_on=go_on
        )

    for stage in range(5):
        assert add_up()[0] is None
        done = {name: go(name) for name in NAMES if name != "site-4" or stage < 2}
        assert set(done.values()) == {stage == 4}
        if stage == 2:  # the last one is on holiday
            waiting = add_up()
            assert waiting == (None, {"site-4": "it has not sent its masked numbers"})
            assert add_up(go_on=True)[0] is None
            with pytest.raises(CallError, match="is the folder of another private sum"):
                private_sums(FolderTransport(shared_folder), asked(), RING, folder=tmp_path / "run", once=True)
    sums, missing = add_up()
    assert sums == in_process(request, own, {"site-4"})[0]
    assert set(missing) == {"site-4"}
    assert add_up()[0] == sums  # once more is the same


@pytest.mark.parametrize(
    ("count", "stage"),
    [(3, None), *((10, stage) for stage in range(5)), pytest.param(100, None, marks=pytest.mark.slow)],
)
def test_three_tenths_drop_out_over_files(tmp_path: Path, count: int, stage: int | None) -> None:
    """Exact whoever leaves, at whichever stage; at 100, six at each."""
    names = [f"site-{number:03d}" for number in range(count)]
    keys = {name: Identity.new(name) for name in names}
    ring = Keyring.of([COORDINATOR.card, *(one.card for one in keys.values())])
    private = PrivateSum(threshold=2 * count // 3 + 1, moments=True)
    request = sign(private_request(names, radii=(0.0, 0.25, 0.5), private=private), COORDINATOR)
    own, folder = reports(request), tmp_path / "shared"
    folder.mkdir()
    gone = names[count - int(0.3 * count) * (count > 3) :]
    due = {name: number % 5 if stage is None else stage for number, name in enumerate(gone)}

    def go(name: str) -> None:
        memory = FolderStore(tmp_path / name)
        try:
            take_part(
                folder,
                name,
                lambda: Participant(request, keys[name], ring, memory, lambda: own[name], policy=FEW),
                once=True,
            )
        finally:
            memory.close()

    sums = None
    for number in range(6):
        sums, missing = private_sums(
            FolderTransport(folder), request, ring, folder=tmp_path / "run", once=True, go_on=number > 0
        )
        if sums is not None:
            break
        for name in names:
            if number < due.get(name, 5):
                go(name)
    assert sums is not None
    inside = [name for name in names if due.get(name, 5) > 2]
    clear = Sums.of([own[name] for name in inside])
    for field in TOTALS:
        assert getattr(sums, field) == getattr(clear, field), field
    assert set(missing) == set(names) - set(inside)


def test_a_silent_coordinator_is_one_sentence(tmp_path: Path) -> None:
    request = asked()
    own = reports(request)["site-0"]
    with pytest.raises(FileProblem, match="1.json within 0.1 s; run the same command again to go on$"):
        take_part(tmp_path, "site-0", lambda: site("site-0", own)(request), seconds=0.1)
    assert not list(tmp_path.rglob("*trouble*")), "the site is well: it may go on later"
    with pytest.raises(
        CallError, match="^there is no folder .*gone; make it, where coordinator and sites can reach it$"
    ):
        take_part(tmp_path / "gone", "site-0", lambda: site("site-0", own)(request))


def test_a_folder_of_another_sum_is_refused_and_left_alone(tmp_path: Path) -> None:
    first, second = asked(), asked()
    own = reports(first)["site-0"]
    take_part(tmp_path, "site-0", lambda: site("site-0", own)(first), once=True)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(CallError, match="0.json is of another private sum; use an empty folder for each$"):
        take_part(tmp_path, "site-0", lambda: site("site-0", reports(second)["site-0"])(second), once=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_site_that_refuses_says_why(tmp_path: Path) -> None:
    request = asked()
    own = reports(request)
    ring = RING.without(["site-4"])

    def wary(given: Request) -> Participant:
        return Participant(given, KEYS["site-0"], ring, InMemoryStore(), lambda: own["site-0"], policy=FEW)

    with pytest.raises(Refused, match="1 on the roster are not in the keyring"):
        take_part(tmp_path, "site-0", lambda: wary(request), once=True)
    transport = FolderTransport(tmp_path)
    transport.send(request, 0, dict.fromkeys(NAMES, request.dumps()))
    (reply,) = transport.poll(NAMES)
    assert reply.client == "site-0"
    assert reply.failure is not None
    assert reply.failure.startswith("1 on the roster are not in the keyring ('site-4')")


def test_what_lies_in_the_folder_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torn files, another site's words, rubbish: refused, named, and the others go on."""
    monkeypatch.setattr(shared_folder, "_TORN", 0.5)
    request = asked()
    own = reports(request)
    threads = shared(tmp_path, request, own, NAMES[:4])
    folder = tmp_path / "from"
    from fedcert.rounds.folder import file_name

    place = folder / Path(file_name("site-4")).stem
    place.mkdir(parents=True)
    (place / "0.json").write_text('{"schema": "fedcert/private-join/1", "evil": "\x1b[2J"')
    sums, missing = private_sums(FolderTransport(tmp_path), request, RING, patience=20.0)
    for thread in threads:
        thread.join(20)
    assert missing["site-4"].startswith("its message was refused: ")
    assert missing["site-4"].isprintable()
    assert sums == in_process(request, own, {"site-4"})[0]


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("a", "b", "c")
    for name in ("coordinator", *names):
        assert run(["keys", "new", name, "--out", f"{name}.keys.json", "--card", f"{name}.card.json"]) == 0
    assert run(["keys", "trust", "ring.json", *(f"{name}.card.json" for name in ("coordinator", *names))]) == 0
    Path("roster.txt").write_text("\n".join(names))
    Path("classes.txt").write_text("cat\ndog\n")
    ask = ["request", "--model-id", "demo", "--sigma", "0.25", "--radii", "0,0.25,0.5", "--classes", "classes.txt"]
    assert run([*ask, "--private", "--out", "r.json"]) == 2
    assert run([*ask, "--threshold", "3", "--out", "r.json"]) == 2
    assert run([*ask, "--roster", "roster.txt", "--private", "--threshold", "1", "--out", "r.json"]) == 2
    assert run([*ask, "--roster", "roster.txt", "--private", "--sign", "coordinator.keys.json", "--out", "r.json"]) == 0
    assert "and then: fedcert private join report.json --request r.json" in capsys.readouterr().out
    request = Request.from_json(json.loads(Path("r.json").read_text()))
    for name, report in reports(request).items():
        Path(f"{name}.json").write_text(report.dumps())
    assert run(["collect", "a.json", "--request", "r.json"]) == 2
    assert "asks for a private sum, not for reports: use fedcert private sum" in " ".join(
        capsys.readouterr().err.split()
    )
    Path("roster.txt").write_text("\n".join(("coordinator", *names)))
    signed = ["--private", "--sign", "coordinator.keys.json"]
    assert run([*ask, "--roster", "roster.txt", *signed, "--out", "x.json"]) == 2
    assert "'coordinator' signs the request and is on its roster" in " ".join(capsys.readouterr().err.split())
    Path("shared").mkdir()
    common = ["--request", "r.json", "--trusted", "ring.json", "--folder", "shared", "--once"]
    adding = ["private", "sum", *common, "--run", "run", "--out", "sums.json"]
    for _ in range(5):
        for name in names:
            own = ["--keys", f"{name}.keys.json", "--memory", f"memory-{name}"]
            assert run(["private", "join", f"{name}.json", *common, *own]) == 0
        assert run(adding) == 0
    out = capsys.readouterr()
    assert "Wrote sums.json: the sums of 3 sites" in out.out
    assert "a has done its part; its own numbers never left unmasked." in out.out
    assert run(["estimate", "sums.json"]) == 0
    shown = [*common, "--keys", "a.keys.json", "--memory", "memory-a", "--dry-run"]
    assert run(["private", "join", "a.json", *shown]) == 0
    seen = capsys.readouterr()
    own_report = json.loads(Path("a.json").read_text())
    assert (
        json.loads(seen.out.partition("\n{")[2].join(["{", ""]) if not seen.out.startswith("{") else seen.out)["labels"]
        == own_report["label_counts"]
    )
    assert "nothing was sent" in seen.err
    other = ["--keys", "b.keys.json", "--memory", "memory-b"]
    assert run(["private", "join", "a.json", *common, *other]) == 2
    assert "the report is of 'a', but the keys are those of 'b'" in capsys.readouterr().err
    Path("a.json").write_text(Path("a.json").read_text().replace(request.digest, "sha256:" + "0" * 64))
    assert run(["private", "join", "a.json", *common, "--keys", "a.keys.json", "--memory", "memory-a"]) == 1
    assert "answers another request" in capsys.readouterr().err
    assert run([*(word for word in adding if word != "--once"), "--go-on"]) == 2
    assert "--go-on goes with --once" in capsys.readouterr().err
    Path("a.keys.json").chmod(0o644)
    assert run(["private", "join", "a.json", *common, "--keys", "a.keys.json", "--memory", "memory-a"]) == 2
    assert "others may read it; run: chmod 600 a.keys.json" in capsys.readouterr().err


@pytest.mark.parametrize("procedure", PROCEDURES)
def test_a_second_sum_tells_how_sites_differ(tmp_path: Path, procedure: str) -> None:
    """In one process and over a folder, the spread is that of the reports in the clear; the target is the request's."""
    private = PrivateSum(threshold=4, spread=True)
    request = sign(
        private_request(NAMES, radii=(0.0, 0.25, 0.5), private=private, **PROCEDURES[procedure]), COORDINATOR
    )
    own = reports(request)
    sums, _ = in_process(request, own)
    assert sums.spread is not None
    about = SecondSum.of(Sums.of(list(own.values())), (0.5, 0.5))
    clear = about.spread(np.sum([about.pack(report) for report in own.values()], axis=0, dtype=np.uint64))
    assert sums.spread == clear
    made = estimate_from_sums(sums, request, {}, None, "poststratified")
    assert made.interval is not None
    assert made.interval.kind == "cluster-robust"
    threads = shared(tmp_path, request, own)
    again, missing = private_sums(FolderTransport(tmp_path), request, RING, folder=tmp_path / "run", patience=20.0)
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert again == sums
    assert missing == {}
    # A coordinator that comes back has all it needs.
    once, _ = private_sums(FolderTransport(tmp_path), request, RING, folder=tmp_path / "run", once=True)
    assert once == sums


def test_who_is_not_there_any_more_costs_the_second_sum_only() -> None:
    """The first sum's survivors must all be in the second: the others refuse a sum over fewer."""
    request = sign(
        private_request(NAMES, radii=(0.0, 0.25, 0.5), private=PrivateSum(threshold=4, spread=True)), COORDINATOR
    )
    own = reports(request)

    class Leaving(InProcessTransport):
        def send(self, request: Request, stage: int, messages: Mapping[str, str]) -> None:
            if stage == 5:
                messages = {name: text for name, text in messages.items() if name != "site-0"}
            super().send(request, stage, messages)

    sums, _ = private_sums(Leaving({name: site(name, own[name]) for name in NAMES}), request, RING, patience=0.0)
    assert sums is not None
    assert sums.spread is None
    assert sums.contributors == 5


def test_a_second_sum_that_nobody_asked_for_or_about_something_else_is_refused() -> None:
    plain, second = (
        asked(),
        sign(private_request(NAMES, radii=(0.0, 0.25, 0.5), private=PrivateSum(threshold=4, spread=True)), COORDINATOR),
    )
    nothing = Totals(session="0" * 64, total="", tags="")
    for request, why in (
        (plain, "^the request asks for no second sum$"),
        (second, "^a second sum comes after the first, which is not done$"),
    ):
        with pytest.raises(Refused, match=why):
            site("site-0", reports(request)["site-0"])(request).reply(nothing.dumps())


def test_totals_that_a_server_makes_up_are_refused_and_tell_nothing() -> None:
    """Neither larger nor smaller, nor of another shape: the answer does not depend on what a site holds."""
    request = sign(
        private_request(NAMES, radii=(0.0, 0.25, 0.5), private=PrivateSum(threshold=4, spread=True)), COORDINATOR
    )
    own, said = reports(request), set()

    class Lying(InProcessTransport):
        def send(self, request: Request, stage: int, messages: Mapping[str, str]) -> None:
            if stage != 5:
                super().send(request, stage, messages)
                return
            told = Totals.from_json(json.loads(next(iter(messages.values()))))
            numbers = np.frombuffer(decoded(told.total), dtype="<u8")
            for place in range(len(numbers)):
                for step in (-1, 1):
                    changed = numbers.copy()
                    changed[place : place + 1] += np.array([step]).astype(np.uint64)
                    said.add(self.why(Totals(session=told.session, total=encoded(changed.tobytes()), tags=told.tags)))
            for cut in (0, 7, 8, 23):
                said.add(self.why(Totals(session=told.session, total=told.total, tags=encoded(bytes(cut)))))
                said.add(self.why(Totals(session=told.session, total=encoded(bytes(cut)), tags=told.tags)))

        def why(self, told: Totals) -> str:
            with pytest.raises(Refused) as caught:
                self.participants["site-0"].reply(told.dumps())
            return str(caught.value)

    sums, _ = private_sums(Lying({name: site(name, own[name]) for name in NAMES}), request, RING, patience=0.0)
    assert sums is not None
    assert sums.spread is None
    assert said == {"the server tells other totals than the sites have summed"}


def test_a_site_keeps_its_reasons_to_itself(tmp_path: Path) -> None:
    """What depends on a site's data is told to the site alone; the coordinator learns that it does not take part."""
    request = asked()
    few = Policy(fewest_for_squares=3, fewest_for_moments=3, minimum_examples=10**6)

    def begin() -> Participant:
        return Participant(
            request, KEYS["site-0"], RING, InMemoryStore(), lambda: reports(request)["site-0"], policy=few
        )

    with pytest.raises(Refused, match="its policy lets nothing out with fewer than 1000000"):
        take_part(tmp_path, "site-0", begin)
    trouble = next((tmp_path / "from").rglob("0-trouble.json")).read_text()
    assert json.loads(trouble) == {"trouble": "this site does not take part, for reasons that it keeps to itself"}


def test_who_asks_is_not_among_those_who_are_added_up() -> None:
    names = [*NAMES, "coordinator"]
    request = sign(private_request(names, private=PrivateSum(threshold=5)), COORDINATOR)
    with pytest.raises(Refused, match="^'coordinator' signed the request and is on its roster"):
        Participant(request, KEYS["site-0"], RING, InMemoryStore(), lambda: reports(request)["site-0"])


def test_a_message_that_comes_again_does_not_spoil_the_folder(tmp_path: Path) -> None:
    request = asked()
    own = reports(request)

    class Repeating(InProcessTransport):
        def send(self, request: Request, stage: int, messages: Mapping[str, str]) -> None:
            super().send(request, stage, messages)
            if stage == 0:
                self.first = next(one for one in self._replies if one.client == "site-4")
            elif stage == 1:
                self._replies.append(self.first)

    transport = Repeating({name: site(name, own[name]) for name in NAMES})
    sums, _ = private_sums(transport, request, RING, folder=tmp_path / "run", patience=0.0)
    again, _ = private_sums(InProcessTransport({}), request, RING, folder=tmp_path / "run", once=True)
    assert again == sums


def whole_round(transport: Any, **changes: Any) -> Any:
    settings: dict[str, Any] = {
        "classes": ("a", "b"), "smoothing": 0.5, "radii": (0.0, 0.25, 0.5), "roster": NAMES, "keys": COORDINATOR,
        "trusted": RING, "threshold": 4, "moments": True, "patience": 0.0,
    }  # fmt: skip
    return run_private_round(transport, "m", **{**settings, **changes})


def any_site(name: str, memory: Any = None) -> Any:
    return lambda request: site(name, reports(request)[name], memory)(request)


@pytest.mark.parametrize("smoothing", [0.5, {"sigma": 0.5, "procedure": "population", "n": 16}])
def test_a_whole_private_round_keeps_request_sums_and_estimate_and_no_report(tmp_path: Path, smoothing: Any) -> None:
    transport = InProcessTransport({name: any_site(name) for name in NAMES if name != "site-3"})
    made = whole_round(transport, run=tmp_path, smoothing=smoothing)
    assert made.excluded == {"site-3": "it was never there"}
    request = Request.from_json(json.loads((tmp_path / "request.json").read_text()))
    kept = Sums.from_json(json.loads((tmp_path / "sums.json").read_text()))
    assert kept == in_process(request, reports(request), {"site-3"})[0]
    assert json.loads((tmp_path / "estimate.json").read_text())["clients"] == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "estimate.json", "log.ndjson", "request.json", "sum", "sums.json",
    ]  # fmt: skip
    for file in tmp_path.rglob("*.json"):
        assert "fedcert/report" not in file.read_text()


def test_a_private_round_that_was_broken_off_goes_on(tmp_path: Path) -> None:
    memories = {name: InMemoryStore() for name in NAMES}

    class Dying(InProcessTransport):
        def send(self, request: Request, stage: int, messages: Mapping[str, str]) -> None:
            if stage == 3:
                raise KeyboardInterrupt
            super().send(request, stage, messages)

    class Resumed(InProcessTransport):
        """Sites that start anew with what they remember: the request does not come again."""

        def send(self, request: Request, stage: int, messages: Mapping[str, str]) -> None:
            assert stage >= 3
            self.participants = {name: self.clients[name](request) for name in messages}
            super().send(request, stage, messages)

    with pytest.raises(KeyboardInterrupt):
        whole_round(Dying({name: any_site(name, memories[name]) for name in NAMES}), run=tmp_path)
    with pytest.raises(CallError, match="is of a round with another private; name another folder$"):
        whole_round(InProcessTransport({}), run=tmp_path, moments=False)
    again = Resumed({name: any_site(name, memories[name]) for name in NAMES})
    assert whole_round(again, run=tmp_path, roster=NAMES[::-1]).clients == 5


@pytest.mark.parametrize("roster", [None, 5])
def test_a_private_sum_needs_names(roster: Any) -> None:
    with pytest.raises(CallError, match="^a private sum needs a roster of names"):
        whole_round(InProcessTransport({}), roster=roster)


def test_going_on_without_some_ends_one_stage_and_not_the_next_sums_first(tmp_path: Path) -> None:
    """The last stage of the first sum is ended without a site; the second sum's first stage is then waited in."""
    private = PrivateSum(threshold=4, spread=True)
    request = sign(private_request(NAMES, radii=(0.0, 0.25, 0.5), private=private), COORDINATOR)
    own, memories = reports(request), {name: InMemoryStore() for name in NAMES}
    folder = tmp_path / "shared"
    folder.mkdir()

    def add_up(go_on: bool = False) -> Any:
        return private_sums(FolderTransport(folder), request, RING, folder=tmp_path / "run", once=True, go_on=go_on)

    for stage in range(5):
        add_up()
        for name in NAMES[:4] if stage == 4 else NAMES:
            take_part(folder, name, lambda name=name: site(name, own[name], memories[name])(request), once=True)
    sums, waiting = add_up(go_on=True)
    assert sums is None
    assert waiting == dict.fromkeys(NAMES, "it has not sent its join")
