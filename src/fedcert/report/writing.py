"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from fedcert.errors import CallError, FileProblem, shown


def check_writable(path: Path) -> None:
    """Check, before long work, that a file could be written there.

    Raises:
        CallError: the folder does not exist, is no folder, cannot be written to, or the path is a folder.
    """
    folder = path.parent
    if path.is_dir():
        raise CallError(f"cannot write to {shown(str(path), 300)}: it is a folder; name a file in it")
    if not folder.is_dir():
        raise CallError(
            f"cannot write to {shown(str(path), 300)}: "
            f"the folder {shown(str(folder), 300)} does not exist; make it first"
        )
    if not os.access(folder, os.W_OK):
        raise CallError(f"cannot write to {shown(str(path), 300)}: no permission to write in its folder")


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that it is there complete, or not at all, whatever happens on the way.

    The content goes to a new file beside it, reaches the disk, and then takes the name. An older file of
    that name stays untouched until then.

    Raises:
        CallError: see `check_writable`.
        FileProblem: the disk is full, or the system refuses otherwise.
    """
    check_writable(path)
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.part")
    data = content.encode() if isinstance(content, str) else content
    try:
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise FileProblem(f"cannot write {shown(str(path), 300)}: {reason}; nothing was written") from None
        raise
