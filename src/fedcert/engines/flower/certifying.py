"""The server's side: a round over Flower's nodes, and one every so many rounds of training."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp import Grid

from fedcert.certification.classifiers import digest_of_module
from fedcert.engines.flower.mail import Mail
from fedcert.engines.flower.messages import loaded
from fedcert.engines.flower.version import check_version
from fedcert.errors import CallError, FedcertError, QuorumMissed
from fedcert.estimation.files import write_estimate
from fedcert.estimation.result import Estimate
from fedcert.report import DEFAULT_RADII, Release, Request, Smoothing
from fedcert.report.paths import kind_of_path
from fedcert.rounds import Reply, Round, RunFolder, ask, wait
from fedcert.rounds.quorum import Quorum

_LOG = logging.getLogger("fedcert")
_PAUSE = 0.5


def certify_round(
    grid: Grid,
    model: Any,
    arrays: ArrayRecord | None = None,
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
    **settings: Any,
) -> Estimate:
    """Have the clients certify a model, and estimate its certified accuracy on a target population.

    It ends when everybody on the roster has answered or failed, and at the deadline in any case.

    Args:
        grid: Flower's, as a ServerApp gets it.
        model: the global model, a torch module; it is not changed.
        arrays: its weights (a strategy's `result.arrays`); the module's own where None.
        classes: names in index order.
        smoothing: how to smooth and certify; a number is sigma, with the usual settings.
        roster: the clients' names; or how many clients there are; where None, all that are online.
        seconds: until the deadline.
        run: a folder that keeps request, reports, estimate and log. One that has the same request goes on with it, and
            asks only who is missing.
        target, method, quorum, missing_examples, settings: see `Round.conclude`.
        radii: at which radii to count.
        release: what the clients are asked to release.

    Raises:
        QuorumMissed: too few answered; there is no number.
        CallError: settings that do not go together, another Flower, a folder of another request.
        EstimationProblem: no estimate follows from the answers.
    """
    check_version()
    weights, digest = _weights(model, arrays)
    wanted = smoothing if isinstance(smoothing, Smoothing) else Smoothing.usual(smoothing)
    mail = Mail(grid)
    with ExitStack() as stack:
        folder = _resumed(stack, run, digest, wanted)
        if folder is None:
            names = _muster(mail, roster, seconds)
            request = ask(digest, wanted, classes, radii=radii, roster=names, seconds=seconds, release=release)
            if run is not None:
                folder = stack.enter_context(RunFolder(Path(run), request))
            one = Round(request, folder)
        else:
            one = Round(folder=folder)
            _LOG.info("going on with %d answers of an earlier run", len(one.reports))

        def poll() -> Iterator[Reply]:
            mail.call_roll(seconds)
            mail.ask(one.request, weights, set(one.waiting_for))
            yield from mail.replies()

        if one.waiting_for:
            wait(one, poll, pause=_PAUSE)
        for client in [client for client in one.missing if client not in one.troubles]:
            if client not in mail.names.values():
                one.trouble(client, "no node of that name was online")
        _LOG.info("%d of %d clients answered", len(one.reports), len(one.request.roster or ()))
        for client, why in one.missing.items():
            _LOG.warning("missing: %s: %s", client, why)
        made = one.conclude(target, method, quorum=quorum, missing_examples=missing_examples, **settings)
        if folder is not None:
            write_estimate(made, folder.estimate_path)
        return made


def certifying(
    grid: Grid, model: Any, *, every: int, run: str | Path | None = None, **settings: Any
) -> Callable[[int, ArrayRecord], MetricRecord | None]:
    """Certification every so many rounds of training: an `evaluate_fn` for a strategy's `start`.

    A round that fails is a warning, and training goes on.

    Args:
        grid: Flower's.
        model: a torch module of the right architecture.
        every: rounds of training between two certifications.
        run: a folder; each certification gets one in it, round-<number>.
        settings: see `certify_round`.

    Raises:
        CallError: every is less than 1.
    """
    if every < 1:
        raise CallError(f"every must be 1 or more, but is {every}")

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord | None:
        if number == 0 or number % every:
            return None
        folder = None if run is None else Path(run) / f"round-{number}"
        try:
            made = certify_round(grid, model, arrays, run=folder, **settings)
        except FedcertError as error:
            _LOG.warning("no certification after round %d: %s", number, error)
            return None
        curve = zip(made.radii, made.certified_accuracy, strict=True)
        return MetricRecord({f"certified accuracy at {radius:g}": accuracy for radius, accuracy in curve})

    return evaluate


def _weights(model: Any, arrays: ArrayRecord | None) -> tuple[ArrayRecord, str]:
    """The weights as clients will have them, and their digest.

    Averaging turns whole numbers (BatchNorm's counters) into fractions, and loading turns them back: only what a module
    has after loading is what it certifies.
    """
    if not hasattr(model, "load_state_dict"):
        raise CallError(f"model must be a torch module, but is {type(model).__name__}")
    if arrays is not None:
        model = loaded(copy.deepcopy(model), arrays)
    return ArrayRecord(model.state_dict()), digest_of_module(model)


def _resumed(stack: ExitStack, run: str | Path | None, model: str, smoothing: Smoothing) -> RunFolder | None:
    """The folder of an earlier run that asked the same, held."""
    if run is None or kind_of_path(Path(run) / "request.json") is None:
        return None
    folder = stack.enter_context(RunFolder(Path(run)))
    found: Request = folder.request
    if found.model != model or found.smoothing != smoothing:
        raise CallError(f"the folder {str(run)!r} is of a round with another model or other settings; name another")
    return folder


def _muster(mail: Mail, roster: Sequence[str] | int | None, seconds: float) -> list[str]:
    """The roster's names; where only a number is given, or nothing, those who are online, once they told them."""
    if roster is not None and not isinstance(roster, int):
        return list(roster)
    until = time.monotonic() + seconds
    while True:
        mail.call_roll(seconds)
        known = len(mail.names)
        if known >= roster if roster is not None else known and not mail.unanswered:
            return sorted(mail.names.values())
        if time.monotonic() > until:
            break
        time.sleep(_PAUSE)
    wanted = "some" if roster is None else str(roster)
    raise QuorumMissed(f"{known} nodes were online and answered within {seconds:g} s, but {wanted} are wanted")
