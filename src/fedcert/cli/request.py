"""fedcert request."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from fedcert._schema.field_types import ModelName
from fedcert.certification.precision import precision_sentence
from fedcert.cli import options
from fedcert.cli.console import print_json, print_note, print_result, print_warning
from fedcert.cli.inputs import as_command, files_among, input_columns_of, names_in, option, radii_of, range_of, shape_of
from fedcert.coordination.requesting import request as make
from fedcert.errors import CallError, FedcertError, preview
from fedcert.report import Request, check_writable, read_record, write_whole
from fedcert.report.fields import CLASSES, ROSTER
from fedcert.report.input_range import worded
from fedcert.report.noises import noise_choices
from fedcert.report.request import MOST_EXAMPLES
from fedcert.show.sentences import request_lines, request_warnings

_SHOWN_CLASSES = 20
"""Classes that are listed: two lines or so."""
_EVERY_TIME = ("nonce", "software", "created", "signature")
"""Fields of a request that differ although it asks the same."""


def request(
    sigma: options.Sigma,
    classes: Annotated[Path, Option(help="File of class names in index order (.txt, one per line, or .json).")],
    out: Annotated[Path, Option(help="The request file to write (.json).")],
    model: Annotated[Path | None, Option(help="The model, for its digest: an .onnx or .safetensors file.")] = None,
    model_id: Annotated[str | None, Option(help="The model's digest or name, instead of --model.")] = None,
    n0: options.SelectionSamples = None,
    n: options.Samples = None,
    failure_probability: options.FailureProbability = None,
    noise: Annotated[str, options.RegistryOption(lambda: f"{noise_choices('radii in ', 'in ')}.")] = "gaussian",
    procedure: options.Procedure = None,
    tolerance: options.Tolerance = None,
    votes: options.Votes = None,
    precision: Annotated[str, Option(help="float32, tf32 or bfloat16.")] = "float32",
    lattice: Annotated[
        int | None,
        Option(help="Inputs are multiples of 1/this (255 for 8-bit images): noise is then exact. [default: none]"),
    ] = None,
    radii: options.Radii = None,
    input_range: options.InputRange = None,
    input_shape: Annotated[
        str | None, Option(help="Shape of one example, such as 3,16,16. [default: as the ONNX model says]")
    ] = None,
    input_columns: Annotated[
        str | None,
        Option(help="Names of a table's columns, in the order of the model's inputs: age,pressure,…"),
    ] = None,
    target: Annotated[str | None, Option(help="The target's class mix, to tell the sites.")] = None,
    roster: Annotated[Path | None, Option(help="File of the clients that are asked (.txt or .json).")] = None,
    deadline: Annotated[
        str | None, Option(help="Time until which reports are taken, such as 2026-12-01T12:00:00Z.")
    ] = None,
    class_counts: Annotated[
        bool, Option(help="Ask for counts per class: tighter intervals, but they disclose per-class accuracy.")
    ] = False,
    minimum_examples: Annotated[int, Option(help="Ask sites with fewer examples not to answer.")] = 0,
    private: Annotated[
        bool, Option(help="Ask for a private sum instead of reports; needs --roster, and --sign for the sites.")
    ] = False,
    threshold: Annotated[
        int | None,
        Option(help="Private: fewest sites in a sum. [default: more than two thirds]"),
    ] = None,
    moments: Annotated[bool, Option(help="Private: sum what BLUP needs too.")] = False,
    spread: Annotated[
        bool, Option(help="Private: a second sum, for intervals that allow for sites that differ.")
    ] = False,
    fewest_holders: Annotated[
        int | None, Option(min=2, help="Private: leave out classes that fewer sites hold.")
    ] = None,
    most_examples: Annotated[
        int, Option(min=1, help="Private: sites with more examples do not take part.")
    ] = MOST_EXAMPLES,
    epsilon: Annotated[
        float | None, Option(help="Private: noise in the sum, for differential privacy with this epsilon.")
    ] = None,
    delta: Annotated[float, Option(help="Private: delta of the (epsilon, delta) guarantee.")] = 1e-6,
    most_per_patient: Annotated[
        int | None, Option(min=1, help="Private: protect patients with up to this many examples each.")
    ] = None,
    replace: Annotated[
        bool, Option(help="Private: protect what a patient's examples are, not only whether they are there.")
    ] = False,
    sign: Annotated[Path | None, Option(help="Secret keys of whoever asks (.json), to sign the request.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a request: what every site must agree on before it certifies."""
    if (model is None) == (model_id is None):
        raise CallError("give either --model FILE or --model-id TEXT")
    check_writable(out, (".json",), files_among(model, classes, roster, target, sign))
    written = as_command(
        make,
        model if model is not None else option("--model-id", ModelName(), model_id),
        classes=names_in(classes, CLASSES, "classes"),
        roster=None if roster is None else names_in(roster, ROSTER, "roster"),
        sigma=sigma, radii=radii_of(radii), target=target, deadline=deadline, class_counts=class_counts,
        minimum_examples=minimum_examples, n0=n0, n=n, failure_probability=failure_probability, noise=noise,
        procedure=procedure, tolerance=tolerance, votes=votes, precision=precision, lattice=lattice, private=private,
        threshold=threshold, moments=moments, spread=spread, fewest_holders=fewest_holders,
        most_examples=most_examples, epsilon=epsilon, delta=delta, most_per_patient=most_per_patient, replace=replace,
        sign=sign, input_range=range_of(input_range), input_shape=shape_of(input_shape),
        input_columns=input_columns_of(input_columns),
    )  # fmt: skip
    kept = _kept(out, written)
    if kept is None:
        write_whole(out, written.dumps())
        what = f"Wrote {out}: asks"
    else:
        what, written = f"{out} stays as it is, since it asked the same before: it asks", kept
    if as_json:
        print_json(written)
    else:
        _show(written, out, what, "" if model is None else model.suffix)


