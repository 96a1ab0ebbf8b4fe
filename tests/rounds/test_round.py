"""A round: what it takes, what it refuses, who is missing, and what follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from factories import NOW, ROSTER, answer, clock, request
from fedcert.errors import CallError, QuorumMissed, Refused
from fedcert.report import Release, Smoothing, Target
from fedcert.rounds import CertificationRound, Reply, make_request, wait
from fedcert.rounds.checks import needed
from fedcert.rounds.round import steady_clock


def begun(**changes: Any) -> CertificationRound:
    return CertificationRound(request(**changes), clock=lambda: NOW)


def test_answers_of_the_roster_are_taken_as_values_or_text() -> None:
    one = begun()
    assert one.take(answer(one.request)).client == "site-a"
    one.take(answer(one.request, "site-b").dumps(), sender="site-b")
    one.take(answer(one.request, "site-c").to_json())
    assert one.missing == {}
    assert one.waiting_for == []
    made = one.conclude()
    assert made.clients == 3
    check = made.checks[-1]
    assert (check.name, check.verdict, check.sentence) == (
        "missing clients",
        "ok",
        "All 3 clients that were asked answered.",
    )


@pytest.mark.parametrize(
    ("changes", "sender", "why"),
    [
        ({"client": "site-x"}, None, "'site-x' is not among the 3 clients that were asked"),
        ({}, "site-b", "the report of 'site-a' came from 'site-b', who may only answer for itself"),
        ({"model": "sha256:" + "cd" * 32}, None, "'site-a' certified the model sha256:cd"),
        ({"request": None}, None, "does not say which request it answers: it may be an old one"),
        ({"request": "sha256:" + "00" * 32}, None, "answers another request (sha256:000000000000…), perhaps an older"),
        ({"radii": (0.0, 0.3)}, None, "has other radii than the request asks for"),
        ({"classes": ("dog", "cat")}, None, "has other classes than the request asks for"),
        ({"smoothing": {"sigma": 0.5}}, None, "has other smoothing than the request asks for"),
    ],
)
def test_whatever_does_not_answer_the_request_is_refused(changes: dict[str, Any], sender: str, why: str) -> None:
    one = begun()
    with pytest.raises(Refused) as caught:
        one.take(answer(one.request, **changes), sender=sender)
    assert why in str(caught.value)
    assert one.reports == {}
    # Only who is known to have sent it is said to have failed.
    assert set(one.failures) == ({sender} if sender else set())


RIGHT_ANSWERS = {
    "certified_counts": None, "class_certified_counts": None, "correct_counts": (10, *[0] * 15, 40),
    "class_correct_counts": ((5, *[0] * 15, 25), (5, *[0] * 15, 15)),
}  # fmt: skip


def test_all_clients_of_a_round_have_one_number_of_passes() -> None:
    """Right answers of others cannot be put together with theirs, nor those of another vote or CERTIFY's counts."""
    asked = request(smoothing=Smoothing(sigma=0.25, procedure="population", n=16), radii=None)
    assert asked.radii == tuple(round(0.025 * step, 9) for step in range(21))
    one = CertificationRound(asked, clock=lambda: NOW)
    good = answer(asked, **RIGHT_ANSWERS)
    assert one.take(good) == good
    other = replace(asked.smoothing, n=17)
    longer = {"correct_counts": (10, *[0] * 16, 40), "class_correct_counts": None}
    for changes in (
        RIGHT_ANSWERS | longer | {"smoothing": other},
        RIGHT_ANSWERS | {"smoothing": replace(asked.smoothing, votes=31)},
        {"smoothing": {"sigma": 0.25}, "certified_counts": (40, *[0] * 20), "class_certified_counts": None},
    ):
        with pytest.raises(Refused, match="^the report of 'site-b' has other smoothing than the request asks for$"):
            one.take(answer(asked, "site-b", **changes))
    one.take(answer(asked, "site-b", **RIGHT_ANSWERS))
    assert one.take(replace(good, created=None)) == good
    moved = {"correct_counts": (9, 1, *[0] * 14, 40), "class_correct_counts": None}
    with pytest.raises(Refused, match="'site-a' has answered already, with other counts; the first answer stays"):
        one.take(answer(asked, **RIGHT_ANSWERS | moved))
    made = one.conclude(missing_examples=25)
    assert made.clients == 2
    assert made.worst_case is not None
    assert made.lower is not None
    assert made.worst_case.lower[0] < made.lower[0]


