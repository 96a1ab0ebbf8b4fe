"""The page as a reader meets it in a real Chromium: what stands first, what is folded, and what leads further."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedcert
from browsing import Opened
from factories import drawn_reports, with_a_bad_client
from fedcert.cli.main import run
from fedcert.estimation.clients.readings import own_curve
from fedcert.estimation.estimate import estimate_of
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.settings import Settings
from fedcert.report import Report
from fedcert.show.page.contents import Contents
from fedcert.show.page.rendering import rendered
from population_drawing import drawn_population

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]
FEW = {"class-0": 1.0, "class-3": 2.0}
"""A target that few clients with few examples say little about."""


def written(path: Path, source: Any, target: object = "uniform", **words: Any) -> Path:
    prepared = PreparedClients.of(clients_of(source), Settings())
    contents = Contents.of_clients(prepared, estimate_of(prepared, target, "auto"))
    path.write_text(rendered(contents, **words), encoding="utf-8")
    return path


def unreliable() -> list[Report]:
    return drawn_reports(3, 5, 6, seed=3, tells=0.0, examples=40)


KINDS: dict[str, Callable[[], list[Report]]] = {
    "CERTIFY": lambda: drawn_reports(6, 3, 5, seed=1),
    "population": lambda: drawn_population(6, 8, seed=1, tells=1.0),
    "unreliable": unreliable,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "target", ["uniform", {"class-0": 1.0}, {"class-0": 0.125, "class-1": 0.874, "class-2": 0.001}]
)
def test_the_script_says_what_stands_there_without_it(
    kind: str, target: object, tmp_path: Path, browser: Any, opened: Open
) -> None:
    path = written(tmp_path / "page.html", KINDS[kind](), target, unit="in pixels", context="A line.", radius=0.3)
    places = ["h1", "#verdict", "#sentence", "#context", "#margin", "#mix-words", "#promise"]
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(path.as_uri())
    without = [tab.text_content(place) for place in places]
    context.close()
    page = opened(path)
    assert [page.tab.text_content(place) for place in places] == without
    assert all(without)
    assert page.said == []


def test_the_verdict_comes_first_and_greys_the_number(tmp_path: Path, opened: Open) -> None:
    page = opened(written(tmp_path / "page.html", unreliable(), FEW))
    assert page.tab.locator("#verdict").get_attribute("data-verdict") == "unreliable"
    top = "selector => document.querySelector(selector).getBoundingClientRect().top"
    assert page.tab.evaluate(top, "#verdict") < page.tab.evaluate(top, "#sentence") < page.tab.evaluate(top, "#curve")
    colour = "selector => getComputedStyle(document.querySelector(selector)).color"
    weak = page.tab.evaluate(colour, "#sentence .number")
    assert weak == page.tab.evaluate(colour, "#promise")
    assert weak != page.tab.evaluate(colour, "body")
    reliable = opened(written(tmp_path / "other.html", drawn_reports(12, 4, 6, seed=5, tells=1.0, examples=300)))
    assert reliable.tab.locator("#verdict").get_attribute("data-verdict") == "ok"
    assert reliable.tab.evaluate(colour, "#sentence .number") == reliable.tab.evaluate(colour, "body")


def test_what_holds_for_every_mix_stays_when_the_mix_changes(tmp_path: Path, opened: Open) -> None:
    """Screening that removes too many is about the clients; how the target's mix is matched is not."""
    path = written(tmp_path / "page.html", unreliable(), FEW)
    page = opened(path)
    page.tab.click("[data-preset=pool]")
    page.settled()
    assert page.tab.locator("#verdict").get_attribute("data-verdict") == "warning"
    text = path.read_text()
    assert '"lasting":{"verdict":"ok"' in text or '"lasting":{"verdict":"warning"' in text
    for grade in ("ok", "warning"):
        text = text.replace(f'"lasting":{{"verdict":"{grade}"', '"lasting":{"verdict":"unreliable"')
    path.write_text(text)
    page = opened(path)
    page.tab.click("[data-preset=pool]")
    page.settled()
    assert page.tab.locator("#verdict").get_attribute("data-verdict") == "unreliable"


def test_only_failing_checks_are_open(tmp_path: Path, opened: Open) -> None:
    source = unreliable()
    checks = fedcert.estimate(source, FEW).checks
    page = opened(written(tmp_path / "page.html", source, FEW))
    passed = [check for check in checks if check.verdict == "ok"]
    assert page.tab.inner_text("#passed summary") == f"{len(passed)} checks passed"
    for check in checks:
        sentence = page.tab.locator("#checks li", has_text=check.sentence)
        assert sentence.count() == 1
        assert sentence.is_visible() == (check.verdict != "ok")
    titles = page.tab.locator("#checks > ul b").all_inner_texts()
    assert titles[0].startswith("Unreliable: ")
    page.tab.click("#passed summary")
    assert page.tab.locator("#passed li").first.is_visible()


def test_methods_are_folded_each_once_and_explained(tmp_path: Path, opened: Open) -> None:
    page = opened(written(tmp_path / "page.html", drawn_reports(8, 3, 5, seed=2, tells=1.0)))
    assert not page.tab.is_visible("#methods table")
    page.tab.click("#methods summary")
    page.until(lambda: page.tab.locator("#methods table").count() == 1)
    names = page.tab.locator("#methods tbody th").all_inner_texts()
    assert names == ["post-stratification (this page)", "VW", "AP", "GA", "BLUP", "minimax"]
    assert page.tab.locator("#methods dt").all_inner_texts() == ["post-stratification", *names[1:]]
    assert "Volume weighting: " in page.tab.inner_text("#methods dl")
    assert "auto" not in page.tab.inner_text("#methods").lower().split()
    assert "poststratified" not in page.tab.inner_text("main").lower()