def _numbered(classes: tuple[str, ...]) -> str:
    """The first classes with their indices, and the last: an order that is wrong shows here."""
    named = [f"{index} {preview(name)}" for index, name in enumerate(classes)]
    return ", ".join(named if len(named) <= _SHOWN_CLASSES else [*named[: _SHOWN_CLASSES - 1], "…", named[-1]])


def _kept(out: Path, written: Request) -> Request | None:
    """The request that the file holds already, if it asks the same; None where there is none.

    Raises:
        CallError: it asks something else. Sites may have it, and answers to it would no longer count.
    """
    try:
        there: Request = read_record(out, Request)
    except FedcertError:  # nothing is there, or no request
        return None
    if _asked(there) == _asked(written):
        return there
    raise CallError(
        f"{out} holds another request, which sites may have, and answers to it would no longer count; give another "
        "--out, or remove it"
    )


def _asked(request: Request) -> dict[str, Any]:
    """What a request asks, and who signed it: all but what is new every time."""
    asked = {name: value for name, value in request.to_json().items() if name not in _EVERY_TIME}
    return {**asked, "signature": None if request.signature is None else request.signature.key}


def _show(written: Request, out: Path, what: str, suffix: str) -> None:
    """Say what the request asks, and what to run next."""
    anyone = "anyone who has the file (without --roster, missing sites go unnoticed)"
    recipients = anyone if written.roster is None else f"{len(written.roster)} clients"
    model = written.model if len(written.model) <= 20 else f"{written.model[:19]}…"
    smoothing = written.smoothing
    labels = f"{len(written.classes)} classes" if len(written.classes) > 1 else "1 class"
    print_result(f"{what} {recipients} to certify {model} ({labels}) with sigma {smoothing.sigma:g}.")
    if len(written.classes) > 1:
        print_result(f"Classes, in the order of the model's outputs: {_numbered(written.classes)}.")
    for line in request_lines(written):
        print_result(line)
    for sentence in request_warnings(written):
        print_warning(sentence)
    if written.input_columns is not None:
        print_result(f"Tables must have the columns {', '.join(written.input_columns)}; sites check that.")
    elif written.input_shape is not None:
        print_result(f"Inputs must have shape {'x'.join(map(str, written.input_shape))}; sites check that.")
    if written.input_range is not None:
        print_result(f"Inputs must lie within {worded(written.input_range)}; sites check that.")
    else:
        print_note(
            "the request states no range of the inputs; with one (--input-range 0,1 for pixels) sites check their data"
        )
    named = not written.model.startswith("sha256:")
    if suffix != ".onnx" and not (named and smoothing.precision == "float32"):  # these run in float32
        print_result(precision_sentence(smoothing.precision))
    if named:
        print_note(
            f"{preview(written.model)} is a name, not a digest: nothing checks that all sites run the same model; a "
            "version or the file's hash in the name helps"
        )
    weights = (
        " --weights FILE" if suffix == ".safetensors" else f" --model-id {shlex.quote(written.model)}" if named else ""
    )
    certify = f"fedcert certify MODEL DATA{weights} --request {out.name} --client NAME --out report.json"
    if written.private is None:
        print_result(f"Each site runs: {certify}")
        if written.release.class_counts:
            print_result(
                "Reports will have counts per class, where a site's policy allows (--no-class-counts omits them)."
            )
        print_result(
            f"Then run: fedcert collect REPORTS --request {out.name} --run FOLDER --target MIX --page page.html"
        )
        return
    common = f"--request {out.name} --trusted KEYRING --folder SHARED"
    print_result(f"Each site runs: {certify} --class-counts")
    print_result(f"and then: fedcert private join report.json {common} --keys KEYS --memory FOLDER")
    print_result(f"Meanwhile run: fedcert private sum {common} --run FOLDER --out sums.json")
    if written.signature is None:
        print_note("sites take part in private sums only if the request is signed (--sign)")
