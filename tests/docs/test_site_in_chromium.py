"""The documentation in a real Chromium, on a wide and on a narrow screen, in light and in dark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from browsing import Opened

pytestmark = pytest.mark.browser
DOCS = Path(__file__).parents[2] / "docs"
ARTEFACTS = Path(__file__).parents[2] / "site" / "docs-screenshots"
PAGES = sorted(str(page.relative_to(DOCS).with_suffix(".html")) for page in DOCS.rglob("*.md"))
WIDTHS = (1440, 390)
BOTH_SCHEMES = {"index.html", "tutorial.html", "commands.html", "method.html"}

STICKING_OUT = """() => {
  const scrolls = node => ["auto", "scroll", "hidden"].includes(getComputedStyle(node).overflowX);
  const inside = node => {
    for (let one = node.parentElement; one && one.tagName !== "ARTICLE"; one = one.parentElement) if (scrolls(one)) return true;
    return false;
  };
  return [...document.querySelectorAll("article *")]
    .filter(node => node.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !inside(node))
    .map(node => node.outerHTML.slice(0, 120));
}"""
"""Parts of a page that reach over the right edge of the screen, outside boxes that scroll."""

CUT = """() => [...document.querySelectorAll("article pre > code, article .md-typeset__scrollwrap")]
  .filter(node => node.scrollWidth > node.clientWidth + 1)
  .filter(node => !["auto", "scroll"].includes(getComputedStyle(node).overflowX) || node.tabIndex !== 0)
  .map(node => node.outerHTML.slice(0, 120))"""
"""Boxes whose contents are cut: they do not scroll, or not by keyboard."""

BROKEN_OPTIONS = """() => [...document.querySelectorAll("article code .option")]
  .filter(node => node.getClientRects().length > 1).map(node => node.textContent)"""
"""Options that a line breaks within."""


@pytest.fixture(scope="session")
def windows(browser: Any) -> Iterator[Callable[[int, str], Any]]:
    """Windows of a width and a scheme, each opened once."""
    opened: dict[tuple[int, str], Any] = {}

    def window(width: int, scheme: str) -> Any:
        if (width, scheme) not in opened:
            opened[width, scheme] = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        return opened[width, scheme]

    yield window
    for context in opened.values():
        context.close()


@pytest.fixture
def shown(windows: Callable[[int, str], Any], address: str) -> Iterator[Callable[..., Opened]]:
    """Opens a page of the site."""
    tabs = []

    def show(page: str, width: int, scheme: str = "light") -> Opened:
        opened = Opened(windows(width, scheme).new_page())
        tabs.append(opened.tab)
        opened.tab.goto(address + page)
        opened.tab.wait_for_selector("html.js")
        opened.tab.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return opened

    yield show
    for tab in tabs:
        tab.close()


def violations(page: Opened) -> list[tuple[str, str, list[str]]]:
    from axe_playwright_python.sync_playwright import Axe

    for detail in page.tab.locator("article details").all():
        detail.evaluate("one => { one.open = true; }")
    found = Axe().run(page.tab).response["violations"]
    return [(one["id"], one["impact"], [node["html"][:160] for node in one["nodes"]][:5]) for one in found]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_the_screen_and_asks_nobody(
    shown: Callable[..., Opened], address: str, name: str, width: int
) -> None:
    page = shown(name, width)
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    page.tab.screenshot(path=ARTEFACTS / f"{name.replace('/', '-')}-{width}.png", full_page=True)
    assert page.tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert page.tab.evaluate(STICKING_OUT) == []
    assert page.tab.evaluate(CUT) == []
    assert page.tab.evaluate(BROKEN_OPTIONS) == []
    assert "```" not in page.tab.inner_text("body")
    assert page.said == []
    assert [url for url in page.asked if not url.startswith((address, "data:", "blob:"))] == []


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(shown: Callable[..., Opened], name: str) -> None:
    """In one scheme each, half of the pages on a narrow screen; the most read ones in both."""
    place = PAGES.index(name)
    schemes = ("light", "dark") if name in BOTH_SCHEMES else (("light", "dark")[place % 2],)
    for scheme in schemes:
        assert violations(shown(name, WIDTHS[place // 2 % 2], scheme)) == []


def test_a_reader_can_switch_between_light_and_dark(shown: Callable[..., Opened]) -> None:
    page = shown("index.html", 1440)
    schemes = []
    for _ in range(3):
        schemes.append(page.tab.get_attribute("body", "data-md-color-scheme"))
        page.tab.locator("form[data-md-component=palette] label:not([hidden])").click()
    assert set(schemes) == {"default", "slate"}
