"""Values with files of their own: saved whole or not at all, loaded strictly, and shown briefly."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fedcert._files.atomic import check_writable, write_whole
from fedcert._files.documents import read_record
from fedcert._schema.record import Record
from fedcert._schema.summary import Summary
from fedcert.errors import CallError, preview


def path_of(given: Any, name: str = "path") -> Path:
    """An argument that names a file or folder.

    Raises:
        CallError: it is no path.
    """
    if not isinstance(given, (str, os.PathLike)) or isinstance(given, bytes):
        raise CallError(f"{name} must be a path, but is {preview(given)}")
    return Path(given)


@dataclass(frozen=True, kw_only=True, repr=False)
class SavedRecord(Record):
    """A record with a file of its own. `print` and notebooks show its short answer; `dumps` gives all of it."""

    def save(self, path: str | Path) -> Path:
        """Write it as JSON. The file is written whole or not at all, and replaces an earlier one.

        Args:
            path: the file; its name must end in .json.

        Returns:
            The path.

        Raises:
            CallError: the name ends in something else, or the file cannot be written there.
            FileProblem: the disk is full, or the system refuses otherwise.
        """
        file = path_of(path)
        check_writable(file, (".json",))
        write_whole(file, self.dumps())
        return file

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read one that `save`, a command or another program wrote; every rule of the schema is checked.

        Args:
            path: the file; its name must end in .json.

        Raises:
            CallError: there is no such file, or its name ends in something else.
            FileProblem: it cannot be read, or is not JSON.
            InvalidValue: it holds something else, or breaks a rule of its schema.
        """
        loaded: Self = read_record(path_of(path), cls)
        return loaded

    def _summary(self) -> Summary:
        return Summary((f"{type(self).NOUN.capitalize()}.",))

    def __str__(self) -> str:
        return self._summary().text()

    def __repr__(self) -> str:
        first = self._summary().sentences[0].removesuffix(".")
        return f"<{type(self).__name__}: {first}>"

    def _repr_html_(self) -> str:
        return self._summary().html()
