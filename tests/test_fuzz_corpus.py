"""What fuzzing has found to reach new code is replayed: a sentence or an answer, nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[1] / "fuzz"
sys.path.insert(0, str(FUZZ))
import targets  # noqa: E402


@pytest.mark.parametrize("name", sorted(targets.TARGETS))
def test_the_corpus_does_no_harm(name: str) -> None:
    found = list(targets.kept(name))
    assert found
    for _, data in found:
        targets.tried(name, data)
