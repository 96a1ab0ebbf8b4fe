"""What the documentation points at is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    named = re.findall(r"`((?:src|tests|benchmarks|examples|fuzz|docs|traces)/[^`\s*<]*)`", page.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []
