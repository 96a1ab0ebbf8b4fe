"""A certification round: a request, the answers that were taken, and who is missing."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from fedcert._files.documents import LARGEST_DOCUMENT, parse
from fedcert._files.paths import display_path
from fedcert.errors import CallError, EstimationProblem, FedcertError, FedcertWarning, Refused, preview
from fedcert.estimation.estimate import estimate
from fedcert.estimation.result import Estimate
from fedcert.report import Report, Request
from fedcert.rounds.checks import (
    Quorum,
    check_conflicts,
    check_corrections,
    check_missing,
    check_quorum,
    check_signatures,
)
from fedcert.rounds.corrections import PlacedReport, check_not_withdrawn, correction, newer
from fedcert.rounds.folder import RunFolder
from fedcert.rounds.transport import Reply, single_line
from fedcert.rounds.unusable import estimate_of_usable
from fedcert.rounds.validation import AnswerValidator, same_counts
from fedcert.rounds.worst_case import check_missing_examples, worst_case

if TYPE_CHECKING:
    from fedcert.privacy.keys.keyring import Keyring

Clock = Callable[[], datetime]
Answer = Report | Mapping[str, Any] | str | bytes


def steady_clock() -> Clock:
    """A clock that goes on evenly from now, whatever is done to the system's."""
    start, mark = datetime.now(UTC), time.monotonic()
    return lambda: start + timedelta(seconds=time.monotonic() - mark)


