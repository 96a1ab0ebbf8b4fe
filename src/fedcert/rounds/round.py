"""A certification round: a request, the answers that were taken, and who is missing."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from fedcert._files.documents import LARGEST_DOCUMENT
from fedcert._files.strict_json import parse
from fedcert.errors import EstimationProblem, FedcertError, FedcertWarning, Refused, preview
from fedcert.estimation.estimate import estimate
from fedcert.estimation.result import Estimate
from fedcert.report import Report, Request
from fedcert.rounds.folder import RunFolder
from fedcert.rounds.missing import check_contested, check_missing, check_missing_examples, worst_case
from fedcert.rounds.quorum import Quorum, check_quorum
from fedcert.rounds.reasons import reason
from fedcert.rounds.signatures import check_signatures
from fedcert.rounds.validation import AnswerValidator, same_counts

if TYPE_CHECKING:
    from fedcert.privacy.keys.keyring import Keyring

Clock = Callable[[], datetime]


def _clock() -> datetime:
    return datetime.now(UTC)


def steady_clock() -> Clock:
    """A clock that goes on evenly from now, whatever is done to the system's."""
    began, mark = datetime.now(UTC), time.monotonic()
    return lambda: began + timedelta(seconds=time.monotonic() - mark)


class CertificationRound:
    """One certification round.

    Answers may come in any order, through any transport, more than once; each is checked against the request. With a
    folder, an answer is on the disk before it counts, and a round that is opened again has those that were taken.

    Args:
        request: what was asked; with a folder that has it already, it may be left out.
        folder: where to keep everything; nothing is kept where None.
        clock: tells the time.
        trusted: whose signatures count. A report in a member's name must have that member's; others are taken, but
            screened unless that is asked not to be done.
    """

    def __init__(
        self,
        request: Request | None = None,
        folder: RunFolder | None = None,
        *,
        clock: Clock = _clock,
        trusted: Keyring | None = None,
    ) -> None:
        if folder is None and request is None:
            raise TypeError("a round needs a request, or a folder that has one")
        self.folder = folder
        self.request: Request = folder.request if folder is not None else request  # type: ignore[assignment]
        self.clock, self.trusted = clock, trusted
        self.vouched: set[str] = set()
        self.reports: dict[str, Report] = {}
        self.troubles: dict[str, str] = {}
        self.contested: dict[str, str] = {}
        self._doubts: dict[str, str] = {}
        self._before: dict[str, str] = {}
        self._gate = AnswerValidator.of(self.request)
        if folder is not None:
            self._recall(folder)

    def _recall(self, folder: RunFolder) -> None:
        """What an earlier run took and noted; whatever else lies in its folder does not count.

        Who failed then may answer now: it is asked and waited for again.
        """
        self._before = folder.troubles()
        for report in folder.reports():
            try:
                self._gate.check(report)
                self._check_signature(report)
            except Refused as error:
                warnings.warn(f"a report in {folder.path} does not count: {error}", FedcertWarning, stacklevel=3)
                continue
            self.reports[report.client] = report

    def take(
        self,
        answer: Report | Mapping[str, Any] | str | bytes,
        *,
        sender: str | None = None,
        came: datetime | None = None,
    ) -> Report:
        """Take an answer.

        Args:
            answer: a report, or its JSON.
            sender: who the transport says it came from, where it knows.
            came: when it came; now where None.

        Raises:
            Refused: the round does not take it; the reason is kept for the sender, if it is on the roster.
            FileProblem: it could not be kept.
        """
        try:
            report = _report(answer)
            self._gate.check(report, sender, came or self.clock())
            self._check_signature(report)
            before = self.reports.get(report.client)
            if before is not None:
                if same_counts(before, report):
                    return before
                raise Refused(
                    f"{preview(report.client)} has answered already, with other counts; the first answer stays"
                )
        except Refused as refusal:
            self._refused(sender, answer, str(refusal))
            raise
        if self.folder is not None:
            self.folder.keep(report)
        self.reports[report.client] = report
        self.troubles.pop(report.client, None)
        return report

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

    def _refused(self, sender: str | None, answer: object, why: str) -> None:
        named = answer.client if isinstance(answer, Report) else None
        # A forged answer must not speak for a client: only a transport that knows the sender may.
        if sender is None:
            self.doubt(named, why)
            return
        if self.folder is not None:
            self.folder.log("refused", client=sender, known=True, reason=reason(why))
        if sender not in self.reports:
            self.troubles[sender] = reason(f"its answer was refused: {why}")

    def doubt(self, client: str | None, why: str) -> None:
        """Note that something in a client's name, or in nobody's, is no answer; the client may still send one."""
        if self.folder is not None:
            self.folder.log("refused", client=client, known=False, reason=reason(why))
        if client is not None:
            self._doubts[client] = reason(f"a report in its name was refused: {why}")

    def trouble(self, client: str, why: str) -> None:
        """Note why a client will not answer, as it or the transport says."""
        if client not in self.reports:
            self.troubles[client] = reason(why)
            if self.folder is not None:
                self.folder.log("failed", client=client, reason=self.troubles[client])

    def back(self, client: str) -> None:
        """A client that was lost is there again: it may still answer."""
        self.troubles.pop(client, None)

    def contest(self, client: str, why: str) -> None:
        """Note that others claim to be a client that has answered; the estimate will say so."""
        self.contested[client] = reason(why)
        if self.folder is not None:
            self.folder.log("contested", client=client, reason=self.contested[client])

    @property
    def missing(self) -> dict[str, str]:
        """Clients that were asked and have not answered, and why."""
        late = self.request.late(self.clock())
        default = f"it did not answer before the deadline, {self.request.deadline}" if late else "it has not answered"
        reasons = {**self._before, **self._doubts, **self.troubles}
        return {
            client: reasons.get(client, default) for client in self.request.roster or () if client not in self.reports
        }

    @property
    def waiting_for(self) -> list[str]:
        """Clients that may still answer."""
        if self.request.late(self.clock()):
            return []
        return [client for client in self.missing if client not in self.troubles]

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
        strangers = set(self.reports) - self.vouched if self.trusted is not None else set()
        screened = bool(strangers) and missing_examples is None if screen is None else screen
        wanted = target if target is not None else self.request.target or "uniform"
        reports = [self.reports[client] for client in sorted(self.reports)]
        try:
            check_quorum(len(self.reports), missing, self.request, quorum)
            made = estimate(reports, wanted, method, screen=screened, trusted=sorted(self.vouched), **settings)
            check_quorum(made.clients, {**made.excluded, **missing}, self.request, quorum)
        except EstimationProblem as error:
            if self.folder is not None:
                self.folder.set_aside(str(error))
            raise
        details = dict(made.details)
        if missing_examples is not None:
            details["missing"] = worst_case(made, reports, len(missing), missing_examples)
        return replace(
            made,
            excluded={**made.excluded, **missing},
            checks=(
                *made.checks,
                check_missing(missing, len(self.reports), self.request.roster),
                *check_contested(self.contested),
                *([] if self.trusted is None else [check_signatures(len(reports), strangers, screened)]),
            ),
            details=details,
            worst_case=details.get("missing"),
        )


def _report(answer: Report | Mapping[str, Any] | str | bytes) -> Report:
    if isinstance(answer, Report):
        return answer
    if not isinstance(answer, (Mapping, str, bytes)):
        raise Refused(f"the answer is no report, but {type(answer).__name__}")
    if isinstance(answer, (str, bytes)) and len(answer) > LARGEST_DOCUMENT:
        raise Refused(f"the answer is larger than {LARGEST_DOCUMENT // 2**20} MiB")
    try:
        document = answer if isinstance(answer, Mapping) else parse(answer, "the answer")
        return Report.from_json(document)
    except FedcertError as error:
        raise Refused(f"the answer is no report: {error}") from None
    except Exception as error:  # noqa: BLE001 (whatever a client sends, the others' answers must not be lost)
        raise Refused(f"the answer is no report: {type(error).__name__}") from None
