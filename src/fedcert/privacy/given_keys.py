"""Keys as callers have them: as values, or as the files that hold them. cryptography is loaded when they are used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedcert._files.saved import path_of

if TYPE_CHECKING:
    from fedcert.privacy.keys.identity import Identity
    from fedcert.privacy.keys.keyring import Keyring


def given_identity(given: Identity | str | Path, name: str) -> Identity:
    """Secret keys, or those in a file.

    Args:
        given: either.
        name: of the argument, for messages.

    Raises:
        CallError: the file cannot be used.
        MissingExtra: cryptography is not installed.
    """
    from fedcert.privacy.keys.identity import Identity, read_identity

    return given if isinstance(given, Identity) else read_identity(path_of(given, name))


def given_keyring(given: Keyring | str | Path, name: str) -> Keyring:
    """A keyring, or the one in a file.

    Raises:
        CallError: the file cannot be used.
        MissingExtra: cryptography is not installed.
    """
    from fedcert.privacy.keys.keyring import Keyring, read_keyring

    return given if isinstance(given, Keyring) else read_keyring(path_of(given, name))
