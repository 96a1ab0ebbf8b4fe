"""What binds messages to a secure aggregation and to each other: digests, hashes of shares, seeds of masks, tags.

Masks are bound to who is in the sum. A client whose memory was set back (restored from a backup, say) can be made to
mask the same numbers again. If the same masks came with another set of clients, the difference of the two answers would
be a single mask; so the stream of every mask depends on the set, and that of the tags also on the key below.

By its tags clients recognise a total that the server made up. The clients of an aggregation have a key in common that
the server does not know. With factors a and, for each client i, numbers b_i from that key, client i adds a x_i + b_i to
the sum beside its x_i, mod 2^64. With the key one checks that the totals are X and a X + Σ b_i. A server that claims
X + d must guess a d, which for d below 2^16 is at least 48 unknown bits. A server that colludes with one of the clients
knows the key, and can lie.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping

import numpy as np

from fedcert.privacy.keys.framing import framed, framed_name
from fedcert.secagg.masks import Vector, derived, stream
from fedcert.secagg.shamir import SHARE_BYTES

_MASK, _WITNESS = (framed([purpose]) for purpose in ("mask", "witness"))
_STREAM = "stream"


def mask_seed(fresh: bytes, salt: bytes, first: str, second: str) -> bytes:
    """The seed of a pair's mask, from the shared secret of its mask keys; the names in the roster's order."""
    return derived(fresh, salt, b"".join([_MASK, framed_name(first), framed_name(second)]))[0]


def delivery_digest(salt: bytes, names: Iterable[str]) -> bytes:
    """The digest of who is in a sum: those whose shares were delivered, and the client itself."""
    return hashlib.sha256(framed([salt, "delivery", *sorted(names)])).digest()


def bound_seed(seed: bytes, *contexts: bytes) -> bytes:
    """The seed of a mask's stream in some contexts; in others it is unrelated."""
    return hmac.digest(seed, framed([_STREAM, *contexts]), "sha256")


def survivors_digest(salt: bytes, survivors: set[str]) -> bytes:
    """The digest of a set of survivors in one session."""
    return hashlib.sha256(framed([salt, "survivors", *sorted(survivors)])).digest()


def witness_of(salt: bytes, owner: str, holder: str, part: bytes) -> bytes:
    """Hashes of a share's two halves: of the secret mask key, and of the self-mask's seed."""
    return half_witness(salt, owner, holder, part[:SHARE_BYTES]) + half_witness(salt, owner, holder, part[SHARE_BYTES:])


def half_witness(salt: bytes, owner: str, holder: str, half: bytes) -> bytes:
    """The hash of half of a share; a share is uniformly random, so that its hash does not give it away."""
    return hashlib.sha256(b"".join([salt, _WITNESS, framed_name(owner), framed_name(holder), half])).digest()


def common_key(salt: bytes, parts: Mapping[str, bytes]) -> bytes:
    """The key that clients have in common, from each one's part; a client that saw other parts has another key."""
    flat = [part for name in sorted(parts) for part in (name, parts[name])]
    return hashlib.sha256(framed([salt, "common", *flat])).digest()


def hash_of_key(salt: bytes, key: bytes) -> bytes:
    """The hash of the key that clients have in common, which the server may know."""
    return hashlib.sha256(framed([salt, "hash of the common key", key])).digest()


def tags_of(numbers: Vector, key: bytes, name: str) -> Vector:
    """The tags of a client's numbers."""
    return _factors(key, len(numbers)) * numbers + _added(key, name, len(numbers))


def holds(total: Vector, tags: Vector, key: bytes, names: Iterable[str]) -> bool:
    """Whether a total is the sum of the numbers of the clients with these names."""
    if total.shape != tags.shape:
        return False
    expected = _factors(key, len(total)) * total
    for name in names:
        expected = expected + _added(key, name, len(total))
    return bool(np.array_equal(expected, tags))


def _factors(key: bytes, length: int) -> Vector:
    return stream(derived(key, bytes(32), framed(["factors"]))[0], length)


def _added(key: bytes, name: str, length: int) -> Vector:
    return stream(derived(key, bytes(32), framed(["added", name]))[0], length)
