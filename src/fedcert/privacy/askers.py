"""Who signed a request: what a client checks before it works."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from fedcert.errors import Refused
from fedcert.report import Report, Request

if TYPE_CHECKING:
    from fedcert.privacy.keys.keyring import Keyring


def check_unchanged(value: Report | Request) -> None:
    """Check that a signed value is as it was when it was signed, where this installation can.

    Raises:
        Refused: it was changed since.
    """
    if value.signature is not None and find_spec("cryptography") is not None:
        from fedcert.privacy.keys.signing import check_intact

        check_intact(value)


def asker_of(request: Request, keyring: Keyring | None) -> str | None:
    """The member of a keyring that signed a request; None without a keyring, where anyone may ask.

    Raises:
        Refused: no member has signed it, or it was changed since.
    """
    if keyring is None:
        check_unchanged(request)
        return None
    from fedcert.privacy.keys.signing import signer

    name = signer(request, keyring)
    if name is None:
        what = "is not signed" if request.signature is None else "is signed by a key that is not in the keyring"
        raise Refused(f"the request {what}; ask the coordinator for a signed one, and for its card")
    return name
