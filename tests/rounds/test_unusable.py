"""One report that breaks the estimate in a way that nobody foresaw is left out by name."""

from __future__ import annotations

from typing import Any

import pytest

from factories import ROSTER, answer, clock, request
from fedcert import EstimationProblem
from fedcert.rounds import CertificationRound, round


def broken_by(clients: set[str], monkeypatch: pytest.MonkeyPatch, *, together: bool = False) -> None:
    """Have estimates fail where some clients are among the reports; or where all of them are."""
    original = round.estimate

    def estimate(reports: Any, **settings: Any) -> Any:
        there = {report.client for report in reports} & clients
        if there == clients if together else there:
            raise OverflowError("int too large to convert to float")
        return original(reports, **settings)

    monkeypatch.setattr(round, "estimate", estimate)


def a_round() -> CertificationRound:
    asked = request()
    made = CertificationRound(asked, clock=clock)
    for client in ROSTER:
        made.take(answer(asked, client))
    return made


def test_the_report_is_named_and_the_others_count(monkeypatch: pytest.MonkeyPatch) -> None:
    broken_by({"site-b"}, monkeypatch)
    result = a_round().conclude()
    assert result.clients == 2
    reason = "its report could not be used: OverflowError: int too large to convert to float"
    assert result.excluded == {"site-b": reason}
    missing = next(check for check in result.checks if check.name == "missing clients")
    assert missing.verdict == "warning"


def test_a_report_that_breaks_it_beside_others_alone_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    broken_by({"site-a", "site-c"}, monkeypatch, together=True)
    result = a_round().conclude(quorum=2)
    assert list(result.excluded.values()) == ["with its report there is no estimate"]


def test_trouble_that_is_nobodys_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    broken_by(set(ROSTER), monkeypatch)
    with pytest.raises(EstimationProblem, match="the estimate failed, and not because of one report .OverflowError"):
        a_round().conclude()


def test_too_few_that_are_left_miss_the_quorum(monkeypatch: pytest.MonkeyPatch) -> None:
    broken_by({"site-b"}, monkeypatch)
    with pytest.raises(EstimationProblem, match="2 of the 3 clients that were asked answered, and at least 3 are"):
        a_round().conclude(quorum=3)
