"""Logs of Cohen et al.'s code become reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedcert import Report
from fedcert.cli.main import run

LOG = """idx\tlabel\tpredict\tradius\tcorrect\ttime
0\t3\t3\t0.71\t1\t0:00:11
20\t1\t-1\t0.0\t0\t0:00:11
40\t0\t0\t0.05\t1\t0:00:11
60\t3\t2\t0.4\t0\t0:00:11
"""


def command(path: Path, *more: str) -> list[str]:
    settings = ["--client", "a", "--model-id", "cohen", "--sigma", "0.5", "--out", str(path.parent / "report.json")]
    return ["import-log", str(path), *settings, *more]


def test_a_log_becomes_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.tsv"
    path.write_text(LOG)
    assert run(command(path, "--class-counts", "--radii", "0,0.05,0.5,1")) == 0
    assert "a: 4 examples of" in capsys.readouterr().out
    report = Report.from_json(json.loads((tmp_path / "report.json").read_text()))
    assert report.label_counts == (1, 1, 0, 2)
    assert report.certified_counts == (2, 1, 1, 0)  # 0.05 may be 0.04996
    assert report.class_certified_counts == ((1, 0, 0, 0), (0,) * 4, (0,) * 4, (1, 1, 1, 0))
    assert (report.smoothing.n, report.samples) == (100_000, 4 * 100_100)


@pytest.mark.parametrize(
    ("text", "code", "sentence"),
    [
        (None, 2, "there is no file"),
        ("", 1, "must begin with the line idx label predict radius correct (tabs between), but begins with ''"),
        ("a\tb\n", 1, "must begin with the line idx label predict radius correct"),
        (LOG.replace("0.71", "nan"), 1, "line 2: must hold idx, label, predict, radius and correct, but is '0\\t3"),
        (LOG.replace("40\t", "20\t"), 1, "holds an example twice; give the log of one run"),
        (LOG.replace("0.4\t0", "0.4\t1"), 1, "example 60 has label 3 and prediction 2, which 'correct' contradicts"),
        (LOG.splitlines()[0], 1, "holds no example"),
        (LOG.replace("0.71", "9.9"), 1, "samples certify no radius above"),
    ],
)
def test_a_log_that_is_wrong_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, code: int, sentence: str
) -> None:
    path = tmp_path / "log.tsv"
    if text is not None:
        path.write_text(text)
    assert run(command(path, "--radii", "0,0.5,5")) == code
    shown = capsys.readouterr().err
    assert sentence in shown
    assert len(shown.strip().splitlines()) == 1
    assert not (tmp_path / "report.json").exists()