def test_an_answer_to_an_earlier_request_is_refused_though_all_else_is_the_same() -> None:
    first, second = request(), request()
    assert first.nonce != second.nonce
    with pytest.raises(Refused, match="answers another request"):
        CertificationRound(second, clock=lambda: NOW).take(answer(first))


def test_a_late_answer_is_refused_and_named() -> None:
    one = begun()
    one.clock = lambda: clock(62)
    with pytest.raises(Refused, match="came after the deadline, 2026-11-15T12:01:01Z"):
        one.take(answer(one.request))
    assert one.missing["site-a"].startswith("a report in its name was refused: the report of 'site-a' came after the ")
    assert one.missing["site-b"] == "it did not answer before the deadline, 2026-11-15T12:01:01Z"
    assert one.waiting_for == []


def test_small_clients_that_were_asked_not_to_answer_are_refused() -> None:
    one = begun(release=Release(minimum_examples=51))
    with pytest.raises(Refused, match="'site-a' has 50 examples; clients with fewer than 51 were asked not to answer"):
        one.take(answer(one.request))


def test_the_first_answer_stays() -> None:
    one = begun()
    first = one.take(answer(one.request))
    assert one.take(replace(first, created="2026-11-15T12:00:59Z")) is first
    with pytest.raises(Refused, match="has answered already, with other counts; the first answer stays"):
        one.take(answer(one.request, certified_counts=(50, 50), class_certified_counts=None))
    assert one.reports["site-a"] is first


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", b"\xff\xfe", '{"schema": "fedcert/report/9"}', "null", "1e999"])
def test_what_is_no_report_is_refused(text: str | bytes) -> None:
    one = begun()
    with pytest.raises(Refused, match="the answer is no report: "):
        one.take(text, sender="site-a")
    assert one.missing["site-a"].startswith("its answer was refused: the answer is no report: ")


def test_missing_clients_are_excluded_with_their_reasons_and_a_check() -> None:
    one = begun()
    one.take(answer(one.request))
    one.take(answer(one.request, "site-b"))
    one.fail("site-c", "out of memory")
    made = one.conclude()
    assert dict(made.excluded) == {"site-c": "out of memory"}
    check = made.checks[-1]
    assert (check.name, check.verdict) == ("missing clients", "warning")
    assert check.figure == pytest.approx(1 / 3)
    assert check.sentence.startswith("1 of the 3 clients that were asked is missing: 'site-c'.")
    # A good answer after all: the trouble is forgotten.
    one.take(answer(one.request, "site-c"))
    assert dict(one.conclude().excluded) == {}


def test_below_the_quorum_there_is_no_number() -> None:
    one = begun()
    one.take(answer(one.request))
    one.fail("site-b", "out of memory")
    with pytest.raises(QuorumMissed) as caught:
        one.conclude()
    assert str(caught.value) == (
        "1 of the 3 clients that were asked answered, and at least 2 are needed: there is no estimate; "
        "missing: 'site-b' (out of memory), 'site-c' (it has not answered)"
    )
    assert one.conclude(quorum=1).clients == 1


def test_quorums() -> None:
    assert [needed(quorum, 10) for quorum in (0, 0.5, 0.51, 0.999, 1, 1.0, 7, 10)] == [1, 5, 6, 10, 1, 10, 7, 10]
    assert [needed(share, count) for share, count in ((0.07, 100), (0.28, 25), (0.56, 25))] == [7, 7, 14]
    assert needed(3, None) == 3
    for wrong in (-1, 11, 1.5, 7.0, float("nan"), float("inf"), True, "half"):
        with pytest.raises(CallError, match="quorum must be"):
            needed(wrong, 10)  # type: ignore[arg-type]


