"""The public function `certify`: a model and local test data in, a report out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy.typing as npt

from fedcert._files.saved import path_of
from fedcert.certification.data.batches import examples_in, holds_labels
from fedcert.certification.data.local_data import LocalData, data_of
from fedcert.certification.dataset_run import certify_dataset
from fedcert.certification.models.classifiers import classifier_of
from fedcert.certification.models.loading import onnx_classifier
from fedcert.certification.plan import MINIMUM_EXAMPLES, check_request, plan_certification
from fedcert.certification.progress import ProgressListener
from fedcert.certification.progress_bar import listening
from fedcert.errors import CallError, preview
from fedcert.report import Report, Request


def certify(
    model: object,
    x: npt.ArrayLike | Iterable[Any],
    y: npt.ArrayLike | None = None,
    *,
    groups: npt.ArrayLike | None = None,
    client: str,
    sigma: float | None = None,
    request: Request | str | Path | None = None,
    n0: int | None = None,
    n: int | None = None,
    failure_probability: float | None = None,
    radii: Sequence[float] | None = None,
    classes: Sequence[str] | None = None,
    class_counts: bool | None = None,
    every: int = 1,
    lattice: int | None = None,
    seed: int | None = None,
    seed_file: str | Path | None = None,
    device: str | None = None,
    batch_size: int | None = None,
    model_id: str | None = None,
    noise: str | None = None,
    procedure: str | None = None,
    tolerance: float | None = None,
    votes: int | None = None,
    precision: str | None = None,
    compile: bool | None = None,
    time_budget: float | None = None,
    minimum_examples: int = MINIMUM_EXAMPLES,
    input_range: Sequence[float] | None = None,
    progress: ProgressListener | bool | None = None,
) -> Report:
    """Certify a model on local test data, and count: all that leaves is in the report.

    The noise is added to `x` as it is given, so a normalisation layer belongs inside the model; sigma
    and the radii are in the units of `x`. Typical inputs are in [0, 1].

    Guarantee: with CERTIFY, each certificate (an example counted at radius r) is wrong with probability at most
    `failure_probability` over the noise: then the smoothed classifier predicts the true label everywhere
    within L2 distance r. It is about the smoothed classifier, not about the base network. With the population
    procedure, an example's right answers are binomial with its probability of a right answer under noise, from which
    `estimate` proves what the vote of a few noisy copies keeps on average over a population.

    Args:
        model: a torch module, the path of an ONNX file, a fitted scikit-learn classifier (or anything else with its
            predict_proba), or any callable from a float32 batch to scores (examples x classes) or labels.
        x: test examples, the first axis counts them. Or what gives examples with their labels, and then without `y`: a
            DataLoader, a data set, or any iterable of batches; each item is a pair, or a mapping with an image and a
            label.
        y: class index of each example, or its class's name where the classes are named.
        groups: which examples belong together (several images of one patient), named by numbers or texts; intervals
            then count each group as what it is. Nothing but one figure, the design effect, leaves.
        client: the client's name, unique in its federation; it also separates the clients' noise.
        sigma: standard deviation of the noise.
        request: a coordinator's request to answer, or its file; it then says sigma, n0, n, failure probability,
            radii and classes, and which model.
        n0: CERTIFY: samples that select a class (100 where None).
        n: noisy passes of each example with population certificates (32 where None); with CERTIFY samples that bound
            the class's probability: the most of them (10,000 where None), or all with the fixed procedure (1,000).
        failure_probability: CERTIFY: of each certificate (0.001 where None).
        radii: increasing radii; where None, 20 steps from 0 to 2 sigma with population certificates, and to the largest
            radius that the settings can certify with CERTIFY.
        classes: class names in the order of the model's outputs.
        class_counts: include counts per class: tighter intervals, but they disclose each class's accuracy. Where None,
            if the request asks for them.
        every: certify one example in so many only.
        lattice: m where all inputs are multiples of 1/m: noise is then rounded to these and drawn exactly, and the
            guarantee holds in floating point too. Where None, 255 for images of 8 bits (uint8), else no lattice; 0
            for none in any case.
        seed: of the noise, for tests and reproductions: anyone who knows it can fit a model to the noise. Where None, a
            secret one is drawn.
        seed_file: where to keep a secret seed, for an audit, and so that the same work gives the same report again.
        device: where a torch module is to run; it is moved there.
        batch_size: samples per call of the model.
        model_id: name of a scikit-learn classifier or a bare callable, which have no weights to take a digest of; the
            same at all sites.
        noise: "gaussian" (radii in L2; where None), "uniform" (radii in L1), or another registered one.
        procedure: "population" (counts right answers, for averages over examples; where None, with Gaussian noise), or
            CERTIFY for single examples: "sequential" (no more samples than the radii need) or "fixed" (n for each).
        tolerance: sequential: about the most certified accuracy that giving up on examples may cost at any radius
            (0.005 where None).
        votes: population: noisy copies that vote on an answer of the deployed classifier (11 where None).
        precision: "float32", "tf32" or "bfloat16": the certificate is about the model as it ran. Where None, "bfloat16"
            for a torch module on a GPU that computes in it, and "float32" elsewhere.
        compile: whether torch is to compile the model; where it pays, if None.
        time_budget: seconds after which to stop with a smaller, valid report, about at least `minimum_examples`.
        minimum_examples: the fewest examples of a report that time cuts short.
        input_range: the least and the largest value that `x` may hold, checked before anything is certified. Where None
            and no request states it, pixels that look like 0 to 255 with a sigma for 0 to 1 are refused.
        progress: where None, a forecast and a bar are shown on standard error if a person is looking: on a terminal or
            in a notebook, and not on CI. True shows them in any case, False never. A `ProgressListener` is called
            instead as the work goes on.

    Raises:
        CallError: arguments that do not go together.
        ModelProblem: the model fails, or is not the one that was asked for.
        DataProblem: the data cannot be used.

    Examples:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).random((20, 4))
        >>> y = (x[:, 0] > 0.5).astype(int)
        >>> report = certify(lambda batch: (batch[:, 0] > 0.5).astype(int), x, y,
        ...                  sigma=0.25, client="site-07", model_id="threshold")
        >>> report.label_counts
        (10, 10)
    """
    if isinstance(model, (str, Path)):
        model, device = onnx_classifier(model, device or "auto"), None
    if request is not None and not isinstance(request, Request):
        request = Request.load(path_of(request, "request"))
    names = classes if request is None else request.classes
    classifier = classifier_of(model, model_id=model_id, device=device, classes=names)
    settings = {
        "sigma": sigma, "n0": n0, "n": n, "failure_probability": failure_probability,
        "radii": radii, "classes": classes, "noise": noise, "procedure": procedure, "tolerance": tolerance,
        "votes": votes, "precision": precision, "lattice": lattice,
    }  # fmt: skip
    plan = plan_certification(
        client, request, settings,
        class_counts=class_counts, every=every, seed=seed, batch_size=batch_size, compile=compile,
        time_budget=time_budget, minimum_examples=minimum_examples, input_range=input_range,
    )  # fmt: skip
    data = _local_data(x, y, groups, plan.classes)
    if request is not None:
        check_request(request, client, classifier.identity, plan.examples_of(data), datetime.now(UTC))
    kept = None if seed_file is None else Path(seed_file)
    with listening(progress) as listener:
        return certify_dataset(plan, classifier, data, listener, seed_file=kept).report


def _local_data(x: Any, y: Any, groups: Any, classes: Sequence[str] | None) -> LocalData:
    """Arrays, or what gives examples with their labels.

    Raises:
        CallError: labels are missing, or given twice.
        DataProblem: the data cannot be used.
    """
    if y is not None:
        if not hasattr(x, "shape") and hasattr(x, "dataset"):
            raise CallError("a DataLoader gives the labels too: leave y out")
        return data_of(x, y, groups, classes)
    if isinstance(x, (str, Path)):
        raise CallError(
            f"x must be the examples themselves, but is the path {preview(str(x))}: load them, such as by "
            "data = numpy.load(path), and give x=data['x'] and y=data['y']"
        )
    if not holds_labels(x):
        raise CallError(
            "y is missing: give the class index of each example as y, or a DataLoader or data set that gives both"
        )
    return data_of(*examples_in(x), groups, classes)
