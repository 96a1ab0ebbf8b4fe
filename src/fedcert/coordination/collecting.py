"""The public function `collect`: the reports that answer a request, and the estimate from them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcert._files.atomic import check_writable
from fedcert._files.paths import display_path, kind_of_path
from fedcert._files.saved import path_of
from fedcert.engines.figure import draw_estimate
from fedcert.engines.files import take_files
from fedcert.errors import CallError, EstimationProblem, FedcertWarning, InvalidValue, Refused, preview
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.result import Estimate
from fedcert.estimation.settings import RECORDED, Settings
from fedcert.estimation.target import named_target
from fedcert.privacy.given_keys import given_keyring
from fedcert.report import Report, Request, Target
from fedcert.rounds import CertificationRound, RunFolder
from fedcert.rounds.checks import Quorum
from fedcert.show.page.contents import Contents
from fedcert.show.page.rendering import SUFFIXES, write_page

if TYPE_CHECKING:
    from fedcert.privacy.keys.keyring import Keyring

Source = Report | str | Path
_OF_PAGES = ("unit", "context")
"""Settings of pages: what a run's last page said of its radii."""
_OWN = ("target", "method", "quorum", "worst_case", *_OF_PAGES)
"""Settings of a collection that `Settings` does not have."""
_SETTINGS = {each.name for each in fields(Settings)} - {"screen", "trusted"} | {"target_name"}
"""Further settings of an estimate."""
_DEFAULTS: Mapping[str, Any] = {"method": "auto", "quorum": 0.5}
_DEFAULT_VALUES: Mapping[str, Any] = {**asdict(Settings()), **_DEFAULTS}
"""The same with those of `Settings`: what need not be said again."""
_QUESTIONS = ("radius", "radii", "votes")
"""Settings that ask one thing of the same counts; the next estimate is for what the request names again."""
_SHOWN = 10
"""Refused reports that are warned of: more would hide the rest."""


@dataclass(frozen=True)
class CollectedReports:
    """What came of collecting.

    Attributes:
        estimate: from the reports that were taken.
        round: the request, the reports that count, and who is missing.
        refused: place -> why a report was not taken.
        kept: files that were written to the run's folder.
        recalled: settings of the run's last estimate that were not given now and are not the defaults, by name; the
            target among them where it was not given.
        corrections: client -> which report was replaced by which just now.
        unit, context: of a page, as given or recalled.
    """

    estimate: Estimate
    round: CertificationRound
    refused: Mapping[str, str]
    kept: tuple[Path, ...]
    recalled: Mapping[str, Any]
    corrections: Mapping[str, str]
    unit: str | None = None
    context: str | None = None

    @cached_property
    def prepared(self) -> PreparedClients:
        """The clients that the estimate is from."""
        recorded = self.estimate.settings
        used = {name: recorded[name] for name in (*RECORDED, "all_classes", "votes", "radii") if name in recorded}
        settings = Settings(**used, trusted=tuple(sorted(self.round.vouched)))
        usable = sorted(set(self.round.reports) - set(self.round.unusable))
        reports = [self.round.reports[client] for client in usable]
        return PreparedClients.of(clients_of(reports), settings)

    def contents(self) -> Contents:
        """What a page shows of it."""
        return Contents.of_clients(self.prepared, self.estimate)


