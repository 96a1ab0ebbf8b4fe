"""Signed requests and reports: who vouches for them, and that they were not changed on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from fedcert.errors import CallError, Refused, preview
from fedcert.privacy.keys.identity import Identity, verified
from fedcert.privacy.keys.keyring import Keyring
from fedcert.report import Report, Request
from fedcert.report.signature import Signature, signed_text

Signed = TypeVar("Signed", Report, Request)


def sign(value: Signed, identity: Identity) -> Signed:
    """A request or report with a signature over all that it says.

    Raises:
        CallError: the report is another client's: one signs for oneself.

    Examples:
        >>> from fedcert.report import Report
        >>> own = Report(client="site-07", model="demo", smoothing={"sigma": 0.25}, radii=[0], classes=["cat", "dog"],
        ...              label_counts=[80, 20], certified_counts=[70])
        >>> signer(sign(own, Identity.new("site-07")), Keyring(members={})) is None
        True
    """
    if isinstance(value, Report) and value.client != identity.name:
        raise CallError(f"the keys are those of {preview(identity.name)}, but the report is of {preview(value.client)}")
    return replace(value, signature=Signature(key=identity.public[0], value=identity.sign(signed_text(value))))


def signed_clients(reports: Iterable[Report], keyring: Keyring) -> frozenset[str]:
    """The clients whose reports are signed with their own keys, as a keyring has them.

    Raises:
        Refused: a report was changed since it was signed, or is in a member's name without that member's signature.
    """
    return frozenset(name for report in reports if (name := signer(report, keyring)) is not None)


def check_intact(value: Report | Request) -> None:
    """Check that a value is as it was when it was signed; one without a signature passes.

    Raises:
        Refused: it was changed since.
    """
    signature = value.signature
    if signature is not None and not verified(signature.key, signature.value, signed_text(value)):
        whose = f"the report of {preview(value.client)}" if isinstance(value, Report) else "the request"
        raise Refused(f"{whose} was changed after it was signed")


def signer(value: Report | Request, keyring: Keyring) -> str | None:
    """The member of a keyring that signed a value; None where no member did.

    A report counts as signed only if it is so by its own client.

    Raises:
        Refused: it was changed since it was signed, or a report in a member's name is not signed by that member.
    """
    check_intact(value)
    key = None if value.signature is None else value.signature.key
    if isinstance(value, Request):
        return next((name for name, member in keyring.members.items() if member.signing == key), None)
    member = keyring.members.get(value.client)
    if member is None:
        return None
    if key is None:
        raise Refused(f"the report of {preview(value.client)} is not signed, but its key is known: it may be forged")
    if key != member.signing:
        raise Refused(
            f"the report of {preview(value.client)} is signed with another key than its own: it may be forged"
        )
    return value.client
