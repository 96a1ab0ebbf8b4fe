"""Clients in this process: for simulations, and the measure for every other transport."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from fedcert._files.strict_json import parse
from fedcert.errors import FedcertError, Refused
from fedcert.report import Report, Request
from fedcert.rounds import CertificationRound, Reply

if TYPE_CHECKING:
    from fedcert.secagg.participant import Participant

Client = Callable[[Request], Report]


def ask_clients(one: CertificationRound, clients: Mapping[str, Client]) -> None:
    """Ask clients, one after the other; those that have answered already are not asked again.

    A client that raises is missing, with its error as the reason.

    Args:
        one: the round.
        clients: what each client does with a request, by name.
    """
    for name, answer in clients.items():
        if name in one.reports:
            continue
        try:
            report = answer(one.request)
        except FedcertError as error:
            one.trouble(name, str(error))
        except Exception as error:  # noqa: BLE001 (a client may fail in any way, and the round goes on)
            one.trouble(name, f"{type(error).__name__}: {error}")
        else:
            with suppress(Refused):  # the round keeps the reason
                one.take(report, sender=name)


class InProcessTransport:
    """Sites of a private sum in this process, one after the other: a courier.

    Args:
        sites: what each makes of a request: something with `join` and `reply`, such as a `Participant`. A site that
            raises an error of fedcert is missing, with that as the reason.
    """

    def __init__(self, sites: Mapping[str, Callable[[Request], Participant]]) -> None:
        self.sites = sites
        self._made: dict[str, Participant] = {}
        self._came: list[Reply] = []

    def tell(self, stage: int, letters: Mapping[str, str]) -> None:
        """See `SecAggTransport.tell`."""
        for name, text in letters.items():
            if name not in self.sites:
                self._came.append(Reply(name, trouble="it was never there"))
                continue
            try:
                if stage == 0:
                    self._made[name] = self.sites[name](Request.from_json(parse(text, "the request")))
                    said = self._made[name].join()
                else:
                    said = self._made[name].reply(text)
                self._came.append(Reply(name, answer=said))
            except FedcertError as error:
                self._came.append(Reply(name, trouble=str(error)))

    def poll(self, stage: int) -> Iterable[Reply]:  # noqa: ARG002
        """See `SecAggTransport.poll`."""
        came, self._came = self._came, []
        return came
