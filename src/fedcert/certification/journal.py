"""A journal of certification, so that a run that is killed goes on where it was.

What an example gets depends on its index and the settings alone, so a run needs to remember no more than how far each
example is. Records are appended and carry a checksum; whatever was written last may be cut off, and is then done again.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import time
import warnings
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from fedcert._files.locks import take_lock
from fedcert._files.paths import display_path
from fedcert.errors import CallError, FedcertWarning, FileProblem

_MAGIC = b"fedcert journal 1\n"
_RECORD = struct.Struct("<qqqqqdqI??")
_SUM = struct.Struct("<I")
_SECONDS_BETWEEN_SYNCS = 2.0


@dataclass(frozen=True)
class ExampleState:
    """How far an example is.

    Attributes:
        index: its index in the client's data.
        selected: the class that selection chose.
        drawn: estimation samples so far.
        successes: how many of them were predicted as that class.
        look: the next look.
        miss: the best bound so far.
        samples: noisy samples spent, selection included.
        image: the checksum of the example itself.
        estimated: whether anything was bounded; False where selection chose a wrong class and that was the end.
        done: whether no more is needed.
    """

    index: int
    selected: int
    drawn: int
    successes: int
    look: int
    miss: float
    samples: int
    image: int
    estimated: bool
    done: bool


class JournalInUse(CallError):
    """Another run is writing to a journal, or it is of other work: it is not this run's to touch."""


class Journal:
    """What is known of each example, on disk.

    It stays there until whoever began it removes it, once the result is safe.

    Raises:
        JournalInUse: another run is writing to it, or it is of a run with other settings.
        FileProblem: it cannot be read or written.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        text = json.dumps(settings, sort_keys=True, default=str)
        self._header = _MAGIC + hashlib.sha256(text.encode()).hexdigest().encode() + b"\n"
        self.standings: dict[int, ExampleState] = {}
        self._synced = time.monotonic()
        try:
            self._file: IO[bytes] = path.open("r+b" if path.exists() else "w+b")
            _lock(self._file, path)
            self.resumed = self._read()
        except OSError as error:
            raise FileProblem(f"cannot use the journal {display_path(path)}: {error.strerror or error}") from None

    def _read(self) -> bool:
        """Read what an earlier run left."""
        content = self._file.read()
        place = len(self._header)
        size = _RECORD.size + _SUM.size
        if content[:place] == self._header:
            bad = 0
            while place + size <= len(content):
                record, check = content[place : place + _RECORD.size], content[place + _RECORD.size : place + size]
                if _SUM.unpack(check)[0] == zlib.crc32(record):
                    standing = ExampleState(*_RECORD.unpack(record))
                    self.standings[standing.index] = standing
                else:
                    bad += 1
                place += size
            if bad:
                warnings.warn(
                    f"{bad} records of the journal {display_path(self.path)} are damaged; what they told is done again",
                    FedcertWarning,
                    stacklevel=3,
                )
        elif self._header.startswith(content) or _is_blank(content):
            self._file.seek(0)
            self._file.write(self._header)
            place = len(self._header)
        else:
            self._file.close()
            what = (
                "is the journal of a run with other settings, model or data; run that again to go on with it"
                if content.startswith(_MAGIC)
                else "is no journal of fedcert, or a damaged one"
            )
            raise JournalInUse(f"{display_path(self.path)} {what}, give this one another --out, or remove the file")
        self._file.truncate(place)
        self._file.seek(place)
        return bool(self.standings)

    def write(self, standings: Iterable[ExampleState]) -> None:
        """Append how far examples are; every other second it reaches the disk.

        Raises:
            FileProblem: the disk is full, or the system refuses otherwise.
        """
        records = [_RECORD.pack(*astuple(one)) for one in standings]
        try:
            self._file.write(b"".join(record + _SUM.pack(zlib.crc32(record)) for record in records))
            self._file.flush()
            if time.monotonic() - self._synced > _SECONDS_BETWEEN_SYNCS:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        except OSError as error:
            raise FileProblem(
                f"cannot write the journal {display_path(self.path)}: {error.strerror or error}; what was written "
                "before "
                "is kept: make room and run the same command again to go on"
            ) from None

    def close(self) -> None:
        """Leave it for a later run, or nothing where there is nothing to tell."""
        try:
            self._file.flush()
            if self._file.tell() <= len(self._header):
                self.path.unlink(missing_ok=True)
        finally:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._file.closed:
            self.close()


def _is_blank(content: bytes) -> bool:
    """Whether a journal has a header, of whatever settings, and no record."""
    return content.startswith(_MAGIC) and len(content) < len(_MAGIC) + 65 + _RECORD.size + _SUM.size


def _lock(file: IO[bytes], path: Path) -> None:
    """Keep other runs from writing to the same journal; the lock goes with the process, however it ends."""
    if not take_lock(file):
        file.close()
        raise JournalInUse(
            f"another run is writing to {display_path(path)}; wait for it to end, or give this one another --out"
        )
