"""Corrected and withdrawn reports: the newer one counts, both are named, and a run remembers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from factories import NOW, answer, request
from fedcert.engines.files import take_files
from fedcert.errors import CallError, Refused
from fedcert.report import Report, Request
from fedcert.rounds import CertificationRound, RunFolder

EARLY, LATE = "2026-11-01T10:00:00Z", "2026-11-02T10:00:00Z"
ASKED = request(seconds=None, now=None)


def report(created: str | None, certified: int = 30, client: str = "site-a", asked: Request = ASKED) -> Report:
    given = answer(asked, client)
    counts = (certified, *given.procedure_counts[1:])
    return answer(asked, client, certified_counts=counts, class_certified_counts=None, created=created)


def begun(folder: RunFolder | None = None) -> CertificationRound:
    return CertificationRound(ASKED, folder, clock=lambda: NOW)


@pytest.mark.parametrize("order", [("old.json", "new.json"), ("new.json", "old.json")])
def test_the_newer_report_counts_in_any_order(order: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(report(EARLY, 30).dumps())
    (tmp_path / "new.json").write_text(report(LATE, 31).dumps())
    one = begun()
    refused = take_files(one, [tmp_path / name for name in order])
    assert one.reports["site-a"].procedure_counts[0] == 31
    said = str(refused or one.corrections)
    assert "old.json (created 2026-11-01T10:00:00Z)" in said
    assert "new.json (created 2026-11-02T10:00:00Z)" in said
    if refused:
        assert "the newer one counts. To use the older one, remove the newer file, or give --replace site-a" in said
    else:
        assert "new.json (created 2026-11-02T10:00:00Z) replaces " in said


@pytest.mark.parametrize("times", [(None, LATE), (EARLY, None), (EARLY, EARLY)])
def test_times_that_do_not_decide_replace_nothing(times: tuple[str | None, str | None]) -> None:
    one = begun()
    one.take(report(times[0]), place="a.json")
    with pytest.raises(Refused, match=r"has two different reports, a.json .* and b.json .*do not say which is newer"):
        one.take(report(times[1], 31), place="b.json")
    assert one.take(report(times[1], 31), place="b.json", replacing=True).procedure_counts[0] == 31


def test_a_transport_keeps_the_first_answer() -> None:
    one = begun()
    one.take(report(EARLY), sender="site-a")
    with pytest.raises(Refused, match="has answered already, with other counts; the first answer stays"):
        one.take(report(LATE, 31), sender="site-a")


def test_a_correction_is_in_the_run_and_in_the_estimate(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run", ASKED) as folder:
        begun(folder).take(report(EARLY), place="old.json")
    with RunFolder(tmp_path / "run") as folder:
        one = begun(folder)
        one.take(report(LATE, 31), place="new.json")
        made = one.conclude(quorum=1)
    check = {check.name: check for check in made.checks}["corrected reports"]
    assert check.verdict == "ok"
    assert "'site-a': new.json (created 2026-11-02T10:00:00Z) replaces the report in " in check.sentence
    (kept,) = (tmp_path / "run" / "replaced").iterdir()
    assert Report.from_json(json.loads(kept.read_text())).procedure_counts[0] == 30
    with RunFolder(tmp_path / "run") as folder:
        assert begun(folder).reports["site-a"].procedure_counts[0] == 31


def test_a_withdrawn_report_stays_out_until_a_later_one_comes(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run", ASKED) as folder:
        one = begun(folder)
        one.take(report(EARLY), place="a.json")
        one.take(report(EARLY, client="site-b"), place="b.json")
        one.withdraw("site-a")
        assert one.missing["site-a"] == "its report was withdrawn"
        with pytest.raises(CallError, match="there is no report of 'site-a' to withdraw"):
            one.withdraw("site-a")
    with RunFolder(tmp_path / "run") as folder:
        one = begun(folder)
        assert list(one.reports) == ["site-b"]
        assert "site-a" not in one.waiting_for
        with pytest.raises(Refused, match="the report of 'site-a' was withdrawn"):
            one.take(report(EARLY), place="a.json")
        one.take(report(LATE, 31), place="a2.json")
        assert one.missing.keys() == {"site-c"}
    with RunFolder(tmp_path / "run") as folder:
        assert set(begun(folder).reports) == {"site-a", "site-b"}


def test_replacing_needs_a_report_to_replace_with(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(report(EARLY, client="site-b").dumps())
    with pytest.raises(CallError, match="the files hold no report of 'site-a' that could replace the kept one"):
        take_files(begun(), [tmp_path], replace=["site-a"])


def test_a_correction_with_another_class_mix_is_doubted(tmp_path: Path) -> None:
    """Someone gave another client's name: its report would replace that client's."""
    first, other = report(EARLY), report(LATE, 31)
    with RunFolder(tmp_path / "run", ASKED) as folder:
        one = begun(folder)
        one.take(first, place="old.json")
        one.take(replace(other, label_counts=(2, 48)), place="new.json")
        made = one.conclude(quorum=1)
    check = {check.name: check for check in made.checks}["corrected reports"]
    assert check.verdict == "warning"
    assert "although their class mixes are very different: is it another client's report?" in check.sentence
    with RunFolder(tmp_path / "run") as folder:  # and a later process knows it
        assert {check.name: check for check in begun(folder).conclude(quorum=1).checks}[
            "corrected reports"
        ].verdict == "warning"
