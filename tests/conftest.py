"""Fixtures that many tests share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import factories
from fedcert import Report


@pytest.fixture
def make_report() -> Callable[..., Report]:
    """Makes a report from a name, label counts and certified counts."""
    return factories.make_report
