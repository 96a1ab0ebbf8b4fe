"""The short answer of reports, requests and sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import fedcert
from factories import population_report, request
from fedcert import Report
from fedcert._schema.summary import Summary


def test_a_report(make_report: Callable[..., Report]) -> None:
    report = make_report("site-a", [60, 40], [80, 70, 60])
    lines = str(report).splitlines()
    assert lines[0] == "Report of site-a: 100 test examples of 2 classes (class 0, class 1)."
    assert lines[3] == "Counts per class: not included."
    assert lines[5:] == [
        "radius                  0   0.25    0.5",
        "certified              80     70     60",
        "certified accuracy  0.800  0.700  0.600",
    ]
    assert repr(report) == "<Report: Report of site-a: 100 test examples of 2 classes (class 0, class 1)>"


def test_a_report_of_right_answers_has_no_curve_of_its_own() -> None:
    report = population_report("site-a", [[0, 1, 0, 20], [1, 1, 0, 10]])
    assert "radius " not in str(report)
    assert "3 noisy passes of each example, 11 votes." in str(report).replace("\n", " ")
    assert "Counts per class: included." in str(report)


def test_a_report_without_examples(make_report: Callable[..., Report]) -> None:
    assert str(make_report("empty", [0, 0], [0, 0, 0])).startswith("Report of empty: 0 test examples of 2 classes")


def test_a_request() -> None:
    asked = request()
    text = " ".join(str(asked).split())
    assert text.startswith(f"Request to {len(asked.roster or ())} clients for a report: certify model ")
    assert "Counts per class: not asked for." in text
    assert "Not signed." in text
    assert "anyone who has it" in str(replace(asked, roster=None))


def test_sums(make_report: Callable[..., Report]) -> None:
    both = fedcert.Sums.of([make_report("a", [60, 40], [80, 70, 60]), make_report("b", [1, 0], [1, 0, 0])])
    assert str(both).startswith("Sums over 2 clients: 101 test examples of 2 classes (class 0, class 1).")
    assert "Noise of epsilon 1." in str(replace(both, noise="noise of epsilon 1."))


def test_long_sentences_have_a_hanging_indent() -> None:
    summary = Summary(("A.",), problems=("warning: " + "word " * 40,))
    first, second, *_ = summary.text().splitlines()[2:]
    assert first.startswith("- warning: ")
    assert second.startswith("  word")
