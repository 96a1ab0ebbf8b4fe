"""A whole round over a transport: from the request to the estimate."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from fedcert._files.paths import display_path
from fedcert.errors import CallError, QuorumMissed
from fedcert.estimation.result import Estimate
from fedcert.rounds.checks import needed
from fedcert.rounds.folder import RunFolder
from fedcert.rounds.requests import make_request
from fedcert.rounds.round import CertificationRound, steady_clock
from fedcert.rounds.settings import ReportSettings
from fedcert.rounds.transport import Transport
from fedcert.rounds.waiting import wait

_LOG = logging.getLogger("fedcert")
_PAUSE = 0.5
"""Seconds between two polls: certification takes minutes, so that nothing is gained by less."""
_DISCOVERY = 30.0
"""Seconds in which clients that are present should have given their names; a reply takes a second or two."""


def run_round(
    transport: Transport, model: str, *, sleep: Callable[[float], None] = time.sleep, **settings: Any
) -> Estimate:
    """Ask a roster to certify a model, wait, and estimate its certified accuracy on a target population.

    It ends when all clients on the roster have answered or failed, and at the deadline in any case.

    Args:
        transport: how messages travel.
        model: digest of the model.
        sleep: how to pause.
        settings: `classes` and `smoothing`, and whatever else of `ReportSettings` is wanted: `roster`, `seconds`,
            `run`, `target`, `method`, `quorum`, `radii`, `class_counts`, `input_range`, `input_shape`, `release`,
            `missing_examples`, `screen`, `keys`, `trusted` and the settings of `fedcert.estimate`.

    Raises:
        QuorumMissed: too few answered; there is no number.
        CallError: settings that do not go together, a folder of another request.
        EstimationProblem: no estimate follows from the answers.
    """
    wanted = ReportSettings.of(**settings)
    with ExitStack() as stack:
        round_ = _resumed_round(stack, model, wanted) or _new_round(stack, transport, model, wanted, sleep)
        if round_.waiting_for:
            _collect(transport, round_, sleep)
        _LOG.info("%d of %d clients answered", len(round_.reports), len(round_.request.roster or ()))
        for client, reason in round_.missing.items():
            _LOG.warning("missing: %s: %s", client, reason)
        estimate = round_.conclude(
            wanted.target, wanted.method, quorum=wanted.quorum, missing_examples=wanted.missing_examples,
            screen=wanted.screen, **wanted.estimation,
        )  # fmt: skip
        if round_.folder is not None:
            round_.folder.keep_estimate(estimate)
            round_.folder.keep_settings(
                {
                    "target": estimate.target.to_json(), "method": wanted.method, "quorum": wanted.quorum,
                    "worst_case": wanted.missing_examples, "screen": wanted.screen, **wanted.estimation,
                }
            )  # fmt: skip
        return estimate


def _new_round(
    stack: ExitStack, transport: Transport, model: str, wanted: ReportSettings, sleep: Callable[[float], None]
) -> CertificationRound:
    """A round with a new request, to the roster or to those who are present."""
    until, clock = time.monotonic() + wanted.seconds, steady_clock()
    names = wanted.names or discover_clients(transport, wanted.roster, wanted.seconds, sleep)
    needed(wanted.quorum, len(names))
    asked, seconds = wanted.asked(model) | {"roster": names}, max(1.0, until - time.monotonic())
    request = make_request(**asked, release=wanted.release, seconds=seconds)
    if wanted.keys is not None:
        from fedcert.privacy.keys.signing import sign

        request = sign(request, wanted.keys)
    folder = None if wanted.run is None else stack.enter_context(RunFolder(wanted.run, request))
    return CertificationRound(request, folder, clock=clock, trusted=wanted.trusted)


def _resumed_round(stack: ExitStack, model: str, wanted: ReportSettings) -> CertificationRound | None:
    """The round that an earlier process began in the run's folder; None where there is none.

    Raises:
        CallError: its request was to be signed, and is not.
    """
    folder = RunFolder.resume(wanted.run, wanted.asked(model))
    if folder is None:
        return None
    stack.enter_context(folder)
    signature = folder.request.signature
    if wanted.keys is not None and (signature is None or signature.key != wanted.keys.public[0]):
        raise CallError(
            f"the request in {display_path(folder.path)} is not signed with these keys; give those that signed it, or "
            "name another folder"
        )
    round_ = CertificationRound(folder=folder, clock=steady_clock(), trusted=wanted.trusted)
    _LOG.info("resuming with %d answers of an earlier run", len(round_.reports))
    if round_.request.late(round_.clock()):
        _LOG.warning("its deadline, %s, has passed: no client is asked again", round_.request.deadline)
    return round_


def _collect(transport: Transport, round_: CertificationRound, sleep: Callable[[float], None]) -> None:
    """Ask those who are missing, and take what they answer."""
    transport.send(round_.request, 0, dict.fromkeys(round_.missing, round_.request.dumps()))
    wait(round_, lambda: transport.poll(set(round_.missing)), pause=_PAUSE, sleep=sleep)
    present, _ = transport.names(0.0)
    for client in set(round_.missing) - set(round_.failures) - present:
        round_.fail(client, "it was never there")


def discover_clients(
    transport: Transport, wanted: object, seconds: float, sleep: Callable[[float], None]
) -> tuple[str, ...]:
    """Names of clients that are present: as many as are wanted, or all that give theirs within some seconds.

    It takes at most half of the time, so that the clients have the rest for their work.

    Args:
        transport: how messages travel.
        wanted: the least number of clients; any, where it is no number.
        seconds: until the deadline.
        sleep: how to pause.

    Raises:
        QuorumMissed: too few came in time.
    """
    start = time.monotonic()
    count = wanted if isinstance(wanted, int) else None
    while True:
        names, complete = transport.names(seconds)
        waited = time.monotonic() - start
        # Where some that are present stay silent, the round goes on without them.
        settled = complete or waited > min(_DISCOVERY, seconds / 4)
        enough = settled and bool(names) if count is None else len(names) >= count
        if enough:
            return tuple(sorted(names))
        if waited > seconds / 2:
            break
        sleep(_PAUSE)
    many = "some" if count is None else str(count)
    raise QuorumMissed(f"{len(names)} clients were there within {waited:.0f} s, but {many} are wanted")
