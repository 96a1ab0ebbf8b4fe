"""A client's whole data set certified: examples scheduled, recorded in a journal, counted in a report."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcert._arrays import Images
from fedcert.certification.certificate import CertificateTable, CorrectTable, ExampleTable
from fedcert.certification.clean_pass import CleanPass, clean_pass, noisy_accuracy, warnings_after, warnings_before
from fedcert.certification.data.inputs import RangeSeen, check_columns, check_range, check_shape
from fedcert.certification.data.local_data import LocalData
from fedcert.certification.example_loop import ExampleLoop
from fedcert.certification.journal import Journal
from fedcert.certification.models.answers import check_width
from fedcert.certification.models.classifiers import Classifier
from fedcert.certification.perturbation import perturbation_of
from fedcert.certification.plan import CertificationPlan
from fedcert.certification.progress import ProgressListener
from fedcert.certification.seeds import Seed, keep_seed, kept_seed
from fedcert.certification.sequential import SamplingPolicy
from fedcert.certification.streams import ExampleKey, Streams, example_keys, image_of
from fedcert.errors import CallError, DataProblem
from fedcert.report import Report
from fedcert.report.farthest import radii_warning
from fedcert.report.fields import check_cells
from fedcert.report.input_range import coarse_range
from fedcert.report.provenance import provenance

_COPIES, _COPIES_SHARE = 5, 0.05
"""From so many copies on, and this share of the examples, a data file was hardly meant so; a few are in most data."""


@dataclass(frozen=True)
class CertificationResult:
    """A certified data set.

    Attributes:
        report: what may leave.
        certificates: of each example, by index, or its right answers with population certificates; they stay.
        seed: of the noise; it stays too.
        work: digest of what the seed was for, see `KeptSeed`.
        clean: the pass without noise; it stays too. None without examples.
        complete: whether no example was left out for want of time.
    """

    report: Report
    certificates: ExampleTable
    seed: Seed
    work: str
    clean: CleanPass | None = None
    complete: bool = True


def certify_dataset(
    plan: CertificationPlan,
    classifier: Classifier,
    data: LocalData,
    progress: ProgressListener,
    journal: Path | None = None,
    seed_file: Path | None = None,
    *,
    seed: Seed | None = None,
    only: Collection[int] | None = None,
) -> CertificationResult:
    """Certify a client's data and count.

    Args:
        plan: what to do.
        classifier: the model.
        data: the client's test examples.
        progress: called as the work goes on.
        journal: where to record how far the work is. It stays when the work is done, so that the same examples can be
            counted otherwise without certifying them again.
        seed_file: where this site keeps its secret seed. It is written at once where there is no journal; else the
            journal holds it, and it is the caller's to write when the report is.
        seed: of the noise, where it is known: an audit's.
        only: indices of the examples that are certified, of those that the plan chooses; all of them where None.

    Raises:
        ModelProblem: the model fails.
        DataProblem: the data cannot be used.
        CallError: another run is writing to the journal, or it is of other work.
        FileProblem: the journal cannot be used.
    """
    deadline = math.inf if plan.time_budget is None else time.monotonic() + plan.time_budget
    plan = plan.with_precision(classifier.default_precision)
    if plan.request is not None and (plan.smoothing.precision, classifier.default_precision) == ("float32", "bfloat16"):
        progress.slower_by_request("float32", "bfloat16")
    plan = plan.with_lattice(data.lattice)
    perturbation = perturbation_of(plan.smoothing)
    with classifier.running(plan.smoothing.precision), ExitStack() as stack:
        if len(data):
            own_columns = getattr(classifier, "input_columns", None)  # torch modules have none
            check_columns(plan.input_columns, own_columns, "the model was fitted with")
            check_columns(data.columns, plan.input_columns)
            check_columns(data.columns, own_columns, "the model was fitted with")
            check_shape(data.shape, plan.input_shape)
        classes = _classes(plan, classifier, data)
        check_cells(classes, plan.radii, plan.smoothing)
        _check_labels(data, len(classes))
        work = _digest(_work(plan, classifier.identity, classes))
        seed = seed or (Seed.drawn() if plan.seed is None else Seed.fixed(plan.seed))
        if seed_file is not None and plan.seed is None:
            seed = kept_seed(seed_file, work) or seed
            if journal is None:  # nothing else holds it: work that is killed and asked for again has the same noise
                keep_seed(seed_file, seed, work)
        records = None
        if journal is not None:
            fingerprint = _fingerprint(plan, classifier.identity, classes, data)
            records = stack.enter_context(Journal(journal, fingerprint, seed))
            seed = records.seed
            progress.keeping(journal)
            if records.resumed:
                progress.resumed(sum(state.done for state in records.states.values()))
        streams = plan.streams(seed)
        sampler = classifier.sampler(len(classes), perturbation, streams, plan.batch_size, plan.smoothing.precision)
        seen = RangeSeen()
        keys = chosen_examples(plan, data, streams, seen)
        for sentence in (radii_too_far(plan), repeated(keys.values())):
            if sentence is not None:
                progress.warn(sentence)
        check_range(seen, plan.input_range, plan.smoothing.sigma, data.shape, progress.warn)
        if only is not None:
            keys = {index: key for index, key in keys.items() if index in only}
        clean = clean_pass(sampler, data, plan.smoothing.lattice, len(classes))
        if clean is not None:
            progress.without_noise(clean.right, len(clean), len(data))
            for sentence in warnings_before(clean, classes):
                progress.warn(sentence)
        states = ExampleLoop(plan, sampler, data, keys, progress, records, deadline).states()
        if records is not None and len(states) == len(keys):
            records.finish()
    certificates = (
        CorrectTable.of(states) if plan.smoothing.is_population else CertificateTable.of(states, perturbation)
    )
    for sentence in warnings_after(clean, noisy_accuracy(certificates, data.labels)) if clean is not None else ():
        progress.warn(sentence)
    report = report_of(plan, classifier.identity, classes, data, certificates, seed, seen)
    return CertificationResult(report, certificates, seed, work, clean, complete=len(certificates) == len(keys))


def chosen_examples(
    plan: CertificationPlan, data: LocalData, streams: Streams, seen: RangeSeen | None = None
) -> dict[int, ExampleKey]:
    """The examples that are to be certified, by index, with the keys of their noise; all data is read and checked.

    Args:
        plan: what to do.
        data: the client's test examples.
        streams: the client's noise.
        seen: takes the range of all inputs.

    Raises:
        DataProblem: an example cannot be used.
        CallError: `every` leaves none of them.
    """
    seen = RangeSeen() if seen is None else seen

    def examples() -> Iterator[tuple[Images, int]]:
        for indices, images in data.pieces_on(plan.smoothing.lattice):
            seen.add(images)
            for index, image in zip(indices, images, strict=True):
                yield image, int(data.labels[index])

    chosen = {index: key for index, key in enumerate(example_keys(examples())) if streams.takes(key, plan.every)}
    if len(data) and not chosen:
        raise CallError(
            f"every (--every) of {plan.every} leaves none of the {len(data)} examples here; take a smaller one"
        )
    return chosen


def radii_too_far(plan: CertificationPlan) -> str | None:
    """Which radii population certificates do not reach, in a sentence; None where there are none.

    Those of a request were pointed out when it was written; CERTIFY's curve is 0 there.
    """
    known = plan.request is not None or not plan.smoothing.is_population
    return None if known else radii_warning(plan.smoothing, plan.radii)


def repeated(keys: Collection[ExampleKey]) -> str | None:
    """How many examples are copies of others, in a sentence; None where hardly any are."""
    copies = len(keys) - len({image_of(key) for key in keys})
    if copies < max(_COPIES, _COPIES_SHARE * len(keys)):
        return None
    return (
        f"{copies:,} of {len(keys):,} examples are exact copies of others, which intervals count as examples of their "
        "own; remove those that were not measured anew"
    )


def report_of(
    plan: CertificationPlan, model: str, classes: tuple[str, ...], data: LocalData,
    certificates: ExampleTable, seed: Seed, seen: RangeSeen | None = None,
) -> Report:  # fmt: skip
    """The report that certificates, or right answers, make."""
    labels = data.labels[certificates.index]
    if isinstance(certificates, CorrectTable):
        counts = certificates.counts(labels, len(classes), plan.smoothing.n, class_counts=bool(plan.class_counts))
    else:
        counts = certificates.counts(labels, len(classes), plan.radii, class_counts=bool(plan.class_counts))
        counts["abstained"] = certificates.abstained(labels)
    return Report(
        client=plan.client,
        model=model,
        request=plan.request,
        smoothing=plan.smoothing,
        radii=plan.radii,
        classes=classes,
        **counts,
        samples=int(certificates.samples.sum()),
        seed=seed.statement,
        time_budget=plan.time_budget,
        input_range=None if seen is None or seen.bounds is None else coarse_range(*seen.bounds),
        **provenance(),
        **_design_effects(data, certificates, len(plan.radii)),
    )


def _design_effects(data: LocalData, certificates: ExampleTable, radii: int) -> dict[str, Any]:
    """The fields of a report about examples that come in groups.

    The design effect is Σ m²/n over the groups' sizes m: the most that examples which belong together can inflate a
    variance. It is attained when all examples of a group are alike, and it keeps Hoeffding's inequality exact, in which
    a group of m examples is one variable between 0 and m.
    """
    if data.groups is None or not len(certificates):
        return {}
    _, sizes = np.unique(data.groups[certificates.index], return_counts=True)
    effect = float(np.sum(sizes.astype(np.float64) ** 2) / sizes.sum())
    return {"design_effect": (effect,) * radii, "largest_group": int(sizes.max())}


def _work(plan: CertificationPlan, model: str, classes: tuple[str, ...]) -> dict[str, Any]:
    """What a seed is for: the same is asked again, or it is other work, which has a seed of its own."""
    return {
        "model": model,
        "classes": classes,
        "smoothing": plan.smoothing.to_json(),
        "radii": plan.radii,
        "client": plan.client,
        "request": plan.request,
    }


def _digest(work: dict[str, Any]) -> str:
    return "sha256:" + hashlib.sha256(json.dumps(work, sort_keys=True).encode()).hexdigest()


def _fingerprint(plan: CertificationPlan, model: str, classes: tuple[str, ...], data: LocalData) -> dict[str, Any]:
    """Everything that determines an example's result; a journal with another fingerprint cannot be resumed."""
    block = plan.streams(Seed.fixed(0)).block_size(data.shape)
    return {
        **_work(plan, model, classes),
        "seed": plan.seed,
        "every": plan.every,
        "looks": None if plan.smoothing.is_population else _looks(plan, block),
        "block": block,
        "labels": hashlib.sha256(np.ascontiguousarray(data.labels).tobytes()).hexdigest(),
        "shape": data.shape,
    }


