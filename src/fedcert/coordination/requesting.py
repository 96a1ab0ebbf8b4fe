"""The public function `request`: what every client must agree on before it certifies."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcert._schema.field_types import ModelName
from fedcert.certification.models.answers import check_width
from fedcert.certification.models.classifiers import ArrayClassifier, TorchClassifier, digest_of_module, is_module
from fedcert.certification.models.digest import shape_in_onnx, width_in_onnx
from fedcert.certification.models.loading import digest_of_file
from fedcert.errors import CallError, FedcertWarning, preview
from fedcert.estimation.target import target_of
from fedcert.privacy.given_keys import given_identity
from fedcert.report import Release, Request, Smoothing
from fedcert.report.fields import CLASSES, ROSTER
from fedcert.report.privacy import TOGETHER, PrivacyBudget
from fedcert.report.request import MOST_EXAMPLES, PrivateSum
from fedcert.rounds import make_request
from fedcert.secagg.threshold import default_threshold, least_for_squares

if TYPE_CHECKING:
    from fedcert.privacy.keys.identity import Identity

_FILES = (".onnx", ".safetensors")


def request(
    model: object,
    sigma: float,
    classes: Sequence[str],
    *,
    radii: Sequence[float] | None = None,
    target: object = None,
    roster: Sequence[str] | None = None,
    seconds: float | None = None,
    deadline: str | None = None,
    class_counts: bool = False,
    minimum_examples: int = 0,
    n0: int | None = None,
    n: int | None = None,
    failure_probability: float | None = None,
    noise: str | None = None,
    procedure: str | None = None,
    tolerance: float | None = None,
    votes: int | None = None,
    precision: str | None = None,
    lattice: int | None = None,
    input_range: Sequence[float] | None = None,
    input_shape: Sequence[int] | None = None,
    input_columns: Sequence[str] | None = None,
    private: bool = False,
    threshold: int | None = None,
    moments: bool = False,
    spread: bool = False,
    fewest_holders: int | None = None,
    most_examples: int = MOST_EXAMPLES,
    epsilon: float | None = None,
    delta: float = 1e-6,
    most_per_patient: int | None = None,
    replace: bool = False,
    sign: Identity | str | Path | None = None,
) -> Request:
    """Make a request: what every site must agree on before it certifies. Save it, and send the file to the sites.

    Args:
        model: the model to certify: a torch module, the path of an .onnx or .safetensors file (for its digest), or the
            digest or name itself.
        sigma: standard deviation of the noise, in the units of the inputs.
        classes: class names in the order of the model's outputs.
        radii: at which radii to count, or, with population certificates, for which to estimate; the procedure's own
            where None.
        target: the target's class mix, in a form that `estimate` takes, where the sites may know it.
        roster: the clients that are asked; anyone may answer where None.
        seconds: how long answers are taken; or give a deadline.
        deadline: until when answers are taken, such as "2026-12-01T12:00:00Z".
        class_counts: ask for counts per class too: tighter intervals, but they disclose each class's accuracy.
        minimum_examples: ask sites with fewer examples not to answer.
        n0: as for `certify`.
        n: as for `certify`.
        failure_probability: as for `certify`.
        noise: as for `certify`.
        procedure: as for `certify`.
        tolerance: as for `certify`.
        votes: as for `certify`.
        precision: as for `certify`.
        lattice: as for `certify`.
        input_range: the least and the largest value that inputs may have, which sites check.
        input_shape: the shape of one example, which sites check; that of the ONNX model where None and `model` is one.
        input_columns: names of a table's columns, in the order of the model's inputs; sites check their CSV files.
        private: ask for a private sum instead of reports; it needs a roster.
        threshold: private: the fewest sites that a sum may be over; more than two thirds where None.
        moments: private: sum what BLUP needs too.
        spread: private: a second sum, for intervals that allow for sites that differ.
        fewest_holders: private: leave classes out that fewer sites hold.
        most_examples: private: a site with more examples is not to take part.
        epsilon: private: noise in the sum, for differential privacy with this epsilon.
        delta: delta of the (epsilon, delta) guarantee.
        most_per_patient: protect patients with up to so many examples, rather than single examples.
        replace: protect what a patient's examples are, not just whether they are there.
        sign: the coordinator's secret keys, or their file, to sign the request.

    Raises:
        CallError: arguments that do not go together, or a file that is not there.
        InvalidValue: a value breaks a rule of requests.
        ModelProblem: an ONNX model gives another number of scores than there are classes.

    Examples:
        >>> asked = request("demo", 0.25, ["cat", "dog"], roster=["site-a", "site-b"], class_counts=True)
        >>> asked.smoothing.n, asked.release.class_counts
        (32, True)
        >>> _ = asked.save("request.json")  # doctest: +SKIP
    """
    keys = None if sign is None else given_identity(sign, "sign")
    names = CLASSES.validate(classes, "classes")
    _check_outputs(model, len(names))
    clients = None if roster is None else ROSTER.validate(roster, "roster")
    if private and keys is not None and keys.name in (clients or ()):
        raise CallError(
            f"{preview(keys.name)} signs the request and is on its roster: who adds up must not be added up"
        )
    budget = privacy_budget(epsilon, delta, most_per_patient, replace, TOGETHER)
    private_sum = _private_sum(
        clients, private, threshold, most_examples, moments=moments, spread=spread, fewest_holders=fewest_holders,
        budget=budget,
    )  # fmt: skip
    given = {
        "n0": n0, "n": n, "failure_probability": failure_probability, "noise": noise, "procedure": procedure,
        "tolerance": tolerance, "votes": votes, "precision": precision, "lattice": lattice,
    }  # fmt: skip
    smoothing = Smoothing.defaults(sigma=sigma, **{name: value for name, value in given.items() if value is not None})
    unsigned = make_request(
        model=_identity_of_model(model), smoothing=smoothing, classes=names, radii=radii, roster=clients,
        target=None if target is None else target_of(target, names), seconds=seconds, deadline=deadline,
        release=Release(class_counts=class_counts, minimum_examples=minimum_examples), private=private_sum,
        input_range=input_range, input_shape=_shape_of_model(model) if input_shape is None else input_shape,
        input_columns=input_columns,
    )  # fmt: skip
    if keys is None:
        return unsigned
    from fedcert.privacy.keys.signing import sign as signed_by

    return signed_by(unsigned, keys)


def privacy_budget(
    epsilon: float | None, delta: float, most_per_patient: int | None, replace: bool, noise: str
) -> PrivacyBudget | None:
    """A privacy budget from its parts; None where there is no epsilon.

    Raises:
        CallError: parts of a budget without epsilon.
        InvalidValue: one of them breaks a rule.
    """
    if epsilon is None:
        if most_per_patient is not None or replace:
            raise CallError(
                "most_per_patient (--most-per-patient) and replace (--replace) are about differential privacy: give "
                "epsilon (--epsilon) too"
            )
        return None
    return PrivacyBudget(
        epsilon=epsilon, delta=delta, unit="example" if most_per_patient is None else "group",
        most_per_unit=most_per_patient or 1, adjacency="replace" if replace else "add-remove", noise=noise,
    )  # fmt: skip


def _identity_of_model(model: Any) -> str:
    """The digest of a model or of its file, or its name."""
    if is_module(model):
        return digest_of_module(model)
    if isinstance(model, (ArrayClassifier, TorchClassifier)):
        return model.identity
    if isinstance(model, Path) or (isinstance(model, str) and model.endswith(_FILES)):
        return digest_of_file(Path(model))
    if not isinstance(model, str):
        raise CallError(
            "model must be a torch module, the path of an .onnx or .safetensors file, or a digest or name, but is "
            f"{type(model).__name__}"
        )
    return ModelName().validate(model, "model")


def _onnx_file(model: object) -> Path | None:
    file = Path(model) if isinstance(model, (str, Path)) else None
    return file if file is not None and file.suffix == ".onnx" and file.exists() else None


def _shape_of_model(model: object) -> tuple[int, ...] | None:
    """The shape of one example, where an ONNX file states it."""
    file = _onnx_file(model)
    return None if file is None else shape_in_onnx(file)


def _check_outputs(model: object, classes: int) -> None:
    """Check the number of classes, where an ONNX file states how many scores it gives.

    Raises:
        ModelProblem: they differ.
    """
    file = _onnx_file(model)
    width = None if file is None else width_in_onnx(file)
    if width is not None and width > 1:  # a single column may be labels
        check_width(width, classes)


def _private_sum(
    clients: Sequence[str] | None, private: bool, threshold: int | None, most_examples: int, **parts: Any
) -> PrivateSum | None:
    if not private:
        if threshold is not None or any(parts.values()) or most_examples != MOST_EXAMPLES:
            raise CallError(
                "threshold, moments, spread, fewest_holders, most_examples and epsilon are about a private sum: give "
                "private (--private) too"
            )
        return None
    if clients is None:
        raise CallError("private (--private) needs a roster (--roster): a private sum is among sites that are named")
    squares = {name: bool(parts[name]) for name in ("moments", "spread")}
    wanted = threshold if threshold is not None else default_threshold(len(clients), **squares)
    least = least_for_squares(**squares)
    if wanted < least:
        rule = "fewest_for_moments" if squares["moments"] else "fewest_for_squares"
        words = (
            f"sums of squares over {wanted} sites disclose much of each; sites refuse fewer than {least} unless their "
            f"policy says otherwise ({rule})"
        )
        warnings.warn(words, FedcertWarning, stacklevel=3)
    return PrivateSum(threshold=wanted, most_examples=most_examples, **parts)
