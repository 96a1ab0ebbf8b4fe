"""The built documentation: every fence is a code block, and nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md"))


def html(site: Path, page: str) -> str:
    return (site / f"{page}.html").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_no_raw_fence(site: Path, page: str) -> None:
    assert "```" not in html(site, page)
    assert "~~~" not in html(site, page)


@pytest.mark.parametrize("page", PAGES)
def test_every_fence_is_a_code_block_in_its_language(site: Path, page: str) -> None:
    fences = re.findall(r"^ *``` *(\w*)", (DOCS / f"{page}.md").read_text(), flags=re.MULTILINE)[::2]
    shown = html(site, page)
    for language in set(fences):
        blocks = re.findall(rf'<div class="language-{language or "text"} highlight"', shown)
        assert len(blocks) >= fences.count(language), language


@pytest.mark.parametrize("page", PAGES)
def test_headings_are_those_of_the_source(site: Path, page: str) -> None:
    """None has vanished into a code block."""
    source = re.sub(r"^ *```.*?^ *```$", "", (DOCS / f"{page}.md").read_text(), flags=re.DOTALL | re.MULTILINE)
    written = re.findall(r"^(#{1,3}) ", source, flags=re.MULTILINE)
    shown = re.findall(r"<h([123]) id=", html(site, page))
    assert len(shown) >= len(written)


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loads = r'<(?:script|img|iframe)[^>]*\ssrc="(?:https?:)?//|<link[^>]*rel="(?:stylesheet|preconnect|icon)"[^>]*href="(?:https?:)?//'
    assert [str(page) for page in site.rglob("*.html") if re.search(loads, page.read_text())] == []


def test_the_tools_are_not_published(site: Path) -> None:
    assert not (site / "tools").exists()
