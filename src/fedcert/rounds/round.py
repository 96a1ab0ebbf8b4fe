"""A certification round: a request, the answers that were taken, and who is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fedcert.errors import FedcertError, Refused, shown
from fedcert.estimation.result import Estimate
from fedcert.estimation.run import estimate
from fedcert.report import Report, Request
from fedcert.report.kinds import deceives
from fedcert.report.parsing import parse
from fedcert.rounds.accepting import check_answer, same_counts
from fedcert.rounds.folder import RunFolder
from fedcert.rounds.missing import check_missing, worst_case
from fedcert.rounds.quorum import Quorum, check_quorum

Clock = Callable[[], datetime]
_LONGEST_REASON = 500


def _clock() -> datetime:
    return datetime.now(UTC)


class Round:
    """One certification round.

    Answers may come in any order, through any transport, more than once; each is checked against the request. With a
    folder, an answer is on the disk before it counts, and a round that is opened again has those that were taken.

    Args:
        request: what was asked; with a folder that has it already, it may be left out.
        folder: where to keep everything; nothing is kept where None.
        clock: tells the time.
    """

    def __init__(
        self, request: Request | None = None, folder: RunFolder | None = None, *, clock: Clock = _clock
    ) -> None:
        if folder is None and request is None:
            raise TypeError("a round needs a request, or a folder that has one")
        self.folder = folder
        self.request: Request = folder.request if folder is not None else request  # type: ignore[assignment]
        self.clock = clock
        self.reports: dict[str, Report] = {}
        self.troubles: dict[str, str] = {}
        for report in folder.reports() if folder is not None else ():
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
            check_answer(report, self.request, sender, came or self.clock())
            before = self.reports.get(report.client)
            if before is not None:
                if same_counts(before, report):
                    return before
                raise Refused(f"{shown(report.client)} has answered already, with other counts; the first answer stays")
        except Refused as refusal:
            self._refused(sender, answer, str(refusal))
            raise
        if self.folder is not None:
            self.folder.keep(report)
        self.reports[report.client] = report
        self.troubles.pop(report.client, None)
        return report

    def _refused(self, sender: str | None, answer: object, why: str) -> None:
        who = sender or (answer.client if isinstance(answer, Report) else None)
        if self.folder is not None:
            self.folder.log("refused", client=who, reason=why)
        # A forged answer must not speak for a client: only a transport that knows the sender may.
        if sender is not None and sender not in self.reports:
            self.troubles[sender] = _reason(f"its answer was refused: {why}")

    def trouble(self, client: str, why: str) -> None:
        """Note why a client will not answer, as it or the transport says."""
        if client not in self.reports:
            self.troubles[client] = _reason(why)
            if self.folder is not None:
                self.folder.log("failed", client=client, reason=self.troubles[client])

    @property
    def missing(self) -> dict[str, str]:
        """Clients that were asked and have not answered, and why."""
        late = self.request.late(self.clock())
        default = f"it did not answer before the deadline, {self.request.deadline}" if late else "it has not answered"
        return {
            client: self.troubles.get(client, default)
            for client in self.request.roster or ()
            if client not in self.reports
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
        **settings: Any,
    ) -> Estimate:
        """The estimate from the answers that were taken; missing clients are named in it.

        Args:
            target: the target's class mix, in a form that `fedcert.estimate` takes; the request's where None, and
                uniform where that names none.
            method: how to estimate.
            quorum: how many must have answered: a whole number of clients, or a share of the roster.
            missing_examples: give a worst-case interval too, over whatever each missing client might have held, up to
                so many examples (`details["missing"]`).
            settings: of `fedcert.estimate`.

        Raises:
            QuorumMissed: too few answered.
            EstimationProblem: no estimate follows from the answers.
        """
        missing = self.missing
        check_quorum(len(self.reports), missing, self.request, quorum)
        wanted = target if target is not None else self.request.target or "uniform"
        reports = [self.reports[client] for client in sorted(self.reports)]
        made = estimate(reports, wanted, method, **settings)
        details = dict(made.details)
        if missing_examples is not None:
            details["missing"] = worst_case(made, reports, len(missing), missing_examples)
        made = replace(
            made,
            excluded={**made.excluded, **missing},
            checks=(*made.checks, check_missing(missing, len(self.reports), self.request.roster)),
            details=details,
        )
        if self.folder is not None:
            self.folder.log("estimated", clients=len(reports), missing=sorted(missing))
        return made


def _report(answer: Report | Mapping[str, Any] | str | bytes) -> Report:
    if isinstance(answer, Report):
        return answer
    if not isinstance(answer, (Mapping, str, bytes)):
        raise Refused(f"the answer is no report, but {type(answer).__name__}")
    try:
        document = answer if isinstance(answer, Mapping) else parse(answer, "the answer")
        return Report.from_json(document)
    except FedcertError as error:
        raise Refused(f"the answer is no report: {error}") from None


def _reason(why: str) -> str:
    """What a client says, as one short line that no terminal trips over."""
    line = " ".join("".join("�" if deceives(one) else one for one in why.replace("\n", " ")).split())
    return (line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 1] + "…") or "it gave no reason"
