"""Messages of a secure aggregation: five of each client, and what the server relays between them.

client -> server    Join            its public mask key
server -> clients   Keys            those of all clients
client -> server    Shares          its secrets in shares, each sealed for one other client
server -> client    Delivery        the shares that are for it
client -> server    Masked          its numbers under masks
server -> clients   Survivors       whose numbers arrived
client -> server    Confirmed       its confirmation of that set, one tag for each other client
server -> client    Confirmations   the others' tags
client -> server    Revealed        shares of the survivors' self-masks, and of the other clients' mask keys

A further aggregation begins with the total of the one before it (Holders, Totals); clients answer with Join, and so on.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from fedcert._files.documents import kind_of, parse
from fedcert._schema.declare import optional, required
from fedcert._schema.encoding import Encoded
from fedcert._schema.field_types import MappingOf, Pattern, Text
from fedcert._schema.record import Record
from fedcert.errors import Refused
from fedcert.privacy.keys.framing import framed
from fedcert.privacy.keys.identity import Identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.report import Request
from fedcert.report.fields import LABEL_COUNTS, ROSTER
from fedcert.report.request import PrivateSum
from fedcert.secagg.shamir import SHARE_BYTES

TAG_BYTES = 32
"""Of HMAC-SHA-256."""
COMMON_BYTES = 32
"""That each client adds to the key which all have in common (see `binding`)."""
SEALED_BYTES = 2 * SHARE_BYTES + COMMON_BYTES + 16
"""Two shares and a part of the common key, under ChaCha20-Poly1305 with its tag of 16 bytes."""
_REMEDY = "whoever sent it should send it again"


def sum_asked(request: Request) -> tuple[PrivateSum, tuple[str, ...]]:
    """What a request asks to sum, and the roster that it asks.

    Raises:
        Refused: it asks for no private sum.
    """
    if request.private is None or request.roster is None:
        raise Refused("the request asks for no private sum")
    return request.private, request.roster


def session_of(request: Request, purpose: str = "counts") -> str:
    """What binds all messages of an aggregation: the request (model, settings, roster, nonce) and its purpose."""
    return hashlib.sha256(framed(["fedcert private sum 1", request.digest, purpose])).hexdigest()


@dataclass(frozen=True, kw_only=True)
class ServerMessage(Record):
    """A message of the server.

    Attributes:
        session: of the aggregation.
    """

    REMEDY: ClassVar[str | None] = _REMEDY

    session: str = required(Pattern("64 hexadecimal digits", "[0-9a-f]{64}"))


@dataclass(frozen=True, kw_only=True)
class ClientMessage(Record):
    """A message of a client, signed.

    Attributes:
        session: of the aggregation.
        client: its name.
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
        """This message with its client's signature."""
        message = copy.copy(self)  # all but the signature was validated already
        object.__setattr__(message, "signature", identity.sign(self._signed()))
        return message

    def check(self, keyring: Keyring) -> None:
        """Check the signature.

        Raises:
            Refused: the client is not in the keyring, or did not sign this.
        """
        keyring.check(self.client, self.signature or "", self._signed())


@dataclass(frozen=True, kw_only=True)
class Join(ClientMessage):
    """A client takes part.

    Attributes:
        key: its X25519 public mask key, made for this aggregation.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-join/1"
    NOUN: ClassVar[str] = "join"

    key: str = required(Encoded(32))


@dataclass(frozen=True, kw_only=True)
class Keys(ServerMessage):
    """Who takes part.

    Attributes:
        keys: name -> public mask key.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-keys/1"
    NOUN: ClassVar[str] = "list of keys"

    keys: Mapping[str, str] = required(MappingOf(Encoded(32), "names to keys", least=2))


