"""A site's memory: what is put is there, whatever stops the program; a copy is noticed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedcert.errors import CallError, FileProblem
from fedcert.privacy import state_store
from fedcert.privacy.state_store import FolderStore


def put(folder: Path, **states: int) -> None:
    store = FolderStore(folder)
    for name, value in states.items():
        store.put(name, {"value": value})
    store.close()


def value_in(folder: Path, name: str = "survivors") -> int | None:
    store = FolderStore(folder)
    try:
        state = store.get(name)
        return None if state is None else int(state["value"])
    finally:
        store.close()


def restored_as_a_whole(folder: Path, backup: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    folder.chmod(0o700)


def restored_in_place(folder: Path, backup: Path) -> None:
    for file in backup.glob("*.json"):
        shutil.copy2(file, folder / file.name)


def one_file_restored(folder: Path, backup: Path) -> None:
    shutil.copy2(backup / "survivors.json", folder / "survivors.json")


def forgotten(folder: Path, backup: Path) -> None:
    (folder / "survivors.json").unlink()


def without_its_mark(folder: Path, backup: Path) -> None:
    restored_in_place(folder, backup)
    (folder / "mark.json").unlink()


@pytest.mark.parametrize(
    "set_back", [restored_as_a_whole, restored_in_place, one_file_restored, forgotten, without_its_mark]
)
def test_a_memory_that_was_set_back_is_noticed(tmp_path: Path, set_back: Callable[[Path, Path], None]) -> None:
    folder, backup = tmp_path / "memory", tmp_path / "backup"
    put(folder, survivors=1, other=1)
    shutil.copytree(folder, backup)
    mark = json.loads((backup / "mark.json").read_text())
    mark["written"] -= 3600 * 10**9  # the backup is an hour old
    (backup / "mark.json").write_text(json.dumps(mark))
    put(folder, survivors=2)
    set_back(folder, backup)
    with pytest.raises(CallError, match="was restored from a backup, moved here, or .* run: fedcert private moved"):
        value_in(folder)
    FolderStore(folder, moved=True).close()
    assert value_in(folder) == (None if set_back is forgotten else 1)
    put(folder, survivors=3)
    assert value_in(folder) == 3


def test_what_is_there_is_accepted_wherever_the_program_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "memory"
    put(folder, survivors=1)
    original = state_store.whole_file_in
    for stopped in ("mark.json", "survivors.json"):
        store = FolderStore(folder)

        def full_disk(place: Any, name: str, stopped: str = stopped, **options: Any) -> Any:
            if name == stopped:
                raise OSError(28, "No space left on device")
            return original(place, name, **options)

        with monkeypatch.context() as patch:
            patch.setattr(state_store, "whole_file_in", full_disk)
            with pytest.raises(FileProblem, match="No space left on device; nothing was written"):
                store.put("survivors", {"value": 2})
        store._lock.close()  # as a process that is killed
        assert value_in(folder) == 1
    store = FolderStore(folder)
    store.put("survivors", {"value": 3})
    store._lock.close()
    assert value_in(folder) == 3


@pytest.mark.parametrize("content", ["[]", "{", "null", '{"inode": "a"}'])
def test_a_mark_or_state_of_another_shape_is_one_sentence(tmp_path: Path, content: str) -> None:
    folder = tmp_path / "memory"
    put(folder, survivors=1)
    (folder / "mark.json").write_text(content)
    with pytest.raises((FileProblem, CallError), match="mark"):
        value_in(folder)
    (folder / "survivors.json").write_text(content)
    store = FolderStore(folder, moved=True)
    if content != '{"inode": "a"}':
        with pytest.raises(FileProblem, match="survivors.json"):
            store.get("survivors")
    store.close()
