"""A private round over a transport: up to three secure aggregations, after which only sums over clients are known."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedcert._files.paths import display_path
from fedcert._schema.encoding import encoded_numbers
from fedcert.errors import CallError, FedcertError, QuorumMissed, Refused
from fedcert.estimation.estimate import estimate
from fedcert.estimation.result import Estimate
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.keys.signing import sign
from fedcert.report import Request, Sums
from fedcert.rounds.checks import check_missing
from fedcert.rounds.folder import RunFolder
from fedcert.rounds.requests import make_request, seconds_left
from fedcert.rounds.settings import PrivateSettings
from fedcert.rounds.transport import Reply, Transport, single_line
from fedcert.rounds.waiting import exchange
from fedcert.secagg.class_support import ClassSupport
from fedcert.secagg.client import HOLDERS
from fedcert.secagg.masks import Vector
from fedcert.secagg.messages import CLIENT_MESSAGES, ClientMessage, Holders, Totals, read_message
from fedcert.secagg.second_sum import SecondSum
from fedcert.secagg.server import SecAggServer
from fedcert.secagg.vectors import VectorLayout

_LOG = logging.getLogger("fedcert")
_PAUSE = 0.2
"""Seconds between two polls: after certification a stage takes clients less than a second."""


@dataclass(frozen=True)
class Pace:
    """How long a private round waits.

    Attributes:
        patience: seconds for a stage but the first. The first, in which clients certify, lasts until all have joined or
            failed, or the request's deadline; the others until all have answered or failed, or the patience is over.
        once: do what can be done now, and come back later.
        go_on: with `once`, end the stage that is waited in without those who have not answered, or have failed.
        sleep: how to pause.
    """

    patience: float = 60.0
    once: bool = False
    go_on: bool = False
    sleep: Callable[[float], None] = time.sleep


def run_private_round(
    transport: Transport, model: str, *, sleep: Callable[[float], None] = time.sleep, **settings: Any
) -> Estimate:
    """Have the clients of a roster certify a model, and estimate from the sums of their counts alone.

    The coordinator gets each client's counts under masks, which cancel in the sum; it never has one client's own.

    Args:
        transport: how messages travel.
        model: digest of the model.
        sleep: how to pause.
        settings: `classes`, `smoothing`, `roster`, `keys` and `trusted`, and whatever else of `PrivateSettings` is
            wanted: `threshold`, `moments`, `spread`, `fewest_holders`, `seconds`, `patience`, `run`, `target`,
            `method`, `radii` and the settings of `fedcert.estimate`.

    Raises:
        QuorumMissed: too few took part or stayed; nothing is known of any client's numbers.
        CallError: settings that do not go together, a folder of another request.
        EstimationProblem: no estimate follows from the sums.
    """
    wanted = PrivateSettings.of(**settings)
    with ExitStack() as stack:
        folder = RunFolder.resume(wanted.run, wanted.asked(model))
        if folder is None:
            request = sign(make_request(**wanted.asked(model), seconds=wanted.seconds), wanted.keys)
            folder = None if wanted.run is None else RunFolder(wanted.run, request)
        else:
            request = folder.request
        if folder is not None:
            stack.enter_context(folder)
        pace = Pace(patience=wanted.patience, sleep=sleep)
        sums, missing = _PrivateRound(transport, request, wanted.trusted, folder, pace).sums()
        if sums is None:
            raise QuorumMissed("the private sum is not done")
        result = estimate_from_sums(sums, request, missing, wanted.target, wanted.method, **wanted.estimation)
        if folder is not None:
            folder.keep_sums(sums)
            folder.keep_estimate(result)
        return result


def private_sums(
    transport: Transport, request: Request, keyring: Keyring, *, folder: Path | None = None, **pace: Any
) -> tuple[Sums | None, dict[str, str]]:
    """The sums of a private round, and who is not in them and why.

    Args:
        transport: how messages travel.
        request: what was asked.
        keyring: the clients' public keys.
        folder: where to keep the work, so that a coordinator that dies goes on.
        pace: see `Pace`.

    Returns:
        None for the sums where, with `once`, clients are still waited for.

    Raises:
        QuorumMissed: too few took part; nothing is known of any client's numbers.
        Refused: the request asks for no private sum, or the numbers are no sum of honest reports.
    """
    with ExitStack() as stack:
        kept = None if folder is None else stack.enter_context(RunFolder(folder, request, messages=""))
        return _PrivateRound(transport, request, keyring, kept, Pace(**pace)).sums()


def estimate_from_sums(
    sums: Sums, request: Request, missing: Mapping[str, str], target: object, method: str, **settings: Any
) -> Estimate:
    """The estimate from a private sum; who is not in it is named.

    Raises:
        EstimationProblem: no estimate follows from the sum.
    """
    result = estimate(sums, target if target is not None else request.target or "uniform", method, **settings)
    check = check_missing(missing, sums.contributors, request.roster)
    return replace(result, excluded=dict(missing), checks=(*result.checks, check))


class _Waiting(Exception):
    """Clients are still waited for, and this process is not to wait: who they are, and why."""

    def __init__(self, clients: dict[str, str]) -> None:
        super().__init__()
        self.clients = clients


class _PrivateRound:
    """The secure aggregations that a request leads to, one after the other, among the clients that are still there.

    class support (how many clients hold each class)    where classes that few hold are left out
    counts
    second sum (how clients differ)                     where it is asked for

    Each begins with the result of the one before, with tags by which clients check it.
    """

    def __init__(
        self, transport: Transport, request: Request, keyring: Keyring, folder: RunFolder | None, pace: Pace
    ) -> None:
        self.transport, self.request, self.keyring, self.folder, self.pace = transport, request, keyring, folder, pace
        self.layout = VectorLayout(request)
        self.failures: dict[str, str] = {} if folder is None else folder.failures()
        self._go_on = pace.go_on
        self._first_stage = 0
        self._present: set[str] | None = None

    def sums(self) -> tuple[Sums | None, dict[str, str]]:
        """See `private_sums`."""
        private = self.layout.private
        try:
            support = self._class_support() if private.fewest_holders else None
            sums, total, tags = self._counts(support)
            present = self._present or set()
            absent = [name for name in self.request.roster or () if name not in present]
            missing = {name: self.failures.get(name, "it did not answer in time") for name in absent}
            return (self._with_spread(sums, total, tags) if private.spread else sums), missing
        except _Waiting as waiting:
            return None, waiting.clients

    def _class_support(self) -> tuple[ClassSupport, Vector]:
        """How many clients hold each class, and the tags of that.

        Raises:
            Refused: no class is held by enough.
        """
        classes = len(self.request.classes)
        server = SecAggServer(self.request, self.keyring, classes, purpose=HOLDERS, checked=True)
        total = self._aggregate(server, "holders")
        assert server.tags is not None  # noqa: S101 (it is checked)
        return ClassSupport.of(self.request, total, len(server.survivors)), server.tags

    def _counts(self, support: tuple[ClassSupport, Vector] | None) -> tuple[Sums, Vector, Vector | None]:
        """The sums of counts, over classes that enough clients hold, as they are and as numbers with their tags."""
        length, checked = self.layout.length, self.layout.private.spread
        if support is None:
            server, opening = SecAggServer(self.request, self.keyring, length, checked=checked), None
        else:
            known, tags = support
            server = SecAggServer(
                self.request, self.keyring, length, purpose=known.purpose, checked=checked, invited=self._present
            )
            opening = Holders(session=server.session, holders=known.holders, tags=encoded_numbers(tags)).dumps()
        total = self._aggregate(server, "", opening)
        sums = self.layout.sums(total, len(server.survivors))
        if support is not None:
            sums = replace(sums, fewest_holders=support[0].fewest)
        return sums, total, server.tags

    def _with_spread(self, sums: Sums, total: Vector, tags: Vector | None) -> Sums:
        """The sums with their spread, by another sum among the same clients; without it where that fails."""
        assert tags is not None  # noqa: S101 (the total is checked)
        second = SecondSum.asked(self.request, sums)
        server = SecAggServer(self.request, self.keyring, second.length, purpose=second.purpose, invited=self._present)
        opening = Totals(session=server.session, total=encoded_numbers(total), tags=encoded_numbers(tags))
        try:
            result = self._aggregate(server, "spread", opening.dumps())
        except (QuorumMissed, Refused) as error:
            _LOG.warning("no second sum: %s", error)
            return sums
        return replace(sums, spread=second.spread(result))

    def _aggregate(self, server: SecAggServer, part: str, opening: str | None = None) -> Vector:
        """Run one secure aggregation to its end.

        Args:
            server: of the aggregation.
            part: its folder, in that of the run.
            opening: the first message to clients; the request where None.

        Raises:
            QuorumMissed: too few took part, or stayed.
        """
        self._restore(server, part)
        while server.total is None:
            stage = server.stage
            messages = {name: server.message_for(name) for name in sorted(server.asked)}
            first = opening or self.request.dumps()
            texts = {name: first if message is None else message.dumps() for name, message in messages.items()}
            self.transport.send(self.request, self._first_stage + stage, texts)
            failed = self._exchange(server, part)
            if self.pace.once and server.waiting_for and not self._go_on:
                unsent = dict.fromkeys(sorted(server.waiting_for), f"it has not sent its {CLIENT_MESSAGES[stage].NOUN}")
                raise _Waiting(unsent | {name: self.failures[name] for name in failed & set(unsent)})
            self._go_on = False
            self._close(server, part)
        self._first_stage += len(CLIENT_MESSAGES)
        self._present = server.survivors
        return server.total

    def _exchange(self, server: SecAggServer, part: str) -> set[str]:
        """Take the messages of a stage; who has failed at its end. A client that fails may still answer later."""
        failed: set[str] = set()

        def fail(client: str, reason: str) -> None:
            failed.add(client)
            self.failures[client] = single_line(reason)
            if self.folder is not None:
                self.folder.log("failed", client=client, reason=self.failures[client])

        def take(reply: Reply) -> None:
            if reply.rejoined or reply.conflict is not None:  # a message's signature decides whose it is
                failed.discard(reply.client)
            elif reply.answer is None:
                fail(reply.client, reply.failure or "")
            else:
                try:
                    message = _message_in(reply)
                    server.take(message)
                except Refused as error:
                    fail(reply.client, f"its message was refused: {error}")
                    _LOG.warning("private sum: %s: %s", reply.client, self.failures[reply.client])
                    return
                failed.discard(reply.client)
                self.failures.pop(reply.client, None)
                is_new = isinstance(message, CLIENT_MESSAGES[server.stage])  # else an older one again
                if self.folder is not None and is_new:
                    self.folder.keep_message(part, server.stage, message.client, message.dumps())

        first = self._first_stage + server.stage == 0
        seconds = 0.0 if self.pace.once else seconds_left(self.request) if first else self.pace.patience
        exchange(
            lambda: self.transport.poll(server.waiting_for), take, lambda: server.waiting_for - failed,
            seconds=seconds, pause=_PAUSE, sleep=self.pace.sleep,
        )  # fmt: skip
        return failed

    def _close(self, server: SecAggServer, part: str) -> None:
        """End a stage with those who have answered."""
        stage, answered = server.stage, server.received[server.stage]
        try:
            if self.folder is not None and len(answered) >= server.threshold:
                self.folder.close_stage(part, stage, answered)
            server.close()
        except QuorumMissed as error:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in list(self.failures.items())[:5])
            raise QuorumMissed(f"{error}; {reasons}" if reasons else str(error)) from None
        _LOG.info("private sum: %d sites sent their %s", len(answered), CLIENT_MESSAGES[stage].NOUN)

    def _restore(self, server: SecAggServer, part: str) -> None:
        """Bring an aggregation to where an earlier process left it.

        Raises:
            CallError: the folder is of another sum.
        """
        if self.folder is None:
            return
        for stage, kind in enumerate(CLIENT_MESSAGES):
            documents, over = self.folder.messages(part, stage)
            for place, document in documents.items():
                message = kind.from_json(document, place)
                if message.session != server.session:
                    where = display_path(self.folder.path)
                    raise CallError(f"{where} is the folder of another private sum; name another")
                server.take(message)
            if over is None:
                return
            server.close(over)


def _message_in(reply: Reply) -> ClientMessage:
    try:
        message: ClientMessage = read_message(reply.answer or "", CLIENT_MESSAGES, f"what {reply.client} says")
    except FedcertError as error:
        raise Refused(str(error)) from None
    if message.client != reply.client:
        raise Refused(f"it is in the name of {message.client!r}")
    return message
