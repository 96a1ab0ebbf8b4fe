"""Keyrings: names and public keys of those who are trusted, the other clients and the coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fedcert._files.documents import read_record
from fedcert._schema.declare import required
from fedcert._schema.encoding import Encoded
from fedcert._schema.field_types import MappingOf
from fedcert._schema.record import Nested, Record
from fedcert.errors import CallError, Refused, preview
from fedcert.privacy.keys.identity import Card, verified


@dataclass(frozen=True, kw_only=True)
class TrustedKeys(Record):
    """Public keys of a member that is trusted; its card was checked when it was taken in.

    Attributes:
        signing: its Ed25519 public key, in base64.
        agreement: its X25519 public key, in base64.
    """

    NOUN: ClassVar[str] = "member"

    signing: str = required(Encoded(32))
    agreement: str = required(Encoded(32))


@dataclass(frozen=True, kw_only=True)
class Keyring(Record):
    """A trusted set: whose signatures count.

    It is the root of trust: anyone who can change this file can act as any member.

    Attributes:
        members: name -> public keys.
    """

    SCHEMA: ClassVar[str] = "fedcert/keyring/1"
    NOUN: ClassVar[str] = "keyring"

    members: Mapping[str, TrustedKeys] = required(MappingOf(Nested(TrustedKeys), "names to public keys"))

    @classmethod
    def of(cls, cards: Iterable[Card]) -> Keyring:
        """A keyring of cards.

        Raises:
            CallError: two cards have one name.
        """
        return cls(members={}).with_cards(cards)

    def with_cards(self, cards: Iterable[Card]) -> Keyring:
        """This keyring and further cards; a card that it has already changes nothing.

        Raises:
            CallError: a name has other keys already.
        """
        members = dict(self.members)
        for card in cards:
            new = TrustedKeys(signing=card.signing, agreement=card.agreement)
            old = members.get(card.name)
            if old is not None and old != new:
                raise CallError(
                    f"{preview(card.name)} has other keys in the keyring; if they were really replaced, take the old "
                    "ones out first (fedcert keys trust --remove NAME)"
                )
            members[card.name] = new
        return Keyring(members=members)

    def without(self, names: Iterable[str]) -> Keyring:
        """This keyring without some members.

        Raises:
            CallError: one of them is not in it.
        """
        members = dict(self.members)
        for name in names:
            if members.pop(name, None) is None:
                raise CallError(f"{preview(name)} is not in the keyring")
        return Keyring(members=members)

    def check(self, name: str, signature: str, text: bytes) -> None:
        """Check a signature of a member.

        Raises:
            Refused: it is not a member, or the signature is not its own.
        """
        member = self.members.get(name)
        if member is None:
            raise Refused(
                f"{preview(name)} is not in the keyring; take its card in, if you trust it: fedcert keys trust"
            )
        if not verified(member.signing, signature, text):
            raise Refused(
                f"the signature of {preview(name)} is not right: what it signed was changed, or by another key"
            )


def read_keyring(path: Path) -> Keyring:
    """Read a keyring.

    Raises:
        CallError: there is no such file.
        FileProblem: it cannot be read or parsed.
        InvalidValue: it is no keyring.
    """
    keyring: Keyring = read_record(path, Keyring)
    return keyring
