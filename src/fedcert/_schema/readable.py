"""Which texts a person can read without being deceived."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# What a person cannot see, or what changes the order of what is seen. Format characters (Cf) are refused but for
# the two joiners, which Persian and Indic names need. So are fillers and blanks, though Unicode has them among `Lo`.
_REFUSED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")


def deceives(character: str) -> bool:
    """Whether a character could make a text look like another, or a terminal act on it."""
    refused = unicodedata.category(character) in _REFUSED_CATEGORIES and character not in _JOINERS
    return refused or character in _FILLERS


@lru_cache(maxsize=2**16)
def is_readable(text: str) -> bool:
    """Whether a text has something to see and nothing that deceives. Cached: files repeat the same names."""
    if text.isascii():  # the same, and much faster: control characters are all that ASCII has of these categories
        return text.isprintable() and bool(text.strip())
    return bool(text.strip()) and not any(map(deceives, text))
