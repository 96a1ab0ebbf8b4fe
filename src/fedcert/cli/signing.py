"""--sign and --trusted."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fedcert.cli.console import print_note
from fedcert.errors import CallError, Refused, preview
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


def check_unchanged(value: Report | Request) -> None:
    """Check that a signed value is as it was signed, by whomever, where this installation can.

    Raises:
        Refused: it was changed since.
    """
    if value.signature is not None and find_spec("cryptography") is not None:
        from fedcert.privacy.keys.signing import check_intact

        check_intact(value)


def check_asker(request: Request, trusted: Path | None) -> None:
    """Check that a request is signed by a key that this site trusts, where it names trusted keys.

    Raises:
        Refused: no trusted key has signed it, or it was changed since.
    """
    keyring = keyring_in(trusted)
    if keyring is None:
        check_unchanged(request)
        return
    from fedcert.privacy.keys.signing import signer

    name = signer(request, keyring)
    if name is None:
        what = "is not signed" if request.signature is None else "is signed by a key that is not in the keyring"
        raise Refused(f"the request {what}; ask the coordinator for a signed one, and for its card")
    print_note(f"the request is signed by {name}")
