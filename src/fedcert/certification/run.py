"""The client's work: a model and local test data in, a report out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert.certification.classifiers import Classifier, classifier_of
from fedcert.certification.data import LocalData, data_of
from fedcert.certification.models import onnx_classifier
from fedcert.certification.noise import Gaussian, Phase, Streams
from fedcert.certification.procedures import fixed
from fedcert.certification.sampler import Images, Sampler, check_width
from fedcert.errors import CallError, DataProblem, FedcertWarning, ModelProblem, shown
from fedcert.report import DEFAULT_RADII, Report, Request, Smoothing
from fedcert.report.fields import CLASSES, RADII
from fedcert.report.kinds import Kind, Nullable, Text, Whole
from fedcert.version import __version__

_TRIAL = 1000


class Watcher:
    """Told how certification goes; this one does not care."""

    def forecast(self, samples: int, rate: float) -> None:
        """Before it starts: samples to draw, and samples per second that were measured."""

    def advance(self, samples: int) -> None:
        """So many more samples were drawn."""


@dataclass(frozen=True)
class Plan:
    """What a client is going to do.

    Attributes:
        client: the client's name.
        smoothing: how to smooth and certify.
        radii: at which radii to count.
        classes: class names; None takes the model's indices as names.
        class_counts: whether the report tells counts per class.
        every: certify every so many-th example only.
        seed: of the noise; it stays out of the report.
        batch_size: samples per call of the model; found by itself where None.
        request: digest of the request that is answered.
    """

    client: str
    smoothing: Smoothing
    radii: tuple[float, ...] = DEFAULT_RADII
    classes: tuple[str, ...] | None = None
    class_counts: bool = False
    every: int = 1
    seed: int = 0
    batch_size: int | None = None
    request: str | None = None

    def __post_init__(self) -> None:
        # Checked now: a report that cannot be written must not cost hours first.
        for name, kind in _PLAN_KINDS.items():
            object.__setattr__(self, name, kind.take(getattr(self, name), name))


_PLAN_KINDS: dict[str, Kind] = {
    "client": Text(),
    "radii": RADII,
    "classes": Nullable(CLASSES),
    "every": Whole(least=1),
    "seed": Whole(least=-(2**63)),
    "batch_size": Nullable(Whole(least=1)),
}


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
    watcher: Watcher | None = None,
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
        n: samples that bound its probability (1,000 where None).
        failure_probability: of each certificate (0.001 where None).
        radii: increasing radii (0 to 1 in steps of 0.05 where None).
        classes: class names in the order of the model's outputs.
        class_counts: tell counts per class too, which reveals more.
        every: certify every so many-th example only.
        seed: of the noise.
        device: where a torch module is to run; it is moved there.
        batch_size: samples per call of the model.
        model_id: name of a bare callable.
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
        "radii": radii, "classes": classes,
    }  # fmt: skip
    plan = make_plan(
        client, request, {name: value for name, value in given.items() if value is not None},
        class_counts=class_counts, every=every, seed=seed, batch_size=batch_size,
    )  # fmt: skip
    data = data_of(x, y, groups)
    if request is not None:
        check_request(request, client, classifier.identity, -(-len(data) // plan.every), datetime.now(UTC))
    return carry_out(plan, classifier, data, watcher or Watcher())


def make_plan(client: str, request: Request | None, given: dict[str, Any], **rest: Any) -> Plan:
    """A plan from a request or from single settings, never from both.

    Raises:
        CallError: a setting is given beside a request, or sigma is given by neither.
    """
    if request is not None:
        if given:
            raise CallError(
                f"the request already says {', '.join(given)}: leave {'it' if len(given) == 1 else 'them'} out"
            )
        settings = request.smoothing
        return Plan(client, settings, request.radii, request.classes, request=request.digest, **rest)
    if "sigma" not in given:
        raise CallError("sigma is needed (or a request, which says it): the standard deviation of the noise")
    smoothing = {name: given[name] for name in ("sigma", "n0", "n", "failure_probability") if name in given}
    radii, classes = given.get("radii"), given.get("classes")
    return Plan(
        client,
        Smoothing(**smoothing),
        DEFAULT_RADII if radii is None else radii,
        classes,
        **rest,
    )


def check_request(request: Request, client: str, model: str, examples: int, now: datetime) -> None:
    """Check, before hours of work, that the coordinator would take the answer.

    Raises:
        CallError: the client is not on the roster, or the deadline has passed.
        ModelProblem: another model is asked for.
        DataProblem: sites with so few examples are asked not to answer.
    """
    if request.roster is not None and client not in request.roster:
        raise CallError(
            f"the client {shown(client)} is not on the request's roster; check its name with the coordinator"
        )
    if request.late(now):
        raise CallError(f"the request's deadline {request.deadline} has passed; ask the coordinator for a new request")
    if model != request.model:
        raise ModelProblem(
            f"the request asks for the model {request.model}, but this one is {model}; get the right weights"
        )
    least = request.release.minimum_examples
    if examples < least:
        raise DataProblem(
            f"the request asks sites with fewer than {least} examples not to answer, and there are {examples} here; "
            "nothing was done"
        )


def carry_out(plan: Plan, classifier: Classifier, data: LocalData, watcher: Watcher) -> Report:
    """Certify a client's data and count.

    Raises:
        ModelProblem: the model fails.
        DataProblem: the data cannot be used.
    """
    with classifier.running():
        classes = _classes(plan, classifier, data)
        _check_labels(data, len(classes))
        noise, streams = Gaussian(plan.smoothing.sigma), Streams(plan.seed, plan.client)
        sampler = classifier.sampler(len(classes), noise, streams, plan.batch_size)
        tally = _Tally(len(classes), len(plan.radii))
        examples = -(-len(data) // plan.every)
        for indices, images in data.pieces(plan.every):
            if not tally.samples:
                _check_range(images, plan.smoothing.sigma)
                _forecast(sampler, images, examples * (plan.smoothing.n0 + plan.smoothing.n), watcher)
            labels = data.labels[indices]
            certificates = fixed(sampler, images, indices, plan.smoothing, watcher.advance)
            right = certificates.selected == labels
            tally.add(labels, certificates.certified(labels, plan.radii))
            tally.abstained += int((right & certificates.abstains).sum())
            tally.samples += int(certificates.samples.sum())
    return Report(
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
        design_effect=_design_effect(data, plan),
        largest_group=_largest_group(data, plan),
        samples=tally.samples,
        software=f"fedcert {__version__}",
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


@dataclass
class _Tally:
    classes: int
    radii: int
    abstained: int = 0
    samples: int = 0
    labels: npt.NDArray[np.int64] = field(init=False)
    certified: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.labels = np.zeros(self.classes, dtype=np.int64)
        self.certified = np.zeros((self.classes, self.radii), dtype=np.int64)

    def add(self, labels: npt.NDArray[np.int64], certified: npt.NDArray[np.bool_]) -> None:
        np.add.at(self.labels, labels, 1)
        np.add.at(self.certified, labels, certified.astype(np.int64))


def _classes(plan: Plan, classifier: Classifier, data: LocalData) -> tuple[str, ...]:
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


def _design_effect(data: LocalData, plan: Plan) -> tuple[float, ...] | None:
    """Σ m²/n over the groups' sizes m: the most that examples which belong together can inflate a variance.

    It is reached when all examples of a group are alike, and it keeps Hoeffding's inequality exact, in which a group of
    m examples is one variable between 0 and m.
    """
    if data.groups is None or not len(data):
        return None
    _, sizes = np.unique(data.groups[:: plan.every], return_counts=True)
    return (float(np.sum(sizes.astype(np.float64) ** 2) / sizes.sum()),) * len(plan.radii)


def _largest_group(data: LocalData, plan: Plan) -> int | None:
    if data.groups is None or not len(data):
        return None
    _, sizes = np.unique(data.groups[:: plan.every], return_counts=True)
    return int(sizes.max())


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
    if low < -0.01 or high > 1.01 or not spread / 100 <= sigma <= 2 * max(spread, 1e-9):
        warnings.warn(
            f"the inputs range from {low:.3g} to {high:.3g} and sigma is {sigma:g}; sigma and the radii are in the "
            "units of the inputs, which usually lie in [0, 1]: scale pixels to that, "
            "and keep normalisation inside the model",
            FedcertWarning,
            stacklevel=3,
        )


def _forecast(sampler: Sampler, images: Images, samples: int, watcher: Watcher) -> None:
    # The first call pays for caches and kernels; the second tells the speed.
    trial = min(samples, _TRIAL)
    for size in (min(trial, _TRIAL // 10), trial):
        start = time.perf_counter()
        sampler.counts(images[:1], [0], Phase.FORECAST, size)
    watcher.forecast(samples, trial / max(time.perf_counter() - start, 1e-9))
