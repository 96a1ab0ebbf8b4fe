"""Shamir's secret sharing: a threshold of shares gives the secret, and fewer give nothing.

A secret is cut into numbers below the prime p = 2^31 - 1, and each is the value at 0 of a random polynomial of degree
threshold - 1; a share is the polynomials' values at one point. Small numbers let numpy do all points at once. A secret
of several blocks of 32 bytes has shares of as many blocks, each of which can be revealed without the others.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

PRIME = 2**31 - 1
"""A Mersenne prime, of which products fit into 62 bits."""
SECRET_BYTES = 32
"""Of a block: a key's."""
_BITS = 29
"""Of a number that a secret is cut into: nine of them hold a block, and each is below p."""
_LIMBS = -(-8 * SECRET_BYTES // _BITS)
SHARE_BYTES = 4 * _LIMBS
"""Of a block's share."""

Random = Callable[[int], bytes]
_Numbers = npt.NDArray[np.int64]


def shares_of(
    secret: bytes, threshold: int, points: Sequence[int], random: Random = secrets.token_bytes
) -> dict[int, bytes]:
    """A secret's shares, one for each point.

    Guarantee: any `threshold` of them give the secret, and fewer are uniformly random whatever the secret is.

    Args:
        secret: one or more blocks of 32 bytes.
        threshold: how many shares it takes.
        points: different whole numbers, above 0 and below p.
        random: gives so many random bytes.

    Examples:
        >>> shares = shares_of(bytes(range(32)), 2, [1, 2, 3])
        >>> secret_of({1: shares[1], 3: shares[3]}) == bytes(range(32))
        True
    """
    if not secret or len(secret) % SECRET_BYTES:
        raise ValueError(f"a secret has blocks of {SECRET_BYTES} bytes, but this has {len(secret)} bytes")
    if not 0 < threshold <= len(points) or len(set(points)) < len(points) or not all(0 < x < PRIME for x in points):
        raise ValueError(f"{threshold} of {len(points)} shares at {points} is no sharing")
    known = _limbs(secret)
    chance = _uniform((threshold - 1) * len(known), random).reshape(-1, len(known))
    at = np.array(points, dtype=np.int64)[:, None]
    values = np.zeros((len(points), len(known)), dtype=np.int64)
    for row in (*chance, known):
        values = (values * at + row) % PRIME
    return {point: value.astype("<u4").tobytes() for point, value in zip(points, values, strict=True)}


def secret_of(shares: Mapping[int, bytes]) -> bytes:
    """The secret of some shares; of too few, or of false ones, it is some other.

    Args:
        shares: point -> share, exactly as many as the threshold or more.

    Raises:
        ValueError: they are no shares.
    """
    return secrets_of([shares])[0]


def secrets_of(shares: Sequence[Mapping[int, bytes]]) -> list[bytes]:
    """The secrets of several sharings; those with the same points are solved together."""
    solved: list[bytes] = []
    weights: dict[tuple[int, ...], _Numbers] = {}
    for sharing in shares:
        points = tuple(sorted(sharing))
        if points not in weights:
            weights[points] = _weights_at_zero(points)
        values = np.stack([_numbers(sharing[point]) for point in points])
        # Products stay below 2^62; each is reduced before the sum.
        limbs = ((values * weights[points][:, None]) % PRIME).sum(axis=0) % PRIME
        solved.append(_whole(limbs))
    return solved


def _weights_at_zero(points: Sequence[int]) -> _Numbers:
    """Lagrange's weights: the value at 0 is the weighted sum of the values at the points."""
    weights = []
    for point in points:
        above = below = 1
        for other in points:
            if other != point:
                above = above * other % PRIME
                below = below * (other - point) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return np.array(weights, dtype=np.int64)


def is_share(data: bytes) -> bool:
    """Whether bytes may be a share: whole blocks of numbers below the prime."""
    whole = bool(data) and len(data) % SHARE_BYTES == 0
    return whole and bool((np.frombuffer(data, dtype="<u4") < PRIME).all())


def _numbers(share: bytes) -> _Numbers:
    if not share or len(share) % SHARE_BYTES:
        raise ValueError(f"a share has blocks of {SHARE_BYTES} bytes, but this has {len(share)} bytes")
    values = np.frombuffer(share, dtype="<u4").astype(np.int64)
    if (values >= PRIME).any():
        raise ValueError("a share holds a number that is too large")
    return values


def _limbs(secret: bytes) -> _Numbers:
    blocks = [secret[start : start + SECRET_BYTES] for start in range(0, len(secret), SECRET_BYTES)]
    numbers = [int.from_bytes(block, "little") for block in blocks]
    return np.array(
        [(number >> (_BITS * index)) % 2**_BITS for number in numbers for index in range(_LIMBS)], dtype=np.int64
    )


def _whole(limbs: _Numbers) -> bytes:
    """Bytes from numbers; those of false shares may not fit, and are cut off."""
    blocks = []
    for block in limbs.reshape(-1, _LIMBS).tolist():
        number = sum(limb << (_BITS * index) for index, limb in enumerate(block))
        blocks.append((number % 2 ** (8 * SECRET_BYTES)).to_bytes(SECRET_BYTES, "little"))
    return b"".join(blocks)


def _uniform(count: int, random: Random) -> _Numbers:
    """Numbers below p, all equally likely: what would be p is drawn again."""
    numbers = np.empty(0, dtype=np.int64)
    while len(numbers) < count:
        drawn = np.frombuffer(random(4 * (count - len(numbers))), dtype="<u4").astype(np.int64) % 2**31
        numbers = np.concatenate([numbers, drawn[drawn < PRIME]])
    return numbers
