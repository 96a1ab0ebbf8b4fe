"""What is done with what was read: estimates, screening, rounds, merging, what-ifs, private sums, certification plans.

A document that is read is put among honest ones that go with it, and used: it may be refused in one sentence, or be
left out by name, and nothing else may happen.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from boundaries import consistent

from fedcert import FedcertError, Report, Request, Sums
from fedcert._files.documents import parse
from fedcert.certification.plan import plan_certification
from fedcert.certification.sequential import SamplingPolicy
from fedcert.errors import EstimationProblem
from fedcert.estimation.estimate import estimate, what_if
from fedcert.report import load
from fedcert.rounds import CertificationRound, make_request
from fedcert.secagg.second_sum import SecondSum
from fedcert.secagg.vectors import VectorLayout

Target = Callable[[bytes], None]
_PLACE = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
_METHODS = ("auto", "vw", "ap", "ga", "blup", "poststratified", "minimax")
_MOST = {"classes": 40, "radii": 6, "passes": 40}
"""What is used further: more takes longer and shows nothing else. Designs of scores are made anew for each radius."""


def choice(data: bytes, options: Any, salt: str) -> Any:
    """One of some options, by the content: what is replayed does the same again."""
    digest = hashlib.sha256(salt.encode() + data).digest()
    return options[digest[0] % len(options)]


def is_small(value: Any) -> bool:
    """Whether an estimate of it takes a moment."""
    passes = value.smoothing.n if value.smoothing.is_population else 0
    sizes = {"classes": len(value.classes), "radii": len(value.radii), "passes": passes}
    return all(size <= _MOST[name] for name, size in sizes.items())


def honest(like: Any, client: str, seed: int, *, discloses: bool) -> Report:
    """A report of ordinary counts that goes with another one, or answers a request."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(5, 60, size=len(like.classes))
    values: dict[str, Any] = {"client": client, "label_counts": labels.tolist()}
    for name in ("model", "smoothing", "radii", "classes"):
        values[name] = getattr(like, name)
    if like.smoothing.is_population:
        share = np.linspace(0.05, 1, like.smoothing.n + 1)
        rows = np.array([generator.multinomial(count, share / share.sum()) for count in labels])
        names = ("correct_counts", "class_correct_counts")
    else:
        cap = like.smoothing.largest_radius or 0.0
        rows = np.array([np.sort(generator.binomial(count, 0.6, len(like.radii)))[::-1] for count in labels])
        rows[:, [radius > cap or cap == 0 for radius in like.radii]] = 0
        names = ("certified_counts", "class_certified_counts")
    values[names[0]] = rows.sum(axis=0).tolist()
    if discloses:
        values[names[1]] = rows.tolist()
    return Report(**values)


def read_report(data: bytes) -> Report:
    """A report; one whose counts do not agree is brought into agreement first."""
    document = parse(data, "the file")
    with suppress(FedcertError):
        return Report.from_json(document, "the file")
    return Report.from_json(consistent(document) or document, "the file")


def estimating(data: bytes) -> None:
    """An estimate from a report among four honest ones, screened or not."""
    report = read_report(data)
    if not is_small(report):
        return
    discloses = report.class_procedure_counts is not None
    others = [honest(report, f"honest {place}", place, discloses=discloses) for place in range(4)]
    screen = choice(data, (False, True), "screen")
    trusted = tuple(other.client for other in others) if screen and choice(data, (0, 1), "trusted") else ()
    target = choice(data, (None, {report.classes[0]: 1.0}), "target")
    interval = choice(data, ("finite-sample", "asymptotic", "hoeffding"), "interval")
    made = estimate(
        [report, *others], target=target, method=choice(data, _METHODS, "method"), screen=screen, trusted=trusted,
        interval=interval,
    )  # fmt: skip
    type(made).from_json(parse(made.dumps(), "the estimate"))


def asking_what_if(data: bytes) -> None:
    """What-ifs from a report among two honest ones."""
    report = read_report(data)
    if is_small(report):
        discloses = report.class_procedure_counts is not None
        others = [honest(report, f"honest {place}", place, discloses=discloses) for place in range(2)]
        what_if([report, *others], {"first": {report.classes[0]: 1.0}, "all": "uniform"}).dumps()


