"""What a client remembers of its secure aggregations: the state of each, and over whom the finished ones were."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from fedcert._files.atomic import write_whole
from fedcert._files.documents import parse
from fedcert._files.locks import take_lock
from fedcert._files.paths import display_path, kind_of_path
from fedcert.errors import CallError, FileProblem

State = dict[str, Any]


class StateStore(Protocol):
    """Keeps what must not be forgotten. What `put` was given is safe when it returns."""

    def get(self, name: str) -> State | None:
        """What was put under a name; None where nothing was."""
        ...

    def put(self, name: str, state: Mapping[str, Any]) -> None:
        """Keep a state under a name, in place of what was there."""
        ...


class InMemoryStore:
    """A store that lasts as long as the program; for simulations and tests."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def get(self, name: str) -> State | None:
        """See `StateStore.get`."""
        return json.loads(self.texts[name]) if name in self.texts else None

    def put(self, name: str, state: Mapping[str, Any]) -> None:
        """See `StateStore.put`."""
        self.texts[name] = json.dumps(state)


class FolderStore:
    """A store in a folder that only its owner may read, used by one program at a time.

    Args:
        path: the folder; made if need be.

    Raises:
        CallError: another program uses it, or others may read it.
        FileProblem: it cannot be made or used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.name == "posix" and path.stat().st_mode & 0o077:
                raise CallError(
                    f"{display_path(path)} keeps secrets, but others may look into it; run: chmod 700 "
                    f"{display_path(path)}"
                )
            self._lock = (path / "lock").open("ab")
            free = take_lock(self._lock)
        except OSError as error:
            raise FileProblem(f"cannot use the folder {display_path(path)}: {error.strerror or error}") from None
        if not free:
            self._lock.close()
            raise CallError(f"another program is using {display_path(path)}; wait for it to end")

    def get(self, name: str) -> State | None:
        """See `StateStore.get`."""
        file = self.path / f"{name}.json"
        if kind_of_path(file) is None:
            return None
        try:
            state = parse(file.read_bytes(), display_path(file))
        except OSError as error:
            raise FileProblem(f"cannot read {display_path(file)}: {error.strerror or error}") from None
        if not isinstance(state, dict):
            raise FileProblem(f"{display_path(file)} is not what fedcert wrote there")
        return state

    def put(self, name: str, state: Mapping[str, Any]) -> None:
        """See `StateStore.put`."""
        write_whole(self.path / f"{name}.json", json.dumps(state))

    def close(self) -> None:
        """Let other programs use it."""
        self._lock.close()
