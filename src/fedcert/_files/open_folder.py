"""A folder that is held open while something in it is done: what others swap meanwhile does not lead elsewhere."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fedcert._files.paths import NOTHING_THERE, display_path, kind_of_status
from fedcert.errors import FileProblem

HAS_HANDLES = hasattr(os, "O_NOFOLLOW") and {os.open, os.mkdir, os.unlink, os.stat, os.rename} <= os.supports_dir_fd
"""Whether the system opens files relative to an open folder. Windows does not: there parts are checked by name."""
_BINARY = getattr(os, "O_BINARY", 0)  # Windows
_CAREFUL = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | _BINARY  # a pipe is not waited for
_ENTER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)  # may be a folder that cannot be listed
_IS_A_LINK = {errno.ELOOP, errno.EMLINK, errno.ENOTDIR}


class PlantedFile(FileProblem):
    """Something below a folder that others can write to is not what it must be: a link, a pipe."""


@dataclass(frozen=True)
class OpenFolder:
    """A folder and what is directly in it. No name in it is followed where it is a link.

    Attributes:
        path: where it is, or was when it was opened.
        handle: the system's handle; None where names are looked up anew each time.
    """

    path: Path
    handle: int | None = None

    @classmethod
    @contextmanager
    def at(cls, path: Path) -> Iterator[OpenFolder]:
        """A folder that its user named: links on the way to it are followed.

        Raises:
            OSError: it cannot be opened.
        """
        if not HAS_HANDLES:
            yield cls(path)
            return
        folder = cls(path, os.open(path, _ENTER))
        try:
            yield folder
        finally:
            folder.close()

    def close(self) -> None:
        """Let go of it."""
        if self.handle is not None:
            os.close(self.handle)

    def _target(self, name: str) -> str:
        return name if self.handle is not None else str(self.path / name)

    def status(self, name: str) -> os.stat_result | None:
        """What a name is, a link as itself; None where nothing has the name.

        Raises:
            OSError: the system does not let us look.
        """
        try:
            return os.stat(self._target(name), dir_fd=self.handle, follow_symlinks=False)
        except OSError as error:
            if error.errno in NOTHING_THERE:
                return None
            raise

    def kind(self, name: str) -> str | None:
        """What has a name: "a file", "a folder", "a link", something else, or None.

        Raises:
            OSError: the system does not let us look.
        """
        status = self.status(name)
        return None if status is None else kind_of_status(status)

    def enter(self, name: str, *, make: bool = False) -> OpenFolder:
        """Open a folder in this one, which the caller closes.

        Args:
            name: its name.
            make: make it where it is not there.

        Raises:
            PlantedFile: the name is a link, or no folder.
            OSError: it is not there, or cannot be opened.
        """
        if make:
            with suppress(FileExistsError):
                os.mkdir(self._target(name), dir_fd=self.handle)
        inner, kind = self.path / name, self.kind(name)
        if kind is not None and kind != "a folder":
            raise planted(inner, kind, "a folder")
        if self.handle is None:
            return OpenFolder(inner)
        try:
            return OpenFolder(inner, os.open(name, _ENTER | os.O_NOFOLLOW, dir_fd=self.handle))
        except OSError as error:
            if error.errno in _IS_A_LINK:  # put there since we looked
                raise planted(inner, "a link", "a folder") from None
            raise

    def open(self, name: str, flags: int, mode: int = 0o666, *, many_names: bool = False) -> int:
        """Open a file in this folder.

        Args:
            name: its name.
            flags: as of `os.open`.
            mode: who may use a file that is made.
            many_names: whether a file with several names (hard links) will do. Who writes to one changes the other.

        Returns:
            Its descriptor.

        Raises:
            PlantedFile: it is a link, no file, or a file with several names.
            OSError: it is not there, or cannot be opened.
        """
        path, before = self.path / name, self.status(name)
        if before is not None and not stat.S_ISREG(before.st_mode):
            raise planted(path, kind_of_status(before), "a file")
        if before is None and self.handle is None and flags & os.O_CREAT:
            flags |= os.O_EXCL  # not what a link leads to that was put there since
        try:
            descriptor = self._opened(name, flags, mode)
        except OSError as error:
            if error.errno in _IS_A_LINK:
                raise planted(path, "a link", "a file") from None
            raise
        try:
            now = os.fstat(descriptor)
            if not stat.S_ISREG(now.st_mode):
                raise planted(path, kind_of_status(now), "a file")
            if before is not None and self.handle is None and not os.path.samestat(before, now):
                raise planted(path, "a link", "a file")
            if now.st_nlink > 1 and not many_names:
                raise planted(path, f"a file with {now.st_nlink} names (hard links)", "a file with one name")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _opened(self, name: str, flags: int, mode: int) -> int:
        try:
            return os.open(self._target(name), flags | _CAREFUL, mode, dir_fd=self.handle)
        except BlockingIOError:  # a file server holds a lease on it, and gives it up when another waits
            flags |= _CAREFUL & ~getattr(os, "O_NONBLOCK", 0)
            return os.open(self._target(name), flags, mode, dir_fd=self.handle)

    def names(self) -> list[str]:
        """What is in it, by name.

        Raises:
            OSError: it cannot be listed.
        """
        if self.handle is None:
            return sorted(each.name for each in self.path.iterdir())
        listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.handle)
        try:
            return sorted(os.listdir(listing))  # noqa: PTH208 (a path would be looked up anew)
        finally:
            os.close(listing)

    def replace(self, old: str, folder: OpenFolder, new: str) -> None:
        """Give something in this folder a name in another one, in place of what has it there.

        Raises:
            OSError: the system refuses.
        """
        os.replace(self._target(old), folder._target(new), src_dir_fd=self.handle, dst_dir_fd=folder.handle)

    def remove(self, name: str) -> None:
        """Remove a file, or a link itself.

        Raises:
            OSError: the system refuses.
        """
        os.unlink(self._target(name), dir_fd=self.handle)

    def flush(self) -> None:
        """Flush its entries to disk, where the system can do that."""
        if os.name == "posix":
            with suppress(OSError):  # some file systems cannot
                descriptor = os.open(self._target("."), os.O_RDONLY, dir_fd=self.handle)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)


def planted(path: Path, kind: str, wanted: str) -> PlantedFile:
    """The error about something that is not what it must be."""
    return PlantedFile(
        f"{display_path(path)} must be {wanted}, but is {kind}; remove it, or find out who put it there: links and "
        "pipes lead elsewhere"
    )
