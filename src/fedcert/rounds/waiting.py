"""Waiting for replies: until all have answered or failed, or time is up. It never waits for ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

from fedcert.errors import CallError
from fedcert.rounds.requests import seconds_left
from fedcert.rounds.round import CertificationRound
from fedcert.rounds.transport import Reply

_GRACE = 5.0
"""Seconds beyond the deadline after which waiting ends by the monotonic clock, whatever the round's own clock says."""
Poll = Callable[[], Iterable[Reply]]


def exchange(
    poll: Poll,
    take: Callable[[Reply], None],
    waiting_for: Callable[[], Collection[str]],
    *,
    seconds: float,
    pause: float,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Take replies until no client is waited for, or the seconds are over; at least once.

    Args:
        poll: gives the replies since its last call.
        take: what to do with a reply.
        waiting_for: clients that may still answer.
        seconds: how long to go on, by the monotonic clock: a clock that is set back must not make it longer.
        pause: seconds between two polls.
        sleep: how to pause.
    """
    until = time.monotonic() + seconds
    while True:
        for reply in poll():
            take(reply)
        if not waiting_for() or time.monotonic() >= until:
            return
        sleep(pause)


def wait(
    round_: CertificationRound, poll: Poll, *, pause: float = 1.0, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Take the reports of a round until all have answered or failed, or the deadline has passed.

    Args:
        round_: the round; its request has a roster and a deadline.
        poll: gives the replies since its last call.
        pause: seconds between two polls.
        sleep: how to pause.

    Raises:
        CallError: the request has no roster or no deadline, so that there is no saying when to stop.
    """
    if round_.request.roster is None or round_.request.deadline is None:
        raise CallError("waiting needs a request with a roster and a deadline")
    seconds = seconds_left(round_.request, round_.clock()) + _GRACE
    exchange(poll, round_.take_reply, lambda: round_.waiting_for, seconds=seconds, pause=pause, sleep=sleep)
