"""Guard against differencing: two sums over different clients, subtracted, give away those who are in one alone."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from fedcert.errors import FileProblem, Refused, preview
from fedcert.privacy.state_store import StateStore
from fedcert.report import Request

_KEPT = "survivors"
"""The state that holds the earlier sums."""
_KINDS = ("counts", "holders")
_MOST_NAMED = 5
"""Sites that a refusal names."""


class _EarlierSum(NamedTuple):
    """Over whom an exact sum was, and the latest request that led to one over them."""

    over: frozenset[str]
    request: str


class DifferencingGuard:
    """A client's earlier sums, and whether a new one may be over other clients.

    Guarantee: if all honest clients keep to it, whatever is computed from the exact totals of all sums of one kind is
    computed from sums over groups of clients, each of at least `fewest`. A client confirms a sum over the same clients
    as one before, or over a set that holds the earlier one or is held by it, with at least `fewest` clients more and
    fewer than twice as many. So sums that share a client at all are nested, and the clients of the smallest are in all
    of them (docs/proofs.md).

    Sums with noise for differential privacy are not bound: what they disclose of one example or patient is bounded
    whatever else is known, and what they cost together is in the client's account.

    Args:
        memory: what the client remembers.
        request: of the new sum.
        kind: what is summed: "counts" (or what follows from them) or "holders".
        fewest: the fewest clients that a difference of two sums may be over.

    Raises:
        Refused: the nonce was used with another request, or an earlier sum was over clients that this roster lacks.
    """

    def __init__(self, memory: StateStore, request: Request, kind: str, fewest: int) -> None:
        self._memory, self._request, self._kind, self._fewest = memory, request.digest, kind, fewest
        self._noisy = request.private is not None and request.private.budget is not None
        name = f"nonce-{request.nonce}"
        known = memory.get(name)
        if known is None:
            memory.put(name, {"request": self._request})
        elif known.get("request") != self._request:
            raise Refused("this site has taken part in a sum with the same nonce and another roster or other settings")
        if self._noisy:
            return
        roster = set(request.roster or ())
        for earlier in (each for kept in self._known().values() for each in kept):
            lacking = len(earlier.over - roster)
            if 0 < lacking < fewest:
                raise Refused(
                    f"of the sites that an earlier sum was over, {lacking} {'is' if lacking == 1 else 'are'} not on "
                    f"this roster: two sums over different sites can be subtracted. {self._way_out}"
                )

    @property
    def _way_out(self) -> str:
        return (
            "Ask for a sum over the same sites as before, or over all of these and at least "
            f"{self._fewest} more, or for one with noise (--epsilon)"
        )

    def _known(self) -> dict[str, list[_EarlierSum]]:
        """Earlier exact sums by their kind.

        Raises:
            FileProblem: what is kept has another form.
        """
        kept = self._memory.get(_KEPT) or {}
        try:
            return {
                kind: [_EarlierSum(frozenset(map(str, each["over"])), str(each["request"])) for each in kept[kind]]
                for kind in _KINDS
                if kind in kept
            }
        except (KeyError, TypeError):
            raise FileProblem(
                f"the memory's list of earlier sums ({_KEPT}.json) is not as fedcert wrote it; get it from where it "
                "was changed: without it, earlier sums would be forgotten"
            ) from None

    def bind(self, survivors: Collection[str]) -> None:
        """Remember over whom a sum is, before this client confirms it.

        A sum of counts that follows one of class support, in the same request, may be over fewer: its classes are held
        by enough of those who are left.

        Raises:
            Refused: with earlier sums, it would give away fewer clients than `fewest`.
        """
        if self._noisy:
            return
        known, over = self._known(), frozenset(survivors)
        own = known.setdefault(self._kind, [])
        place = next((index for index, earlier in enumerate(own) if earlier.over == over), None)
        if place is None:
            for kind, sums in known.items():
                for earlier in sums:
                    after_holders = self._kind == "counts" and kind == "holders" and earlier.request == self._request
                    if not (after_holders and over <= earlier.over):
                        self._check_nested(earlier.over, over)
            own.append(_EarlierSum(over, self._request))
        elif own[place].request == self._request:
            return
        else:
            own[place] = _EarlierSum(over, self._request)
        kept = {kind: [{"over": sorted(each.over), "request": each.request} for each in known[kind]] for kind in known}
        self._memory.put(_KEPT, kept)

    def _check_nested(self, earlier: frozenset[str], over: frozenset[str]) -> None:
        """Check that a sum and an earlier one hold one another, with enough clients between them.

        Raises:
            Refused: their difference would be over too few, or other clients could know of sums that this one does not.
        """
        small, large = sorted((earlier, over), key=len)
        between = len(large - small)
        if small <= large and (between == 0 or (between >= self._fewest and 2 * len(small) > len(large))):
            return
        gone, new = (_named(names) for names in (earlier - over, over - earlier))
        changes = "; ".join(
            words for words, names in ((f"now without {gone}", gone), (f"now with {new}", new)) if names
        )
        least = min(filter(None, (len(earlier - over), len(over - earlier))))
        raise Refused(
            f"an earlier sum was over other sites ({changes}): the difference would be over {least} of them, and this "
            f"site wants at least {self._fewest} more or fewer, and nothing else changed. {self._way_out}"
        )


def _named(names: frozenset[str]) -> str:
    listed = sorted(names)
    return ", ".join(map(preview, listed[:_MOST_NAMED])) + (", …" if len(listed) > _MOST_NAMED else "")