def concluding(data: bytes) -> None:
    """A round in which three honest clients and one with a strange report answer."""
    report = read_report(data)
    if not is_small(report):
        return
    named = ("model", "smoothing", "radii", "classes")
    request = make_request(**{name: getattr(report, name) for name in named}, roster=None)
    round_ = CertificationRound(request)
    answers = [honest(report, f"honest {place}", place, discloses=False) for place in range(3)]
    for answer in (*answers, report):
        with suppress(FedcertError):
            round_.take(replace(answer, request=request.digest, signature=None))
    try:
        round_.conclude(screen=choice(data, (None, True, False), "screen"), quorum=1)
    except EstimationProblem as error:
        if "fault of fedcert" in str(error):
            raise AssertionError(str(error)) from error


def merging(data: bytes) -> None:
    """Sums merged with those of honest reports and with themselves, and an estimate from them."""
    sums = Sums.from_json(parse(data, "the file"), "the file")
    if not is_small(sums):
        return
    discloses = sums.by_class is not None
    others = Sums.of([honest(sums, f"honest {place}", place, discloses=discloses) for place in range(2)])
    for whole in (sums.merged(others), others.merged(sums), sums.merged(sums), sums):
        Sums.from_json(parse(whole.dumps(), "the sums"))
    chosen = choice(data, (sums, sums.merged(others)), "which")
    estimate(chosen, method=choice(data, _METHODS, "method")).dumps()


def answering(data: bytes) -> None:
    """What a site does with a request: plans, layouts of private sums, counts put into them, noise."""
    request = Request.from_json(parse(data, "the file"), "the file")
    with suppress(FedcertError):
        plan = plan_certification("site", request, {})
        if not plan.smoothing.is_population and len(plan.radii) <= _MOST["radii"]:
            SamplingPolicy.of(plan.smoothing, plan.radii, 100)._allowed_errors.sum()
    if request.private is None or not is_small(request):
        return
    layout = VectorLayout(request)
    total = layout.pack(honest(request, "site", 0, discloses=True))
    if len(total) != layout.length:
        raise AssertionError("a vector of another length than the layout's")
    sums = layout.sums(total, 1)
    sums.dumps()
    if request.private.spread:
        SecondSum.asked(request, sums).length  # noqa: B018


def rows_of_tables(data: bytes) -> None:
    """Reports, one in each line, as rows of a Parquet table that nobody checked; and an estimate from them."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    from fedcert.report.table.parquet import arrow_schema

    documents = [parse(line, "a line") for line in data.splitlines() if line.strip()]
    if not documents or not all(isinstance(document, dict) for document in documents):
        return
    first, schema = documents[0], arrow_schema(arrow)
    header = {name: first[name] for name in ("task", "model", "radii", "classes", "smoothing") if name in first}
    names = set(schema.names)
    rows = [{key: value for key, value in document.items() if key in names} for document in documents]
    try:
        table = arrow.Table.from_pylist(rows, schema=schema)
    except (arrow.ArrowException, TypeError, ValueError, OverflowError):
        return  # it has no such numbers
    metadata = {"fedcert": json.dumps({"schema": "fedcert/table/1", **header})}
    descriptor, name = tempfile.mkstemp(suffix=".parquet", dir=_PLACE)
    os.close(descriptor)
    try:
        try:
            parquet.write_table(table.replace_schema_metadata(metadata), name)
        except (arrow.ArrowException, OSError, UnicodeError, ValueError):
            return  # not what Parquet holds
        loaded = load(name)
        if loaded.reports is not None and is_small(loaded.reports):
            estimate(loaded, method=choice(data, _METHODS, "method"))
    finally:
        Path(name).unlink(missing_ok=True)  # pyarrow removes a file that it could not write


TARGETS: dict[str, Target] = {
    "estimating": estimating,
    "asking-what-if": asking_what_if,
    "concluding": concluding,
    "merging": merging,
    "answering": answering,
    "table-rows": rows_of_tables,
}
"""Each with the documents that it starts from."""
STARTS = {
    "estimating": "report", "asking-what-if": "report", "concluding": "report", "merging": "sums",
    "answering": "request",
}  # fmt: skip
"""The target whose seeds these share."""
