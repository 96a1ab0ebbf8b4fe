"""Clients in this process: for simulations, and the reference for every other transport."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from fedcert.errors import FedcertError, Refused
from fedcert.report import Report, Request
from fedcert.rounds import Reply

if TYPE_CHECKING:
    from fedcert.secagg.participant import Participant

Client = Callable[[Request], "Report | Participant"]
"""What a client makes of a request: its report, or, in a private sum, something with `join` and `reply`."""


class InProcessTransport:
    """Clients in this process, asked one after the other. One that raises has failed, with its error as the reason.

    Args:
        clients: what each makes of a request, by name.
    """

    def __init__(self, clients: Mapping[str, Client]) -> None:
        self.clients = clients
        self.participants: dict[str, Participant] = {}
        self._replies: list[Reply] = []

    def names(self, seconds: float) -> tuple[set[str], bool]:  # noqa: ARG002
        """See `Transport.names`."""
        return set(self.clients), True

    def send(self, request: Request, stage: int, messages: Mapping[str, str]) -> None:
        """See `Transport.send`."""
        for name, message in messages.items():
            if name not in self.clients:
                self._replies.append(Reply(name, failure="it was never there"))
                continue
            try:
                answer = self._begin(name, request) if stage == 0 else self.participants[name].reply(message)
                self._replies.append(Reply(name, answer))
            except Exception as error:  # noqa: BLE001 (a client may fail in any way, and the round goes on)
                reason = str(error) if isinstance(error, FedcertError) else f"{type(error).__name__}: {error}"
                self._replies.append(Reply(name, failure=reason))

    def _begin(self, name: str, request: Request) -> str:
        result = self.clients[name](request)
        if isinstance(result, Report):
            return result.dumps()
        if not hasattr(result, "join"):
            raise Refused(f"the answer is no report, but {type(result).__name__}")
        self.participants[name] = result
        return result.join()

    def poll(self, waiting_for: Collection[str]) -> list[Reply]:  # noqa: ARG002
        """See `Transport.poll`."""
        replies, self._replies = self._replies, []
        return replies
