"""Guard against differencing: two sums over different clients, subtracted, give away those who are in one alone."""

from __future__ import annotations

from typing import Any

from fedcert.errors import Refused
from fedcert.privacy.state_store import StateStore
from fedcert.report import Request

_WAY_OUT = (
    "Ask for a sum among the same sites; or, where this site's test data are others than then, begin a new memory "
    "(--memory) and keep the old one"
)


class DifferencingGuard:
    """A client's earlier sums, and whether a new one may be over other clients.

    Args:
        memory: what the client remembers.
        request: of the new sum.
        kind: what is summed: "counts" (or what follows from them) or "holders".

    Raises:
        Refused: the nonce was used with another request, or an earlier sum was over clients that this roster lacks.
    """

    def __init__(self, memory: StateStore, request: Request, kind: str) -> None:
        self._memory, self._request, self._kind = memory, request.digest, kind
        name = f"nonce-{request.nonce}"
        known = memory.get(name)
        if known is None:
            memory.put(name, {"request": self._request})
        elif known["request"] != self._request:
            raise Refused("this site has taken part in a sum with the same nonce and another roster or other settings")
        if any(not set(earlier["over"]) <= set(request.roster or ()) for earlier in self._known().values()):
            raise Refused(
                "an earlier sum was over sites that are not on this roster: two sums over different sites can be "
                f"subtracted. {_WAY_OUT}"
            )

    def _known(self) -> dict[str, Any]:
        return self._memory.get("survivors") or {}

    def bind(self, survivors: set[str]) -> None:
        """Remember over whom a sum is, before this client confirms it: later sums are over the same, or are refused.

        A sum of counts that follows one of class support, in the same request, may be over fewer: its classes are held
        by enough of those who are left.

        Raises:
            Refused: an earlier sum was over others.
        """
        known = self._known()
        own, other = known.get(self._kind), known.get("counts" if self._kind == "holders" else "holders")
        if own is None and other is not None and self._kind == "counts" and other["request"] == self._request:
            allowed = survivors <= set(other["over"])
        else:
            earlier = own or other
            allowed = earlier is None or set(earlier["over"]) == survivors
        if not allowed:
            raise Refused(
                f"an earlier sum was over other sites: the difference would tell of those in one alone. {_WAY_OUT}"
            )
        if own is None:
            entry = {"request": self._request, "over": sorted(survivors)}
            self._memory.put("survivors", {**known, self._kind: entry})