def test_the_target_is_the_requests_where_none_is_given() -> None:
    one = begun(target=Target(name="clinic", distribution={"cat": 1.0}))
    one.take(answer(one.request))
    assert one.conclude(quorum=1).target.name == "clinic"
    assert one.conclude("uniform", quorum=1).target.name == "uniform"


def test_without_a_roster_anyone_may_answer() -> None:
    one = begun(roster=None)
    one.take(answer(one.request, "somebody"))
    made = one.conclude()
    assert made.checks[-1].sentence == (
        "1 client answered; the request named no roster, so no client is known to be missing."
    )
    with pytest.raises(CallError, match="waiting needs a request with a roster and a deadline"):
        wait(one, list)


def test_waiting_ends_when_everybody_answered_or_failed() -> None:
    one = begun()
    batches = [
        [Reply("site-a", answer(one.request).dumps())],
        [Reply("site-b", failure="no disk"), Reply("site-c", b"{")],
    ]
    slept: list[float] = []
    wait(one, lambda: batches.pop(0), pause=0.5, sleep=slept.append)
    assert slept == [0.5]
    assert list(one.reports) == ["site-a"]
    assert one.missing["site-b"] == "no disk"
    assert one.missing["site-c"].startswith("its answer was refused: ")


def test_waiting_ends_at_the_deadline_whatever_happens() -> None:
    one = begun()
    time = [0.0]
    one.clock = lambda: clock(time[0])

    def sleep(seconds: float) -> None:
        time[0] += seconds

    wait(one, list, pause=1.0, sleep=sleep)
    assert time[0] == 62.0  # the deadline is written in whole seconds, rounded up
    assert set(one.missing) == set(ROSTER)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"seconds": 0.0}, "seconds must be above 0"),
        ({"seconds": float("nan")}, "seconds must be above 0"),
        ({"deadline": "2027-01-01T00:00:00Z"}, "give either seconds or a deadline"),
        ({"seconds": None, "deadline": "2020-01-01T00:00:00Z"}, "the deadline must be in the future"),
    ],
)
def test_deadlines_that_make_no_sense_are_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(CallError, match=why):
        request(**changes)


def test_a_request_can_be_open_ended() -> None:
    assert make_request("m", request().smoothing, ["a"]).deadline is None


def test_a_worst_case_needs_an_interval() -> None:
    one = begun()
    one.take(answer(one.request))
    made = one.conclude(quorum=1, missing_examples=10)
    worst = made.details["missing"]
    assert (worst["clients"], worst["examples_each"]) == (2, 10)
    assert made.lower is not None
    assert made.upper is not None
    assert all(low < own for low, own in zip(worst["lower"], made.lower, strict=True))
    assert all(high > own for high, own in zip(worst["upper"], made.upper, strict=True))
    lonely = begun()
    lonely.take(answer(lonely.request, label_counts=(50, 0), class_certified_counts=((40, 25), (0, 0))))
    made = lonely.conclude(quorum=1, missing_examples=10)
    assert made.lower is not None
    assert made.upper is not None
    # Nobody holds dogs, half of the target: their half is open at both ends already.
    worst = made.details["missing"]
    assert 0 <= worst["lower"][0] < made.lower[0]
    assert worst["upper"][0] > made.upper[0]


@pytest.mark.parametrize("wrong", [-1, 2.5, "5", True, 2**54])
def test_what_a_worst_case_cannot_be_asked_for(wrong: Any) -> None:
    one = begun()
    one.take(answer(one.request))
    with pytest.raises(CallError, match="the examples of a missing client must be a whole number, 0 or more"):
        one.conclude(quorum=1, missing_examples=wrong)


