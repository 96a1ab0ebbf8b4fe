"""The plan of a client's certification, checked before hours of work."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from fedcert._schema.declare import Checked, defaulting, optional, required
from fedcert._schema.field_types import Flag, Number, Text, Whole
from fedcert._schema.record import Nested
from fedcert._schema.suggestions import closest
from fedcert.certification.seeds import Seed
from fedcert.certification.streams import LARGEST_BLOCK, Streams
from fedcert.errors import CallError, DataProblem, ModelProblem, preview
from fedcert.report import DEFAULT_RADII, Request, Smoothing
from fedcert.report.fields import CLASSES, RADII
from fedcert.report.input_range import INPUT_COLUMNS, INPUT_RANGE, INPUT_SHAPE, InputRange
from fedcert.report.noises import NOISES

MINIMUM_EXAMPLES = 10
"""Of a report that time cut short: the labels of fewer examples would nearly be those of single people."""


@dataclass(frozen=True)
class CertificationPlan(Checked):
    """What a client is going to certify, and how.

    Attributes:
        client: the client's name.
        smoothing: how to smooth and certify.
        radii: at which radii to count.
        classes: class names; None takes the model's indices as names.
        class_counts: whether the report discloses counts per class; where None, if the request asks for them.
        every: certify one example in so many only; which ones, depends on each by itself.
        seed: of the noise, for tests and reproductions; None draws a secret one.
        batch_size: samples per call of the model; computed from sizes where None.
        compile: whether torch is to compile the model; where it pays, if None.
        time_budget: seconds after which to stop with what is done.
        minimum_examples: fewest examples that a report is about if time runs out, or all where there are fewer.
        request: digest of the request that is answered.
        input_range: within which inputs must lie; where None, a range that is out of the ordinary is pointed out.
        input_shape: of one example; not checked where None.
        input_columns: names of a table's columns, in order; not checked where None.
        precision_is_open: whether the precision was left to the model's device (`with_precision`).
        lattice_is_open: whether the lattice was left to the data (`with_lattice`).
    """

    client: str = required(Text())
    smoothing: Smoothing = required(Nested(Smoothing))
    radii: tuple[float, ...] = defaulting(RADII, DEFAULT_RADII)
    classes: tuple[str, ...] | None = optional(CLASSES)
    class_counts: bool | None = optional(Flag())
    every: int = defaulting(Whole(least=1), 1)
    seed: int | None = optional(Whole(least=-(2**63)))
    batch_size: int | None = optional(Whole(least=1))
    compile: bool | None = optional(Flag())
    time_budget: float | None = optional(Number(above=0))
    minimum_examples: int = defaulting(Whole(least=1), MINIMUM_EXAMPLES)
    request: str | None = None
    input_range: InputRange | None = optional(INPUT_RANGE)
    input_shape: tuple[int, ...] | None = optional(INPUT_SHAPE)
    input_columns: tuple[str, ...] | None = optional(INPUT_COLUMNS)
    precision_is_open: bool = False
    lattice_is_open: bool = False

    def streams(self, seed: Seed) -> Streams:
        """The client's noise. Where fewer samples than a block are drawn of an example, blocks are no longer."""
        if not self.smoothing.is_population:
            return Streams(seed, self.client)
        return Streams(seed, self.client, min(self.smoothing.n, LARGEST_BLOCK))

    def examples_of(self, data: Sized) -> int:
        """About how many of a client's examples are to be certified; exact where all are."""
        return -(-len(data) // self.every)

    def with_lattice(self, lattice: int | None) -> CertificationPlan:
        """The plan with its lattice settled: the data's, where none was asked for and the noise can be drawn on it."""
        settled = replace(self, lattice_is_open=False)
        if not self.lattice_is_open or lattice is None or not NOISES[self.smoothing.noise].on_lattice:
            return settled
        return replace(settled, smoothing=replace(self.smoothing, lattice=lattice))

    def with_precision(self, default: str) -> CertificationPlan:
        """The plan with its precision settled: that of the model's device, where no other was asked for."""
        if not self.precision_is_open:
            return self
        return replace(self, smoothing=replace(self.smoothing, precision=default), precision_is_open=False)


def plan_certification(client: str, request: Request | None, given: dict[str, Any], **rest: Any) -> CertificationPlan:
    """A plan from a request or from single settings, never from both.

    Args:
        client: the client's name.
        request: the coordinator's request.
        given: settings of smoothing by name, "radii" and "classes"; None stands for the default.
        rest: other fields of the plan.

    Raises:
        CallError: a setting is given beside a request, or sigma is given by neither.
    """
    settings = {name: value for name, value in given.items() if value is not None}
    if request is not None:
        check_not_in_request(settings)
        asked, own_range = request.smoothing, rest.pop("input_range", None)
        if own_range is not None and request.input_range not in (None, tuple(own_range)):
            raise CallError("the request already says input_range: leave it out")
        if rest.get("class_counts") is None:
            rest["class_counts"] = request.release.class_counts
        return CertificationPlan(
            client, asked, request.radii, request.classes, request=request.digest,
            input_range=request.input_range or own_range, input_shape=request.input_shape,
            input_columns=request.input_columns, **rest,
        )  # fmt: skip
    if "sigma" not in settings:
        raise CallError("sigma is needed (or a request, which says it): the standard deviation of the noise")
    radii, classes = settings.pop("radii", None), settings.pop("classes", None)
    if settings.get("lattice") == 0:  # said that there is none
        settings["lattice"] = None
    rest |= {f"{name}_is_open": name not in settings for name in ("precision", "lattice")}
    smoothing = Smoothing.defaults(**settings)
    return CertificationPlan(client, smoothing, radii or smoothing.default_radii, classes, **rest)


def check_not_in_request(given: Mapping[str, Any]) -> None:
    """Check that no setting is given beside a request, which has them all.

    Raises:
        CallError: one is.
    """
    if twice := [name for name, value in given.items() if value is not None]:
        raise CallError(f"the request already says {', '.join(twice)}: leave {'it' if len(twice) == 1 else 'them'} out")


def settings_from(request: Request, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a request by name, as `plan_certification` takes them without one.

    Raises:
        CallError: one of them is given too.
    """
    check_not_in_request(given)
    smoothing = {name: getattr(request.smoothing, name, None) for name in given}
    return {**smoothing, "lattice": request.smoothing.lattice or 0, "radii": request.radii, "classes": request.classes}


def check_model(request: Request, model: str) -> None:
    """Check that a model is the one that a request is about.

    Raises:
        ModelProblem: it is another.
    """
    if model != request.model:
        raise ModelProblem(
            f"the request asks for the model {request.model}, but this one is {model}; get the right weights, in the "
            "format of the request: an ONNX file and a safetensors file of the same weights have different digests"
        )


def check_request(request: Request, client: str, model: str, examples: int, now: datetime) -> None:
    """Check, before hours of work, that the coordinator would take the answer.

    Raises:
        CallError: the client is not on the roster, or the deadline has passed.
        ModelProblem: another model is asked for.
        DataProblem: sites with so few examples are asked not to answer.
    """
    if request.roster is not None and client not in request.roster:
        meant = closest(client, request.roster)
        remedy = "check its name with the coordinator" if meant is None else f"did you mean {preview(meant)}?"
        raise CallError(f"the client {preview(client)} is not on the request's roster; {remedy}")
    if request.late(now):
        raise CallError(f"the request's deadline {request.deadline} has passed; ask the coordinator for a new request")
    check_model(request, model)
    least = request.release.minimum_examples
    if examples < least:
        raise DataProblem(
            f"the request asks sites with fewer than {least} examples not to answer, and there are {examples} here; "
            "nothing was done"
        )
