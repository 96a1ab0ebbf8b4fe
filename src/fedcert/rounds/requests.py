"""Requests: what every client must agree on before it certifies, with a nonce and a deadline."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from fedcert.errors import CallError, preview
from fedcert.report import Release, Request, Smoothing, Target
from fedcert.report.provenance import SOFTWARE, timestamp
from fedcert.report.request import PrivateSum

LONGEST_WAIT = 10 * 366 * 86_400
"""Seconds, ten years: more is a mistake of units."""


def make_request(
    model: str,
    smoothing: Smoothing,
    classes: Sequence[str],
    *,
    radii: Sequence[float] | None = None,
    roster: Sequence[str] | None = None,
    target: Target | None = None,
    seconds: float | None = None,
    deadline: str | None = None,
    release: Release | None = None,
    private: PrivateSum | None = None,
    input_range: Sequence[float] | None = None,
    input_shape: Sequence[int] | None = None,
    input_columns: Sequence[str] | None = None,
    now: datetime | None = None,
) -> Request:
    """A new request, unlike every other by its nonce.

    Args:
        model: digest of the model to certify.
        smoothing: how to smooth and certify it.
        classes: names in index order.
        radii: at which radii to count, or, with population certificates, for which to estimate; the procedure's own
            where None.
        roster: the clients that are asked; anyone may answer where None.
        target: the target population, where the clients may know.
        seconds: how long answers are waited for.
        deadline: until when, as an alternative.
        release: what the clients are asked to release.
        private: what a secure sum is to be over, instead of reports.
        input_range: the least and the largest value that inputs may have; not checked by clients where None.
        input_shape: of one example; not checked where None.
        input_columns: names of a table's columns, in the order of the model's inputs; not checked where None.
        now: the time; the clock's where None.

    Raises:
        CallError: the deadline has passed already, or is given twice.
        InvalidValue: a value breaks a rule of the request.
    """
    now = now or datetime.now(UTC)
    if seconds is not None:
        if deadline is not None:
            raise CallError("give either seconds or a deadline")
        if not 0 < seconds <= LONGEST_WAIT:
            raise CallError(f"seconds must be above 0 and at most {LONGEST_WAIT:,}, but is {preview(seconds)}")
        # Rounded up: a deadline is written in whole seconds.
        deadline = timestamp(now + timedelta(seconds=seconds + 1))
    request = Request(
        model=model, smoothing=smoothing, radii=tuple(smoothing.default_radii if radii is None else radii),
        classes=tuple(classes), target=target, roster=None if roster is None else tuple(roster),
        nonce=secrets.token_hex(16), deadline=deadline, release=release or Release(), private=private,
        input_range=None if input_range is None else (input_range[0], input_range[1]),
        input_shape=None if input_shape is None else tuple(input_shape),
        input_columns=None if input_columns is None else tuple(input_columns),
        software=SOFTWARE, created=timestamp(now),
    )  # fmt: skip
    if request.late(now):
        raise CallError(f"the deadline must be in the future, but is {deadline}")
    return request


def seconds_left(request: Request, now: datetime | None = None) -> float:
    """Seconds until a request's deadline, negative after it; infinite where it has none."""
    if request.deadline is None:
        return float("inf")
    return (datetime.fromisoformat(request.deadline) - (now or datetime.now(UTC))).total_seconds()
