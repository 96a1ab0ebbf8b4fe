"""What the tests of faults did, recorded where `make faults` wants it."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from faulty_calls import RESULTS, Tally


@pytest.fixture(scope="session")
def recorded() -> Iterator[list[Tally]]:
    """What each test did, written at the end."""
    tallies: list[Tally] = []
    yield tallies
    if RESULTS is not None:
        machine = {"system": platform.platform(), "python": platform.python_version()}
        Path(RESULTS).write_text(json.dumps({**machine, "tests": [asdict(each) for each in tallies]}, indent=2) + "\n")


@pytest.fixture
def tally(request: pytest.FixtureRequest, recorded: list[Tally]) -> Iterator[Tally]:
    """Counts a test's faults. Only a test that passed is recorded."""
    tally, began = Tally(request.node.name), time.monotonic()
    failed = request.session.testsfailed
    yield tally
    tally.seconds = round(time.monotonic() - began, 1)
    if request.session.testsfailed == failed:
        recorded.append(tally)
