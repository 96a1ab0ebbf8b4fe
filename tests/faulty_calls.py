"""System calls on files that fail, or at which the process is killed: counted first, then failed one by one.

What is counted is below one folder: opening, reading, writing, flushing, renaming, removing, looking at files and
folders, locking them. A write fails as a full disk makes it fail: a part is written, and the next write is refused.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from fedcert.errors import FedcertError

RESULTS = os.environ.get("FEDCERT_FAULTS")
"""Where `make faults` records what it did."""
ALL = RESULTS is not None
"""Whether every call of the long work fails with every error."""
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)
_PATHS = (
    "open", "mkdir", "unlink", "remove", "rmdir", "rename", "replace", "stat", "lstat", "chmod", "listdir", "scandir",
    "utime", "truncate",
)  # fmt: skip
_HANDLES = ("fchmod", "fsync", "fstat", "ftruncate", "fdatasync")
_GROWING = {"open", "mkdir", "rename", "replace", "write", "fsync"}
"""What a full disk refuses."""


@dataclass
class Tally:
    """How often a test disturbed the work."""

    test: str
    faults: int = 0
    seconds: float = 0.0


class FaultyCalls:
    """The calls of a process on what is below a folder.

    Args:
        root: the folder.
        fail: which call fails, counted from 0; none where None.
        number: the error of the call that fails.
        lasting: all later calls that need room on the disk fail too.
        kill: the process is killed at that call instead.
    """

    def __init__(
        self, root: Path, fail: int | None = None, number: int = errno.EIO, *, lasting: bool = False, kill: bool = False
    ) -> None:
        self.root, self.fail, self.number, self.lasting, self.kill = str(root), fail, number, lasting, kill
        self.names: list[str] = []
        self._handles: set[int] = set()

    @property
    def failed(self) -> str | None:
        """The call that failed."""
        return self.names[self.fail] if self.fail is not None and self.fail < len(self.names) else None

    def count(self, name: str) -> bool:
        """Count a call; whether it is to fail."""
        self.names.append(name)
        due = self.fail is not None and len(self.names) - 1 == self.fail
        if due and self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        late = self.lasting and self.fail is not None and len(self.names) - 1 > self.fail and name in _GROWING
        return due or late

    def error(self, path: object = None) -> OSError:
        return OSError(self.number, os.strerror(self.number), str(path) if path is not None else None)

    def is_below(self, path: Any, folder: int | None = None) -> bool:
        if isinstance(path, int):
            return path in self._handles
        name = os.fsdecode(path)
        if folder is not None and not name.startswith("/"):
            return folder in self._handles
        place = os.path.abspath(name)  # noqa: PTH100 (Path.resolve would look at files)
        return place == self.root or place.startswith(self.root + "/")

    def _by_path(self, name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(path: Any, *given: Any, **named: Any) -> Any:
            folder = named.get("dir_fd", named.get("src_dir_fd"))
            inside = self.is_below(path, folder)
            if inside and self.count(name):
                raise self.error(path)
            result = real(path, *given, **named)
            if inside and name == "open":
                self._handles.add(result)
            return result

        return call

    def _by_handle(self, name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(handle: Any, *given: Any) -> Any:
            if self.is_below(handle) and self.count(name):
                raise self.error()
            return real(handle, *given)

        return call

    def _close(self, real: Callable[[int], None], handle: int) -> None:
        self._handles.discard(handle)
        real(handle)

    def _opened(self, real: Callable[..., Any], file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        if not self.is_below(file):
            return real(file, mode, *given, **named)
        if not isinstance(file, int) and self.count("open"):
            raise self.error(file)
        buffering = given[0] if given else named.get("buffering", -1)
        raw = _Raw(self, file, mode.replace("b", "").replace("t", ""))
        self._handles.add(raw.fileno())
        if buffering == 0:
            return raw
        if "+" in mode:
            buffered: Any = io.BufferedRandom(raw)
        else:
            buffered = io.BufferedReader(raw) if "r" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding="utf-8")

    @contextmanager
    def here(self) -> Iterator[FaultyCalls]:
        """Count, and fail, while this lasts."""
        real_open, real_close = io.open, os.close

        def opened(*given: Any, **named: Any) -> Any:
            return self._opened(real_open, *given, **named)

        with ExitStack() as stack:

            def patch(module: Any, name: str, new: Any) -> None:
                stack.enter_context(mock.patch.object(module, name, new))

            changed = {name: self._by_path(name) for name in _PATHS}
            changed |= {name: self._by_handle(name) for name in _HANDLES if hasattr(os, name)}
            for kind in ("supports_dir_fd", "supports_fd", "supports_follow_symlinks"):
                known = getattr(os, kind)
                patch(os, kind, known | {new for name, new in changed.items() if getattr(os, name) in known})
            for name, new in changed.items():
                patch(os, name, new)
            patch(os, "close", lambda handle: self._close(real_close, handle))
            patch(io, "open", opened)
            patch(builtins, "open", opened)
            self._patch_locks(patch)
            yield self

    def _patch_locks(self, patch: Callable[[Any, str, Any], None]) -> None:
        import fcntl

        real = fcntl.flock

        def flock(file: Any, operation: int) -> None:
            if self.is_below(file if isinstance(file, int) else file.fileno()) and self.count("flock"):
                raise self.error()
            real(file, operation)

        patch(fcntl, "flock", flock)


class _Raw(io.FileIO):
    """A file whose reads and writes are counted."""

    def __init__(self, calls: FaultyCalls, file: Any, mode: str) -> None:
        super().__init__(file, mode)
        self._calls, self._is_full = calls, False

    def write(self, content: Any) -> int:
        if self._is_full:
            self._is_full = False
            raise self._calls.error()
        if self._calls.count("write"):
            part = bytes(content)[: len(content) // 2]
            if not part or self._calls.number == errno.EACCES:
                raise self._calls.error()
            self._is_full = True
            return super().write(part)
        return super().write(content)

    def readinto(self, buffer: Any) -> int | None:
        if self._calls.count("read"):
            raise self._calls.error()
        return super().readinto(buffer)

    def readall(self) -> bytes:
        if self._calls.count("read"):
            raise self._calls.error()
        return super().readall()

    def truncate(self, size: int | None = None) -> int:
        if self._calls.count("truncate"):
            raise self._calls.error()
        return super().truncate(size)

    def close(self) -> None:
        if not self.closed:
            self._calls._handles.discard(self.fileno())
        super().close()


def counted(root: Path, work: Callable[[], object]) -> list[str]:
    """The calls that some work makes below a folder, by name."""
    with FaultyCalls(root).here() as calls:
        work()
    return calls.names


class Child:
    """Some work in a process of its own.

    Args:
        work: what it does. An error of fedcert is an end like another; any other one fails the test.
        seconds: after which it is taken for stuck.
    """

    def __init__(self, work: Callable[[], object], seconds: int = 60) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # pytest's workers have a thread that does nothing here
            self.number = os.fork()
        if not self.number:
            code = 1
            try:
                signal.alarm(seconds)
                work()
                code = 0
            except FedcertError:
                code = 0
            except BaseException:  # noqa: BLE001 (it is to be seen, and the process must not go on as the test)
                traceback.print_exc()
            finally:
                os._exit(code)

    def kill(self) -> None:
        """Kill it, wherever it is."""
        os.kill(self.number, signal.SIGKILL)

    def ended(self, *, wait: bool = True) -> bool | None:
        """Whether it ended by itself; False where it was killed, None while it is at work."""
        number, status = os.waitpid(self.number, 0 if wait else os.WNOHANG)
        if not number:
            return None
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL, f"signal {os.WTERMSIG(status)}"
            return False
        assert os.waitstatus_to_exitcode(status) == 0, "it ended in a traceback, or in an exit code that nobody expects"
        return True


def died(work: Callable[[], object]) -> bool:
    """Do some work in a process of its own; whether it was killed."""
    return Child(work).ended() is False
