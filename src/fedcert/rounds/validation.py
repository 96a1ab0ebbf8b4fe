"""Whether a report answers a request: each refusal is one sentence."""

from __future__ import annotations

from datetime import datetime

from fedcert._files.documents import LARGEST_DOCUMENT
from fedcert._schema.declare import TablePlace
from fedcert.errors import Refused, preview
from fedcert.report import Report, Request
from fedcert.report.table.layout import fields_at

_DIGEST = 19
"""Characters of a digest: "sha256:" and twelve digits distinguish any two models that people compare."""


class AnswerValidator:
    """Decides whether a report answers a request; made once for it, since a roster may be long.

    Args:
        request: what was asked.
    """

    def __init__(self, request: Request) -> None:
        self.request, self.digest = request, request.digest
        self.roster = None if request.roster is None else frozenset(request.roster)

    def check(self, report: Report, sender: str | None = None, arrived: datetime | None = None) -> None:
        """Check that a report answers the request.

        Args:
            report: the client's.
            sender: who the transport says it came from, where it knows.
            arrived: when it came; not looked at where None.

        Raises:
            Refused: it does not; the sentence says why.
        """
        request, client = self.request, preview(report.client)
        if sender is not None and sender != report.client:
            raise Refused(f"the report of {client} came from {preview(sender)}, who may only answer for itself")
        if self.roster is not None and report.client not in self.roster:
            raise Refused(f"{client} is not among the {len(self.roster)} clients that were asked")
        if arrived is not None and request.late(arrived):
            raise Refused(f"the report of {client} came after the deadline, {request.deadline}")
        if report.model != request.model:
            raise Refused(f"{client} certified the model {_short(report.model)}, not {_short(request.model)}")
        if report.request is None:
            raise Refused(f"the report of {client} does not say which request it answers: it may be an old one")
        if report.request != self.digest:
            raise Refused(
                f"the report of {client} answers another request ({report.request[:_DIGEST]}…), perhaps an older one"
            )
        for name in ("task", "smoothing", "radii", "classes"):
            if getattr(report, name) != getattr(request, name):
                raise Refused(f"the report of {client} has other {name} than the request asks for")
        least = request.release.minimum_examples
        if report.examples < least:
            raise Refused(
                f"{client} has {report.examples} examples; clients with fewer than {least} were asked not to answer"
            )
        if len(report.dumps()) > LARGEST_DOCUMENT:
            raise Refused(f"the report of {client} is larger than {LARGEST_DOCUMENT // 2**20} MiB")


def _short(model: str) -> str:
    return model if len(model) <= _DIGEST or not model.startswith("sha256:") else f"{model[:_DIGEST]}…"


def same_counts(first: Report, second: Report) -> bool:
    """Whether two reports of a client agree in all that was counted, whenever they were written."""
    return all(getattr(first, name) == getattr(second, name) for name in fields_at(Report, TablePlace.COUNTED))