class CertificationRound:
    """One certification round.

    Answers may come in any order, through any transport, more than once; each is validated against the request. With a
    folder, an answer is on the disk before it counts, and a round that is opened again has those that were taken.

    Args:
        request: what was asked; with a folder that has it already, it may be left out.
        folder: where to keep everything; nothing is kept where None.
        clock: gives the time.
        trusted: whose signatures count. A report in a member's name must have that member's; others are taken, but
            screened unless the caller declines that.
    """

    def __init__(
        self,
        request: Request | None = None,
        folder: RunFolder | None = None,
        *,
        clock: Clock = lambda: datetime.now(UTC),
        trusted: Keyring | None = None,
    ) -> None:
        if folder is None and request is None:
            raise TypeError("a round needs a request, or a folder that has one")
        self.folder = folder
        self.request: Request = folder.request if folder is not None else request  # type: ignore[assignment]
        self.clock, self.trusted = clock, trusted
        self.vouched: set[str] = set()
        self.reports: dict[str, Report] = {}
        self.failures: dict[str, str] = {}
        self.conflicts: dict[str, str] = {}
        self._doubts: dict[str, str] = {}
        self._before: dict[str, str] = {}
        self.corrections: dict[str, str] = {}
        self.withdrawn: dict[str, Report] = {}
        self.unusable: dict[str, str] = {}
        self._places: dict[str, str] = {}
        self._validator = AnswerValidator(self.request)
        if folder is not None:
            self._recall(folder)

    def _recall(self, folder: RunFolder) -> None:
        """Restore what an earlier run took and noted; whatever else lies in its folder does not count.

        Clients that failed then may answer now: they are asked and waited for again.
        """
        self._before = folder.failures()
        for report in folder.reports():
            try:
                self._validator.check(report)
                self._check_signature(report)
            except Refused as error:
                warnings.warn(f"a report in {folder.path} does not count: {error}", FedcertWarning, stacklevel=3)
                continue
            self.reports[report.client] = report
            self._places[report.client] = f"the report in {display_path(folder.path)}"
        self.withdrawn = folder.withdrawn()
        self.corrections = {client: what for client, what in folder.corrections().items() if client in self.reports}

    def take(
        self,
        answer: Answer,
        *,
        sender: str | None = None,
        arrived: datetime | None = None,
        place: str | None = None,
        replacing: bool = False,
    ) -> Report:
        """Take an answer.

        A second answer with other counts is a correction where it has a place: the newer one of the two counts. From a
        transport, where a correction cannot be distinguished from another claim to the name, the first answer stays.

        Args:
            answer: a report, or its JSON.
            sender: who the transport says it came from, where it knows.
            arrived: when it came; now where None.
            place: the file that it is in, for people who correct their reports.
            replacing: take it in place of an earlier or withdrawn one, whatever their times.

        Raises:
            Refused: the round does not take it; the reason is kept for the sender, if it is on the roster.
            FileProblem: it could not be kept.
        """
        try:
            report = _report(answer)
            self._validator.check(report, sender, arrived or self.clock())
            self._check_signature(report)
            if not replacing:
                check_not_withdrawn(report, self.withdrawn.get(report.client))
            first = self.reports.get(report.client)
            if first is not None:
                if same_counts(first, report):
                    return first
                if place is None:
                    raise Refused(
                        f"{preview(report.client)} has answered already, with other counts; the first answer stays"
                    )
                self._correct(PlacedReport(first, self._places.get(report.client, "")), report, place, replacing)
        except Refused as refusal:
            self._refuse(sender, answer, str(refusal))
            raise
        if self.folder is not None:
            self.folder.keep_report(report, self.corrections.get(report.client, ""))
        self.reports[report.client] = report
        self._places[report.client] = place or ""
        self.withdrawn.pop(report.client, None)
        self.failures.pop(report.client, None)
        return report

    def _correct(self, kept: PlacedReport, report: Report, place: str, replacing: bool) -> None:
        """Note that a report replaces another one.

        Raises:
            Refused: it must not.
        """
        offered = PlacedReport(report, place)
        if replacing or newer(offered, kept):
            self.corrections[report.client] = correction(offered, kept)

    def withdraw(self, client: str) -> None:
        """Take back a client's report: the round goes on without it.

        Raises:
            CallError: the client has no report that counts.
        """
        report = self.reports.pop(client, None)
        if report is None:
            several = "; give --withdraw once for each client" if "," in client else ""
            raise CallError(f"there is no report of {preview(client)} to withdraw{several}")
        self.withdrawn[client] = report
        if self.folder is not None:
            self.folder.withdraw(report)

    def _check_signature(self, report: Report) -> None:
        """Check a report's signature, where signatures count.

        Raises:
            Refused: it was changed after it was signed, or its client's own signature is not there.
        """
        if self.trusted is None:
            return
        from fedcert.privacy.keys.signing import signer

        if signer(report, self.trusted) is not None:
            self.vouched.add(report.client)

    def take_reply(self, reply: Reply) -> None:
        """Take what a transport delivers from or about a client; a refused answer is a failure of its sender."""
        if reply.rejoined:
            self.rejoin(reply.client)
        elif reply.conflict is not None:
            self.note_conflict(reply.client, reply.conflict)
        elif reply.answer is None:
            self.fail(reply.client, reply.failure or "it gave no reason")
        else:
            with suppress(Refused):  # `take` keeps the reason
                self.take(reply.answer, sender=reply.client)

    def _refuse(self, sender: str | None, answer: object, reason: str) -> None:
        # A forged answer must not speak for a client: only a transport that knows the sender may.
        if sender is None:
            self.doubt(answer.client if isinstance(answer, Report) else None, reason)
            return
        if self.folder is not None:
            self.folder.log("refused", client=sender, known=True, reason=single_line(reason))
        if sender not in self.reports:
            self.failures[sender] = single_line(f"its answer was refused: {reason}")

    def doubt(self, client: str | None, reason: str) -> None:
        """Note that something in a client's name, or in no name, is no answer; the client may still send one."""
        if self.folder is not None:
            self.folder.log("refused", client=client, known=False, reason=single_line(reason))
        if client is not None:
            self._doubts[client] = single_line(f"a report in its name was refused: {reason}")

    def fail(self, client: str, reason: str) -> None:
        """Note why a client will not answer, as it or the transport says."""
        if client not in self.reports:
            self.failures[client] = single_line(reason)
            if self.folder is not None:
                self.folder.log("failed", client=client, reason=self.failures[client])

    def rejoin(self, client: str) -> None:
        """Note that a client that was lost is present again: it may still answer."""
        self.failures.pop(client, None)

    def note_conflict(self, client: str, reason: str) -> None:
        """Note that others claim the name of a client that has answered; the estimate will say so."""
        self.conflicts[client] = single_line(reason)
        if self.folder is not None:
            self.folder.log("contested", client=client, reason=self.conflicts[client])

    @property
    def missing(self) -> dict[str, str]:
        """Clients that were asked and have not answered, and why."""
        late = self.request.late(self.clock())
        default = f"it did not answer before the deadline, {self.request.deadline}" if late else "it has not answered"
        reasons = {**self._before, **self._doubts, **self.failures}
        reasons |= dict.fromkeys(self.withdrawn, "its report was withdrawn")
        roster = dict.fromkeys((*(self.request.roster or ()), *self.withdrawn))
        absent = [client for client in roster if client not in self.reports]
        return {client: reasons.get(client, default) for client in absent}

    @property
    def waiting_for(self) -> list[str]:
        """Clients that may still answer."""
        if self.request.late(self.clock()):
            return []
        return [client for client in self.missing if client not in self.failures and client not in self.withdrawn]

    def conclude(
        self,
        target: object = None,
        method: str = "auto",
        *,
        quorum: Quorum = 0.5,
        missing_examples: int | None = None,
        screen: bool | None = None,
        **settings: Any,
    ) -> Estimate:
        """The estimate from the answers that were taken; missing clients are named in it.

        A report that breaks the estimate in a way that was not foreseen is left out, and named with the reason.

        Args:
            target: the target's class mix, in a form that `fedcert.estimate` takes; the request's where None, and
                uniform where that names none.
            method: how to estimate.
            quorum: how many must have answered, with examples: a whole number, or a share of the roster.
            missing_examples: give a worst-case interval too, over whatever each missing client might have held, up to
                so many examples (`details["missing"]`).
            screen: leave out clients whose curves the others cannot explain; where None, if there are signatures that
                count, clients without one are screened, unless a worst case is asked for.
            settings: of `fedcert.estimate`.

        Raises:
            QuorumMissed: too few answered.
            EstimationProblem: no estimate follows from the answers.
        """
        missing = self.missing
        check_missing_examples(missing_examples, bool(screen))
        unsigned = set(self.reports) - self.vouched if self.trusted is not None else set()
        screened = bool(unsigned) and missing_examples is None if screen is None else screen
        wanted = target if target is not None else self.request.target or "uniform"
        reports = [self.reports[client] for client in sorted(self.reports)]
        make = partial(
            estimate, target=wanted, method=method, screen=screened, trusted=sorted(self.vouched), **settings
        )
        try:
            check_quorum(len(self.reports), missing, self.request, quorum)
            result, self.unusable = estimate_of_usable(reports, make)
            missing = {**self.unusable, **missing}
            check_quorum(result.clients, {**result.excluded, **missing}, self.request, quorum)
        except EstimationProblem as error:
            if self.folder is not None:
                self.folder.set_aside(str(error))
            raise
        reports = [report for report in reports if report.client not in self.unusable]
        checks = [check_missing(missing, len(reports), self.request.roster), *check_conflicts(self.conflicts)]
        checks += check_corrections(self.corrections)
        if self.trusted is not None:
            checks.append(check_signatures(len(reports), unsigned, screened))
        details = dict(result.details)
        if missing_examples is not None:
            details["missing"] = worst_case(result, reports, len(missing), missing_examples)
        return replace(
            result,
            excluded={**result.excluded, **missing},
            checks=(*result.checks, *checks),
            details=details,
            worst_case=details.get("missing"),
        )


def _report(answer: Answer) -> Report:
    if isinstance(answer, Report):
        return answer
    if not isinstance(answer, (Mapping, str, bytes)):
        raise Refused(f"the answer is no report, but {type(answer).__name__}")
    if isinstance(answer, (str, bytes)) and len(answer) > LARGEST_DOCUMENT:
        raise Refused(f"the answer is larger than {LARGEST_DOCUMENT // 2**20} MiB")
    try:
        return Report.from_json(answer if isinstance(answer, Mapping) else parse(answer, "the answer"))
    except FedcertError as error:
        raise Refused(f"the answer is no report: {error}") from None
    except Exception as error:  # noqa: BLE001 (whatever a client sends, the others' answers must not be lost)
        raise Refused(f"the answer is no report: {type(error).__name__}") from None
