"""The client's work: a model and local test data in, a report out."""

from __future__ import annotations

import hashlib
import itertools
import math
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert.certification.data.local_data import LocalData, data_of
from fedcert.certification.journal import Journal
from fedcert.certification.models.classifiers import Classifier, classifier_of
from fedcert.certification.models.loading import onnx_classifier
from fedcert.certification.perturbation import Streams, block_size, perturbation_of
from fedcert.certification.plan import CertificationPlan, check_request, plan_certification
from fedcert.certification.samplers.protocol import Images, Sampler, check_width
from fedcert.certification.samplers.warmup import warm_up
from fedcert.certification.scheduler import Certificate, CertificationScheduler, SamplingPolicy
from fedcert.certification.tally import Tally, design_effects
from fedcert.errors import CallError, DataProblem, FedcertWarning
from fedcert.report import Report, Request
from fedcert.version import __version__

_SPREAD = (0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15)
"""Every sixteenth example, from these on: at any moment those begun are spread over all of the data."""


class ProgressListener:
    """Told how certification goes; this one does not care."""

    def forecast(self, samples: int, rate: float) -> None:
        """Before it starts: samples to draw, and samples per second that were measured."""

    def forecast_at_most(self, samples: int, rate: float, examples: int) -> None:
        """The same for the sequential procedure, which needs fewer: so many at most, for so many examples."""

    def finished(self, examples: int) -> None:
        """So many more examples are done."""

    def advance(self, samples: int) -> None:
        """So many more samples were drawn."""

    def resumed(self, examples: int) -> None:
        """An earlier run left a journal in which so many examples are done."""

    def keeping(self, journal: Path) -> None:
        """What is done is being kept in a journal."""

    def late(self, done: int, of: int) -> None:
        """The time budget is spent; so many examples were certified."""


