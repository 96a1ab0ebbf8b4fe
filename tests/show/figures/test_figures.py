"""Figures: what they draw, in every format, with names that mean harm, and what they refuse."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fedcert
from factories import drawn_reports
from fedcert.cli.main import run
from fedcert.errors import CallError, FileProblem
from fedcert.report import Sums
from fedcert.show.figures import plot, plot_learning, plot_mixes, plot_partition, plot_weights
from fedcert.show.figures.learning import read_learning
from fedcert.show.figures.style import COLOURS, LINES, MARKERS

REPORTS = drawn_reports(8, 4, 5, seed=1, names=("cat", "$dog$", "<owl>", "x" * 60))
GA = fedcert.estimate(REPORTS, method="ga")
CURVE = [{"round": 1.0, "loss": 2.0, "noisy accuracy": None}, {"round": 2.0, "loss": 1.0, "noisy accuracy": 0.4}]
DRAWN: dict[str, Callable[[Path | None], Any]] = {
    "curve": lambda path: plot(GA, path),
    "methods": lambda path: plot([GA, fedcert.estimate(REPORTS, method="blup")], path, interval_of="blup"),
    "mixes": lambda path: plot_mixes(REPORTS, "uniform", path),
    "weights": lambda path: plot_weights(GA, path),
    "partition": lambda path: plot_partition([report.label_counts for report in REPORTS], REPORTS[0].classes, path),
    "learning": lambda path: plot_learning({"$a$": CURVE, "b": CURVE}, path),
}
BEGINS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("suffix", BEGINS)
@pytest.mark.parametrize("name", DRAWN)
def test_every_figure_in_every_format(name: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"figure{suffix}"
    DRAWN[name](path)
    assert path.read_bytes().startswith(BEGINS[suffix])


@pytest.mark.parametrize("name", DRAWN)
def test_other_endings_are_refused_before_any_work(name: str, tmp_path: Path) -> None:
    with pytest.raises(CallError, match="a figure's file must end in .png, .svg, .pdf, but is 'figure.gif'"):
        DRAWN[name](tmp_path / "figure.gif")
    assert list(tmp_path.iterdir()) == []


def test_curves_are_told_apart_without_colour() -> None:
    assert len(set(COLOURS)) == len(COLOURS)
    assert len(set(zip(MARKERS, map(str, LINES), strict=True))) == len(MARKERS) == len(COLOURS)
    lines = plot([replace(GA, method=name) for name in "abcdefg"]).axes[0].get_lines()
    assert len({(line.get_marker(), str(line.get_linestyle()), line.get_color()) for line in lines}) == 7


def test_what_the_mixes_show() -> None:
    axes = plot_mixes(REPORTS, {"cat": 1}).axes[0]
    shown = axes.images[0].get_array()
    assert shown.shape == (2 + len(REPORTS), 4)
    assert shown[0].tolist() == [1.0, 0.0, 0.0, 0.0]
    total = sum(sum(report.label_counts) for report in REPORTS)
    assert shown[1][0] == pytest.approx(sum(report.label_counts[0] for report in REPORTS) / total)
    with pytest.raises(CallError, match="sums do not tell single clients' mixes"):
        plot_mixes(Sums.of(REPORTS))
    many = plot_mixes(drawn_reports(80, 3, 3)).axes[0]
    assert many.get_title(loc="left") == "Class mixes of the 60 largest of 80 clients"


def test_negative_weights_are_hatched() -> None:
    made = replace(GA, weights={"a": 1.2, "b": -0.2})
    bars = plot_weights(made).axes[0].patches
    assert [bar.get_hatch() for bar in bars] == [None, "///"]
    with pytest.raises(CallError, match="the estimate by ga has no weights to draw: sums"):
        plot_weights(replace(GA, weights=None, weights_note="sums"))


def test_what_is_no_partition_or_curve() -> None:
    with pytest.raises(CallError, match=r"counts must be clients x 2 classes, from 0 up, but have the shape \(1, 3\)"):
        plot_partition([[1, 2, 3]], ["a", "b"])
    with pytest.raises(CallError, match="there is no learning curve to plot"):
        plot_learning({})


def test_a_learning_curves_file(tmp_path: Path) -> None:
    file = tmp_path / "curve.csv"
    file.write_text("round,loss,seconds,noisy accuracy\n1,2.5,0.1,\n2,2.25,0.1,0.5\n")
    assert read_learning(file) == [
        {"round": 1.0, "loss": 2.5, "noisy accuracy": None}, {"round": 2.0, "loss": 2.25, "noisy accuracy": 0.5},
    ]  # fmt: skip
    file.write_bytes(b"\xef\xbb\xbfround,loss,noisy accuracy\n1,1e308,0.1\n2,nan,0.2\n")
    assert [row["loss"] for row in read_learning(file)] == [None, None]
    for text in (b"a,b\n1,2\n", b"\xff\xfe", b"round,loss,noisy accuracy\nx,1,\n", b"round,loss,noisy accuracy\n", b""):
        file.write_bytes(text)
        with pytest.raises(FileProblem, match="is no learning curve: it must have the columns round, loss"):
            read_learning(file)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reports").mkdir()
    for report in REPORTS:
        Path("reports", f"{report.client}.json").write_text(report.dumps())
    Path("ga.json").write_text(GA.dumps())
    Path("run").mkdir()
    Path("run/curve.csv").write_text("round,loss,seconds,noisy accuracy\n1,2.5,0.1,0.2\n")
    calls = [["curve", "ga.json"], ["mixes", "reports"], ["weights", "ga.json"], ["partition", "reports"]]
    for call in [*calls, ["learning", "run/curve.csv"]]:
        assert run(["plot", *call, "--out", f"{call[0]}.svg"]) == 0
        assert f"Wrote {call[0]}.svg." in capsys.readouterr().out
    assert run(["plot", "curve", "ga.json", "--out", "ga.json"]) == 2
    capsys.readouterr()
    assert run(["plot"]) == 2
    assert "Commands:" in capsys.readouterr().out
    assert run(["plot", "curve", "ga.json", "--title", "\udcff", "--out", "a.svg"]) == 0
    Path("vw.json").write_text(fedcert.estimate(REPORTS, {"cat": 1}, "vw").dumps())
    capsys.readouterr()
    assert run(["plot", "curve", "ga.json", "vw.json", "--out", "a.svg"]) == 2
    assert "estimates side by side must be for the same target" in capsys.readouterr().err
    Path("auto.json").write_text(fedcert.estimate(REPORTS).dumps())
    assert run(["plot", "curve", "ga.json", "auto.json", "--band", "blup", "--out", "a.svg"]) == 0
    assert run(["plot", "curve", "ga.json", "--band", "blup", "--out", "x.png"]) == 2
    assert "there is no estimate by this method, only by ga" in " ".join(capsys.readouterr().err.split())
    assert run(["plot", "weights", "reports/site-00000.json", "--out", "x.png"]) == 1
    assert run(["plot", "learning", "missing.csv", "--out", "x.png"]) == 2
    Path("sums.json").write_text(Sums.of(REPORTS).dumps())
    assert run(["plot", "partition", "sums.json", "--out", "x.png"]) == 2
    assert not Path("x.png").exists()


def test_figures_need_no_screen(tmp_path: Path) -> None:
    code = "from fedcert.show.figures import plot_partition; import sys; plot_partition([[1, 2]], ['a', 'b'], 'x.png')"
    code += "; assert 'matplotlib.pyplot' not in sys.modules"
    import sys

    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
