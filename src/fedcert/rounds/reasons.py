"""Why somebody did not answer, in its own words, made harmless."""

from __future__ import annotations

from fedcert._schema.readable import deceives

_LONGEST_REASON = 500


def reason(why: object) -> str:
    """What a client says, as one short line that no terminal trips over."""
    text = str(why)[: 10 * _LONGEST_REASON].replace("\n", " ")
    line = " ".join("".join("�" if deceives(one) else one for one in text).split())
    return (line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 1] + "…") or "it gave no reason"
