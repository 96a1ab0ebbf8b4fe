"""Fixtures that many tests share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import factories
from fedcert import Report

_STATE = tempfile.TemporaryDirectory(prefix="fedcert-state-")
os.environ["FEDCERT_STATE"] = _STATE.name  # what clients keep between runs, in processes that tests start too


@pytest.fixture
def make_report() -> Callable[..., Report]:
    """Makes a report from a name, label counts and certified counts."""
    return factories.make_report


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