def _looks(plan: CertificationPlan, block: int) -> tuple[Any, Any]:
    looks = SamplingPolicy.of(plan.smoothing, plan.radii, block).looks
    return looks.sizes, looks.shares


def _classes(plan: CertificationPlan, classifier: Classifier, data: LocalData) -> tuple[str, ...]:
    """The classes' names: the plan's, or the indices of the model's outputs."""
    first = next(data.pieces(), None)
    width = None if first is None else classifier.width(first[1][:1])
    if plan.classes is None:
        if width is None and not len(data):
            raise DataProblem("there are no examples, so the classes must be named (--classes FILE, or classes=…)")
        return tuple(str(index) for index in range(width or int(data.labels.max()) + 1))
    if width is not None:
        check_width(width, len(plan.classes))
    return plan.classes


def _check_labels(data: LocalData, classes: int) -> None:
    wrong = np.flatnonzero(data.labels >= classes)
    if len(wrong):
        shifted_labels = data.labels.min() == 1 and data.labels.max() == classes
        remedy = "name all classes, in the order of the model's outputs"
        raise DataProblem(
            f"y[{wrong[0]}] must be a class index from 0 to {classes - 1}, but is {data.labels[wrong[0]]}; "
            f"{'labels seem to start at 1: give y - 1' if shifted_labels else remedy}"
        )