def collect(
    reports: Source | Iterable[Source] = (),
    *,
    request: Request | str | Path | None = None,
    run: str | Path | None = None,
    target: object = None,
    method: str | None = None,
    quorum: Quorum | None = None,
    worst_case: int | None = None,
    screen: bool | None = None,
    trusted: Keyring | str | Path | None = None,
    replace: str | Collection[str] = (),
    withdraw: str | Collection[str] = (),
    page: str | Path | None = None,
    title: str | None = None,
    unit: str | None = None,
    context: str | None = None,
    **settings: Any,
) -> Estimate:
    """Check the reports that answer a request, note who is missing, and estimate.

    A report that cannot be taken does not hide the others: a warning (`FedcertWarning`) names it with the reason. Of
    two different reports of one client in files the newer one counts, by the times at which they were created. A run's
    folder keeps all that arrives, the target and the settings: what is not given again is as it was in its last
    estimate, but for radius, radii and votes, which ask one thing of the same counts. Earlier estimates are kept.

    Args:
        reports: reports, or paths of files and folders that hold them (.json, .ndjson, .parquet).
        request: the request that they answer, or its file; with a run's folder that has it, it may be left out.
        run: a folder that keeps the request, the reports, the settings, the estimates and a log; name it again to
            resume it.
        target: the target's class mix, in a form that `estimate` takes. Where None, that of the run's last estimate,
            the request's, or uniform.
        method: as for `estimate`; "auto" where None.
        quorum: how many clients must have answered, with examples: a whole number, or a share of the roster (0.5 where
            None).
        worst_case: also give the interval as if each missing client held up to so many examples (`worst_case`).
        screen: leave out clients whose curves the others cannot explain; where None, those without a trusted signature
            if `trusted` is given.
        trusted: whose signatures count: a keyring, or its file.
        replace: a client, or several, whose report replaces the one that the run has, whatever their times.
        withdraw: a client, or several, whose report is taken back.
        page: also write a page for readers (.html).
        title: the page's heading.
        unit: the page's unit of radii, in words.
        context: the page's line on what a radius means.
        settings: further settings of `estimate`: confidence, interval, simultaneous, radius and the others.

    Raises:
        CallError: arguments that do not go together, or a path that is not there.
        QuorumMissed: too few clients answered (an `EstimationProblem`).
        EstimationProblem: no estimate follows from the reports.

    Examples:
        >>> import fedcert
        >>> asked = fedcert.request("demo", 0.25, ["cat", "dog"], procedure="fixed", radii=[0, 0.5])
        >>> def site(name, labels, certified):
        ...     return fedcert.Report(client=name, model="demo", request=asked.digest, smoothing=asked.smoothing,
        ...                           radii=asked.radii, classes=asked.classes, label_counts=labels,
        ...                           certified_counts=certified)
        >>> result = collect([site("a", [80, 20], [90, 50]), site("b", [20, 80], [60, 20])], request=asked)
        >>> result.clients, round(result.at(0.5).certified_accuracy, 3)
        (2, 0.35)
    """
    for name in settings:
        if name not in _SETTINGS:
            raise TypeError(f"collect() got an unexpected keyword argument {name!r}")
    file = None if page is None else path_of(page, "page")
    if file is not None:
        check_writable(file, SUFFIXES)
    collected = collect_reports(
        [reports] if isinstance(reports, (Report, str, Path)) else list(reports),
        request if request is None or isinstance(request, Request) else Request.load(path_of(request, "request")),
        None if run is None else path_of(run, "run"),
        {
            "target": target, "method": method, "quorum": quorum, "worst_case": worst_case, "screen": screen,
            "unit": unit, "context": context, **settings,
        },
        trusted=None if trusted is None else given_keyring(trusted, "trusted"),
        replace=[replace] if isinstance(replace, str) else replace,
        withdraw=[withdraw] if isinstance(withdraw, str) else withdraw,
    )  # fmt: skip
    if file is not None:
        write_page(collected.contents(), file, title, unit=collected.unit, context=collected.context)
    return collected.estimate


def collect_reports(
    reports: Sequence[Source],
    request: Request | None,
    run: Path | None,
    given: Mapping[str, Any],
    *,
    trusted: Keyring | None = None,
    replace: Collection[str] = (),
    withdraw: Collection[str] = (),
    on_refused: Callable[[Mapping[str, str]], None] | None = None,
    working: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> CollectedReports:
    """The same with all that came of it.

    Args:
        reports, request, run, trusted, replace, withdraw: as of `collect`.
        given: settings by name; those that are None are as in the run's last estimate.
        on_refused: called before the estimate, with what was not taken.
        working: a context for long work, by what is done.

    Raises:
        CallError, EstimationProblem: as of `collect`.
    """
    paths = [Path(source) for source in reports if not isinstance(source, Report)]
    _check(request, run, reports, {"replace": replace, "withdraw": withdraw})
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder(run, request)) if run is not None else None
        collection = CertificationRound(request, folder, trusted=trusted)
        before = dict(collection.corrections)
        for client in withdraw:
            collection.withdraw(client)
        with working("reading reports"):
            refused, waiting = _take(collection, [each for each in reports if isinstance(each, Report)], set(replace))
            may_be_empty = bool(collection.reports or collection.withdrawn)
            refused |= take_files(collection, paths, may_be_empty=may_be_empty, replace=waiting)
        (on_refused or _warn)(refused)
        recalled = {} if folder is None else _recalled(folder, given)
        wanted = {**_DEFAULTS, **recalled, **{name: value for name, value in given.items() if value is not None}}
        try:
            with working("estimating"):
                estimate = collection.conclude(
                    _target(collection.request, wanted), wanted["method"], quorum=wanted["quorum"],
                    missing_examples=wanted.get("worst_case"), screen=wanted.get("screen"),
                    **{name: value for name, value in wanted.items() if name not in (*_OWN, "screen", "target_name")},
                )  # fmt: skip
        except EstimationProblem as error:
            if not withdraw:
                raise
            undo = "each withdrawn report stays out until its file is collected again with --replace CLIENT"
            raise type(error)(f"{error}; {undo}") from None
        kept: list[Path] = []
        if folder is not None:
            kept = folder.keep_estimate(estimate)
            remembered = {name: value for name, value in wanted.items() if name not in _QUESTIONS}
            folder.keep_settings({**remembered, "target": estimate.target.to_json()})
            draw_estimate(estimate, folder.path)
    special = {name: value for name, value in recalled.items() if value != _DEFAULT_VALUES.get(name)}
    pages = {name: wanted.get(name) for name in _OF_PAGES}
    new = {client: what for client, what in collection.corrections.items() if before.get(client) != what}
    return CollectedReports(estimate, collection, refused, tuple(kept), special, new, **pages)


