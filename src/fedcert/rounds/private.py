"""A private round over a transport: five exchanges, and a sum in which no site is told apart."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from fedcert._schema.encoding import encoded_numbers
from fedcert.errors import FedcertError, QuorumMissed, Refused
from fedcert.estimation.estimate import estimate
from fedcert.estimation.result import Estimate
from fedcert.privacy.keys.keyring import Keyring
from fedcert.report import Request, Sums
from fedcert.rounds.missing import check_missing
from fedcert.rounds.reasons import reason
from fedcert.rounds.sum_folder import SumFolder
from fedcert.rounds.waiting import Reply
from fedcert.secagg.class_support import ClassSupport
from fedcert.secagg.client import HOLDERS
from fedcert.secagg.masks import Vector
from fedcert.secagg.messages import ClientMessage, Holders, Totals
from fedcert.secagg.participant import CLIENT_MESSAGES, read_message
from fedcert.secagg.second_sum import SecondSum
from fedcert.secagg.server import STAGES, SecAggServer
from fedcert.secagg.vectors import VectorLayout

_LOG = logging.getLogger("fedcert")
_PAUSE = 0.2


class SecAggTransport(Protocol):
    """What moves a private round's messages, and decides nothing."""

    def tell(self, stage: int, letters: Mapping[str, str]) -> None:
        """Give clients what they are told in a stage; in the first, it is the request.

        It may be called again with the same letters, after the coordinator died.
        """
        ...

    def poll(self, stage: int) -> Iterable[Reply]:
        """Answers that came since the last call."""
        ...


def run_secagg(
    courier: SecAggTransport,
    summing: SecAggServer,
    *,
    folder: SumFolder | None = None,
    patience: float = 60.0,
    once: bool = False,
    go_on: bool = False,
    opening: str | None = None,
    first: int = 0,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, str]:
    """Carry a private sum to its end, or, once, as far as it goes now.

    The first stage, in which sites certify, lasts until all have joined or failed, or the request's deadline; each
    other one until all have answered or failed, or the patience is over.

    Args:
        courier: how messages travel.
        summing: the sum.
        folder: where to keep it; nothing is kept where None.
        patience: seconds for a stage but the first.
        once: do what can be done now, and come back later: `summing.total` is None until all is done.
        opening: what sites are told at first; the request where None.
        first: the number of the first stage to the courier: a second sum goes on counting.
        go_on: with `once`, end the stage that is waited in without those who have not answered, or have trouble.
        sleep: how to pause.

    Returns:
        Who is not in the sum, and why.

    Raises:
        QuorumMissed: too few took part, or stayed.
    """
    troubles: dict[str, str] = {} if folder is None else folder.troubles()
    if folder is not None:
        folder.restore(summing)
    while summing.total is None:
        stage = summing.stage
        told = {name: summing.told(name) for name in sorted(summing.asked)}
        text = summing.request.dumps() if opening is None else opening
        courier.tell(first + stage, {name: text if one is None else one.dumps() for name, one in told.items()})
        seconds = 0.0 if once else _seconds(summing.request, first + stage, patience)
        failed = _stage(courier, summing, folder, troubles, seconds, first, sleep)
        if once and summing.waiting_for and not go_on:
            unsaid = f"it has not sent its {STAGES[stage].NOUN}"
            return {name: troubles[name] if name in failed else unsaid for name in sorted(summing.waiting_for)}
        go_on = False
        try:
            if folder is not None and len(summing.came[stage]) >= summing.threshold:
                folder.close(stage, summing.came[stage], troubles)
            summing.close()
        except QuorumMissed as error:
            why = "; ".join(f"{name}: {reason}" for name, reason in list(troubles.items())[:5])
            raise QuorumMissed(f"{error}; {why}" if why else str(error)) from None
        _LOG.info("private sum: %d sites sent their %s", len(summing.came[stage]), STAGES[stage].NOUN)
    return {
        name: troubles.get(name, "it did not answer in time")
        for name in summing.request.roster or ()
        if name not in summing.survivors
    }


def _stage(
    courier: SecAggTransport,
    summing: SecAggServer,
    folder: SumFolder | None,
    troubles: dict[str, str],
    seconds: float,
    first: int,
    sleep: Callable[[float], None],
) -> set[str]:
    """Take what comes in a stage; who has trouble at its end. Who has overcome it is welcome."""
    until, failed = time.monotonic() + seconds, set[str]()
    while True:
        for reply in courier.poll(first + summing.stage):
            if reply.answer is None:
                failed.add(reply.client)
                troubles[reply.client] = reason(reply.trouble or "")
                continue
            try:
                message = _message(reply)
                summing.take(message)
            except Refused as error:
                failed.add(reply.client)
                troubles[reply.client] = reason(f"its message was refused: {error}")
                _LOG.warning("private sum: %s: %s", reply.client, troubles[reply.client])
                continue
            failed.discard(reply.client)
            troubles.pop(reply.client, None)
            if folder is not None and isinstance(message, STAGES[summing.stage]):  # an older one came again
                folder.keep(summing.stage, message)
        if not summing.waiting_for - failed or time.monotonic() >= until:
            return failed
        sleep(_PAUSE)


