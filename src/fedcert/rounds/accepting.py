"""Whether a report answers a request: each refusal is one sentence."""

from __future__ import annotations

from datetime import datetime

from fedcert.errors import Refused, shown
from fedcert.report import Report, Request


def check_answer(report: Report, request: Request, sender: str | None, now: datetime) -> None:
    """Check that a report answers a request.

    Args:
        report: the client's.
        request: what was asked.
        sender: who the transport says it came from, where it knows.
        now: when it came.

    Raises:
        Refused: it does not; the sentence says why.
    """
    client = shown(report.client)
    if sender is not None and sender != report.client:
        raise Refused(f"the report of {client} came from {shown(sender)}, who may only answer for itself")
    if request.roster is not None and report.client not in request.roster:
        raise Refused(f"{client} is not among the {len(request.roster)} clients that were asked")
    if request.late(now):
        raise Refused(f"the report of {client} came after the deadline, {request.deadline}")
    if report.model != request.model:
        raise Refused(f"{client} certified the model {report.model}, but {request.model} was asked for")
    if report.request is None:
        raise Refused(f"the report of {client} does not say which request it answers: it may be an old one")
    if report.request != request.digest:
        raise Refused(f"the report of {client} answers another request ({report.request[:19]}…), perhaps an older one")
    for name in ("task", "smoothing", "radii", "classes"):
        if getattr(report, name) != getattr(request, name):
            raise Refused(f"the report of {client} has other {name} than the request asks for")
    least = request.release.minimum_examples
    if report.examples < least:
        raise Refused(
            f"{client} has {report.examples} examples; clients with fewer than {least} were asked not to answer"
        )


def same_counts(first: Report, second: Report) -> bool:
    """Whether two reports of a client tell the same, whenever they were written."""
    names = ("label_counts", "certified_counts", "class_certified_counts", "abstained", "design_effect")
    return all(getattr(first, name) == getattr(second, name) for name in names)
