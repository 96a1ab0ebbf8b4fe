"""A whole round over a transport: from the request to the estimate."""

from __future__ import annotations

import logging
import operator
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fedcert._files.paths import kind_of_path
from fedcert.errors import CallError, QuorumMissed, preview
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.result import Estimate
from fedcert.estimation.settings import Settings
from fedcert.estimation.target import target_of
from fedcert.report import DEFAULT_RADII, Release, Request, Smoothing
from fedcert.report.fields import CLASSES, RADII, ROSTER
from fedcert.rounds.folder import RunFolder
from fedcert.rounds.missing import check_missing_examples
from fedcert.rounds.quorum import Quorum, needed
from fedcert.rounds.requests import make_request
from fedcert.rounds.round import CertificationRound, steady_clock
from fedcert.rounds.waiting import Reply, wait

if TYPE_CHECKING:
    from fedcert.privacy.keys.keyring import Keyring

_LOG = logging.getLogger("fedcert")
_PAUSE = 0.5
_ROLL_CALL = 30.0
"""Seconds in which clients that are there should have said so."""
_LONGEST = 10 * 366 * 86_400


class Transport(Protocol):
    """What moves a round's messages, and decides nothing."""

    def names(self, seconds: float) -> tuple[set[str], bool]:
        """Clients that are there by now, and whether all who are there have said so.

        Args:
            seconds: how long answers are waited for.
        """
        ...

    def poll(self, request: Request, missing: set[str]) -> Iterable[Reply]:
        """Ask those who are missing and were not asked yet; give what came since the last call.

        Args:
            request: what to ask.
            missing: who has not answered; who failed may come back.
        """
        ...


def run_round(
    transport: Transport,
    model: str,
    *,
    classes: Sequence[str],
    smoothing: Smoothing | float,
    roster: Sequence[str] | int | None = None,
    seconds: float = 600.0,
    run: str | Path | None = None,
    target: object = None,
    method: str = "auto",
    quorum: Quorum = 0.5,
    radii: Sequence[float] = DEFAULT_RADII,
    release: Release | None = None,
    missing_examples: int | None = None,
    screen: bool | None = None,
    trusted: Keyring | None = None,
    sleep: Callable[[float], None] = time.sleep,
    **settings: Any,
) -> Estimate:
    """Ask a roster to certify a model, wait, and estimate its certified accuracy on a target population.

    It ends when everybody on the roster has answered or failed, and at the deadline in any case.

    Args:
        transport: how messages travel.
        model: digest of the model.
        classes: names in index order.
        smoothing: how to smooth and certify; a number is sigma, with the usual settings.
        roster: the clients' names; or how many there are at least; where None, all that are there.
        seconds: until the deadline; waiting for clients to come is in it.
        run: a folder that keeps request, reports, estimate and log. One that has the same request goes on with it, and
            asks only who is missing.
        target, method, quorum, missing_examples, screen, settings: see `CertificationRound.conclude`.
        trusted: whose signatures count, see `CertificationRound`.
        radii: at which radii to count.
        release: what the clients are asked to release.
        sleep: how to pause.

    Raises:
        QuorumMissed: too few answered; there is no number.
        CallError: settings that do not go together, a folder of another request.
        EstimationProblem: no estimate follows from the answers.
    """
    wanted = smoothing if isinstance(smoothing, Smoothing) else Smoothing.usual(smoothing)
    seconds, roster = _seconds(seconds), _roster(roster)
    names = roster if isinstance(roster, tuple) else None
    classes, radii = CLASSES.validate(classes, "classes"), RADII.validate(radii, "radii")
    _check(classes, target, method, settings)
    check_missing_examples(missing_examples, bool(screen))
    needed(quorum, None if names is None else len(names))
    until, clock = time.monotonic() + seconds, steady_clock()
    with ExitStack() as stack:
        asked = {"model": model, "smoothing": wanted, "classes": classes, "radii": radii, "roster": names}
        folder = _resumed(stack, run, asked)
        if folder is None:
            names = names or _muster(transport, roster, seconds, sleep)
            needed(quorum, len(names))
            left = max(1.0, until - time.monotonic())
            request = make_request(model, wanted, classes, radii=radii, roster=names, seconds=left, release=release)
            if run is not None:
                folder = stack.enter_context(RunFolder(Path(run), request))
            one = CertificationRound(request, folder, clock=clock, trusted=trusted)
        else:
            one = CertificationRound(folder=folder, clock=clock, trusted=trusted)
            _LOG.info("going on with %d answers of an earlier run", len(one.reports))
            if one.request.late(one.clock()):
                _LOG.warning("its deadline, %s, has passed: nobody is asked again", one.request.deadline)
        if one.waiting_for:
            wait(one, lambda: transport.poll(one.request, set(one.missing)), pause=_PAUSE, sleep=sleep)
            there, _ = transport.names(0.0)
            for client in set(one.missing) - set(one.troubles) - there:
                one.trouble(client, "it was never there")
        _LOG.info("%d of %d clients answered", len(one.reports), len(one.request.roster or ()))
        for client, why in one.missing.items():
            _LOG.warning("missing: %s: %s", client, why)
        made = one.conclude(target, method, quorum=quorum, missing_examples=missing_examples, screen=screen, **settings)
        if folder is not None:
            folder.keep_estimate(made)
        return made


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _LONGEST:
        raise CallError(f"seconds must be a number above 0 and at most {_LONGEST:,}, but is {preview(value)}")
    return float(value)