def test_a_bad_client_can_be_seen(tmp_path: Path, opened: Open) -> None:
    page = opened(written(tmp_path / "page.html", with_a_bad_client()))
    row = page.tab.locator("#clients tbody tr", has_text="bad")
    assert row.locator("td").first.inner_text() == "0.0%"
    page.tab.select_option("#client-order", "accuracy")
    assert page.tab.locator("#clients tbody th").first.inner_text() == "bad"
    page.tab.select_option("#client-order", "size")
    sizes = [int(text) for text in page.tab.locator("#clients tbody td:nth-child(4)").all_inner_texts()]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("source", [drawn_reports(6, 3, 5, seed=1), drawn_population(6, 3, seed=1)])
def test_own_accuracies_are_those_of_the_reports(source: list[Report], tmp_path: Path, opened: Open) -> None:
    page = opened(written(tmp_path / "page.html", source))
    page.tab.focus("#radius")
    for key, index in (("Home", 0), ("End", -1), ("ArrowLeft", -2)):
        page.tab.keyboard.press(key)
        for report in source:
            shown = page.tab.locator("#clients tbody tr", has_text=report.client).locator("td").first.inner_text()
            assert float(shown.removesuffix("%")) == pytest.approx(100 * own_curve(report)[index], abs=0.05 + 1e-9)


def test_tables_show_that_they_scroll(tmp_path: Path, opened: Open) -> None:
    path = written(tmp_path / "page.html", with_a_bad_client())
    page = opened(path, 390)
    box = page.tab.locator("#clients .scroll-box").first
    table, hint = box.locator(".scroll"), page.tab.locator("#clients .hint").first
    assert hint.is_visible()
    assert "sideways" in hint.inner_text()
    assert "more-right" in (box.get_attribute("class") or "")
    table.focus()
    assert table.evaluate("one => one === document.activeElement")
    table.evaluate("one => { one.scrollLeft = one.scrollWidth; }")
    page.until(lambda: "more-left" in (box.get_attribute("class") or ""))
    assert "more-right" not in (box.get_attribute("class") or "")
    wide = opened(path, 1440)
    assert wide.tab.locator(".hint:visible").count() == 0


def test_nothing_moves_for_those_who_ask(tmp_path: Path, browser: Any) -> None:
    path = written(tmp_path / "page.html", drawn_reports(4, 3, 5, seed=1))
    context = browser.new_context(reduced_motion="reduce")
    tab = context.new_page()
    tab.goto(path.as_uri())
    moving = """() => [...document.querySelectorAll('*')].filter(one => {
      const style = getComputedStyle(one);
      return style.transitionDuration !== '0s' || style.animationName !== 'none' || style.scrollBehavior !== 'auto';
    }).length"""
    assert tab.evaluate(moving) == 0
    context.close()


def test_a_field_is_as_high_as_its_text(tmp_path: Path, opened: Open) -> None:
    page = opened(written(tmp_path / "page.html", drawn_reports(4, 3, 5, seed=1), {"class-1": 1.0}))
    page.tab.click("#mix summary")
    box = page.tab.locator("#mix-json").bounding_box()
    assert box is not None
    assert box["height"] < 80


def test_words_lead_to_the_glossary(tmp_path: Path, opened: Open) -> None:
    page = opened(written(tmp_path / "page.html", drawn_reports(4, 3, 5, seed=1)))
    terms = set(page.tab.eval_on_selector_all("a.term", "links => links.map(link => link.getAttribute('href'))"))
    assert {"#term-smoothed-classifier", "#term-margin-of-error", "#term-class-mix"} <= terms
    for term in terms:
        assert page.tab.locator(f"#glossary dt{term}").count() == 1
    assert not page.tab.is_visible("#term-margin-of-error")
    page.tab.click("#margin a[href='#term-margin-of-error']")
    page.until(lambda: page.tab.is_visible("#term-margin-of-error"))
    assert len(page.asked) == 1 or page.asked[-1].endswith("#term-margin-of-error")


def test_what_the_coordinator_adds_is_on_page_and_card(tmp_path: Path, opened: Open) -> None:
    for report in drawn_reports(4, 3, 5, seed=1):
        (tmp_path / f"{report.client}.json").write_text(report.dumps())
    out = tmp_path / "page.html"
    options = [
        "--target-name",
        "Ward 7",
        "--unit",
        "in <pixels>",
        "--context",
        "0.5 is a grey level.",
        "--radius",
        "0.5",
    ]
    assert run(["page", str(tmp_path), "--out", str(out), "--target", "class-0=1,class-2=3", *options]) == 0
    page = opened(out)
    assert page.tab.inner_text("h1") == "Certified accuracy on “Ward 7”"
    assert page.tab.text_content("#sentence").endswith("under any change within L2 radius 0.5 (in <pixels>).")
    assert page.tab.inner_text("#context") == "0.5 is a grey level."
    assert page.tab.inner_text("#mix-words") == "Class mix of the target: 75% class-2 and 25% class-0."
    assert "L2 radius (in <pixels>)" in page.tab.text_content("#curve svg")
    card = page.tab.input_value("#card-text")
    for words in (
        "### Certified accuracy on “Ward 7”\n", "- Unit of the radii: in \\<pixels\\>\n", "- 0.5 is a grey level.\n",
        "- Target: Ward 7; method: ", "Valid for the smoothed classifier (", "fedcert predict",
    ):  # fmt: skip
        assert words in card
    assert page.said == []
