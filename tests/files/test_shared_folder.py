"""A folder that others may write to, on systems that open files relative to folders, and on those that do not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedcert._files import open_folder
from fedcert._files.line_log import LineLog
from fedcert._files.open_folder import PlantedFile
from fedcert._files.shared import SharedFolder
from fedcert.errors import CallError, FileProblem


@pytest.fixture(params=[True, False], ids=["handles", "names"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SharedFolder:
    """With handles of folders, and by names alone as on Windows."""
    if request.param and not open_folder.HAS_HANDLES:
        pytest.skip("this system has none")
    monkeypatch.setattr(open_folder, "HAS_HANDLES", request.param)
    if not request.param:
        monkeypatch.setattr(open_folder, "_CAREFUL", getattr(os, "O_BINARY", 0))  # all that Windows has
    (tmp_path / "shared").mkdir()
    return SharedFolder(tmp_path / "shared")


def test_what_is_written_is_read(folder: SharedFolder) -> None:
    file = folder.path / "a" / "b" / "c.json"
    assert folder.kind(file) is None
    assert not folder.has_file(file)
    folder.write(file, "{}")
    folder.write(file, '{"second": true}')
    assert folder.document(file) == {"second": True}
    assert (folder.kind(file), folder.kind(file.parent)) == ("a file", "a folder")
    folder.write(file.with_name(".hidden"), "")
    assert folder.names(file.parent) == ["c.json"]
    assert folder.names() == ["a"]
    assert folder.names(folder.path / "nothing") == []
    folder.move(file, folder.path / "d" / "e.json")
    assert folder.names(file.parent) == []
    folder.remove(folder.path / "d" / "e.json")
    folder.remove(folder.path / "d" / "e.json")
    assert folder.names(folder.path / "d") == []
    with pytest.raises(FileProblem, match="cannot read .*: No such file"):
        folder.read(file)
    folder.write(file, "{")
    with pytest.raises(FileProblem, match="is not valid JSON"):
        folder.document(file)


@pytest.mark.skipif(os.name != "posix", reason="modes and links of POSIX")
def test_a_secret_file_is_its_owners_and_another_keeps_its_mode(folder: SharedFolder) -> None:
    folder.write(folder.path / "secret", "", secret=True)
    assert (folder.path / "secret").stat().st_mode & 0o777 == 0o600
    (folder.path / "open").touch()
    (folder.path / "open").chmod(0o640)
    folder.write(folder.path / "open", "new")
    assert (folder.path / "open").stat().st_mode & 0o777 == 0o640


USES: dict[str, Callable[[SharedFolder, Path], Any]] = {
    "read": lambda folder, file: folder.read(file),
    "write": lambda folder, file: folder.write(file, "new"),
    "has_file": lambda folder, file: folder.has_file(file),
    "move": lambda folder, file: folder.move(file, folder.path / "elsewhere"),
    "in place": lambda folder, file: os.close(folder.open_in_place(file, os.O_RDWR | os.O_CREAT)),
    "log": lambda folder, file: LineLog(folder, file).close(),
}


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("what", ["link", "link to nothing", "linked folder", "pipe", "folder"])
def test_nothing_but_files_is_used(folder: SharedFolder, tmp_path: Path, what: str, use: str) -> None:
    outside, file = tmp_path / "outside", folder.path / "x.json"
    outside.mkdir()
    (outside / "x.json").write_text("kept")
    if what == "link":
        file.symlink_to(outside / "x.json")
    elif what == "link to nothing":
        file.symlink_to(outside / "y.json")
    elif what == "linked folder":
        (folder.path / "inner").symlink_to(outside)
        file = folder.path / "inner" / "x.json"
    elif what == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    with pytest.raises(PlantedFile, match="must be .*, but is .*; remove it, or find out who put it there"):
        USES[use](folder, file)
    assert {each.name: each.read_text() for each in outside.iterdir()} == {"x.json": "kept"}


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_a_file_with_another_name_is_read_only_where_nothing_is_passed_on(folder: SharedFolder, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("kept")
    (folder.path / "x").hardlink_to(tmp_path / "keys")
    for use in ("read", "in place", "log"):
        with pytest.raises(PlantedFile, match=r"is a file with 2 names \(hard links\)"):
            USES[use](folder, folder.path / "x")
    assert folder.read(folder.path / "x", many_names=True) == b"kept"
    folder.write(folder.path / "x", "new")
    assert (tmp_path / "keys").read_text() == "kept"


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_a_link_itself_is_removed(folder: SharedFolder, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("kept")
    (folder.path / "x").symlink_to(tmp_path / "keys")
    folder.remove(folder.path / "x")
    assert folder.kind(folder.path / "x") is None
    assert (tmp_path / "keys").read_text() == "kept"


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_a_file_that_is_swapped_for_a_link_after_the_check_is_refused(
    folder: SharedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys").write_text("kept")
    file, real = folder.path / "x", os.open
    file.write_text("harmless")

    def swap(path: Any, *given: Any, **named: Any) -> int:
        if str(path).endswith("x"):
            file.unlink()
            file.symlink_to(tmp_path / "keys")
        return real(path, *given, **named)

    monkeypatch.setattr(os, "open", swap)
    with pytest.raises(PlantedFile, match="x must be a file, but is a link"):
        folder.read(file)


@pytest.mark.skipif(not open_folder.HAS_HANDLES, reason="needs handles of folders")
def test_a_folder_that_is_swapped_for_a_link_after_the_check_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, elsewhere, real = SharedFolder(tmp_path / "shared"), tmp_path / "elsewhere", os.open
    inner = shared.path / "inner"
    inner.mkdir(parents=True)
    elsewhere.mkdir()

    def swap(path: Any, *given: Any, **named: Any) -> int:
        if path == "inner":
            inner.rmdir()
            inner.symlink_to(elsewhere)
        return real(path, *given, **named)

    monkeypatch.setattr(os, "open", swap)
    with pytest.raises(PlantedFile, match="inner must be a folder, but is a link"):
        shared.write(inner / "x", "new")
    assert not list(elsewhere.iterdir())


def test_a_file_that_a_server_holds_back_is_opened_when_it_is_given(
    folder: SharedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease: who does not wait is refused at first."""
    if not open_folder.HAS_HANDLES:
        pytest.skip("there it waits at once")
    folder.write(folder.path / "x", "there")
    real, refused = os.open, []

    def held(path: Any, flags: int, *given: Any, **named: Any) -> int:
        if str(path).endswith("x") and flags & os.O_NONBLOCK:
            refused.append(path)
            raise BlockingIOError
        return real(path, flags, *given, **named)

    monkeypatch.setattr(os, "open", held)
    assert folder.read(folder.path / "x") == b"there"
    assert refused


def test_a_folder_that_cannot_be_listed_can_be_used(folder: SharedFolder) -> None:
    """One where sites may put files in, and not see those of others."""
    if os.name != "posix" or os.geteuid() == 0:
        pytest.skip("who may do all may list")
    folder.write(folder.path / "in" / "x", "there")
    (folder.path / "in").chmod(0o300)
    try:
        folder.write(folder.path / "in" / "x", "new")
        assert folder.read(folder.path / "in" / "x") == b"new"
    finally:
        (folder.path / "in").chmod(0o700)


def test_a_log_goes_on_after_a_line_that_was_cut_off(folder: SharedFolder) -> None:
    file = folder.path / "log.ndjson"
    log = LineLog(folder, file)
    log.append({"event": "first"})
    with pytest.raises(CallError, match="another run is using the folder"):
        LineLog(folder, file)
    log.close()
    with file.open("ab") as opened:
        opened.write(b'{"event": "torn')
    again = LineLog(folder, file)
    again.append({"event": "third"})
    assert [event["event"] for event in again.events()] == ["first", "third"]
    again.close()