def _message(reply: Reply) -> ClientMessage:
    try:
        message: ClientMessage = read_message(reply.answer or "", CLIENT_MESSAGES, f"what {reply.client} says")
    except FedcertError as error:
        raise Refused(str(error)) from None
    if message.client != reply.client:
        raise Refused(f"it is in the name of {message.client!r}")
    return message


def _seconds(request: Request, stage: int, patience: float) -> float:
    if request.deadline is None:
        return patience if stage else float("inf")
    left = (datetime.fromisoformat(request.deadline) - datetime.now(UTC)).total_seconds()
    return left if stage == 0 else patience


def private_sums(
    courier: SecAggTransport,
    request: Request,
    keyring: Keyring,
    *,
    folder: Path | None = None,
    **how: Any,
) -> tuple[Sums | None, dict[str, str]]:
    """The sums of a private round, and who is not in them and why.

    Args:
        courier: how messages travel.
        request: what was asked.
        keyring: the sites' public keys.
        folder: where to keep the work, so that a coordinator that dies goes on.
        how: `patience`, `once`, `go_on` and `sleep`, see `run_secagg`.

    Returns:
        None for the sums where, with `once`, sites are still waited for.

    Raises:
        QuorumMissed: too few took part; nothing is known of anybody's numbers.
        Refused: the request asks for no private sum, or the numbers are no sum of honest reports.
    """
    round_ = _PrivateRound(courier, request, keyring, folder, how)
    held, before = None, dict[str, str]()
    if request.private is not None and request.private.fewest_holders:
        held, before = round_.held()
        if held is None:
            return None, before
    sums, missing = round_.counts(held)
    missing |= {name: why for name, why in before.items() if name in missing}
    if sums is None or request.private is None or not request.private.spread:
        return sums, missing
    return round_.with_spread(sums), missing


class _PrivateRound:
    """The sums that a request leads to, one after the other, among the sites that are still there."""

    def __init__(
        self, courier: SecAggTransport, request: Request, keyring: Keyring, folder: Path | None, how: Mapping[str, Any]
    ) -> None:
        self.courier, self.request, self.keyring, self.folder, self.how = courier, request, keyring, folder, how
        self.layout = VectorLayout(request)
        self._stage = 0
        self._there: set[str] | None = None
        self._total: Vector | None = None
        self._tags: Vector | None = None

    def held(self) -> tuple[ClassSupport | None, dict[str, str]]:
        """How many sites hold each class.

        Raises:
            Refused: no class is held by enough.
        """
        classes = len(self.request.classes)
        summing = SecAggServer(self.request, self.keyring, 2 * classes, purpose=HOLDERS)
        missing = self._carry(summing, "holders")
        if summing.total is None:
            return None, missing
        self._tags = summing.total[classes:]
        return ClassSupport.of(self.request, summing.total[:classes], len(summing.survivors)), missing

    def counts(self, held: ClassSupport | None) -> tuple[Sums | None, dict[str, str]]:
        """The counts, over classes that enough sites hold."""
        length = self.layout.length
        numbers = 2 * length if self.request.private is not None and self.request.private.spread else length
        if held is None or self._tags is None:
            summing, opening = SecAggServer(self.request, self.keyring, numbers), None
        else:
            summing = SecAggServer(self.request, self.keyring, numbers, purpose=held.purpose, invited=self._there)
            tags = encoded_numbers(self._tags)
            opening = Holders(session=summing.session, holders=held.holders, tags=tags).dumps()
        missing = self._carry(summing, None, opening)
        if summing.total is None:
            return None, missing
        self._total, self._tags = summing.total[:length], summing.total[length:]
        sums = self.layout.sums(self._total, len(summing.survivors))
        return sums if held is None else replace(sums, fewest_holders=held.fewest), missing

    def with_spread(self, sums: Sums) -> Sums | None:
        """The sums with their spread, by another sum among the same sites; without it where that fails."""
        assert self._total is not None  # noqa: S101
        assert self._tags is not None  # noqa: S101
        about = SecondSum.asked(self.request, sums)
        summing = SecAggServer(self.request, self.keyring, about.length, purpose=about.purpose, invited=self._there)
        told = Totals(session=summing.session, total=encoded_numbers(self._total), tags=encoded_numbers(self._tags))
        try:
            self._carry(summing, "spread", told.dumps())
        except (QuorumMissed, Refused) as error:
            _LOG.warning("no second sum: %s", error)
            return sums
        return None if summing.total is None else replace(sums, spread=about.spread(summing.total))

    def _carry(self, summing: SecAggServer, name: str | None, opening: str | None = None) -> dict[str, str]:
        """One sum, kept in a folder of its own."""
        folder = None
        if self.folder is not None:
            folder = SumFolder(self.folder if name is None else self.folder / name)
        missing = run_secagg(self.courier, summing, folder=folder, opening=opening, first=self._stage, **self.how)
        self._stage += len(STAGES)
        self._there = summing.survivors
        return missing


def concluded(
    sums: Sums, request: Request, missing: Mapping[str, str], target: object, method: str, **settings: Any
) -> Estimate:
    """The estimate from a private sum; who is not in it is named.

    Raises:
        EstimationProblem: no estimate follows from the sum.
    """
    made = estimate(sums, target if target is not None else request.target or "uniform", method, **settings)
    check = check_missing(missing, sums.contributors, request.roster)
    return replace(made, excluded=dict(missing), checks=(*made.checks, check))