@dataclass(frozen=True, kw_only=True)
class Shares(ClientMessage):
    """A client's secrets in shares.

    Attributes:
        sealed: name -> a share of its secret mask key and of its self-mask's seed, and its part of the key that all
            have in common (see `binding`); that client alone can open it.
        witness: name -> hashes of both shares, by which a false one is recognised.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-shares/1"
    NOUN: ClassVar[str] = "shares"

    sealed: Mapping[str, str] = required(MappingOf(Encoded(SEALED_BYTES), "names to sealed shares"))
    witness: Mapping[str, str] = required(MappingOf(Encoded(64), "names to hashes of shares"))


@dataclass(frozen=True, kw_only=True)
class Delivery(ServerMessage):
    """The shares that others sealed for a client.

    Attributes:
        client: its name.
        sealed: name of the sender -> sealed shares.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-delivery/1"
    NOUN: ClassVar[str] = "delivery"

    client: str = required(Text())
    sealed: Mapping[str, str] = required(MappingOf(Encoded(SEALED_BYTES), "names to sealed shares"))


@dataclass(frozen=True, kw_only=True)
class Masked(ClientMessage):
    """A client's numbers under masks.

    Attributes:
        vector: numbers mod 2^64, eight bytes each, the lowest first; where the total is checked, then their tags.
        key: where the total is checked, the hash of the key that clients have in common, on which the tags' masks
            depend.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-masked/1"
    NOUN: ClassVar[str] = "masked numbers"

    vector: str = required(Encoded())
    key: str | None = optional(Encoded(32))


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
    """A client's confirmation that the sum is over a set of survivors, and over no other.

    Attributes:
        survivors: digest of the set.
        tags: name -> tag of the digest that only this client and that one can make.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-confirmed/1"
    NOUN: ClassVar[str] = "confirmation"

    survivors: str = required(Encoded(32))
    tags: Mapping[str, str] = required(MappingOf(Encoded(TAG_BYTES), "names to tags"))


@dataclass(frozen=True, kw_only=True)
class Confirmations(ServerMessage):
    """Others' confirmations of the survivors, as one client can check them.

    Attributes:
        client: that client.
        tags: name of the client that confirms -> tag.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-confirmations/1"
    NOUN: ClassVar[str] = "confirmations"

    client: str = required(Text())
    tags: Mapping[str, str] = required(MappingOf(Encoded(TAG_BYTES), "names to tags"))


@dataclass(frozen=True, kw_only=True)
class Holders(ServerMessage):
    """Opens the aggregation of counts: how many clients hold each class, from the aggregation before.

    Attributes:
        holders: clients that hold each class; counts are summed of classes that enough hold.
        tags: by which clients check that, eight bytes for each class.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-holders/1"
    NOUN: ClassVar[str] = "number of holders"

    holders: tuple[int, ...] = required(LABEL_COUNTS)
    tags: str = required(Encoded())


@dataclass(frozen=True, kw_only=True)
class Totals(ServerMessage):
    """Opens the second sum: the totals of the first, which it is about.

    Attributes:
        total: the sum of counts, eight bytes for each number.
        tags: by which clients check that, of the same length.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-totals/1"
    NOUN: ClassVar[str] = "totals of the first sum"

    total: str = required(Encoded())
    tags: str = required(Encoded())


@dataclass(frozen=True, kw_only=True)
class Revealed(ClientMessage):
    """What unmasks the sum: of each client one of its two shares, never both.

    Attributes:
        own: survivor -> share of its self-mask's seed.
        keys: client that dropped out after it had sealed its shares -> share of its secret mask key.
    """

    SCHEMA: ClassVar[str] = "fedcert/private-revealed/1"
    NOUN: ClassVar[str] = "revealed shares"

    own: Mapping[str, str] = required(MappingOf(Encoded(SHARE_BYTES), "names to shares"))
    keys: Mapping[str, str] = required(MappingOf(Encoded(SHARE_BYTES), "names to shares"))


SERVER_MESSAGES: tuple[type[ServerMessage], ...] = (Keys, Delivery, Survivors, Confirmations)
CLIENT_MESSAGES: tuple[type[ClientMessage], ...] = (Join, Shares, Masked, Confirmed, Revealed)


def read_message(text: str | bytes, kinds: Iterable[type[Record]], place: str) -> Any:
    """A message of one of some kinds.

    Raises:
        FileProblem: it is no JSON.
        InvalidValue: it is of another kind, or breaks a rule.
    """
    document = parse(text, place)
    return kind_of(document, place, kinds).from_json(document, place)