def _check(
    request: Request | None, run: Path | None, reports: Collection[Source], changed: Mapping[str, Collection[str]]
) -> None:
    """Check what was given before anything is read.

    Raises:
        CallError: something does not go together.
    """
    if request is None and run is None:
        raise CallError("give the request (--request), or the folder of a run that has it (--run)")
    if request is not None and request.private is not None:
        raise CallError("the request asks for a private sum, not for reports: use fedcert private sum")
    if run is not None and request is None and kind_of_path(run) is None:
        raise CallError(f"there is no folder {display_path(run)} of an earlier run; check the name, or give --request")
    if run is None and not reports:
        raise CallError("give the reports to collect, files or folders; or the folder of a run that has some (--run)")
    for path in (Path(source) for source in reports if not isinstance(source, Report)):
        if run is not None and path.resolve() == run.resolve():
            raise CallError(f"{path} is the folder of --run, which has what it took already; name the reports' folder")
    for name, clients in changed.items():
        if clients and run is None:
            raise CallError(f"{name} (--{name}) is about the reports of a run: give its folder (--run FOLDER)")


def _target(request: Request, wanted: Mapping[str, Any]) -> Target:
    """The target: as given or recalled, else the request's, else uniform; under the name that is wanted."""
    target = wanted.get("target")
    if target is None:
        target = request.target if request.target is not None else "uniform"
    return named_target(target, request.classes, wanted.get("target_name"))


def _recalled(folder: RunFolder, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the run's last estimate that are not given now.

    Raises:
        CallError: the folder's settings are of another fedcert, or were changed.
    """
    kept = folder.settings().items()
    recalled = {name: value for name, value in kept if name not in _QUESTIONS and given.get(name) is None}
    if given.get("target") is not None:  # a new target has a name of its own
        recalled.pop("target_name", None)
    try:
        if unknown := [name for name in recalled if name not in (*_OWN, *_SETTINGS, "screen")]:
            raise CallError(f"there is no setting {preview(unknown[0])}")
        if "target" in recalled:
            recalled["target"] = Target.from_json(recalled["target"])
        own = (*_OWN, "target_name")
        Settings(**{name: value for name, value in recalled.items() if name not in own and value is not None})
    except (CallError, InvalidValue, TypeError) as error:
        raise CallError(
            f"{folder.path / 'settings.json'} is not of this fedcert ({error}); remove it and give the settings again"
        ) from None
    return recalled


def _take(
    collection: CertificationRound, reports: Iterable[Report], replace: set[str]
) -> tuple[dict[str, str], set[str]]:
    """Offer reports that are in memory; what was not taken, and the clients that still wait for a replacement."""
    refused, waiting = {}, set(replace)
    for report in reports:
        try:
            collection.take(report, place="the report given now", replacing=report.client in waiting)
        except Refused as error:
            refused[f"the report of {preview(report.client)}"] = str(error)
        else:
            waiting.discard(report.client)
    return refused, waiting


def _warn(refused: Mapping[str, str]) -> None:
    for place, why in list(refused.items())[:_SHOWN]:
        warnings.warn(f"not taken: {place}: {why}", FedcertWarning, stacklevel=4)
    if len(refused) > _SHOWN:
        warnings.warn(f"not taken: {len(refused) - _SHOWN} more", FedcertWarning, stacklevel=4)
