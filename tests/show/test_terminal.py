"""Tables in a terminal: figures are never cut off, however narrow it is."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

import fedcert
from factories import drawn_reports
from fedcert.show.terminal import class_table, curve_table, own_table

REPORTS = drawn_reports(6, 3, 21, seed=1, tells=1.0)
MADE = fedcert.estimate(REPORTS, method="poststratified")


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 120, 200])
def test_figures_are_whole(width: int) -> None:
    by_class = class_table(MADE)
    assert by_class is not None
    for table, figure in (
        (curve_table([MADE]), r"\d\.\d{3}"),
        (own_table(REPORTS[0], REPORTS[0].certified_accuracy), r"\d\.\d{3}"),
        (by_class, r"\d\.\d{3} \(\d\.\d\d–\d\.\d\d\)"),
    ):
        screen = io.StringIO()
        Console(file=screen, width=width).print(table)
        text = screen.getvalue()
        assert "…" not in text
        assert re.search(figure, text)
        assert max(map(len, text.splitlines())) <= width


def test_as_many_radii_as_there_is_room_for() -> None:
    def radii(width: int) -> int:
        screen = io.StringIO()
        Console(file=screen, width=width).print(curve_table([MADE]))
        return len(re.findall(r"\d\.\d{3}", next(line for line in screen.getvalue().splitlines() if "post-" in line)))

    assert (radii(200), radii(120), radii(80), radii(40)) == (11, 11, 6, 1)
