"""Plans: closed forms, and the promise that the real interval is no longer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fedcert import EstimationProblem, Report, estimate, plan
from fedcert.cli.main import run
from fedcert.estimation.plan import plan_precision

CLASSES = ("cat", "dog")
UNIFORM = np.array([0.5, 0.5])
SITES = {"a": {"cat": 80, "dog": 20}, "b": {"cat": 10, "dog": 90}, "empty": {"cat": 0, "dog": 0}}


def test_it_lies_between_the_information_bound_and_hoeffdings_interval() -> None:
    plan = plan_precision(SITES, UNIFORM, CLASSES, 0.95, 0.02)
    error = 0.5 * np.sqrt(0.25 / 90 + 0.25 / 110)
    assert plan.class_margin < 2 * np.sqrt(np.log(2 / 0.05) / 2) * error
    z = stats.norm.ppf(0.95)
    least = (0.95 * z + stats.norm.pdf(z)) * error  # of a normal estimate, in closed form
    assert plan.accuracies[0].class_least_margin == pytest.approx(least, rel=0.01)
    for row in plan.accuracies:
        assert row.class_least_margin <= row.least_margin + 1e-6
        assert row.least_margin < row.margin
        assert row.class_least_margin < row.class_margin
    assert (plan.margin, plan.class_margin) == (
        plan.accuracies[0].margin,
        plan.accuracies[0].class_margin,
    )
    assert plan.classes["cat"] > plan.classes["dog"]
    assert set(plan.clients) == {"a", "b"}
    assert plan.examples == 200


def test_what_is_needed_reaches_what_is_wanted() -> None:
    plan = plan_precision(SITES, UNIFORM, CLASSES, 0.95, 0.05)
    assert plan.needed is not None
    factor = plan.needed / 200
    grown = {name: {label: round(count * factor) for label, count in row.items()} for name, row in SITES.items()}
    assert plan_precision(grown, UNIFORM, CLASSES, 0.95, None).margin == pytest.approx(0.05, rel=0.01)


def test_the_gain_of_a_client_is_what_growing_it_saves() -> None:
    plan = plan_precision(SITES, UNIFORM, CLASSES, 0.95, None)
    large = {"a": {"cat": 80_000, "dog": 20_000}, "b": {"cat": 10_000, "dog": 90_000}}
    more = {"a": {"cat": 96_000, "dog": 24_000}, "b": {"cat": 10_000, "dog": 90_000}}
    before, after = (plan_precision(some, UNIFORM, CLASSES, 0.95, None) for some in (large, more))
    saved = before.margin - after.margin
    assert (
        10 * after.clients["a"] < saved < 20 * before.clients["a"]
    )  # 20% more; each 1% saves less than the one before
    assert plan.needed is None


def test_a_class_that_nobody_holds_cannot_be_made_up_for() -> None:
    plan = plan_precision({"a": {"cat": 1000}}, UNIFORM, CLASSES, 0.95, 0.1)
    assert plan.missing == {"dog": 0.5}
    assert plan.class_margin > 0.25
    assert plan.needed == plan.class_needed == np.inf
    with pytest.raises(EstimationProblem, match="no client has any test example, so there is nothing to plan with"):
        plan_precision({"a": {"cat": 0}}, UNIFORM, CLASSES, 0.95, None)


def test_the_interval_that_follows_is_the_one_that_was_planned(make_report: Callable[..., Report]) -> None:
    plan = plan_precision(SITES, UNIFORM, CLASSES, 0.95, None)
    reports = [make_report("a", [80, 20], [50], classes=CLASSES), make_report("b", [10, 90], [50], classes=CLASSES)]
    result = estimate(reports, "uniform", "minimax")
    assert result.lower is not None
    assert result.upper is not None
    assert result.upper[0] - result.lower[0] == pytest.approx(2 * plan.margin + 0.001, abs=1e-8)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "labels.json"
    path.write_text(json.dumps(SITES))
    assert run(["plan", str(path), "--target", "cat=1,dog=1", "--margin", "0.05"]) == 0
    shown = capsys.readouterr().out
    for words in (
        "With 200 test examples",
        "without counts per class",
        "To reach ±0.05",
        "client whose growth helps most",
    ):
        assert words in shown
    assert run(["plan", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["examples"] == 200


@pytest.mark.parametrize(
    ("content", "options", "code", "sentence"),
    [
        (
            "{}",
            [],
            1,
            "labels.json: the histograms must be an object from client names to histograms with at least 1 entries",
        ),
        ('{"a": {"cat": -1}}', [], 1, "the histograms['a']['cat'] must be a whole number from 0 to 2^53, but is -1"),
        ('{"a": [1]}', [], 1, "the histograms['a'] must be an object from class names to numbers of examples"),
        ('{"a": {"cat": 1', [], 1, "labels.json is not valid JSON"),
        ('{"a": {"cat": 0}}', [], 1, "no client has any test example"),
        (
            '{"a": {"cat": 1}}',
            ["--confidence", "2"],
            2,
            "--confidence must be a finite number above 0 and below 1, but is 2.0",
        ),
        (
            '{"a": {"cat": 1}}',
            ["--margin", "0"],
            2,
            "--margin must be a finite number above 0 and below 1, but is 0.0",
        ),
        ('{"a": {"cat": 1}}', ["--target", "cow=1"], 2, "unknown class 'cow' in the target; known classes: 'cat'"),
    ],
)
def test_wrong_calls_end_in_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    content: str,
    options: list[str],
    code: int,
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("labels.json").write_text(content)
    assert run(["plan", "labels.json", *options]) == code
    shown = capsys.readouterr()
    assert (shown.out, sentence in shown.err) == ("", True), shown.err


def test_reports_are_planned_with_by_their_label_counts(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    for name, counts in (("a", [80, 20]), ("b", [10, 90])):
        report = Report(
            client=name, model="demo", smoothing={"sigma": 0.25}, radii=[0], classes=CLASSES, label_counts=counts,
            certified_counts=[50],
        )  # fmt: skip
        report.save(folder / f"{name}.json")
    sites = {name: SITES[name] for name in ("a", "b")}
    assert plan(folder) == plan(sites)
    assert plan(folder / "a.json") == plan({"a": SITES["a"]})
    assert run(["plan", str(folder)]) == 0
