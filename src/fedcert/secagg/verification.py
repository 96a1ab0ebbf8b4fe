"""Verifiable totals: clients recognise a total that the server made up.

The clients of an aggregation have a key in common that the server does not know. With factors a and, for each client i,
numbers b_i from that key, client i adds a x_i + b_i to the sum beside its x_i, mod 2^64. With the key one checks that
the totals are X and a X + Σ b_i. A server that claims X + d must guess a d, which for d below 2^16 is at least 48
unknown bits. A server that colludes with one of the clients knows the key, and can lie.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

from fedcert.privacy.keys.framing import framed
from fedcert.secagg.masks import Vector, derived, stream


def common_key(salt: bytes, parts: Mapping[str, bytes]) -> bytes:
    """The key that clients have in common, from each one's part; a client that saw other parts has another key."""
    flat = [part for name in sorted(parts) for part in (name, parts[name])]
    return hashlib.sha256(framed([salt, "common", *flat])).digest()


def with_tags(numbers: Vector, key: bytes, name: str) -> Vector:
    """A client's numbers, followed by their tags."""
    return np.concatenate([numbers, _factors(key, len(numbers)) * numbers + _added(key, name, len(numbers))])


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
