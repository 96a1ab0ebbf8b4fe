"""A real Chromium: the page as people see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from browsing import Opened


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Opened]]:
    """Opens a page's file."""
    contexts = []

    def open_page(path: Path, width: int = 1440, scheme: str = "light") -> Opened:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        made = Opened(context.new_page())
        made.tab.goto(path.as_uri())
        made.tab.wait_for_selector("html[data-ready=yes]", timeout=20_000)
        return made

    yield open_page
    for context in contexts:
        context.close()