def _roster(value: object) -> tuple[str, ...] | int | None:
    """A roster's names, or how many are wanted.

    Raises:
        CallError: it is neither.
        InvalidValue: a name breaks a rule, or comes twice.
    """
    if value is None:
        return None
    if isinstance(value, str):
        raise CallError("roster must be a list of names or a number, but is one text; split it first")
    if isinstance(value, Iterable):
        names: tuple[str, ...] = ROSTER.validate(list(value), "roster")
        return names
    try:
        count = 0 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        count = 0
    if count < 1:
        raise CallError(f"roster must be a list of names or a whole number of 1 or more, but is {preview(value)}")
    return count


def _check(classes: Sequence[str], target: object, method: str, settings: Mapping[str, Any]) -> None:
    """Check, before the clients' hours of work, that an estimate could follow."""
    estimator(method)
    if target is not None:
        target_of(target, tuple(classes))
    known = {field.name for field in fields(Settings)}
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise CallError(f"there is no setting {preview(unknown[0])}; there are {', '.join(sorted(known))}")
    Settings(**settings)


def _resumed(stack: ExitStack, run: str | Path | None, asked: Mapping[str, Any]) -> RunFolder | None:
    """The folder of an earlier run that asked the same, held."""
    if run is None or kind_of_path(Path(run) / "request.json") is None:
        return None
    folder = stack.enter_context(RunFolder(Path(run)))
    there = {name: getattr(folder.request, name) for name in asked}
    there["roster"] = None if asked["roster"] is None else set(there["roster"] or ())
    wanted = {**asked, "roster": None if asked["roster"] is None else set(asked["roster"])}
    other = [name for name in asked if there[name] != wanted[name]]
    if other:
        raise CallError(f"the folder {str(run)!r} is of a round with another {', '.join(other)}; name another folder")
    return folder


def _muster(transport: Transport, wanted: object, seconds: float, sleep: Callable[[float], None]) -> tuple[str, ...]:
    """Those who are there: so many as are wanted, or, where that is not said, all who say so within some seconds.

    At most half of the time goes by with this, so that who is there has the rest for its work.
    """
    began = time.monotonic()
    count = wanted if isinstance(wanted, int) else None
    while True:
        names, all_said = transport.names(seconds)
        waited = time.monotonic() - began
        if count is not None and len(names) >= count:
            return tuple(sorted(names))
        if count is None and names and (all_said or waited > min(_ROLL_CALL, seconds / 4)):
            return tuple(sorted(names))  # where some are silent, those who are there will do
        if waited > seconds / 2:
            break
        sleep(_PAUSE)
    many = "some" if count is None else str(count)
    raise QuorumMissed(f"{len(names)} clients were there within {waited:.0f} s, but {many} are wanted")
