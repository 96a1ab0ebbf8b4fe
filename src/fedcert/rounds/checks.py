"""Checks that a round adds to its estimate: who is missing, whose name is in doubt, whose report is signed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fedcert.errors import preview
from fedcert.estimation.diagnostics.checks import LOOK, OK, Check

_NAMED = 10
"""Clients that a sentence names, so that it stays one that people read; the estimate's `excluded` has them all."""


def check_missing(missing: Mapping[str, str], answered: int, roster: Sequence[str] | None) -> Check:
    """Whether clients that were asked are missing."""
    if roster is None:
        sentence = f"{answered} clients answered; the request named no roster, so nobody is known to be missing."
        return Check(name="missing clients", verdict=OK, figure=None, sentence=sentence)
    if not missing:
        sentence = f"All {len(roster)} clients that were asked answered."
        return Check(name="missing clients", verdict=OK, figure=0.0, sentence=sentence)
    sentence = (
        f"{len(missing)} of the {len(roster)} clients that were asked are missing: {_listed(list(missing))}. If "
        "clients differ in their class mix alone, the estimate does not depend on who is missing; if these differ "
        "otherwise, nothing here shows it."
    )
    return Check(name="missing clients", verdict=LOOK, figure=len(missing) / len(roster), sentence=sentence)


def check_conflicts(conflicts: Mapping[str, str]) -> list[Check]:
    """Whether the names of clients that answered were claimed by others too; no check where none was."""
    if not conflicts:
        return []
    reasons = "; ".join(f"{preview(client)}: {reason}" for client, reason in list(conflicts.items())[:_NAMED])
    sentence = (
        f"Of {len(conflicts)} clients that answered, others claim the name: {reasons}. Their first answers count."
    )
    return [Check(name="contested names", verdict=LOOK, figure=float(len(conflicts)), sentence=sentence)]


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
    return Check(name="signatures", verdict=LOOK, figure=len(unsigned) / answered, sentence=sentence)


def _listed(clients: Sequence[str]) -> str:
    named = ", ".join(preview(client) for client in clients[:_NAMED])
    return named + (f" and {len(clients) - _NAMED} more" if len(clients) > _NAMED else "")
