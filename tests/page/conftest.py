"""A real Chromium: the page as people see it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from browsing import Opened


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, with nothing of its own that would use the network."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("FEDCERT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    assert program, "there is no Chromium: install one (make test-page does on Debian) or name it in FEDCERT_CHROMIUM"
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as play:
        made = play.chromium.launch(executable_path=program, args=[*quiet, "--disable-sync", "--no-first-run"])
        yield made
        made.close()


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
