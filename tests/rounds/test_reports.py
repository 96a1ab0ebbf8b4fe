"""A whole round over a transport: begun, resumed, and checked before anyone works."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from factories import MODEL, ROSTER, answer
from fedcert import Report, Request
from fedcert.engines.in_process import InProcessTransport
from fedcert.errors import CallError, QuorumMissed
from fedcert.rounds import Reply, run_round

SETTINGS: dict[str, Any] = {
    "classes": ("cat", "dog"),
    "smoothing": {"sigma": 0.25, "procedure": "sequential"},
    "radii": (0.0, 0.25),
    "seconds": 60.0,
}


def honest(name: str) -> Any:
    return lambda request: answer(request, name, created=None)


def clients(*names: str) -> dict[str, Any]:
    return {name: honest(name) for name in names}


def run(transport: InProcessTransport, **changes: Any) -> Any:
    return run_round(transport, MODEL, sleep=lambda _: None, **{**SETTINGS, **changes})


def test_those_who_are_present_are_asked_and_estimated_from(tmp_path: Path) -> None:
    estimate = run(InProcessTransport(clients(*ROSTER)), run=tmp_path)
    assert estimate.clients == 3
    assert json.loads((tmp_path / "request.json").read_text())["roster"] == list(ROSTER)
    assert len(list((tmp_path / "reports").iterdir())) == 3


def test_who_is_not_there_and_who_fails_is_named() -> None:
    def broken(_: Request) -> Report:
        raise MemoryError("no more")

    transport = InProcessTransport({**clients("site-a", "site-b"), "site-c": broken})
    estimate = run(transport, roster=(*ROSTER, "site-d"))
    assert estimate.excluded == {"site-c": "MemoryError: no more", "site-d": "it was never there"}


def test_a_round_that_was_broken_off_asks_only_who_is_missing(tmp_path: Path) -> None:
    asked: list[str] = []

    class Counting(InProcessTransport):
        def send(self, request: Request, stage: int, messages: Any) -> None:
            asked.extend(messages)
            super().send(request, stage, messages)

    class Dying(Counting):
        def poll(self, waiting_for: Collection[str]) -> list[Reply]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Dying(clients(*ROSTER)), run=tmp_path, roster=ROSTER)
    with pytest.raises(QuorumMissed):
        run(Counting(clients("site-a")), run=tmp_path, roster=ROSTER)
    asked.clear()
    assert run(Counting(clients(*ROSTER)), run=tmp_path).clients == 3
    assert asked == ["site-b", "site-c"]
    with pytest.raises(CallError, match="is of a round with another smoothing, radii; name another folder$"):
        run(InProcessTransport({}), run=tmp_path, smoothing=0.5, radii=(0.0, 1.0))
    with pytest.raises(CallError, match="is of a round with another roster; name another folder$"):
        run(InProcessTransport({}), run=tmp_path, roster=("site-a", "site-z"))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"method": "best"}, "method"),
        ({"quorum": 9, "roster": ["client-0"]}, "quorum must be at most the 1 clients"),
        ({"target": "unifrom"}, "unifrom"),
        ({"confidance": 0.9}, "there is no setting 'confidance'"),
        ({"seconds": float("inf")}, "seconds must be a number above 0"),
        ({"roster": "client-0"}, "roster must be a list of names or a number"),
        ({"roster": 0}, "roster must be a list of names or a whole number of 1 or more, but is 0"),
        ({"missing_examples": 5, "screen": True}, "leave screening out"),
        ({"roster": 3, "quorum": 20}, "quorum must be at most the 3 clients"),
    ],
)
def test_settings_are_checked_before_anyone_works(wrong: dict[str, Any], why: str) -> None:
    def working(_: Request) -> Report:
        raise AssertionError("nobody is to work")

    with pytest.raises(CallError, match=why):
        run(InProcessTransport(dict.fromkeys(ROSTER, working)), **wrong)


def test_more_clients_than_come_are_waited_for_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("fedcert.rounds.reports.time.monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with pytest.raises(QuorumMissed, match="^3 clients were there within 30 s, but 4 are wanted$"):
        run_round(InProcessTransport(clients(*ROSTER)), MODEL, sleep=sleep, **SETTINGS, roster=4)


def right(name: str) -> Any:
    """A client that counts right answers."""
    rows = {"correct_counts": (10, *[0] * 31, 40), "class_correct_counts": ((5, *[0] * 31, 25), (5, *[0] * 31, 15))}
    none = {"certified_counts": None, "class_certified_counts": None}
    return lambda request: answer(request, name, created=None, **rows, **none)


def test_a_round_of_population_certificates_names_its_radii_and_goes_on(tmp_path: Path) -> None:
    """Settings by name; the same settings go on with the same folder, and other passes do not."""
    settings = {"smoothing": {"sigma": 0.25, "procedure": "population"}, "radii": None, "run": tmp_path}
    made = run(InProcessTransport({name: right(name) for name in ROSTER}), **settings)
    assert made.clients == 3
    assert made.radii == tuple(round(0.025 * step, 9) for step in range(21))
    assert made.smoothing.n == 32
    assert "the majority vote of 11 noisy copies" in made.guarantee
    assert run(InProcessTransport({}), **settings).certified_accuracy == made.certified_accuracy
    other = settings | {"smoothing": {"sigma": 0.25, "procedure": "population", "n": 33}}
    with pytest.raises(CallError, match="is of a round with another smoothing; name another folder$"):
        run(InProcessTransport({}), **other)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"smoothing": {"sigma": 0.25, "passes": 32}}, "^smoothing must be made of noise, .*, votes, not 'passes'$"),
        ({"smoothing": {"procedure": "population"}}, "^smoothing must be made of noise, .*, votes, sigma among them$"),
        ({"votes": 5}, "votes .* must be left out for CERTIFY's reports"),
    ],
)
def test_settings_that_do_not_go_together_are_found_before_anyone_works(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(CallError, match=why):
        run(InProcessTransport({}), **changes)
