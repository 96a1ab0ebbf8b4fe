"""What a path leads to, and checks of it before it is used."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from fedcert.errors import CallError, FileProblem, preview

NOTHING_THERE = {errno.ENOENT, errno.ENOTDIR}
"""What systems answer where there is nothing of a name."""
_JUNCTION = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", None)  # a link between folders on Windows


def display_path(path: Path) -> str:
    """A path as text for messages: short, and without control characters."""
    return preview(str(path), 300)[1:-1]


def kind_of_path(path: Path) -> str | None:
    """What a path leads to: "a file", "a folder", something else, or None where nothing is.

    Raises:
        CallError: it cannot be followed: a name that is too long, links in a circle.
        FileProblem: the system does not let us look.
    """
    try:
        return kind_of_status(path.stat())
    except OSError as error:
        if error.errno in NOTHING_THERE:
            return None
        problem = CallError if error.errno in (errno.ENAMETOOLONG, errno.ELOOP) else FileProblem
        raise problem(f"cannot look at {display_path(path)}: {error.strerror or error}") from None
    except ValueError:  # a null character
        raise CallError(f"{display_path(path)} is not the name of a file") from None


def kind_of_status(status: os.stat_result) -> str:
    """What a status is of: "a file", "a folder", "a link" (of a status that does not follow them), something else."""
    if stat.S_ISLNK(status.st_mode) or (_JUNCTION is not None and getattr(status, "st_reparse_tag", 0) == _JUNCTION):
        return "a link"
    if stat.S_ISREG(status.st_mode):
        return "a file"
    if stat.S_ISDIR(status.st_mode):
        return "a folder"
    return "a pipe" if stat.S_ISFIFO(status.st_mode) else "a device or socket"


def state_folder() -> Path:
    """Where this user's programs keep state between runs: FEDCERT_STATE, or what the system has for that."""
    if own := os.environ.get("FEDCERT_STATE"):
        return Path(own)
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "fedcert"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "fedcert"


def cache_folder() -> Path:
    """Where this user's programs keep what can be made again: FEDCERT_CACHE, or what the system has for that."""
    if own := os.environ.get("FEDCERT_CACHE"):
        return Path(own)
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "fedcert" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedcert"


def make_folder(path: Path, *, secret: bool = False) -> None:
    """Make a folder, and those above it, where it is not there; a secret one is its owner's alone.

    Raises:
        FileProblem: the system refuses.
    """
    try:
        path.mkdir(mode=0o700 if secret else 0o777, parents=True, exist_ok=True)
    except OSError as error:
        raise FileProblem(f"cannot make the folder {str(path)!r}: {error.strerror or error}") from None


def check_is_file(path: Path) -> None:
    """Check that a path that stands in another file leads to a file: opening a pipe would wait for a writer.

    Raises:
        CallError: it cannot be followed.
        FileProblem: it leads to something else, or to nothing.
    """
    kind = kind_of_path(path)
    if kind != "a file":
        what = "there is no such file" if kind is None else f"it is {kind}, not a file"
        raise FileProblem(f"cannot read {display_path(path)}: {what}")


def check_readable(path: Path, suffixes: tuple[str, ...]) -> None:
    """Check that a path names a file of an expected type.

    Raises:
        CallError: there is nothing, a folder, something that is no file, or a name that ends otherwise.
    """
    kind = kind_of_path(path)
    if kind == "a folder":
        raise CallError(f"{display_path(path)} is a folder; give a file that ends in {' or '.join(suffixes)}")
    if kind is None:
        raise CallError(f"there is no file {display_path(path)}; check the name")
    if kind != "a file":
        raise CallError(f"{display_path(path)} is {kind}; give a file")
    if path.suffix.lower() not in suffixes:
        raise CallError(f"{display_path(path)} does not end in {' or '.join(suffixes)}; give a file that does")
