"""What may have been meant by a name that is not known."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from fedcert.errors import preview

_MOST_LISTED = 10
"""Known names that a sentence lists."""
_SIMILARITY = 0.7
"""Of two names, by difflib's ratio, from which on one was probably meant by the other: 'cow' is not 'low'."""


def known_names(given: object, known: Sequence[str]) -> str:
    """The known names for the end of an error's sentence, after what was probably meant.

    Examples:
        >>> known_names("Circle", ["circle", "square"])
        "did you mean 'circle'? Known classes: 'circle', 'square'"
        >>> known_names("x", ["circle", "square"])
        "known classes: 'circle', 'square'"
    """
    listed = ", ".join(preview(name) for name in known[:_MOST_LISTED]) + (", …" if len(known) > _MOST_LISTED else "")
    meant = closest(given, known)
    return f"known classes: {listed}" if meant is None else f"did you mean {preview(meant)}? Known classes: {listed}"


def closest(given: object, known: Sequence[str]) -> str | None:
    """The one known name that is most similar to a given one; None where none is, or several are equally so.

    Examples:
        >>> closest("sqare", ["circle", "square"]), closest("x", ["circle"]), closest("class 9", ["class 1", "class 2"])
        ('square', None, None)
    """
    word = str(given).strip().casefold()
    similar = sorted(((SequenceMatcher(None, word, name.casefold()).ratio(), name) for name in known), reverse=True)
    if not similar or similar[0][0] < _SIMILARITY or (len(similar) > 1 and similar[1][0] == similar[0][0]):
        return None
    return similar[0][1]
