"""Proof that a name is one's own: a signature over a fresh challenge, for transports that only know what a client says.

The challenge is drawn for one question, so that no earlier proof will do. The place is where the question goes, as the
transport numbers it: a client that passes its own question on to another gets a proof that is of no use to it.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from fedcert.errors import Refused, preview
from fedcert.privacy.keys.framing import framed

if TYPE_CHECKING:
    from fedcert.privacy.keys.identity import Identity
    from fedcert.privacy.keys.keyring import Keyring

_PURPOSE = "fedcert name 1"
"""Comes before all that is signed here, so that no proof is a signature of anything else."""
_CHALLENGE_BYTES = 16
"""128 bits: no challenge is drawn twice."""


def new_challenge() -> str:
    """A challenge, as hexadecimal digits, that no proof was given for."""
    return secrets.token_hex(_CHALLENGE_BYTES)


def name_proof(identity: Identity, challenge: str, place: str) -> str:
    """A proof that the name of some keys is one's own.

    Args:
        identity: the keys.
        challenge: of the question.
        place: where it was received.

    Returns:
        The signature, in base64.
    """
    return identity.sign(_claim(identity.name, challenge, place))


def check_name(keyring: Keyring, name: str, proof: str | None, challenge: str, place: str) -> None:
    """Check that a name is a client's own; a name that is not in the keyring has no keys, and passes.

    Args:
        keyring: names with their public keys.
        name: that the client gave.
        proof: what came with it; None where nothing did.
        challenge: of the question.
        place: where it was sent.

    Raises:
        Refused: the name is a member's, and the proof is not that member's.
    """
    if name not in keyring.members:
        return
    if proof is None:
        raise Refused(
            f"a client calls itself {preview(name)} and gives no proof of it: it is an impostor, or the site is to "
            "answer with its keys (keys=)"
        )
    try:
        keyring.check(name, proof, _claim(name, challenge, place))
    except Refused:
        raise Refused(
            f"a client calls itself {preview(name)}, but not with the keys that the keyring has for this name: it is "
            "an impostor, or the site has new keys and the keyring its old card"
        ) from None


def _claim(name: str, challenge: str, place: str) -> bytes:
    return framed([_PURPOSE, challenge, name, place])
