"""What the program says, and where: grouped help, quiet, pipes, colour, progress after two seconds."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from factories import drawn_reports
from fedcert.cli import console
from fedcert.cli.help_groups import GROUPS
from fedcert.cli.main import app, run


@pytest.fixture(autouse=True)
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reports").mkdir()
    for report in drawn_reports(4, 3, 5, seed=1):
        Path("reports", f"{report.client}.json").write_text(report.dumps())


def test_every_command_is_in_one_group_of_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    from typer.main import get_command

    grouped = [name for commands in GROUPS.values() for name in commands]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == set(get_command(app).commands)  # type: ignore[attr-defined]
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    for title in GROUPS:
        assert f"{title}:" in shown
    assert "..." not in shown.partition("To see it work")[2]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_quiet_wherever_it_stands(place: int, capsys: pytest.CaptureFixture[str]) -> None:
    Path("reports/note.txt").write_text("passed over")
    noisy = ["validate", "reports"]
    assert run(noisy) == 0
    assert "note: " in capsys.readouterr().err
    noisy.insert(place, "--quiet")
    assert run(noisy) == 0
    out = capsys.readouterr()
    assert out.err == ""
    assert "4 valid" in out.out
    assert run(["--quiet", "estimate", "missing.json"]) == 2
    assert capsys.readouterr().err.startswith("fedcert: error: ")
    assert run(["validate", "reports"]) == 0
    assert "note: " in capsys.readouterr().err, "the next call is not quiet"


def test_after_two_dashes_it_is_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "--", "--quiet"]) == 2
    assert "there is no file or folder --quiet" in capsys.readouterr().out


def on_terminal(*arguments: str, **environment: str) -> str:
    """What the program writes to a real terminal."""
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "fedcert", *arguments], stdout=follower, stderr=follower, stdin=follower,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **environment},
    )  # fmt: skip
    os.close(follower)
    written = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        if not part:
            break
        written += part
    os.close(leader)
    assert child.wait() == 0
    return written.decode()


def test_colour_on_a_terminal_unless_unwanted() -> None:
    plain = {name: value for name, value in os.environ.items() if name in ("NO_COLOR", "FORCE_COLOR")}
    assert not plain
    assert "\x1b[32m" in on_terminal("estimate", "reports", "--verbose"), "a check that passed is green"
    assert "\x1b[33m" in on_terminal("estimate", "reports"), "a warning is yellow"
    assert "\x1b[3" not in on_terminal("estimate", "reports", NO_COLOR="1")


def test_no_control_codes_in_a_pipe() -> None:
    made = subprocess.run([sys.executable, "-m", "fedcert", "estimate", "reports"], capture_output=True, check=True)
    assert b"\x1b" not in made.stdout + made.stderr
    assert made.stderr == b""


def test_the_conclusion_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "reports"]) == 0
    first = " ".join(capsys.readouterr().out.split())
    assert first.startswith("At L2 radius 0.25, an estimated ")
    order = (
        "Target: all classes equally frequent",
        "Method: BLUP",
        "Valid for the smoothed classifier",
        "Unreliable: ",
        "accuracy at radius",
    )
    places = [first.index(part) for part in order]
    assert places == sorted(places)


def test_long_work_says_what_it_is_doing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import time

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(console, "_PATIENCE", 0.05)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with console.working("counting sheep"):
        time.sleep(0.5)
    assert "counting sheep" in capsys.readouterr().err
    with console.working("too quick to see"):
        pass
    assert "too quick" not in capsys.readouterr().err
    console.set_quiet(True)
    try:
        with console.working("unseen"):
            time.sleep(0.2)
    finally:
        console.set_quiet(False)
    assert "unseen" not in capsys.readouterr().err


def test_shell_completion_is_there() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "fedcert"], capture_output=True, text=True, check=True,
        env={**os.environ, "_FEDCERT_COMPLETE": "complete_bash", "COMP_WORDS": "fedcert est", "COMP_CWORD": "1"},
    )  # fmt: skip
    assert made.stdout.split() == ["estimate"]
