"""A log of events, one JSON object per line, held by one process at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from fedcert._files.locks import take_lock
from fedcert._files.paths import display_path
from fedcert._files.shared import SharedFolder
from fedcert.errors import CallError, FileProblem


class LineLog:
    """A log in a folder. A line is on the disk when `append` returns, whole, or not at all.

    Args:
        files: the folder.
        path: the file, in it; made if need be.

    Raises:
        CallError: another process holds it.
        FileProblem: it cannot be used.
    """

    def __init__(self, files: SharedFolder, path: Path) -> None:
        self._files, self.path = files, path
        try:
            descriptor = files.open_in_place(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            self._file: IO[bytes] = os.fdopen(descriptor, "r+b", buffering=0)  # a full disk shows at once
            try:
                if not take_lock(self._file):
                    where = display_path(path.parent)
                    raise CallError(f"another run is using the folder {where}; wait for it to end, or name another")
                self._end_last_line()
            except BaseException:
                self.close()
                raise
        except OSError as error:
            raise FileProblem(f"cannot use the folder {display_path(path.parent)}: {error.strerror or error}") from None

    def _end_last_line(self) -> None:
        """End a line that was cut off when the system stopped, so that the next one can be read."""
        size = self._file.seek(0, os.SEEK_END)
        if size:
            self._file.seek(size - 1)
            if self._file.read(1) != b"\n":
                self._file.write(b"\n")

    def append(self, event: Mapping[str, Any]) -> None:
        """Add a line.

        Raises:
            FileProblem: the disk is full, or the system refuses otherwise; the log is as it was.
        """
        left = memoryview(json.dumps(event).encode() + b"\n")
        try:
            before = self._file.seek(0, os.SEEK_END)
            try:
                while left:  # a disk that becomes full takes a part
                    left = left[self._file.write(left) :]
                os.fsync(self._file.fileno())
            except BaseException:
                with suppress(OSError):
                    self._file.truncate(before)
                raise
        except OSError as error:
            where = display_path(self.path.parent)
            raise FileProblem(f"cannot write the log in {where}: {error.strerror or error}") from None

    def events(self) -> Iterator[dict[str, Any]]:
        """What it holds; a line that was cut off is passed over.

        Raises:
            FileProblem: it cannot be read.
        """
        with self._files.reading(self.path) as file:
            for line in file:
                with suppress(ValueError):
                    event = json.loads(line)
                    if isinstance(event, dict):
                        yield event

    def close(self) -> None:
        """Let other processes use it."""
        with suppress(OSError):  # nothing is waiting to be written
            self._file.close()
