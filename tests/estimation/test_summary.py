"""The short answer of estimates and what-ifs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import fedcert
from factories import population_report
from fedcert import Report
from fedcert.estimation.diagnostics.checks import Check
from fedcert.estimation.summary import problems_of, verdict_sentence

GRAVITY = ("ok", "warning", "unreliable")
FINE, ODD, WRONG = (Check("a check", verdict, None, f"It is {verdict}.") for verdict in GRAVITY)


def test_an_estimate_says_the_answer_the_verdict_the_curve_and_what_failed(make_report: Callable[..., Report]) -> None:
    reports = [make_report("a", [60, 40], [80, 70, 60]), make_report("b", [20, 90], [90, 80, 50])]
    result = replace(fedcert.estimate(reports), checks=(FINE, ODD, FINE))
    point = result.at(0)
    assert result.lower is not None
    assert result.upper is not None
    assert point.lower is not None
    assert point.upper is not None
    interval = f"(95% CI {100 * point.lower:.1f}–{100 * point.upper:.1f})"
    answer, table, problems = str(result).split("\n\n")
    assert result.classifier is not None
    assert " ".join(answer.split()) == (
        f"On unchanged inputs (radius 0), an estimated {point.certified_accuracy:.1%} of target examples {interval} are "
        "certifiably classified correctly. Verdict: warning (2 of 3 checks passed). "
        f"Target: uniform (class 0 50%, class 1 50%). Method: BLUP. 2 clients, 210 test examples. {result.classifier}"
    )
    assert table.splitlines() == [
        "radius                  0   0.25    0.5",
        "certified accuracy  " + "  ".join(f"{value:.3f}" for value in result.certified_accuracy),
        "lower bound         " + "  ".join(f"{value:.3f}" for value in result.lower),
        "upper bound         " + "  ".join(f"{value:.3f}" for value in result.upper),
    ]
    assert problems == "- warning: It is warning."
    assert f"<li>{GRAVITY[1]}: It is {GRAVITY[1]}.</li>" in result._repr_html_()
    assert "<th>0.25</th>" in result._repr_html_()


def test_an_estimate_without_an_interval(make_report: Callable[..., Report]) -> None:
    result = fedcert.estimate([make_report("a", [60, 40], [80, 70, 60])])
    plain = replace(result, lower=None, upper=None, confidence=None, checks=())
    assert "CI" not in str(plain)
    assert "bound" not in str(plain)
    assert "Verdict: ok (0 of 0 checks passed)." in str(plain)
    assert str(plain.at(0.25)) == "radius 0.25: 0.700"


def test_a_vote_is_named() -> None:
    result = fedcert.estimate(population_report("a", [[0, 1, 0, 20], [1, 1, 0, 10]]))
    text = " ".join(str(result).split())
    assert "the majority vote of 11 noisy copies is proven to be right on an estimated " in text
    assert "fedcert.smooth(model, sigma=0.5, votes=11)" in text
    assert "proven accuracy (11 votes)" in text


def test_the_gravest_check_decides() -> None:
    assert verdict_sentence([FINE, FINE]) == "Verdict: ok (2 of 2 checks passed)."
    assert verdict_sentence([ODD, FINE]) == "Verdict: warning (1 of 2 checks passed)."
    assert verdict_sentence([ODD, WRONG, FINE]) == "Verdict: unreliable (1 of 3 checks passed)."


def test_failing_checks_are_listed_the_gravest_first_and_not_all() -> None:
    assert problems_of([FINE, ODD, WRONG]) == (f"{WRONG.verdict}: {WRONG.sentence}", f"{ODD.verdict}: {ODD.sentence}")
    assert problems_of([ODD] * 7)[-1] == "and 2 more"
    assert problems_of([FINE]) == ()


def test_a_what_if_shows_each_target_with_its_interval(make_report: Callable[..., Report]) -> None:
    report = make_report("a", [60, 40], [80, 70, 60])
    result = fedcert.what_if(report, {"cats": {"class 0": 1}, **{f"mix {i}": [1, i] for i in range(1, 12)}})
    first = result.targets[0]
    text = str(result)
    assert text.startswith("Certified accuracy of 12 targets by BLUP, each with its 95% interval.")
    assert f"{first.certified_accuracy[0]:.3f} ({first.lower[0]:.3f} to {first.upper[0]:.3f})" in text
    assert "\n2 more" in text


def test_a_what_if_answers_at_a_radius(make_report: Callable[..., Report]) -> None:
    result = fedcert.what_if(make_report("a", [60, 40], [80, 70, 60]), ["uniform", [1, 3], [3, 1]])
    points = result.at(0.3)
    assert list(points) == ["uniform", "custom", "custom (2)"]
    for point, curve in zip(points.values(), result.targets, strict=True):
        assert (point.radius, point.certified_accuracy) == (0.5, curve.certified_accuracy[2])
        assert (point.lower, point.upper, point.confidence) == (curve.lower[2], curve.upper[2], 0.95)
