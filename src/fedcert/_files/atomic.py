"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from fedcert._files.open_folder import OpenFolder
from fedcert._files.paths import kind_of_path
from fedcert.errors import CallError, FileProblem, preview

_LONGEST_NAME = 255
"""Bytes: NAME_MAX of Linux and of the common file systems elsewhere."""
_NEVER_READ = (".html", ".md", ".pdf", ".png", ".svg")
"""A folder's files of these kinds are not read, so that new ones may take their place."""


def check_writable(path: Path, suffixes: tuple[str, ...] = (), inputs: Iterable[Path] = ()) -> None:
    """Check, before long work, that a file could be written there.

    Args:
        path: where; a link is followed, unless another user made it.
        suffixes: what the name may end in; anything where empty.
        inputs: files that are read, which must not be overwritten.

    Raises:
        CallError: the name ends in something else, the folder does not exist or cannot be written to, or the
            path is a folder, a device, another user's link, or one of the inputs.
        FileProblem: the system does not let us look.
    """
    where = f"cannot write to {preview(str(path), 300)}"
    kind = kind_of_path(path)
    if kind == "a folder":
        raise CallError(f"{where}: it is a folder; name a file in it")
    if kind not in (None, "a file"):
        raise CallError(f"{where}: it is {kind}, not a file")
    if _is_link_of_another(path):
        raise CallError(f"{where}: it is a link that another user made; remove it, or name the file that it leads to")
    if suffixes and path.suffix not in suffixes:
        raise CallError(f"{where}: the name must end in {' or '.join(suffixes)}")
    folder = path.resolve().parent
    if kind_of_path(folder) != "a folder":
        raise CallError(f"{where}: the folder {preview(str(path.parent), 300)} does not exist; make it first")
    if not os.access(folder, os.W_OK):
        raise CallError(f"{where}: no permission to write in its folder")
    if len(os.fsencode(path.name)) > _LONGEST_NAME:
        raise CallError(f"{where}: the name is longer than {_LONGEST_NAME} bytes")
    if kind is not None and path.resolve() in _files_of(inputs, path.suffix not in _NEVER_READ):
        raise CallError(f"{where}: it is one of the files to read; name another")


def _is_link_of_another(path: Path) -> bool:
    """Whether a path is a link of a user who is neither this one nor the system's."""
    if os.name != "posix":
        return False
    try:
        status = OpenFolder(path.parent).status(path.name)
    except OSError as error:
        raise FileProblem(f"cannot look at {preview(str(path), 300)}: {error.strerror or error}") from None
    return status is not None and stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, os.geteuid())


def _files_of(inputs: Iterable[Path], in_folders: bool) -> set[Path]:
    """The files that inputs stand for, and perhaps what is in the folders among them."""
    files: set[Path] = set()
    for path in inputs:
        kind = kind_of_path(path)
        if kind == "a folder":
            files.update(file.resolve() for file in (path.iterdir() if in_folders else ()))
        elif kind is not None:
            files.add(path.resolve())
    return files


def write_whole(path: Path, content: str | bytes, *, secret: bool = False) -> None:
    """Write a file atomically: whatever interrupts it, the file is there complete, or not at all.

    Args:
        path: see `whole_file`.
        content: what it is to hold.
        secret: whether its owner alone may read it.

    Raises:
        CallError: see `check_writable`.
        FileProblem: the disk is full, or the system refuses otherwise.
    """
    with whole_file(path, secret=secret) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def whole_file(path: Path, *, secret: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to that takes its name when all of it is written, or never.

    What is written goes to a new file beside it, reaches the disk, and then takes the name. An older file of that name
    stays untouched until then. A link is followed, and stays a link, unless another user made it. A secret file is its
    owner's to read.

    Raises:
        CallError: see `check_writable`.
        FileProblem: the disk is full, or the system refuses otherwise.
    """
    check_writable(path)
    real = path.resolve()
    with nothing_written(path), whole_file_in(OpenFolder(real.parent), real.name, secret=secret) as file:
        yield file


@contextlib.contextmanager
def whole_file_in(folder: OpenFolder, name: str, *, secret: bool = False) -> Iterator[IO[bytes]]:
    """The same in an open folder. What has the name is replaced, not followed.

    Raises:
        OSError: the disk is full, or the system refuses otherwise.
    """
    draft = f".fedcert-{secrets.token_hex(8)}.part"
    try:
        # For its owner alone until it is whole: it may take the place of a file that others must not read.
        descriptor = folder.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not secret and hasattr(os, "fchmod"):  # not on Windows, where a mode says little
                older = folder.status(name)
                is_file = older is not None and stat.S_ISREG(older.st_mode)
                os.fchmod(descriptor, older.st_mode & 0o777 if older and is_file else 0o666 & ~_mask())
        folder.replace(draft, folder, name)
        folder.flush()
    except BaseException:
        with contextlib.suppress(OSError):
            folder.remove(draft)
        raise


@contextlib.contextmanager
def nothing_written(path: Path) -> Iterator[None]:
    """Turns what the system says while a file is written into one sentence.

    Raises:
        FileProblem: an OSError was raised inside.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileProblem(f"cannot write {preview(str(path), 300)}: {reason}; nothing was written") from None


def _mask() -> int:
    """The process's umask; there is no way to read it but to set it."""
    known = os.umask(0o077)
    os.umask(known)
    return known