def certify(
    model: object,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    client: str,
    sigma: float | None = None,
    request: Request | None = None,
    n0: int | None = None,
    n: int | None = None,
    failure_probability: float | None = None,
    radii: Sequence[float] | None = None,
    classes: Sequence[str] | None = None,
    class_counts: bool = False,
    every: int = 1,
    seed: int = 0,
    device: str | None = None,
    batch_size: int | None = None,
    model_id: str | None = None,
    noise: str | None = None,
    procedure: str | None = None,
    tolerance: float | None = None,
    precision: str | None = None,
    compile: bool | None = None,
    time_budget: float | None = None,
    watcher: ProgressListener | None = None,
) -> Report:
    """Certify a model on local test data, and count: all that leaves is in the report.

    The noise is added to `x` as it is given, so a normalisation layer belongs inside the model; sigma
    and the radii are in the units of `x`. Inputs in [0, 1] are usual.

    Guarantee: each certificate (an example counted at radius r) is wrong with probability at most
    `failure_probability` over the noise: then the smoothed classifier predicts the true label everywhere
    within L2 distance r. It is about the smoothed classifier, not about the base network.

    Args:
        model: a torch module, the path of an ONNX file, or any callable from a float32 batch to scores
            (examples x classes) or labels.
        x: test examples, the first axis counts them.
        y: class index of each.
        groups: which examples belong together (several images of one patient), named by numbers or texts; intervals
            then count each group as what it is. Nothing but one figure, the design effect, leaves.
        client: the client's name, unique in its federation; it also separates the clients' noise.
        sigma: standard deviation of the noise.
        request: a coordinator's request to answer; it then says sigma, n0, n, failure probability,
            radii and classes, and which model.
        n0: samples that select a class (100 where None).
        n: samples that bound its probability: the most of them (10,000 where None), or all of them with the fixed
            procedure (1,000 where None).
        failure_probability: of each certificate (0.001 where None).
        radii: increasing radii (0 to 1 in steps of 0.05 where None).
        classes: class names in the order of the model's outputs.
        class_counts: tell counts per class too, which reveals more.
        every: certify every so many-th example only.
        seed: of the noise.
        device: where a torch module is to run; it is moved there.
        batch_size: samples per call of the model.
        model_id: name of a bare callable.
        noise: "gaussian" (radii in L2; where None) or "uniform" (radii in L1).
        procedure: "sequential" (no more samples than the radii need; where None) or "fixed" (n for each example).
        tolerance: sequential: about the most certified accuracy that giving up on examples may cost at any radius
            (0.005 where None).
        precision: "float32" (where None), "tf32" or "bfloat16": the certificate is about the model as it ran.
        compile: whether torch is to compile the model; where it pays, if None.
        time_budget: seconds after which to stop with a smaller, valid report.
        watcher: told about progress.

    Raises:
        CallError: arguments that do not go together.
        ModelProblem: the model fails, or is not the one that was asked for.
        DataProblem: the data cannot be used.

    Examples:
        >>> import numpy as np
        >>> x, y = np.random.default_rng(0).random((20, 4)), np.array([0, 1] * 10)
        >>> report = certify(lambda batch: (batch[:, 0] > 0.5).astype(int), x, y,
        ...                  sigma=0.25, client="site-07", model_id="threshold")
        >>> report.label_counts
        (10, 10)
    """
    if isinstance(model, (str, Path)):
        model, device = onnx_classifier(model, device or "auto"), None
    classifier = classifier_of(model, model_id=model_id, device=device)
    given = {
        "sigma": sigma, "n0": n0, "n": n, "failure_probability": failure_probability,
        "radii": radii, "classes": classes, "noise": noise, "procedure": procedure, "tolerance": tolerance,
        "precision": precision,
    }  # fmt: skip
    plan = plan_certification(
        client, request, {name: value for name, value in given.items() if value is not None},
        class_counts=class_counts, every=every, seed=seed, batch_size=batch_size, compile=compile,
        time_budget=time_budget,
    )  # fmt: skip
    data = data_of(x, y, groups)
    if request is not None:
        check_request(request, client, classifier.identity, -(-len(data) // plan.every), datetime.now(UTC))
    return certify_dataset(plan, classifier, data, watcher or ProgressListener()).report


def certify_dataset(
    plan: CertificationPlan,
    classifier: Classifier,
    data: LocalData,
    watcher: ProgressListener,
    journal: Path | None = None,
) -> CertificationResult:
    """Certify a client's data and count.

    Args:
        plan: what to do.
        classifier: the model.
        data: the client's test examples.
        watcher: told about progress.
        journal: where to remember how far the work is; remove it when the result is safe.

    Raises:
        ModelProblem: the model fails.
        DataProblem: the data cannot be used.
        CallError: another run is writing to the journal, or it is of other work.
        FileProblem: the journal cannot be used.
    """
    deadline = None if plan.time_budget is None else time.monotonic() + plan.time_budget
    with classifier.running(plan.smoothing.precision), ExitStack() as stack:
        classes = _classes(plan, classifier, data)
        _check_labels(data, len(classes))
        notes = None
        if journal is not None:
            settings = _fingerprint(plan, classifier.identity, classes, data)
            notes = stack.enter_context(Journal(journal, settings))
            watcher.keeping(journal)
            if notes.resumed:
                watcher.resumed(sum(standing.done for standing in notes.standings.values()))
        streams = Streams(plan.seed, plan.client)
        sampler = classifier.sampler(
            len(classes), perturbation_of(plan.smoothing), streams, plan.batch_size, plan.smoothing.precision
        )
        outcomes, complete = _outcomes(plan, sampler, data, watcher, notes, deadline)
        tally = Tally.of(outcomes, data.labels, len(classes), plan.radii)
    report = Report(
        client=plan.client,
        model=classifier.identity,
        request=plan.request,
        smoothing=plan.smoothing,
        radii=plan.radii,
        classes=classes,
        label_counts=tuple(tally.labels.tolist()),
        certified_counts=tuple(tally.certified.sum(axis=0).tolist()),
        class_certified_counts=tuple(map(tuple, tally.certified.tolist())) if plan.class_counts else None,
        abstained=tally.abstained,
        samples=int(sum(outcome.samples for outcome in outcomes)),
        software=f"fedcert {__version__}",
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **design_effects(data, [outcome.index for outcome in outcomes], len(plan.radii)),
    )
    return CertificationResult(report, tuple(outcomes), complete)


@dataclass(frozen=True)
class CertificationResult:
    """The work done.

    Attributes:
        report: what may leave.
        outcomes: what became of each example, by index; it stays.
        complete: whether no example was left out for want of time.
    """

    report: Report
    outcomes: tuple[Certificate, ...]
    complete: bool = True


def _outcomes(
    plan: CertificationPlan,
    sampler: Sampler,
    data: LocalData,
    watcher: ProgressListener,
    journal: Journal | None,
    deadline: float | None,
) -> tuple[list[Certificate], bool]:
    """What becomes of each example, or, where time runs out, of those that were begun in time; whether it did not."""
    campaign: CertificationScheduler | None = None
    outcomes: list[Certificate] = []
    examples = -(-len(data) // plan.every)

    def gather(some: Iterable[Certificate]) -> None:
        before = len(outcomes)
        outcomes.extend(some)
        watcher.finished(len(outcomes) - before)

    def left() -> float:
        return math.inf if deadline is None else deadline - time.monotonic()

    order: list[int] = []
    for index, image, piece in _one_by_one(data, plan):
        if campaign is None:
            campaign = _begin(plan, sampler, piece, examples, watcher, journal)
        known = campaign.recall(index, image)
        if known is not None:
            order.append(index)
            gather([known])
            continue
        while campaign.busy and left() > 0 and not (campaign.has_room and campaign.fits(left())):
            gather(campaign.advance(left()))
        # The first is tried in any case; later ones are begun only if they can be finished.
        if left() <= 0 or (order and not campaign.fits(left())):
            break
        campaign.admit(index, image, int(data.labels[index]))
        order.append(index)
    while campaign is not None and campaign.busy and left() > 0:
        gather(campaign.advance(left()))
    if len(outcomes) < examples:
        outcomes = _before_the_first_unfinished(order, outcomes)
        if not outcomes:  # a report about nothing would replace a better one
            raise CallError(_too_short(plan, campaign))
        watcher.late(len(outcomes), examples)
    return sorted(outcomes, key=lambda outcome: outcome.index), len(outcomes) == examples


def _before_the_first_unfinished(order: Sequence[int], outcomes: Sequence[Certificate]) -> list[Certificate]:
    """The outcomes that came in time, up to the first in order that did not.

    Hard examples take longer. So which ones count must not depend on how long each took itself.
    """
    done = {outcome.index: outcome for outcome in outcomes}
    return [done[index] for index in itertools.takewhile(done.__contains__, order)]


def _too_short(plan: CertificationPlan, campaign: CertificationScheduler | None) -> str:
    most = plan.smoothing.n0 + plan.smoothing.n
    speed = (
        f"at {campaign.rate:,.3g} samples a second, one needs up to {most / campaign.rate:,.3g} s" if campaign else ""
    )
    return (
        f"time_budget (--time-budget) of {plan.time_budget:g} s was over before any example was certified: {speed}; "
        "give more time, or a smaller n"
    )


def _one_by_one(data: LocalData, plan: CertificationPlan) -> Iterator[tuple[int, Images, Images]]:
    """Each example's index and image, and the piece of data that it came with."""
    for indices, images in _in_order(data, plan):
        for index, image in zip(indices, images, strict=True):
            yield index, image, images


def _in_order(data: LocalData, plan: CertificationPlan) -> Iterator[tuple[list[int], Images]]:
    """The examples; with a time budget spread over the data, so that those done in time stand for all."""
    if plan.time_budget is None:
        yield from data.pieces(plan.every)
        return
    for offset in _SPREAD:
        yield from data.pieces(plan.every * len(_SPREAD), offset * plan.every)


def _begin(
    plan: CertificationPlan,
    sampler: Sampler,
    images: Images,
    examples: int,
    watcher: ProgressListener,
    journal: Journal | None,
) -> CertificationScheduler:
    smoothing = plan.smoothing
    _check_range(images, smoothing.sigma)
    most = examples * (smoothing.n0 + smoothing.n)
    rate = warm_up(sampler, images, most, sequential=smoothing.procedure == "sequential", compile=plan.compile)
    if smoothing.procedure == "sequential":
        watcher.forecast_at_most(most, rate, examples)
    else:
        watcher.forecast(most, rate)
    course = SamplingPolicy.of(smoothing, plan.radii, block_size(images.shape[1:]))
    return CertificationScheduler(sampler, course, rate, journal, watcher.advance)


def _fingerprint(plan: CertificationPlan, model: str, classes: tuple[str, ...], data: LocalData) -> dict[str, Any]:
    """All that the outcome of an example depends on: a journal of anything else is of no use."""
    block = block_size(data.shape)
    looks = SamplingPolicy.of(plan.smoothing, plan.radii, block).aim.looks
    return {
        "model": model,
        "classes": classes,
        "smoothing": plan.smoothing.to_json(),
        "radii": plan.radii,
        "client": plan.client,
        "seed": plan.seed,
        "every": plan.every,
        "looks": (looks.sizes, looks.shares),
        "block": block,
        "labels": hashlib.sha256(np.ascontiguousarray(data.labels).tobytes()).hexdigest(),
        "shape": data.shape,
    }


def _classes(plan: CertificationPlan, classifier: Classifier, data: LocalData) -> tuple[str, ...]:
    width = None
    for _, images in data.pieces():
        width = classifier.width(images[:1])
        break
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
        raise DataProblem(
            f"y[{wrong[0]}] must be a class index from 0 to {classes - 1}, but is {data.labels[wrong[0]]}; "
            "name all classes, in the order of the model's outputs"
        )


def _check_range(images: Images, sigma: float) -> None:
    low, high = float(images.min()), float(images.max())
    spread = high - low
    table = images.ndim == 2  # columns may have any range, pixels should not
    odd = (low < -0.01 or high > 1.01) and not table
    if odd or not spread / 100 <= sigma <= 2 * max(spread, 1e-9):
        remedy = "scale the columns to like units" if table else "these usually lie in [0, 1]: scale pixels to that"
        warnings.warn(
            f"the inputs range from {low:.3g} to {high:.3g} and sigma is {sigma:g}; sigma and the radii are in the "
            f"units of the inputs; {remedy}, and keep normalisation inside the model",
            FedcertWarning,
            stacklevel=3,
        )
