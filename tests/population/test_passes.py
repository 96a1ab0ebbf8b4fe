"""How many passes suffice."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from fedcert.errors import CallError
from fedcert.population import passes, tables
from fedcert.population.passes import passes_needed
from fedcert.population.tables import SHIPPED_PASSES, SHIPPED_RATIOS, SHIPPED_VOTES, designs_for


def test_the_least_shipped_number_within_the_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "LADDER", SHIPPED_PASSES)
    for votes in SHIPPED_VOTES:
        for ratio in SHIPPED_RATIOS[:21]:
            losses = {n: designs_for("gaussian", n, votes, [ratio])[0].loss for n in SHIPPED_PASSES}
            expected = min((n for n, loss in losses.items() if loss <= passes.TOLERANCE), default=None)
            assert passes_needed("gaussian", votes, ratio) == expected
            assert expected is not None or (votes == 31 and ratio >= 1.9), "100 passes do for nearly all"


def test_what_was_measured() -> None:
    """With 11 votes 16 passes do for a standard deviation, 32 for one and a half, and 64 for two."""
    assert [passes_needed("gaussian", 11, ratio) for ratio in (0.0, 1.0, 1.5, 2.0, 2.4)] == [16, 16, 32, 64, 100]


def test_radii_between_tenths_are_rounded_up_and_quotients_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(passes, "designs_for", lambda *given: asked.append(given[3]) or designs_for(*given))
    for ratio in (0.61, 0.7, 0.175 / 0.25, 0.1 * 3 / 0.5, 0.0):
        passes_needed("gaussian", 11, ratio)
    assert asked == [[0.7], [0.7], [0.7], [0.6], [0.0]]


def test_more_passes_are_tried_and_then_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCERT_CACHE", str(tmp_path))
    monkeypatch.setattr(passes, "LADDER", (4, 8, 12))
    assert passes_needed("uniform", 3, 0.5, tolerance=0.004) == 8
    assert passes_needed("gaussian", 11, 2.0, tolerance=1e-4) is None


@pytest.mark.parametrize("ratio", [-1.0, math.nan, math.inf])
def test_radii_that_are_none_are_refused(ratio: float) -> None:
    with pytest.raises(CallError, match="a design needs a radius of 0 or more"):
        passes_needed("gaussian", 11, ratio)


def test_the_ladder_begins_with_what_is_shipped() -> None:
    assert passes.LADDER[:4] == tables.SHIPPED_PASSES
    assert list(passes.LADDER) == sorted(passes.LADDER)
