"""Fixtures that many tests share."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

import pytest

import factories
from fedcert import Report

_STATE = tempfile.TemporaryDirectory(prefix="fedcert-state-")
os.environ["FEDCERT_STATE"] = _STATE.name  # what clients keep between runs, in processes that tests start too


@pytest.fixture
def make_report() -> Callable[..., Report]:
    """Makes a report from a name, label counts and certified counts."""
    return factories.make_report
