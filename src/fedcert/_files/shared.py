"""A folder that others may write to: nothing below it leads out of it, or to anything but plain files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from fedcert._files.atomic import nothing_written, whole_file_in
from fedcert._files.documents import LARGEST_DOCUMENT, Reading, opened, parse, too_large
from fedcert._files.open_folder import OpenFolder, planted
from fedcert._files.paths import NOTHING_THERE, display_path, kind_of_path
from fedcert.errors import FileProblem


class SharedFolder:
    """A folder that others may write to, such as one that sites and coordinator share, an inbox, a run's.

    Its user has named it, so links on the way to it are followed. Below it, every folder is opened in the one above
    and stays open while it is used, so that another in its place does not matter. Links, pipes and devices are refused,
    as are files with several names (hard links) unless they are only read and nothing of them is passed on.

    All paths that its methods take are below it.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def _inside(self, path: Path, *, make: bool = False) -> Iterator[OpenFolder]:
        """An inner folder while it is used."""
        with ExitStack() as stack:
            folder = stack.enter_context(OpenFolder.at(self.path))
            for part in path.relative_to(self.path).parts:
                folder = folder.enter(part, make=make)
                stack.callback(folder.close)
            yield folder

    def kind(self, path: Path) -> str | None:
        """What is there: "a file", "a folder", "a link", something else; None where nothing is.

        Raises:
            PlantedFile: a part above it is a link, or no folder.
            FileProblem: the system does not let us look.
        """
        try:
            with self._inside(path.parent) as folder:
                return folder.kind(path.name)
        except OSError as error:
            if error.errno in NOTHING_THERE:
                return None
            raise FileProblem(f"cannot look at {display_path(path)}: {error.strerror or error}") from None

    def has_file(self, path: Path) -> bool:
        """Whether there is a file.

        Raises:
            PlantedFile: there is something else, or a part above it is a link.
            FileProblem: the system does not let us look.
        """
        kind = self.kind(path)
        if kind is not None and kind != "a file":
            raise planted(path, kind, "a file")
        return kind is not None

    def names(self, path: Path | None = None) -> list[str]:
        """What is in it, or in a folder below it, by name; what begins with a dot is left out.

        Raises:
            PlantedFile: the folder, or a part above it, is a link, or no folder.
            FileProblem: it cannot be listed.
        """
        inner = self.path if path is None else path
        try:
            with self._inside(inner) as folder:
                return [name for name in folder.names() if not name.startswith(".")]
        except OSError as error:
            if error.errno in NOTHING_THERE:
                return []
            raise FileProblem(f"cannot read {display_path(inner)}: {error.strerror or error}") from None

    @contextmanager
    def reading(self, path: Path, *, many_names: bool = False) -> Iterator[IO[bytes]]:
        """A file, to read from.

        Raises:
            PlantedFile: it is a link, no file, or has several names; or a part above it is a link.
            FileProblem: it is not there, or cannot be read.
        """
        try:
            with self._inside(path.parent) as folder:
                descriptor = folder.open(path.name, os.O_RDONLY, many_names=many_names)
            with os.fdopen(descriptor, "rb") as file:
                yield file
        except OSError as error:
            raise FileProblem(f"cannot read {display_path(path)}: {error.strerror or error}") from None

    def read(self, path: Path, *, most: int = LARGEST_DOCUMENT, many_names: bool = False) -> bytes:
        """The beginning of a file, up to so many bytes.

        Raises:
            PlantedFile, FileProblem: see `reading`.
        """
        with self.reading(path, many_names=many_names) as file:
            return file.read(most)

    def document(self, path: Path, *, many_names: bool = False) -> Any:
        """The JSON document that a file holds.

        Raises:
            PlantedFile: see `reading`.
            FileProblem: it cannot be read, is too large, or is not JSON.
        """
        content = self.read(path, most=LARGEST_DOCUMENT + 1, many_names=many_names)
        if len(content) > LARGEST_DOCUMENT:
            raise too_large(display_path(path))
        return parse(content, display_path(path))

    @contextmanager
    def writing(self, path: Path, *, secret: bool = False) -> Iterator[IO[bytes]]:
        """A file to write to that takes its name when all of it is written, or never; folders above it are made.

        Raises:
            PlantedFile: something else than a file has its name, or a part above it is a link.
            FileProblem: the disk is full, or the system refuses otherwise.
        """
        with nothing_written(path), self._inside(path.parent, make=True) as folder:
            kind = folder.kind(path.name)
            if kind is not None and kind != "a file":
                raise planted(path, kind, "a file")
            with whole_file_in(folder, path.name, secret=secret) as file:
                yield file

    def write(self, path: Path, content: str | bytes, *, secret: bool = False) -> None:
        """Write a file atomically.

        Raises:
            PlantedFile, FileProblem: see `writing`.
        """
        with self.writing(path, secret=secret) as file:
            file.write(content.encode() if isinstance(content, str) else content)

    def open_in_place(self, path: Path, flags: int, mode: int = 0o666) -> int:
        """Open a file that is written in place: a log, a lock. Another name of it would be changed with it.

        Args:
            path: the file; folders above it are there.
            flags: as of `os.open`.
            mode: who may use a file that is made.

        Returns:
            Its descriptor.

        Raises:
            PlantedFile: it is a link, no file, or has several names; or a part above it is a link.
            OSError: the system refuses.
        """
        with self._inside(path.parent) as folder:
            return folder.open(path.name, flags, mode)

    def move(self, path: Path, new: Path) -> None:
        """Give a file another place, in place of what is there; folders above it are made.

        Raises:
            PlantedFile: it is a link or no file, or a part above it or its new place is a link.
            FileProblem: the system refuses.
        """
        if not self.has_file(path):
            return
        try:
            with self._inside(path.parent) as old, self._inside(new.parent, make=True) as folder:
                old.replace(path.name, folder, new.name)
                folder.flush()
        except OSError as error:
            where = f"{display_path(path)} to {display_path(new)}"
            raise FileProblem(f"cannot move {where}: {error.strerror or error}") from None

    def remove(self, path: Path) -> None:
        """Remove a file, or a link itself, where there is one.

        Raises:
            PlantedFile: a part above it is a link.
            FileProblem: the system refuses.
        """
        try:
            with self._inside(path.parent) as folder:
                folder.remove(path.name)
                folder.flush()
        except OSError as error:
            if error.errno not in NOTHING_THERE:
                raise FileProblem(f"cannot remove {display_path(path)}: {error.strerror or error}") from None


def reading_of(path: Path) -> Reading:
    """How the files that a path stands for are read: as its user named it, or as those of a shared folder."""
    if kind_of_path(path) != "a folder":
        return opened
    return partial(SharedFolder(path).reading, many_names=True)
