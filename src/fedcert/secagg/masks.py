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
"""Of a key of ChaCha20, and of an X25519 secret."""
_HASH = SHA256()


def agreed(private: X25519PrivateKey, public: bytes) -> bytes:
    """The shared secret of two key pairs (X25519).

    Raises:
        Refused: the public key is one of the few that give no shared secret.
    """
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise Refused("a public key is none that X25519 can use") from None


def derived(secret: bytes, session: bytes, purpose: bytes, keys: int = 1) -> tuple[bytes, ...]:
    """Keys for a purpose (HKDF, SHA-256); different purposes or sessions give unrelated ones.

    Args:
        secret: the shared one.
        session: 32 bytes that no other session has.
        purpose: what the keys are for, as `framed` writes it.
        keys: how many.
    """
    material = HKDF(_HASH, _KEY_BYTES * keys, salt=session, info=purpose).derive(secret)
    return tuple(material[start : start + _KEY_BYTES] for start in range(0, len(material), _KEY_BYTES))


def stream(seed: bytes, length: int) -> Vector:
    """Random numbers mod 2^64 of a seed (ChaCha20); a seed serves one stream."""
    keystream = Cipher(ChaCha20(seed, bytes(16)), None).encryptor().update(bytes(8 * length))
    return np.frombuffer(keystream, dtype="<u8").astype(np.uint64, copy=False)


def masked(vector: Vector, own: bytes, pairs: Iterable[tuple[bytes, bool]]) -> Vector:
    """A vector under its self-mask and the pairwise masks, mod 2^64.

    Args:
        vector: what is to be hidden.
        own: the seed of its self-mask.
        pairs: the seeds shared with others, and whether each mask is added (the other client subtracts it).
    """
    total = vector + stream(own, len(vector))
    for seed, added in pairs:
        mask = stream(seed, len(vector))
        total = total + mask if added else total - mask
    return total
