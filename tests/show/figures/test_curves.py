"""Figures: written whole, in every format, and harmless with hostile names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedcert import CallError, MissingExtra, Report, estimate, plot
from fedcert._schema.summary import spread
from fedcert.show.terminal import curve_table, weight_table


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")])
def test_every_format(make_report: Callable[..., Report], tmp_path: Path, name: str, start: bytes) -> None:
    made = [estimate([make_report("a", [5, 5], [8, 7, 3])], method=method) for method in ("vw", "ga")]
    figure = plot(made, tmp_path / name, truth=[0.8, 0.7, 0.2], title="costs $5 and $x^2")
    assert (tmp_path / name).read_bytes().startswith(start)
    assert [line.get_label() for line in figure.axes[0].lines] == ["VW", "GA", "truth"]


def test_the_cap_is_marked_where_it_is_in_sight(make_report: Callable[..., Report]) -> None:
    far = plot(estimate([make_report("a", [5, 5], [8, 7, 3, 0, 0])]))
    near = plot(estimate([make_report("a", [5, 5], [8, 7])]))
    assert len(far.axes[0].texts) == 1
    assert len(near.axes[0].texts) == 0


def test_wrong_calls_are_named(
    make_report: Callable[..., Report], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = estimate([make_report("a", [5, 5], [8, 7])])
    other = estimate([make_report("a", [5, 5], [8])])
    with pytest.raises(CallError, match="there is no estimate to plot"):
        plot([])
    with pytest.raises(CallError, match="estimates in one figure must have the same radii"):
        plot([one, other])
    with pytest.raises(CallError, match=r"a figure's file must end in \.png, \.svg, \.pdf, but is 'a\.gif'"):
        plot(one, tmp_path / "a.gif")
    for wrong in (None, []):
        with pytest.raises(CallError, match="there is no estimate to plot"):
            plot(wrong)  # type: ignore[arg-type]
    with pytest.raises(CallError, match="only estimates can be plotted, but one of them is Report"):
        plot([make_report("a", [5, 5], [8, 7])])  # type: ignore[list-item]
    with pytest.raises(CallError, match="truth must have one value for each of 2 radii, but has 1"):
        plot(one, truth=[0.5])
    plot(other, tmp_path / "one-radius.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"plotting needs the package 'matplotlib'.*pip install 'fedcert\[plot\]'"):
        plot(one)


def test_long_curves_are_shown_at_some_radii() -> None:
    assert spread(3, 11) == [0, 1, 2]
    assert spread(21, 11) == list(range(0, 21, 2))
    assert len(spread(1000, 11)) == 11
    assert spread(21, 11, including=5) == [0, 2, 5, 6, 8, 10, 12, 14, 16, 18, 20]


def test_tables_name_the_clients_that_count(make_report: Callable[..., Report]) -> None:
    result = estimate([make_report(f"site {index}", [5, index + 1], [5]) for index in range(30)], method="vw")
    table = weight_table(result)
    assert table is not None
    assert table.row_count == 11
    assert curve_table([result], [0.5]).build([0]).row_count == 4


def test_one_interval_is_drawn_and_no_more(make_report: Callable[..., Report]) -> None:
    made = [estimate([make_report("a", [50, 50], [80, 70])], method=method) for method in ("vw", "blup")]
    assert len(plot(made[0]).axes[0].collections) == 1
    assert len(plot(made).axes[0].collections) == 0
    assert len(plot(made, interval_of="blup").axes[0].collections) == 1
