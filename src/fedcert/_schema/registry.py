"""Registries: entries by name, from which lists, field types, help texts and messages are computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

Entry = TypeVar("Entry")


class Registry(dict[str, Entry]):
    """Entries of one type by name.

    Args:
        entry_type: what an entry must be; its constructor asks for all that an entry needs.
        entries: those of fedcert itself.

    Raises:
        TypeError: on registration of something else than such an entry.
    """

    def __init__(self, entry_type: type[Entry], entries: Mapping[str, Entry]) -> None:
        super().__init__()
        self.entry_type = entry_type
        for name, entry in entries.items():
            self[name] = entry

    def __setitem__(self, name: str, entry: Entry) -> None:
        if not isinstance(entry, self.entry_type):
            raise TypeError(f"{name!r} must be registered as {self.entry_type.__name__}, but is {entry!r}")
        super().__setitem__(name, entry)


def alternatives(names: Iterable[str]) -> str:
    """Names in words.

    Examples:
        >>> alternatives(["a"]), alternatives(["a", "b", "c"])
        ('a', 'a, b or c')
    """
    *before, last = names
    return f"{', '.join(before)} or {last}" if before else last