def test_a_name_that_others_claim_after_it_has_answered_is_told_in_the_estimate() -> None:
    one = begun()
    one.take(answer(one.request))
    wait(
        one,
        lambda: [
            Reply("site-a", conflict="two nodes call themselves so"),
            Reply("site-b", failure="gone"),
            Reply("site-c", failure="gone"),
        ],
        sleep=lambda _: None,
    )
    check = one.conclude(quorum=1).checks[-1]
    assert (check.name, check.verdict) == ("contested names", "warning")
    assert check.sentence == (
        "Names claimed by more than one sender (1): 'site-a': two nodes call themselves so. "
        "The first answer under each name counts."
    )


def test_a_client_that_comes_back_is_waited_for() -> None:
    one = begun()
    replies = iter(
        [
            [Reply("site-a", failure="lost"), Reply("site-b", failure="x")],
            [Reply("site-a", rejoined=True), Reply("site-c", failure="x")],
            [Reply("site-a", answer=answer(one.request).dumps())],
        ]
    )
    wait(one, lambda: next(replies), sleep=lambda _: None)
    assert list(one.reports) == ["site-a"]


def test_an_answer_that_a_slow_poll_brings_after_the_deadline_is_late() -> None:
    one = begun()

    def poll() -> list[Reply]:
        one.clock = lambda: clock(65)
        return [Reply("site-a", answer=answer(one.request).dumps())]

    wait(one, poll, sleep=lambda _: None)
    assert one.reports == {}
    assert "came after the deadline" in one.missing["site-a"]


def test_the_steady_clock_does_not_follow_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("fedcert.rounds.round.time.monotonic", lambda: now[0])
    told = steady_clock()
    first = told()
    now[0] += 7
    assert (told() - first).total_seconds() == 7


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("", "it gave no reason"),
        ("two\nlines", "two lines"),
        ("\x1b[2J evil", "�[2J evil"),
        ("x" * 900, "x" * 499 + "…"),
    ],
)
def test_what_clients_say_is_one_short_line_that_no_terminal_trips_over(said: str, kept: str) -> None:
    one = begun()
    one.take(answer(one.request))
    one.fail("site-b", said)
    assert one.conclude(quorum=1).excluded["site-b"] == kept


def test_a_client_without_examples_does_not_make_a_quorum() -> None:
    one = begun()
    one.take(answer(one.request))
    nothing = {"label_counts": (0, 0), "certified_counts": (0, 0), "class_certified_counts": ((0, 0), (0, 0))}
    one.take(answer(one.request, "site-b", **nothing))
    with pytest.raises(QuorumMissed, match="1 of the 3 clients that were asked answered, and at least 2 are needed"):
        one.conclude()


@pytest.mark.parametrize(
    "hostile",
    [
        {"smoothing": {"sigma": 0.25, "procedure": "sequential", "failure_probability": 5e-324}},
        {5: "a number as a key"},
        {"x-note": "x" * 33 * 2**20},
    ],
)
def test_whatever_a_client_sends_the_round_goes_on(hostile: dict[Any, Any]) -> None:
    one = begun()
    with pytest.raises(Refused):
        one.take({**answer(one.request).to_json(), **hostile}, sender="site-a")
    one.take(answer(one.request, "site-b"))
    assert list(one.reports) == ["site-b"]


def test_a_worst_case_and_screening_do_not_go_together() -> None:
    one = begun()
    one.take(answer(one.request))
    with pytest.raises(CallError, match="leave screening out, or the worst case"):
        one.conclude(quorum=1, missing_examples=5, screen=True)


def test_with_nobody_missing_the_worst_case_is_the_interval() -> None:
    one = begun(roster=("site-a",))
    one.take(answer(one.request))
    made = one.conclude(missing_examples=100)
    assert made.details["missing"]["lower"] == pytest.approx(made.lower)


def test_a_clock_that_is_set_back_does_not_make_waiting_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    one = begun()
    time = [0.0]
    monkeypatch.setattr("fedcert.rounds.waiting.time.monotonic", lambda: time[0])

    def sleep(seconds: float) -> None:
        time[0] += seconds
        one.clock = lambda: clock(-3600)

    wait(one, list, pause=1.0, sleep=sleep)
    assert time[0] < 70
