"""Who a client is: its secret keys, and the card with its public ones for others."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from fedcert._files.atomic import write_whole
from fedcert._files.documents import read_record
from fedcert._files.paths import display_path, kind_of_path
from fedcert._schema.declare import required
from fedcert._schema.encoding import Encoded, Secret, decoded, encoded
from fedcert._schema.field_types import Text
from fedcert._schema.record import Record
from fedcert.errors import CallError, InvalidValue, require
from fedcert.privacy.keys.framing import framed

require("cryptography", "signing and summing in secret", "private")

from cryptography.exceptions import InvalidSignature  # noqa: E402
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey  # noqa: E402
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey  # noqa: E402

_CARD = "fedcert card 1"


@dataclass(frozen=True, kw_only=True)
class Card(Record):
    """A client's public keys. The agreement key is vouched for by the signing key.

    Attributes:
        name: the client's.
        signing: its Ed25519 public key, in base64.
        agreement: its X25519 public key, in base64.
        signature: by the signing key, over name and agreement key.
    """

    SCHEMA: ClassVar[str] = "fedcert/card/1"
    NOUN: ClassVar[str] = "card"
    REMEDY: ClassVar[str | None] = "ask the site for its card again"

    name: str = required(Text())
    signing: str = required(Encoded(32))
    agreement: str = required(Encoded(32))
    signature: str = required(Encoded(64))

    def _check_consistency(self) -> None:
        """Check that the signing key vouches for the rest."""
        if not verified(self.signing, self.signature, _vouched(self.name, self.agreement)):
            raise InvalidValue("signature", "one by the card's own signing key over its name and agreement key", "")

    @property
    def fingerprint(self) -> str:
        """A short form to compare by telephone."""
        return fingerprint(self.name, self.signing, self.agreement)


@dataclass(frozen=True, kw_only=True)
class Identity(Record):
    """A client's secret keys: anyone who has them can act in its name.

    Attributes:
        name: the client's.
        signing: its Ed25519 secret key, in base64.
        agreement: its X25519 secret key, in base64.
    """

    SCHEMA: ClassVar[str] = "fedcert/identity/1"
    NOUN: ClassVar[str] = "identity"

    name: str = required(Text())
    signing: str = required(Secret(32), secret=True)
    agreement: str = required(Secret(32), secret=True)

    @classmethod
    def new(cls, name: str) -> Identity:
        """New keys, from the system's randomness."""
        keys = (Ed25519PrivateKey.generate(), X25519PrivateKey.generate())
        signing, agreement = (encoded(key.private_bytes_raw()) for key in keys)
        return cls(name=name, signing=signing, agreement=agreement)

    @cached_property
    def signing_key(self) -> Ed25519PrivateKey:
        """The key that signs."""
        return Ed25519PrivateKey.from_private_bytes(decoded(self.signing))

    @cached_property
    def agreement_key(self) -> X25519PrivateKey:
        """The key that agrees on secrets with others."""
        return X25519PrivateKey.from_private_bytes(decoded(self.agreement))

    def sign(self, text: bytes) -> str:
        """A signature, in base64."""
        return encoded(self.signing_key.sign(text))

    @cached_property
    def public(self) -> tuple[str, str]:
        """The public keys, for signing and for agreement, in base64."""
        keys = (self.signing_key.public_key(), self.agreement_key.public_key())
        return encoded(keys[0].public_bytes_raw()), encoded(keys[1].public_bytes_raw())

    @property
    def card(self) -> Card:
        """What others may have."""
        signing, agreement = self.public
        vouched = self.sign(_vouched(self.name, agreement))
        return Card(name=self.name, signing=signing, agreement=agreement, signature=vouched)


def fingerprint(name: str, signing: str, agreement: str) -> str:
    """A short form of a name and its public keys: 120 bits, for which no second preimage can be searched."""
    digest = hashlib.sha256(framed([_CARD, name, decoded(signing), decoded(agreement)])).digest()
    text = base64.b32encode(digest[:15]).decode().lower()
    return "-".join(text[start : start + 4] for start in range(0, len(text), 4))


def _vouched(name: str, agreement: str) -> bytes:
    return framed([_CARD, name, decoded(agreement)])


def verified(key: str, signature: str, text: bytes) -> bool:
    """Whether a signature is by a public key over a text; key and signature in base64."""
    try:
        Ed25519PublicKey.from_public_bytes(decoded(key)).verify(decoded(signature), text)
    except (InvalidSignature, ValueError):
        return False
    return True


def write_identity(identity: Identity, path: Path) -> None:
    """Write secret keys to a file that only its owner may read; an identity that is there stays.

    Raises:
        CallError: there is a file of that name already.
        FileProblem: it cannot be written.
    """
    if kind_of_path(path) is not None:
        raise CallError(f"{display_path(path)} exists already, and keys are never overwritten; name another file")
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        write_whole(path, identity.dumps())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def read_identity(path: Path) -> Identity:
    """Read secret keys.

    Raises:
        CallError: there is no such file, or others may read it.
        InvalidValue: it holds no identity.
    """
    identity: Identity = read_record(path, Identity)
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise CallError(
            f"{display_path(path)} holds secret keys, but others may read it; run: chmod 600 {display_path(path)}"
        )
    return identity
