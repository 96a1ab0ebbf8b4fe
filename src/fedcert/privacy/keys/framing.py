"""Several parts as one byte string that no other parts give: for what is hashed, signed, or derives keys."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache


def framed(parts: Iterable[bytes | str]) -> bytes:
    """Each part behind its length in four bytes, so that framed strings may themselves be joined."""
    return b"".join([_framed(part) for part in parts])


def _framed(part: bytes | str) -> bytes:
    content = part.encode() if isinstance(part, str) else part
    return len(content).to_bytes(4, "big") + content


framed_name = lru_cache(maxsize=2**16)(_framed)
"""A name as `framed` writes it. Cached, for a roster larger than any so far: each pair of clients needs both names."""
