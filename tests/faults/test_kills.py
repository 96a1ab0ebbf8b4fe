"""Processes that are killed at random moments, while others work: the same commands again end in the same result.

That certify resumes after twenty kills is in tests/certification/test_dataset_run.py.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factories import answer
from factories import request as plain_request
from faulty_calls import ALL, Child, Tally
from fedcert.cli.main import run
from fedcert.engines import shared_folder
from fedcert.report import Report, Request, Sums
from fedcert.rounds import private
from secure_sums import reports

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are forked"),
]
NAMES = ("a", "b", "c")


def command(*words: object) -> Child:
    """A command in a process of its own, as the command line runs it; exit code 0 where it is not killed."""

    def work() -> None:
        code = run([str(word) for word in words])
        if code:
            raise SystemExit(code)

    return Child(work)


def consortium(place: Path) -> dict[str, Report]:
    """Keys, a keyring, a signed request and reports."""
    for name in ("coordinator", *NAMES):
        assert (
            run(["keys", "new", name, "--out", f"{place}/{name}.keys.json", "--card", f"{place}/{name}.card.json"]) == 0
        )
    cards = [f"{place}/{name}.card.json" for name in ("coordinator", *NAMES)]
    assert run(["keys", "trust", f"{place}/ring.json", *cards]) == 0
    (place / "roster.txt").write_text("\n".join(NAMES))
    (place / "classes.txt").write_text("cat\ndog\n")
    (place / "shared").mkdir()
    asking = [
        "request", "--model-id", "m", "--sigma", "0.25", "--procedure", "sequential", "--radii", "0,0.25,0.5",
        "--classes", f"{place}/classes.txt", "--roster", f"{place}/roster.txt", "--private",
        "--sign", f"{place}/coordinator.keys.json", "--out", f"{place}/r.json",
    ]  # fmt: skip
    assert run(asking) == 0
    own = reports(Request.load(place / "r.json"))
    for name, report in own.items():
        (place / f"{name}.json").write_text(report.dumps())
    return own


@pytest.mark.parametrize("seed", range(30 if ALL else 3))
def test_sites_and_coordinator_that_are_killed_at_random_moments_end_in_the_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, tally: Tally
) -> None:
    """All wait for each other, each is started again as soon as it is gone; no site changes an answer."""
    monkeypatch.setattr(shared_folder, "_PAUSE", 0.01)
    monkeypatch.setattr(private, "_PAUSE", 0.01)
    own = consortium(tmp_path)
    common = ["--request", tmp_path / "r.json", "--trusted", tmp_path / "ring.json", "--folder", tmp_path / "shared"]
    commands: dict[str, list[object]] = {
        name: [
            "private", "join", tmp_path / f"{name}.json", *common, "--keys", tmp_path / f"{name}.keys.json",
            "--memory", tmp_path / f"memory-{name}",
        ]
        for name in NAMES
    }  # fmt: skip
    commands["coordinator"] = ["private", "sum", *common, "--run", tmp_path / "run", "--out", tmp_path / "sums.json"]
    running = {name: command(*words) for name, words in commands.items()}
    chance, kills, answers = np.random.default_rng(seed), 0, dict[Path, bytes]()
    until = time.monotonic() + 90
    while running:
        assert time.monotonic() < until, f"it does not end: {sorted(running)}"
        time.sleep(chance.uniform(0, 0.06))
        if kills < 60:
            victim = str(chance.choice(sorted(running)))
            running[victim].kill()
        for name, child in list(running.items()):
            ended = child.ended(wait=False)
            if ended:
                del running[name]
            elif ended is False:
                kills += 1
                running[name] = command(*commands[name])
        for file in (tmp_path / "shared" / "from").rglob("[0-9].json"):
            assert answers.setdefault(file, file.read_bytes()) == file.read_bytes()
    tally.faults = kills
    assert kills >= 10
    sums = Sums.from_json(json.loads((tmp_path / "sums.json").read_text()))
    clear = Sums.of(list(own.values()))
    assert (sums.label_counts, sums.certified_counts) == (clear.label_counts, clear.certified_counts)
    assert command(*commands["coordinator"]).ended(), "once more is the same"
    assert Sums.from_json(json.loads((tmp_path / "sums.json").read_text())) == sums


def kept(run_folder: Path) -> dict[str, Any]:
    """What a run's folder says, without times."""
    documents = {
        str(file.relative_to(run_folder)): json.loads(file.read_text())
        for file in run_folder.rglob("*.json")
        if "replaced" not in file.parts
    }
    return {name: {key: value for key, value in each.items() if key != "created"} for name, each in documents.items()}


def test_collecting_that_is_killed_at_random_moments_ends_in_the_same_estimate(tmp_path: Path, tally: Tally) -> None:
    request, inbox = plain_request(), tmp_path / "inbox"
    inbox.mkdir()
    (tmp_path / "request.json").write_text(request.dumps())
    for name in ("site-a", "site-b", "site-c"):
        (inbox / f"{name}.json").write_text(answer(request, name).dumps())
    corrected = answer(
        request, "site-b", certified_counts=(39, 20), class_certified_counts=((24, 15), (15, 5)),
        created="2026-11-15T12:00:20Z",
    )  # fmt: skip
    (inbox / "site-b-corrected.json").write_text(corrected.dumps())
    asking = ["collect", inbox, "--request", tmp_path / "request.json", "--run"]
    assert run([str(word) for word in (*asking, tmp_path / "plain")]) == 0  # what is imported here is there for all
    began = time.monotonic()
    assert command(*asking, tmp_path / "again").ended()
    usual = time.monotonic() - began
    chance, kills = np.random.default_rng(0), 0
    for number in range(24):
        folder = tmp_path / f"killed-{number // 4}"
        child = command(*asking, folder)
        time.sleep(chance.uniform(0, usual))
        child.kill()
        kills += child.ended() is False
        if number % 4 == 3:
            assert command(*asking, folder).ended()
            assert kept(folder) == kept(tmp_path / "plain") | {
                name: each for name, each in kept(folder).items() if name.startswith("estimates/")
            }
    tally.faults = kills
    assert kills >= 12
