"""What signatures mean for an estimate."""

from __future__ import annotations

from collections.abc import Collection

from fedcert.errors import preview
from fedcert.estimation.diagnostics.checks import LOOK, OK, Check

_NAMED = 10


def check_signatures(answered: int, strangers: Collection[str], screened: bool) -> Check:
    """Whether everybody's report is signed by a key that is trusted.

    Args:
        answered: reports that count.
        strangers: clients whose key is not known.
        screened: whether these were screened.
    """
    if not strangers:
        sentence = f"All {answered} reports are signed by keys that are trusted."
        return Check(name="signatures", verdict=OK, figure=0.0, sentence=sentence)
    named = ", ".join(preview(client) for client in sorted(strangers)[:_NAMED])
    named += f" and {len(strangers) - _NAMED} more" if len(strangers) > _NAMED else ""
    what = "They were screened." if screened else "They were not screened: what they say is taken as it is."
    sentence = f"{len(strangers)} of {answered} reports are not signed by a key that is trusted: {named}. {what}"
    return Check(name="signatures", verdict=LOOK, figure=len(strangers) / answered, sentence=sentence)
