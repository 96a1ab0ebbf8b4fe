"""A journal of certification, from which a run that was killed resumes.

The result of an example depends on itself, the seed and the settings alone, so the journal holds the seed and the state
of each example, and its owner alone may read it. Records are appended and carry a checksum; the last may be cut off,
and its example is then advanced again. A journal that is finished says so in its last record: the same work takes its
results from there, other work may replace it.
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
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import IO, Any, Self

from fedcert._files.locks import take_lock
from fedcert._files.paths import display_path
from fedcert._files.shared import SharedFolder
from fedcert.certification.certificate import ExampleState
from fedcert.certification.seeds import Seed
from fedcert.errors import CallError, FedcertWarning, FileProblem

_MAGIC = b"fedcert journal 3\n"
_EARLIER = (b"fedcert journal 1\n", b"fedcert journal 2\n")
"""Of the times when noise belonged to an example's place in the data, and when right answers were not counted."""
_RECORD = struct.Struct("<qqqqqdqqI??")
"""The fields of an `ExampleState`, in their order."""
_SUM = struct.Struct("<I")
_FINISHED = _RECORD.pack(-1, *([0] * 4), 0.0, *([0] * 3), True, True)
"""The last record of finished work: no example has that index."""
_SECONDS_BETWEEN_SYNCS = 2.0
"""A power cut may cost that much work; syncing more often would hold up fast models."""


class JournalInUse(CallError):
    """Another run is writing to a journal, or it is of other work: it is not this run's to touch."""


class Journal:
    """The last state of each example, on disk.

    The file stays, so that a finished run can count anew.

    Raises:
        JournalInUse: another run is writing to it, or it is of a run with other settings.
        FileProblem: it cannot be read or written, or is a link.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], seed: Seed) -> None:
        self.path = path
        text = json.dumps(settings, sort_keys=True, default=str)
        self._work = _MAGIC + hashlib.sha256(text.encode()).hexdigest().encode() + b"\n"
        self.seed = seed
        self.states: dict[int, ExampleState] = {}
        self._finished = False
        self._synced = time.monotonic()
        try:
            # Beside a report, perhaps where reports are handed in: what a link there leads to is not a journal.
            descriptor = SharedFolder(path.parent).open_in_place(path, os.O_RDWR | os.O_CREAT, 0o600)
            self._file: IO[bytes] = os.fdopen(descriptor, "r+b", buffering=0)  # nothing waits until the file is closed
            try:
                if os.name == "posix":  # one that was there may have been anyone's to read
                    os.fchmod(self._file.fileno(), 0o600)
                self._lock()
                self.resumed = self._read()
            except BaseException:
                self._file.close()
                raise
        except OSError as error:
            raise FileProblem(f"cannot use the journal {display_path(path)}: {error.strerror or error}") from None

    def _read(self) -> bool:
        """Read the states that an earlier run left; whether there are any."""
        content = self._file.read()
        place = len(self._header)
        size = _RECORD.size + _SUM.size
        kept = _seed_in(content[len(self._work) : place])
        if content.startswith(self._work) and kept is not None:
            self.seed = self.seed if self.seed.is_fixed else kept
            bad = 0
            while place + size <= len(content):
                record, check = content[place : place + _RECORD.size], content[place + _RECORD.size : place + size]
                sound = _SUM.unpack(check)[0] == zlib.crc32(record)
                self._finished = sound and record == _FINISHED
                if sound and not self._finished:
                    state = ExampleState(*_RECORD.unpack(record))
                    self.states[state.index] = state
                bad += not sound
                place += size
            if bad:
                damage = f"{bad} records of the journal {display_path(self.path)} are damaged"
                warnings.warn(f"{damage}; their examples are certified again", FedcertWarning, stacklevel=3)
        elif _MAGIC.startswith(content) or _is_blank(content) or _is_finished(content):
            self._file.seek(0)
            self._write_all(self._header)
            place = len(self._header)
        else:
            what = "is no journal of fedcert, or a damaged one"
            if content.startswith(_EARLIER):
                what = "is a journal of an earlier fedcert, which kept other figures: it cannot be resumed"
            elif content.startswith(_MAGIC):
                what = (
                    "is the journal of an unfinished run with other settings, model or data; run the same command as "
                    "before to resume it"
                )
            raise JournalInUse(f"{display_path(self.path)} {what}, give this one another --out, or remove the file")
        self._file.truncate(place)
        self._file.seek(place)
        return bool(self.states)

    @property
    def _header(self) -> bytes:
        return self._work + _seed_line(self.seed)

    def _lock(self) -> None:
        """Keep other runs from writing to the same journal; the lock ends with the process."""
        if not take_lock(self._file):
            other = f"another run is writing to {display_path(self.path)}"
            raise JournalInUse(f"{other}; wait for it to end, or give this one another --out")

    def write(self, states: Iterable[ExampleState]) -> None:
        """Append states of examples; they reach the disk every two seconds.

        Raises:
            FileProblem: the disk is full, or the system refuses otherwise.
        """
        self._append([_RECORD.pack(*astuple(state)) for state in states])

    def _append(self, records: Iterable[bytes]) -> None:
        self._finished = False
        try:
            self._write_all(b"".join(record + _SUM.pack(zlib.crc32(record)) for record in records))
            if time.monotonic() - self._synced > _SECONDS_BETWEEN_SYNCS:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        except OSError as error:
            raise FileProblem(
                f"cannot write the journal {display_path(self.path)}: {error.strerror or error}; what was written "
                "before is kept: make room and run the same command again to resume"
            ) from None

    def _write_all(self, content: bytes) -> None:
        """Write at the end: a disk that becomes full takes a part."""
        left = memoryview(content)
        while left:
            left = left[self._file.write(left) :]

    def finish(self) -> None:
        """Note that all of the work is done.

        Raises:
            FileProblem: the disk is full, or the system refuses otherwise.
        """
        if not self._finished:
            self._append([_FINISHED])
            self._finished = True

    def close(self) -> None:
        """Leave the file for a later run; without a record it is removed."""
        with suppress(OSError):  # all of it is written; a file without a record does no harm
            if self._file.tell() <= len(self._header):
                self.path.unlink(missing_ok=True)
        with suppress(OSError):
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._file.closed:
            self.close()


def _seed_line(seed: Seed) -> bytes:
    return seed.secret.hex().encode() + b"%08x\n" % zlib.crc32(seed.secret)


def _seed_in(line: bytes) -> Seed | None:
    """The seed that a journal was begun with; None where its line is cut off or damaged."""
    try:
        seed = Seed(bytes.fromhex(line[:64].decode()))
    except ValueError:
        return None
    return seed if _seed_line(seed) == line else None


def _is_finished(content: bytes) -> bool:
    """Whether a journal, of any settings, is of work that was finished."""
    return content.startswith(_MAGIC) and content[: -_SUM.size].endswith(_FINISHED)


def _is_blank(content: bytes) -> bool:
    """Whether a journal has a header, of any settings, and no record."""
    header = len(_MAGIC) + 65 + len(_seed_line(Seed(bytes(32))))
    return content.startswith(_MAGIC) and len(content) < header + _RECORD.size + _SUM.size
