"""Certification added to an app in the shape of Flower's quickstart, in at most ten lines; docs/flower.md shows them."""

from __future__ import annotations

import difflib
import re
import shutil
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from flower_processes import flower

pytestmark = pytest.mark.engine
QUICKSTART = Path(__file__).parent / "quickstart"
PAGE = Path(__file__).parents[3] / "docs" / "flower.md"


def added_lines() -> dict[str, list[tuple[str, list[str]]]]:
    """What the page says to add: file -> (the line it goes behind, the new lines)."""
    found: dict[str, list[tuple[str, list[str]]]] = {}
    for name, block in re.findall(r"```diff title=\"(\w+\.py)\"\n(.*?)```", PAGE.read_text(), re.DOTALL):
        places: list[tuple[str, list[str]]] = []
        for line in block.splitlines():
            if line.startswith("+"):
                places[-1][1].append(line.removeprefix("+ ").removeprefix("+"))
            elif line.strip():
                places.append((line.removeprefix("  "), []))
        found[name] = [place for place in places if place[1]]
    return found


def test_ten_lines_are_enough(tmp_path: Path) -> None:
    app = Path(shutil.copytree(QUICKSTART, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__")))
    changed = 0
    for name, places in added_lines().items():
        file = app / "quick" / name
        before = file.read_text().splitlines()
        after = list(before)
        for behind, lines in places:
            position = max(index for index, line in enumerate(after) if line == behind)
            after[position + 1 : position + 1] = lines
        file.write_text("\n".join(after) + "\n")
        changes = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
        changed += sum(bool(line[1:].strip()) for line in changes)
    assert changed == 8  # as the page says; ten were promised
    (tmp_path / "flower").mkdir()
    with flower(tmp_path / "flower") as one:
        said = one.run(app, {}, nodes=3)
    found = re.search(r"accuracy at radius 0: (\d\.\d+)", said)
    assert found is not None, said[-3000:]
    assert float(found[1]) > 0.8
