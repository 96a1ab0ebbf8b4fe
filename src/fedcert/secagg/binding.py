"""What binds messages to a secure aggregation and to each other: digests, hashes of shares, seeds of masks."""

from __future__ import annotations

import hashlib

from fedcert.privacy.keys.framing import framed, framed_name
from fedcert.secagg.masks import derived
from fedcert.secagg.shamir import SHARE_BYTES

_MASK, _WITNESS = (framed([purpose]) for purpose in ("mask", "witness"))


def mask_seed(fresh: bytes, salt: bytes, first: str, second: str) -> bytes:
    """The seed of a pair's mask, from the shared secret of its mask keys; the names in the roster's order."""
    return derived(fresh, salt, b"".join([_MASK, framed_name(first), framed_name(second)]))[0]


def survivors_digest(salt: bytes, survivors: set[str]) -> bytes:
    """The digest of a set of survivors in one session."""
    return hashlib.sha256(framed([salt, "survivors", *sorted(survivors)])).digest()


def witness_of(salt: bytes, owner: str, holder: str, part: bytes) -> bytes:
    """Hashes of a share's two halves: of the secret mask key, and of the self-mask's seed."""
    return half_witness(salt, owner, holder, part[:SHARE_BYTES]) + half_witness(salt, owner, holder, part[SHARE_BYTES:])


def half_witness(salt: bytes, owner: str, holder: str, half: bytes) -> bytes:
    """The hash of half of a share; a share is uniformly random, so that its hash does not give it away."""
    return hashlib.sha256(b"".join([salt, _WITNESS, framed_name(owner), framed_name(holder), half])).digest()
