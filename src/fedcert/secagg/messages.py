"""What travels in a secure sum: five messages of each site, and what the server passes on between them.

site -> server    Join            its public key for masks
server -> sites   Keys            everybody's
site -> server    Shares          its secrets in parts, each sealed for one other site
server -> site    Delivery        the parts that are for it
site -> server    Masked          its numbers under masks
server -> sites   Survivors       whose numbers arrived
site -> server    Confirmed       its word on that set, one for each other site
server -> site    Confirmations   the others' word
site -> server    Revealed        parts of the survivors' own masks, and of the others' keys

A further sum begins with what came of the one before it (Holders, Totals); the site answers with a Join, and so on.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from fedcert._schema.declare import optional, required
from fedcert._schema.encoding import Encoded
from fedcert._schema.field_types import MappingOf, Pattern, Text
from fedcert._schema.record import Record
from fedcert.privacy.keys.framing import framed
from fedcert.privacy.keys.identity import Identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.report import Request
from fedcert.report.fields import LABEL_COUNTS, ROSTER
from fedcert.secagg.shamir import SHARE_BYTES

TAG_BYTES = 32
COMMON_BYTES = 32
SEALED_BYTES = 2 * SHARE_BYTES + COMMON_BYTES + 16
_REMEDY = "whoever sent it should send it again"


def session_of(request: Request, purpose: str = "counts") -> str:
    """What binds all messages of a sum together: the request (model, settings, roster, nonce) and its purpose."""
    return hashlib.sha256(framed(["fedcert private sum 1", request.digest, purpose])).hexdigest()


@dataclass(frozen=True, kw_only=True)
class ServerMessage(Record):
    """A message of the server.

    Attributes:
        session: of the sum.
    """

    REMEDY: ClassVar[str | None] = _REMEDY

    session: str = required(Pattern("64 hexadecimal digits", "[0-9a-f]{64}"))


@dataclass(frozen=True, kw_only=True)
class ClientMessage(Record):
    """A message of a site, signed.

    Attributes:
        session: of the sum.
        client: the site's name.
        signature: of all the rest, in base64; null before it is signed.
    """

    REMEDY: ClassVar[str | None] = _REMEDY

    session: str = required(Pattern("64 hexadecimal digits", "[0-9a-f]{64}"))
    client: str = required(Text())
    signature: str | None = optional(Encoded(64))

    def _signed(self) -> bytes:
        document = self.to_json() | {"signature": None}
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return b"fedcert message 1\n" + text.encode()

    def signed(self, identity: Identity) -> Self:
        """This message with its site's signature."""
        made = copy.copy(self)  # all but the signature was checked already
        object.__setattr__(made, "signature", identity.sign(self._signed()))
        return made

    def check(self, keyring: Keyring) -> None:
        """Check the signature.

        Raises:
            Refused: the site is not in the keyring, or did not sign this.
        """
        keyring.check(self.client, self.signature or "", self._signed())


@dataclass(frozen=True, kw_only=True)
class Join(ClientMessage):
    """A site takes part.

    Attributes:
        key: its X25519 public key for masks, made for this sum.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-join/1"
    NOUN: ClassVar[str] = "join"

    key: str = required(Encoded(32))


@dataclass(frozen=True, kw_only=True)
class Keys(ServerMessage):
    """Who takes part.

    Attributes:
        keys: name -> public key for masks.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-keys/1"
    NOUN: ClassVar[str] = "list of keys"

    keys: Mapping[str, str] = required(MappingOf(Encoded(32), "names to keys", least=2))


@dataclass(frozen=True, kw_only=True)
class Shares(ClientMessage):
    """A site's secrets in parts.

    Attributes:
        sealed: name -> a part of its secret key and of its own mask's seed, and what it gives to the key that all have
            in common (see `checking`); that site alone can open it.
        witness: name -> hashes of both parts, so that a false part is known for what it is.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-shares/1"
    NOUN: ClassVar[str] = "shares"

    sealed: Mapping[str, str] = required(MappingOf(Encoded(SEALED_BYTES), "names to sealed shares"))
    witness: Mapping[str, str] = required(MappingOf(Encoded(64), "names to hashes of shares"))


@dataclass(frozen=True, kw_only=True)
class Delivery(ServerMessage):
    """The parts that others sealed for a site.

    Attributes:
        client: the site.
        sealed: name of the sender -> sealed parts.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-delivery/1"
    NOUN: ClassVar[str] = "delivery"

    client: str = required(Text())
    sealed: Mapping[str, str] = required(MappingOf(Encoded(SEALED_BYTES), "names to sealed shares"))


@dataclass(frozen=True, kw_only=True)
class Masked(ClientMessage):
    """A site's numbers under masks.

    Attributes:
        vector: numbers mod 2^64, eight bytes each, the lowest first.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-masked/1"
    NOUN: ClassVar[str] = "masked numbers"

    vector: str = required(Encoded())


@dataclass(frozen=True, kw_only=True)
class Survivors(ServerMessage):
    """Whose numbers arrived: the sum is over these.

    Attributes:
        survivors: their names.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-survivors/1"
    NOUN: ClassVar[str] = "list of survivors"

    survivors: tuple[str, ...] = required(ROSTER)


@dataclass(frozen=True, kw_only=True)
class Confirmed(ClientMessage):
    """A site's word that the sum is over a set of survivors, and over no other.

    Attributes:
        survivors: digest of the set.
        tags: name -> proof that this site said so, which that site alone can check.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-confirmed/1"
    NOUN: ClassVar[str] = "confirmation"

    survivors: str = required(Encoded(32))
    tags: Mapping[str, str] = required(MappingOf(Encoded(TAG_BYTES), "names to tags"))


@dataclass(frozen=True, kw_only=True)
class Confirmations(ServerMessage):
    """Others' word on the survivors, as one site can check it.

    Attributes:
        client: that site.
        tags: name of the one whose word it is -> tag.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-confirmations/1"
    NOUN: ClassVar[str] = "confirmations"

    client: str = required(Text())
    tags: Mapping[str, str] = required(MappingOf(Encoded(TAG_BYTES), "names to tags"))


@dataclass(frozen=True, kw_only=True)
class Holders(ServerMessage):
    """How many sites hold each class, as a sum before the counts told; the counts are over classes that enough hold.

    Attributes:
        holders: sites that hold each class.
        tags: what sites check that by, eight bytes for each class.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-holders/1"
    NOUN: ClassVar[str] = "number of holders"

    holders: tuple[int, ...] = required(LABEL_COUNTS)
    tags: str = required(Encoded())


@dataclass(frozen=True, kw_only=True)
class Totals(ServerMessage):
    """What a second sum is about: the totals of the first.

    Attributes:
        total: the sum of counts, eight bytes for each number.
        tags: what sites check that by, of the same length.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-totals/1"
    NOUN: ClassVar[str] = "totals of the first sum"

    total: str = required(Encoded())
    tags: str = required(Encoded())


@dataclass(frozen=True, kw_only=True)
class Revealed(ClientMessage):
    """What takes the masks off a sum: of each site either part, never both.

    Attributes:
        own: survivor -> part of its own mask's seed.
        keys: site that dropped out after it had sealed its shares -> part of its secret key for masks.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-revealed/1"
    NOUN: ClassVar[str] = "revealed shares"

    own: Mapping[str, str] = required(MappingOf(Encoded(SHARE_BYTES), "names to shares"))
    keys: Mapping[str, str] = required(MappingOf(Encoded(SHARE_BYTES), "names to shares"))
