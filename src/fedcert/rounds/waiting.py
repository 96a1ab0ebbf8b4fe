"""Waiting for answers: until all have answered or failed, or the deadline is there. It never waits for ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from fedcert.errors import CallError, Refused
from fedcert.rounds.round import CertificationRound


@dataclass(frozen=True)
class Reply:
    """What a transport brings.

    Attributes:
        client: who it is from, as the transport knows.
        answer: the report as JSON; None where there is none.
        trouble: why there is none.
        contest: who else claims to be this client, which has answered.
        back: it is asked again, after a trouble.
    """

    client: str
    answer: str | bytes | None = None
    trouble: str | None = None
    contest: str | None = None
    back: bool = False


_GRACE = 5.0
Poll = Callable[[], Iterable[Reply]]


def wait(
    one: CertificationRound, poll: Poll, *, pause: float = 1.0, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Take replies until nobody is waited for, or the deadline is there.

    Args:
        one: the round; its request has a roster and a deadline.
        poll: what came since it was last asked.
        pause: seconds between two looks.
        sleep: how to pause.

    Raises:
        CallError: the request has no roster or no deadline: nobody could say when to stop.
    """
    if one.request.roster is None or one.request.deadline is None:
        raise CallError("waiting needs a request with a roster and a deadline")
    left = (datetime.fromisoformat(one.request.deadline) - one.clock()).total_seconds()
    until = time.monotonic() + left + _GRACE  # a clock that is set back must not make it longer
    while True:
        for reply in poll():
            _heard(one, reply)
        if not one.waiting_for or time.monotonic() > until:
            return
        sleep(pause)


def _heard(one: CertificationRound, reply: Reply) -> None:
    if reply.back:
        one.back(reply.client)
    elif reply.contest is not None:
        one.contest(reply.client, reply.contest)
    elif reply.answer is None:
        one.trouble(reply.client, reply.trouble or "it gave no reason")
    else:
        with suppress(Refused):  # the round keeps the reason
            one.take(reply.answer, sender=reply.client)
