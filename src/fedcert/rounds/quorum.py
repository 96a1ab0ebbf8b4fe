"""How many clients must have answered before there is a number."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fedcert.errors import CallError, QuorumMissed, preview
from fedcert.report import Request

Quorum = int | float
"""A whole number of clients, or, with a decimal point, a share of the roster."""


def needed(quorum: Quorum, asked: int | None) -> int:
    """Clients that must have answered.

    Args:
        quorum: a whole number of clients, or, with a decimal point, a share of those asked, 1.0 being all of them.
        asked: how many were asked; None where anyone may answer, and then a share means one client.

    Raises:
        CallError: the quorum is neither, or more than were asked.

    Examples:
        >>> needed(0.5, 5), needed(4, 5), needed(1.0, 5), needed(1, 5), needed(0.5, None)
        (3, 4, 5, 1, 1)
    """
    if isinstance(quorum, bool) or not isinstance(quorum, (int, float)) or not 0 <= quorum < math.inf:
        raise CallError(f"quorum must be a number of clients or a share of them, but is {preview(quorum)}")
    if isinstance(quorum, float):
        if quorum > 1:
            raise CallError(f"quorum must be a whole number of clients or a share up to 1.0, but is {preview(quorum)}")
        # Rounded down a little first: 0.07 * 100 is a little more than 7.
        return max(1, math.ceil(quorum * asked - 1e-9)) if asked is not None else 1
    if asked is not None and quorum > asked:
        raise CallError(f"quorum must be at most the {asked} clients that are asked, but is {preview(quorum)}")
    return max(1, quorum)


def check_quorum(answered: int, missing: Mapping[str, str], request: Request, quorum: Quorum) -> None:
    """Check that enough clients answered.

    Raises:
        QuorumMissed: too few did; the sentence names who is missing.
    """
    asked = None if request.roster is None else len(request.roster)
    least = needed(quorum, asked)
    if answered >= least:
        return
    of = "" if asked is None else f" of the {asked} that were asked"
    named = ", ".join(f"{preview(client)} ({why})" for client, why in list(missing.items())[:5])
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    sentence = f"{answered} clients{of} answered, and at least {least} are needed: there is no estimate"
    raise QuorumMissed(f"{sentence}; missing: {named}{more}" if missing else sentence)
