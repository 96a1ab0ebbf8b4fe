"""--sign and --trusted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fedcert.cli.console import print_note
from fedcert.errors import CallError, preview
from fedcert.privacy.askers import asker_of
from fedcert.report import Report, Request

if TYPE_CHECKING:
    from fedcert.privacy.keys.identity import Identity
    from fedcert.privacy.keys.keyring import Keyring

Signed = TypeVar("Signed", Report, Request)


def keys_in(path: Path | None, client: str | None = None) -> Identity | None:
    """The secret keys of --sign, checked before any work.

    Raises:
        CallError: the file cannot be used, or holds another client's keys.
    """
    if path is None:
        return None
    from fedcert.privacy.keys.identity import read_identity

    identity = read_identity(path)
    if client is not None and identity.name != client:
        raise CallError(f"--sign: the keys are those of {preview(identity.name)}, but --client is {preview(client)}")
    return identity


def signed_by(keys: Identity | None, value: Signed) -> Signed:
    """A request or report, signed where there are keys."""
    if keys is None:
        return value
    from fedcert.privacy.keys.signing import sign

    return sign(value, keys)


def keyring_in(path: Path | None) -> Keyring | None:
    """The keyring of --trusted."""
    if path is None:
        return None
    from fedcert.privacy.keys.keyring import read_keyring

    return read_keyring(path)


def check_asker(request: Request, trusted: Path | None) -> None:
    """Check that a request is signed by a key that this site trusts, where it names trusted keys.

    Raises:
        Refused: no trusted key has signed it, or it was changed since.
    """
    name = asker_of(request, keyring_in(trusted))
    if name is not None:
        print_note(f"the request is signed by {name}")
