"""What fuzzing has found to reach new code is replayed, and numbers at their boundaries: a sentence or an answer."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[1] / "fuzz"
sys.path.insert(0, str(FUZZ))
import boundaries  # noqa: E402
import sweep  # noqa: E402
import targets  # noqa: E402

USED = targets.downstream.TARGETS
"""Targets that use what they read, which takes longer."""


@pytest.fixture(autouse=True)
def designs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Designs of scores that are made are kept for all of these tests, and nowhere else."""
    monkeypatch.setenv("FEDCERT_CACHE", str(tmp_path_factory.getbasetemp() / "fuzz-designs"))


@pytest.mark.parametrize("name", sorted(targets.TARGETS))
def test_the_corpus_does_no_harm(name: str) -> None:
    found = list(targets.kept(name))
    assert found
    for _, data in found:
        targets.tried(name, data)


def some(name: str, count: int) -> list[bytes]:
    """Some of a target's documents with a number at a boundary, always the same."""
    data = list(dict.fromkeys(sweep.variants(name)))
    random.Random(1).shuffle(data)
    return data[:count]


@pytest.mark.parametrize("name", sorted(sweep.JSON))
def test_a_number_at_a_boundary_does_no_harm(name: str) -> None:
    tried, bad = sweep.failures(name, some(name, 15 if name in USED else 300), 60)
    assert tried
    assert not bad


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(sweep.JSON))
def test_no_number_at_a_boundary_does_harm(name: str) -> None:
    _, bad = sweep.failures(name, some(name, 10**6), 30)
    assert not bad


def test_boundary_values_reach_every_numeric_field() -> None:
    (_, data), *_ = targets.kept("report")
    document = json.loads(data)
    fields = {".".join(str(step) for step in path) for path in boundaries.numeric_fields(document)}
    assert {"smoothing.sigma", "smoothing.n", "radii.0", "label_counts.0", "class_certified_counts.0.0"} <= fields
    assert {"label_counts", "class_certified_counts", "design_effect.0", "largest_group", "samples"} <= fields


def test_a_report_is_made_consistent_so_that_what_is_odd_is_used() -> None:
    (_, data), *_ = targets.kept("report")
    odd = boundaries.changed(json.loads(data), ("label_counts", 0), 2**62)
    whole = boundaries.consistent(odd)
    assert targets.Report.from_json(whole).examples > 2**51
