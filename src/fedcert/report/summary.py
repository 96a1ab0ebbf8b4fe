"""The short answer of reports, requests and sums: what `print` and a notebook show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedcert._schema.summary import Summary, spread

if TYPE_CHECKING:
    from fedcert.report.report import Report
    from fedcert.report.request import Request
    from fedcert.report.smoothing import Smoothing
    from fedcert.report.sums.values import Sums

_SHOWN_RADII = 5
"""Columns of the table: they fit a line beside the longest name of a row."""
_SHOWN_CLASSES = 5
"""Classes that a sentence names."""
_DIGEST = 19
"""Characters of a model's digest: "sha256:" and twelve digits distinguish any two models that people compare."""


def summary_of_report(report: Report) -> Summary:
    """What a client counted."""
    sentences = (
        f"Report of {report.client}: {_count(report.examples, 'test example')} of {_named(report.classes)}.",
        f"Certified {_model(report.model)}: {_settings(report.smoothing)}.",
        "Counts per class: " + ("included." if report.class_procedure_counts is not None else "not included."),
        *_right_copies(report),
    )
    return Summary(sentences, _certified(report.radii, report.certified_counts, report.examples))


def summary_of_sums(sums: Sums) -> Summary:
    """What several clients counted together."""
    who = _count(sums.contributors, "client")
    sentences = (
        f"Sums over {who}: {_count(sums.examples, 'test example')} of {_named(sums.classes)}.",
        f"Certified {_model(sums.model)}: {_settings(sums.smoothing)}.",
        *((f"{sums.noise[:1].upper()}{sums.noise[1:]}",) if sums.noise is not None else ()),
    )
    return Summary(sentences, _certified(sums.radii, sums.certified_counts, sums.examples))


def summary_of_request(request: Request) -> Summary:
    """What is asked, of whom."""
    whom = "anyone who has it" if request.roster is None else _count(len(request.roster), "client")
    what = "a report" if request.private is None else "a private sum"
    sentences = [
        f"Request to {whom} for {what}: certify {_model(request.model)} on {_named(request.classes)}.",
        f"{_settings(request.smoothing).capitalize()}; {_radii(request.radii)}.",
    ]
    if request.private is None:
        sentences.append(f"Counts per class: {'asked for' if request.release.class_counts else 'not asked for'}.")
    if request.deadline is not None:
        sentences.append(f"Deadline: {request.deadline}.")
    sentences.append("Not signed." if request.signature is None else "Signed.")
    return Summary(tuple(sentences))


def _right_copies(report: Report) -> tuple[str, ...]:
    """Population certificates: the share of right answers among all noisy copies."""
    if report.correct_counts is None or not report.examples:
        return ()
    right = sum(count * examples for count, examples in enumerate(report.correct_counts))
    share = right / (report.smoothing.n * report.examples)
    return (
        f"{share:.1%} of all noisy copies are predicted right; fedcert.estimate(report) gives the proven accuracy.",
    )


def _certified(radii: Sequence[float], counts: Sequence[int] | None, examples: int) -> tuple[tuple[str, ...], ...]:
    if counts is None or not examples:
        return ()
    shown = spread(len(radii), _SHOWN_RADII)
    return (
        ("radius", *(f"{radii[index]:g}" for index in shown)),
        ("certified", *(f"{counts[index]:,}" for index in shown)),
        ("certified accuracy", *(f"{counts[index] / examples:.3f}" for index in shown)),
    )


def _model(model: str) -> str:
    return f"model {model if len(model) <= _DIGEST or not model.startswith('sha256:') else model[:_DIGEST] + '…'}"


def _settings(smoothing: Smoothing) -> str:
    noise = f"{smoothing.noise} noise of sigma {smoothing.sigma:g}"
    if smoothing.is_population:
        return f"{noise}, {smoothing.n} noisy passes of each example, {smoothing.votes} votes"
    return f"{noise}, up to {smoothing.n:,} samples of each example ({smoothing.procedure})"


def _radii(radii: Sequence[float]) -> str:
    return f"radius {radii[0]:g}" if len(radii) == 1 else f"{len(radii)} radii from {radii[0]:g} to {radii[-1]:g}"


def _named(classes: Sequence[str]) -> str:
    shown = ", ".join(classes[:_SHOWN_CLASSES]) + (", …" if len(classes) > _SHOWN_CLASSES else "")
    return f"{_count(len(classes), 'class', 'classes')} ({shown})"


def _count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
