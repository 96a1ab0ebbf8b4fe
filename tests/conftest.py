"""Fixtures that many tests share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import factories
from fedcert import Report


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What clients keep between runs goes to a folder of the test's own."""
    monkeypatch.setenv("FEDCERT_STATE", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture
def make_report() -> Callable[..., Report]:
    """Makes a report from a name, label counts and certified counts."""
    return factories.make_report
