"""Checks of a round: whether enough clients answered, who is missing, whose name is in doubt, what is signed."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from fedcert.errors import CallError, QuorumMissed, preview
from fedcert.estimation.diagnostics.checks import OK, WARNING, Check
from fedcert.report import Request
from fedcert.rounds.corrections import is_doubtful

Quorum = int | float
"""A whole number of clients, or, with a decimal point, a share of the roster."""
_NAMED = 10
"""Clients that a sentence names, so that it stays one that people read; the estimate's `excluded` has them all."""


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
    who = f"{answered} client{'' if answered == 1 else 's'}"
    who = who if asked is None else f"{answered} of the {asked} clients that were asked"
    named = ", ".join(f"{preview(client)} ({why})" for client, why in list(missing.items())[:5])
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    sentence = f"{who} answered, and at least {least} {'is' if least == 1 else 'are'} needed: there is no estimate"
    raise QuorumMissed(f"{sentence}; missing: {named}{more}" if missing else sentence)


def check_missing(missing: Mapping[str, str], answered: int, roster: Sequence[str] | None) -> Check:
    """Whether clients that were asked are missing."""
    if roster is None:
        who = f"{answered} client{'' if answered == 1 else 's'}"
        sentence = f"{who} answered; the request named no roster, so no client is known to be missing."
        return Check(name="missing clients", verdict=OK, figure=None, sentence=sentence)
    if not missing:
        sentence = f"All {len(roster)} clients that were asked answered."
        return Check(name="missing clients", verdict=OK, figure=0.0, sentence=sentence)
    sentence = (
        f"{len(missing)} of the {len(roster)} clients that were asked {'is' if len(missing) == 1 else 'are'} missing: "
        f"{_listed(list(missing))}. If clients differ in their class mix alone, the estimate does not depend on who is "
        "missing; if they differ in other ways, this estimate cannot show it."
    )
    return Check(name="missing clients", verdict=WARNING, figure=len(missing) / len(roster), sentence=sentence)


def check_conflicts(conflicts: Mapping[str, str]) -> list[Check]:
    """Whether the names of clients that answered were claimed by others too; no check where none was."""
    if not conflicts:
        return []
    reasons = "; ".join(f"{preview(client)}: {reason}" for client, reason in list(conflicts.items())[:_NAMED])
    sentence = (
        f"Names claimed by more than one sender ({len(conflicts)}): {reasons}. The first answer under each name counts."
    )
    return [Check(name="contested names", verdict=WARNING, figure=float(len(conflicts)), sentence=sentence)]


def check_corrections(corrections: Mapping[str, str]) -> list[Check]:
    """Which clients' reports were replaced by corrected ones; no check where none was."""
    if not corrections:
        return []
    named = "; ".join(f"{preview(client)}: {what}" for client, what in list(corrections.items())[:_NAMED])
    more = f"; {len(corrections) - _NAMED} more" if len(corrections) > _NAMED else ""
    sentence = f"Corrected reports: {named}{more}."
    verdict = WARNING if any(map(is_doubtful, corrections.values())) else OK
    return [Check(name="corrected reports", verdict=verdict, figure=float(len(corrections)), sentence=sentence)]


def check_signatures(answered: int, unsigned: Collection[str], screened: bool) -> Check:
    """Whether all reports are signed by trusted keys.

    Args:
        answered: reports that count.
        unsigned: clients without a trusted signature.
        screened: whether these were screened.
    """
    if not unsigned:
        sentence = f"All {answered} reports are signed by keys that are trusted."
        return Check(name="signatures", verdict=OK, figure=0.0, sentence=sentence)
    screening = "They were screened." if screened else "They were not screened: what they say is taken as it is."
    sentence = (
        f"{len(unsigned)} of {answered} reports are not signed by a key that is trusted: {_listed(sorted(unsigned))}. "
        f"{screening}"
    )
    return Check(name="signatures", verdict=WARNING, figure=len(unsigned) / answered, sentence=sentence)


def _listed(clients: Sequence[str]) -> str:
    named = ", ".join(preview(client) for client in clients[:_NAMED])
    return named + (f" and {len(clients) - _NAMED} more" if len(clients) > _NAMED else "")
