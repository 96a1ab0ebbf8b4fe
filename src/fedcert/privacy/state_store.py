"""What a client remembers of its secure aggregations: the state of each, and over whom the finished ones were."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Protocol

from fedcert._files.atomic import nothing_written, whole_file_in
from fedcert._files.documents import parse
from fedcert._files.locks import take_lock
from fedcert._files.open_folder import OpenFolder
from fedcert._files.paths import display_path, kind_of_path
from fedcert.errors import CallError, FedcertError, FileProblem

State = dict[str, Any]
_MARK = "mark.json"
"""The file by which a copy of the folder is noticed."""
_STATE = re.compile(r"survivors|spent|agreements|(nonce|report|holders|second)-.*|[0-9a-f]{64}")
"""Names of what clients keep: another file in the folder is its owner's affair."""
_SOON = 60 * 10**9
"""Nanoseconds within which a mark is written: what changes its inode later than that is a copy, or a change of mode."""


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

    It notices a copy: a folder that was restored from a backup or moved here, or a file in it that was put back, since
    a client that has forgotten an answer could be made to give another one. Its mark holds what the file system says of
    the mark itself, and digests of the other files. Not noticed is what sets the file system back as a whole, such as a
    snapshot of a virtual machine.

    Args:
        path: the folder; made if need be.
        moved: take it as it is, though it is a copy: the caller knows that no other copy was used since.

    Raises:
        CallError: another program uses it, others may read it, or it is a copy.
        FileProblem: it cannot be made or used.
    """

    def __init__(self, path: Path, *, moved: bool = False) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.name == "posix" and path.stat().st_mode & 0o077:
                raise CallError(
                    f"{display_path(path)} keeps secrets, but others may look into it; run: chmod 700 "
                    f"{display_path(path)}"
                )
            self._lock = (path / "lock").open("ab")
            try:
                free = take_lock(self._lock)
            except BaseException:
                self._lock.close()
                raise
        except OSError as error:
            raise FileProblem(f"cannot use the folder {display_path(path)}: {error.strerror or error}") from None
        if not free:
            self._lock.close()
            raise CallError(f"another program is using {display_path(path)}; wait for it to end")
        try:
            self._digests = self._files_present() if moved else self._marked()
            self._settled = True
            if moved or self._settle():
                self._mark()
        except BaseException as error:
            self._lock.close()
            if isinstance(error, OSError):
                raise FileProblem(f"cannot use the folder {display_path(path)}: {error.strerror or error}") from None
            raise

    def _marked(self) -> dict[str, list[str | None]]:
        """The files and their digests, by the mark; several of a file that was about to change.

        Raises:
            CallError: the folder is a copy.
        """
        file = self.path / _MARK
        if kind_of_path(file) is None:
            if any(_STATE.fullmatch(file.stem) for file in self.path.glob("*.json")):
                raise self._copied(f"it has no {_MARK}")
            return {}
        kept, seen = self._read(file), file.stat()
        inode, written, digests = (kept.get(name) for name in ("inode", "written", "files"))
        if not (isinstance(inode, int) and isinstance(written, int) and isinstance(digests, dict)):
            raise FileProblem(f"{display_path(file)} is not what fedcert wrote there")
        late = os.name == "posix" and abs(seen.st_ctime_ns - written) > _SOON  # elsewhere ctime means something else
        if seen.st_ino != inode or late:
            raise self._copied(f"its {_MARK} is not the file that was written")
        return {str(name): list(each) if isinstance(each, list) else [] for name, each in digests.items()}

    def _settle(self) -> bool:
        """Where a program was stopped while it wrote a file, note which of two is there; whether there was one."""
        open_ones = [name for name, digests in self._digests.items() if len(digests) > 1]
        for name in open_ones:
            file = self.path / f"{name}.json"
            present = None if kind_of_path(file) is None else _digest(self._bytes(file))
            if present in self._digests[name]:
                self._digests[name] = [present]
        return bool(open_ones)

    def _files_present(self) -> dict[str, list[str | None]]:
        files = (file for file in self.path.glob("*.json") if file.name != _MARK)
        return {file.stem: [_digest(file.read_bytes())] for file in files}

    def _copied(self, why: str) -> CallError:
        place = display_path(self.path)
        return CallError(
            f"the memory {place} was restored from a backup, moved here, or given another mode or owner ({why}). A "
            "site that has forgotten an answer can be made to give another, and two answers may give its numbers away. "
            "If no other copy of it was used since, run: fedcert private moved "
            f"{place}. Otherwise see docs/security.md#a-memory-that-was-set-back"
        )

    def _mark(self) -> None:
        """Write the mark; the file that takes its name keeps the inode that it was created with."""
        with self._file(_MARK) as file:
            status = os.fstat(file.fileno())
            content = {"inode": status.st_ino, "written": status.st_ctime_ns, "files": self._digests}
            file.write(json.dumps(content).encode())

    @contextlib.contextmanager
    def _file(self, name: str) -> Iterator[IO[bytes]]:
        with nothing_written(self.path / name), whole_file_in(OpenFolder(self.path), name, secret=True) as file:
            yield file

    def _read(self, file: Path) -> State:
        return self._parsed(self._bytes(file), file)

    def _bytes(self, file: Path) -> bytes:
        try:
            return file.read_bytes()
        except OSError as error:
            raise FileProblem(f"cannot read {display_path(file)}: {error.strerror or error}") from None

    def _parsed(self, content: bytes, file: Path) -> State:
        state = parse(content, display_path(file))
        if not isinstance(state, dict):
            raise FileProblem(f"{display_path(file)} is not what fedcert wrote there")
        return state

    def get(self, name: str) -> State | None:
        """See `StateStore.get`.

        Raises:
            CallError: the file was put back, changed or removed.
            FileProblem: it cannot be read.
        """
        file, known = self.path / f"{name}.json", self._digests.get(name, [None])
        if kind_of_path(file) is None:
            if None not in known:
                raise self._copied(f"{file.name} is missing")
            return None
        content = self._bytes(file)
        if _digest(content) not in known:
            raise self._copied(f"{file.name} is another one than was written last")
        return self._parsed(content, file)

    def put(self, name: str, state: Mapping[str, Any]) -> None:
        """See `StateStore.put`."""
        content, before, self._settled = json.dumps(state).encode(), self._digests.get(name, [None]), False
        new = _digest(content)
        # Whatever stops this program, the mark has the digest of what is there.
        self._digests[name] = [*before, new]
        self._mark()
        with self._file(f"{name}.json") as file:
            file.write(content)
        self._digests[name] = [new]

    def close(self) -> None:
        """Let other programs use it."""
        with contextlib.suppress(FedcertError):  # the mark has what is there, and what was there before it
            if not self._settled:
                self._mark()
        self._lock.close()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
