"""Clients in this process: for simulations, and the measure for every other transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from fedcert.errors import FedcertError, Refused
from fedcert.report import Report, Request
from fedcert.rounds import Round

Client = Callable[[Request], Report]


def ask_clients(one: Round, clients: Mapping[str, Client]) -> None:
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
