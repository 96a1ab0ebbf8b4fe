"""Masks: streams of random numbers mod 2^64 that cancel in a sum, and the keys that they come from."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from fedcert.errors import Refused, require

require("cryptography", "signing and summing in secret", "private")

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey  # noqa: E402
from cryptography.hazmat.primitives.ciphers import Cipher  # noqa: E402
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20  # noqa: E402
from cryptography.hazmat.primitives.hashes import SHA256  # noqa: E402
from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: E402

Vector = npt.NDArray[np.uint64]
_KEY_BYTES = 32
_HASH = SHA256()


def agreed(private: X25519PrivateKey, public: bytes) -> bytes:
    """What two key pairs agree on (X25519).

    Raises:
        Refused: the public key is one of the few that agree on nothing.
    """
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise Refused("a public key is none that X25519 can use") from None


def derived(secret: bytes, session: bytes, purpose: bytes, keys: int = 1) -> tuple[bytes, ...]:
    """Keys for a purpose (HKDF, SHA-256); different purposes or sessions give unrelated ones.

    Args:
        secret: what was agreed on.
        session: 32 bytes that no other session has.
        purpose: what the keys are for, as `framed` writes it.
        keys: how many.
    """
    made = HKDF(_HASH, _KEY_BYTES * keys, salt=session, info=purpose).derive(secret)
    return tuple(made[start : start + _KEY_BYTES] for start in range(0, len(made), _KEY_BYTES))


def stream(seed: bytes, length: int) -> Vector:
    """Random numbers mod 2^64 of a seed (ChaCha20); a seed serves one stream."""
    made = Cipher(ChaCha20(seed, bytes(16)), None).encryptor().update(bytes(8 * length))
    return np.frombuffer(made, dtype="<u8").astype(np.uint64, copy=False)


def masked(vector: Vector, own: bytes, pairs: Iterable[tuple[bytes, bool]]) -> Vector:
    """A vector under its own mask and the masks of pairs, mod 2^64.

    Args:
        vector: what is to be hidden.
        own: the seed of its own mask.
        pairs: the seeds shared with others, and whether each is added (it is subtracted at the other end).
    """
    total = vector + stream(own, len(vector))
    for seed, added in pairs:
        mask = stream(seed, len(vector))
        total = total + mask if added else total - mask
    return total
