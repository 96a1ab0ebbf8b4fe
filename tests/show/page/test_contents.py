"""The page's file: what is in it, what it forbids, and what makes none. What it does is tested in a browser."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedcert
from factories import drawn_reports
from fedcert.cli.main import run
from fedcert.errors import CallError
from fedcert.estimation.estimate import estimate_of
from fedcert.estimation.method_comparison import forms_for_page
from fedcert.estimation.methods.registry import METHODS
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.settings import Settings
from fedcert.report import Report, Sums, Target
from fedcert.report.classifier import classifier_sentence
from fedcert.show.page.contents import Contents
from fedcert.show.page.packing import as_script, packed, packed_evaluator
from fedcert.show.page.rendering import rendered
from fedcert.show.page.wording import (
    answer_at,
    banner,
    heading_of,
    lasting,
    margin,
    mix_in_words,
    of_100,
    range_of_100,
)
from fedcert.show.sentences import headline, verdict
from population_drawing import drawn_population

REPORTS = drawn_reports(6, 3, 5, seed=1)
POPULATION = drawn_population(6, 3, seed=1)
BOTH_KINDS = pytest.mark.parametrize("reports", [REPORTS, POPULATION], ids=["CERTIFY", "population"])


def contents_of(source: object, method: str = "auto", **changes: Any) -> Contents:
    prepared = PreparedClients.of(clients_of(source), Settings(**changes))  # type: ignore[arg-type]
    return Contents.of_clients(prepared, estimate_of(prepared, "uniform", method))


def page(reports: object = REPORTS, **changes: Any) -> str:
    return rendered(contents_of(reports, **changes))


def data_in(text: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    made: dict[str, object] = json.loads(found[1])
    return made


def test_only_its_own_script_and_style_may_do_anything() -> None:
    text = page()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    script, style = (
        re.search(r"<script>(.*?)</script>", text, re.DOTALL),
        re.search(r"<style>(.*?)</style>", text, re.DOTALL),
    )
    assert policy is not None
    assert script is not None
    assert style is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    for part in (script[1], style[1]):
        assert base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() in policy[1]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), "nothing to load"
    assert "innerHTML" not in text
    assert "eval(" not in text


@BOTH_KINDS
def test_the_answer_is_there_without_the_script(reports: list[Report]) -> None:
    text, made = page(reports), fedcert.estimate(reports)
    body = html.unescape(re.sub(r"<[^>]*>", "", text.partition("<main>")[2].partition("<noscript>")[0]))
    shown = banner(made.checks)
    parts = [
        f"{shown.title}: {shown.words}{shown.more}", "".join(answer_at(made, headline(made), None)),
        margin(made, headline(made)), classifier_sentence(made.smoothing, made.votes),
        f"Class mix of the target: {mix_in_words(made.target, made.classes)}.",
    ]  # fmt: skip
    places = [body.index(part) for part in parts]
    assert places[0] == min(places), "the verdict comes before the number"
    assert text.index('id="verdict"') < text.index('id="sentence"')


def test_data_cannot_leave_its_script_tag() -> None:
    text = as_script({"name": "</script><!-- & \u2028"})
    assert re.search(r"[<>&\u2028]", text) is None
    assert json.loads(text) == {"name": "</script><!-- & \u2028"}
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_script(float("nan"))


@BOTH_KINDS
def test_all_methods_are_compared_or_their_absence_explained(reports: list[Report]) -> None:
    contents = contents_of(reports)
    methods = [one.used_method for one in contents.estimates] + list(contents.failed)
    assert contents.estimates[0].method == "auto"
    assert sorted(methods) == sorted(name for name, method in METHODS.items() if method.compared), "each of them once"
    assert all(method.description for method in METHODS.values())
    assert "no report has counts per class" in contents.failed["poststratified"]
    assert set(contents.evaluators) == {"blup"}
    sums = contents_of(Sums.of(reports))
    assert set(sums.failed) == {"ap", "ga", "poststratified"}
    assert sums.contributors is None


@pytest.mark.parametrize(("settings", "votes"), [({}, 11), ({"votes": 31, "radii": (0.0, 0.3)}, 31)])
def test_a_population_page_has_votes_and_no_largest_radius(settings: dict[str, Any], votes: int) -> None:
    data = data_in(page(POPULATION, **settings))
    assert (data["votes"], data["largest_radius"]) == (votes, None)
    smoothing = data["smoothing"]
    assert isinstance(smoothing, dict)
    assert smoothing["votes"] == 11
    assert not {"n0", "failure_probability"} & set(smoothing)
    assert data_in(page())["votes"] is None


@pytest.mark.parametrize(
    ("tells", "settings", "at_once"),
    [(1.0, {}, False), (0.0, {"simultaneous": True}, True), (0.5, {"votes": 31}, True)],
)
def test_of_the_upper_end_a_page_carries_what_the_lower_one_has_not(
    tells: float, settings: dict[str, Any], at_once: bool
) -> None:
    contents = contents_of(drawn_population(20, 4, seed=2, tells=tells), **settings)
    forms = contents.evaluators[contents.method]
    assert forms.vote is not None
    assert forms.vote.at_once == at_once
    assert forms.failure_probability == 0
    assert (forms.by_class, forms.by_client) == (None, None)
    vote = packed_evaluator(forms)["vote"]
    assert set(vote["lower"]) == {"low", "width", "settings", "by_class", "by_client", "client_effects"}
    kind = "by_class" if tells == 1 else "by_client"
    assert set(vote["upper"]) == {"low", "width", kind}
    assert set(vote["upper"][kind]) == ({"certified"} if tells == 1 else {"labels_certified", "class_accuracy"})


@pytest.mark.parametrize(("settings", "without"), [({}, True), ({"votes": 31}, False)])
def test_where_clients_differ_quantiles_for_all_radii_are_simulated_unless_the_error_is_shared(
    settings: dict[str, Any], without: bool
) -> None:
    reports = drawn_population(20, 4, 3, seed=2, tells=1.0, differ=0.8)
    forms = contents_of(reports, simultaneous=True, **settings).evaluators["poststratified"]
    assert forms.vote is not None
    assert forms.vote.lower.client_effects is not None
    assert (forms.no_interval is not None and "its quantiles are simulated" in forms.no_interval) == without


def test_classes_of_both_ends_are_the_same_but_for_their_counts() -> None:
    """What the script takes from the lower end for the upper one is what the upper one has."""
    forms = contents_of(drawn_population(20, 4, seed=2)).evaluators["blup"].vote
    assert forms is not None
    lower, upper = forms.lower.by_client, forms.upper.by_client
    assert lower is not None
    assert upper is not None
    for name, value in vars(lower).items():
        if name not in ("labels_certified", "class_accuracy", "client_cells"):
            np.testing.assert_array_equal(value, getattr(upper, name))


def test_very_many_classes_leave_other_mixes_to_the_command() -> None:
    many = drawn_reports(3, 201, 2, seed=1)
    contents = contents_of(many)
    assert contents.evaluators == {}
    assert contents.no_evaluator is not None
    assert "fedcert what-if" in contents.no_evaluator


@BOTH_KINDS
def test_estimates_alone_make_a_page(reports: list[Report]) -> None:
    first = fedcert.estimate(reports)
    text = rendered(Contents.of_estimates([first, fedcert.estimate(reports, method="vw")]))
    assert data_in(text)["votes"] == first.votes


def test_estimates_on_one_page_belong_together() -> None:
    one = fedcert.estimate(REPORTS)
    with pytest.raises(CallError, match="there is no estimate to show"):
        Contents.of_estimates([])
    other = fedcert.estimate(drawn_reports(6, 3, 4, seed=1))
    with pytest.raises(CallError, match="estimates side by side must have the same radii"):
        Contents.of_estimates([one, other])


@pytest.mark.parametrize(
    ("verdicts", "begins"),
    [([], "All checks passed."), (["warning"], "1 warning: a sentence."), (["warning", "warning"], "2 warnings, the first: a sentence."),
     (["warning", "unreliable"], "Unreliable: a sentence.")],
)  # fmt: skip
def test_the_gravest_check_decides(verdicts: list[str], begins: str) -> None:
    from dataclasses import replace

    from fedcert.estimation.diagnostics.checks import Check

    checks = tuple(Check(name="x", verdict=one, figure=None, sentence="A sentence.") for one in verdicts)
    assert verdict(replace(fedcert.estimate(REPORTS), checks=checks))[1].startswith(begins)


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reports").mkdir()
    for report in REPORTS:
        Path("reports", f"{report.client}.json").write_text(report.dumps())
    assert run(["page", "reports", "--out", "page.html", "--target", "class-0=1,class-1=2", "--title", "A <b>"]) == 0
    text = Path("page.html").read_text()
    assert '<h1 dir="auto">A &lt;b&gt;</h1>' in text
    assert run(["estimate", "reports", "--page", "other.html", "--out", "estimate.json"]) == 0
    assert "Wrote other.html." in capsys.readouterr().out
    assert data_in(Path("other.html").read_text())["clients"] == 6
    assert run(["page", "estimate.json", "--out", "third.html"]) == 0
    assert run(["page", "estimate.json", "reports", "--out", "x.html"]) == 2
    assert "give reports and sums, or estimates, but not both" in " ".join(capsys.readouterr().err.split())
    assert run(["page", "reports", "--out", "x.txt"]) == 2
    assert run(["page", "missing", "--out", "x.html"]) == 2
    assert run(["page", "reports", "--target", "owl=1", "--out", "x.html"]) == 2
    Path("empty.json").write_text("{}")
    assert run(["page", "empty.json", "--out", "x.html"]) == 1
    Path("folder.html").mkdir()
    assert run(["page", "reports", "--out", "folder.html"]) == 2
    capsys.readouterr()
    assert run(["page", "reports", "--radius", "1.5", "--out", "x.html"]) == 2
    assert (
        "radius (--radius) must be one of the estimate's radii (0, 0.25, 0.5, 0.75, 1), but is 1.5; the nearest is 1"
        in capsys.readouterr().err
    )
    assert run(["page", "reports", "--target-name", "", "--out", "x.html"]) == 2
    assert "target_name (--target-name) must be a text of 1 to 200 characters" in " ".join(
        capsys.readouterr().err.split()
    )
    assert not Path("x.html").exists()


def test_what_a_page_from_estimates_cannot_do_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("e.json").write_text(fedcert.estimate(REPORTS).dumps())
    for option in (
        ["--target-name", "x"],
        ["--target", "class-0=1"],
        ["--screen"],
        ["--confidence", "0.9"],
        ["--method", "vw"],
    ):
        assert run(["page", "e.json", *option, "--out", "page.html"]) == 2
        assert f"({option[0]}) is for a page from reports" in capsys.readouterr().err
    assert not Path("page.html").exists()


def test_a_page_beside_its_reports_is_written_again(tmp_path: Path) -> None:
    for report in REPORTS:
        (tmp_path / f"{report.client}.json").write_text(report.dumps())
    for _ in range(2):
        assert run(["page", str(tmp_path), "--title", "\udcff", "--out", str(tmp_path / "page.html")]) == 0


def test_estimates_that_differ_in_what_they_are_about_are_not_set_side_by_side() -> None:
    first = fedcert.estimate(REPORTS)
    other = fedcert.estimate(REPORTS, {"class-0": 1.0}, "vw")
    with pytest.raises(CallError, match="must be for the same target, but those by auto and vw"):
        Contents.of_estimates([first, other])


def test_with_non_negative_weights_other_mixes_are_left_to_the_command() -> None:
    made = contents_of(drawn_reports(6, 3, 5, seed=1, tells=0.0), "blup", non_negative=True)
    assert not made.evaluators
    assert made.no_evaluator == "With non-negative weights, use 'fedcert estimate' for other class mixes."


@pytest.mark.parametrize(
    ("numbers", "lengths"),
    [
        ([0.0, 127.0, 128.0], 4), ([16_383.0, 16_384.0, 1.0], 6), ([2.0**53 - 1, 3.0], 9), ([2.0**53], None),
        ([0.5, 1.0], None), ([-1.0], None), ([-0.0], None), ([], None),
    ],
)  # fmt: skip
def test_counts_are_packed_in_as_few_bytes_as_hold_them(numbers: list[float], lengths: int | None) -> None:
    ((kind, text),) = (packed(np.array(numbers)) or {}).items()
    content = base64.b64decode(text)
    assert kind == ("\x01f64" if lengths is None else "\x01u")
    if lengths is None:
        assert np.frombuffer(content, dtype="<f8").tobytes() == np.array(numbers).tobytes()
        return
    assert len(content) == lengths
    counts, scale = [0], 1
    for byte in content:
        counts[-1] += byte % 128 * scale
        scale *= 128
        if byte < 128:
            counts, scale = [*counts, 0], 1
    assert counts == [*numbers, 0]


def test_label_counts_of_clients_are_carried_where_the_interval_needs_them() -> None:
    """10,000 clients with 10 classes cost some 160 KB; and no interval but the finite-sample one costs that."""
    source = drawn_reports(10_000, 10, 3, seed=4, examples=20)
    sizes = {}
    for interval in ("finite-sample", "hoeffding", "asymptotic"):
        forms, _ = forms_for_page(PreparedClients.of(clients_of(source), Settings(interval=interval)))
        sizes[interval] = len(json.dumps(packed_evaluator(forms["blup"])))
    assert sizes["hoeffding"] < 20_000
    assert sizes["asymptotic"] < 20_000
    assert sizes["finite-sample"] < sizes["hoeffding"] + 170_000


def test_the_coordinator_adds_a_unit_and_a_line_of_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reports").mkdir()
    for report in REPORTS:
        Path("reports", f"{report.client}.json").write_text(report.dumps())
    words = ["--unit", "in pixels <0 to 1>", "--context", " 0.25 & more "]
    Path("estimate.json").write_text(fedcert.estimate(REPORTS).dumps())
    for command in (
        ["page", "reports", "--out", "p.html"], ["page", "estimate.json", "--out", "p.html"],
        ["estimate", "reports", "--page", "p.html"],
    ):  # fmt: skip
        assert run([*command, *words]) == 0
        text = Path("p.html").read_text()
        assert "L2 radius 0.25 (in pixels &lt;0 to 1&gt;)." in text
        assert '<p id="context" class="context">0.25 &amp; more</p>' in text
        data = data_in(text)
        assert (data["unit"], data["context"]) == ("in pixels <0 to 1>", "0.25 & more")
    assert run(["page", "reports", "--out", "p.html", "--unit", " "]) == 0
    assert data_in(Path("p.html").read_text())["unit"] is None


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0, "None of 100"), (0.004, "Fewer than 1 of 100"), (0.006, "About 1 of 100"), (0.125, "About 13 of 100"),
     (0.9949, "About 99 of 100"), (0.996, "More than 99 of 100"), (1.0, "100 of 100")],
)  # fmt: skip
def test_whole_examples_of_a_hundred(value: float, words: str) -> None:
    assert of_100(value) == words


@pytest.mark.parametrize(
    ("lower", "upper", "words"),
    [(0.774, 0.917, "77 to 92"), (0.0, 1.0, "0 to 100"), (0.29, 0.57, "29 to 57"), (0.2899, 0.5701, "28 to 58")],
)
def test_an_interval_is_rounded_outwards(lower: float, upper: float, words: str) -> None:
    assert range_of_100(lower, upper) == words


@pytest.mark.parametrize(
    ("name", "mix", "heading"),
    [
        ("uniform", {"a": 0.5, "b": 0.5}, "Certified accuracy with all classes equally frequent"),
        ("Ward 7", {"a": 0.5, "b": 0.5}, "Certified accuracy on “Ward 7”"),
        ("custom", {"a": 1.0}, "Certified accuracy on 100% a"),
        ("custom", {"a": 0.1, "b": 0.896, "c": 0.004}, "Certified accuracy on 90% b, 10% a and <1% c"),
        (
            "custom", {"a": 0.1, "b": 0.1, "c": 0.2, "d": 0.3, "e": 0.3},
            "Certified accuracy on 30% d, 30% e, 20% c and 20% in 2 other classes",
        ),
        ("custom", {"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1}, "Certified accuracy on 40% a, 30% b, 20% c and 10% d"),
        ("custom", dict.fromkeys("abcde", 0.2), "Certified accuracy on 5 classes with 20% each"),
    ],
)  # fmt: skip
def test_a_target_without_a_name_is_called_by_its_mix(name: str, mix: dict[str, float], heading: str) -> None:
    assert heading_of(Target(name=name, distribution=mix), "abcde", None) == heading
    assert heading_of(Target(name=name, distribution=mix), "abcde", 11) == heading.replace("Certified", "Proven")


def test_the_banner_names_the_gravest_check() -> None:
    from fedcert.estimation.diagnostics.checks import Check

    fine, odd = Check("a", "ok", None, "Fine."), Check("class coverage", "warning", None, "Odd.")
    wrong = Check("label shift", "unreliable", None, "Wrong.")
    assert vars(banner([fine, fine])) == {"verdict": "ok", "title": "OK", "words": "All 2 checks passed.", "more": ""}
    assert vars(banner([fine, odd])) == {"verdict": "warning", "title": "Warning", "words": "Odd.", "more": ""}
    gravest = banner([odd, fine, wrong, odd])
    assert (gravest.verdict, gravest.title, gravest.words) == ("unreliable", "Unreliable", "Wrong.")
    assert gravest.more == " 2 more points under “Checks”."
    assert lasting([fine, odd]).verdict == "ok", "class coverage depends on the mix"
    assert lasting([odd, wrong]).verdict == "unreliable", "label shift does not"


def test_own_accuracies_of_very_many_clients_are_those_at_one_radius() -> None:
    few, many = (drawn_reports(clients, 3, 6, seed=4, examples=20) for clients in (10, 9_000))
    known = contents_of(few).contributors
    assert known is not None
    assert known.own_radii == (0, 1, 2, 3, 4, 5)
    rows = {report.client: report for report in few}
    for name, row in zip(known.names, known.own_accuracy, strict=True):
        np.testing.assert_array_equal(row, np.rint(1000 * np.array(rows[name].certified_accuracy)))
    contents = contents_of(many)
    assert contents.contributors is not None
    assert contents.contributors.own_radii == (headline(contents.estimates[0]),)
    assert contents.contributors.own_accuracy.shape == (9_000, 1)
