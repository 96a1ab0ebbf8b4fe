"""fedcert request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from fedcert._schema.field_types import ModelName
from fedcert.certification.models.loading import digest_of_file
from fedcert.certification.precision import precision_sentence
from fedcert.cli import options
from fedcert.cli.console import print_json, print_note, print_result
from fedcert.cli.inputs import files_among, from_options, names_in, option, radii_of
from fedcert.cli.signing import keys_in, signed_by
from fedcert.errors import CallError, preview
from fedcert.estimation.target import target_of
from fedcert.privacy.policy import MIN_CLIENTS_FOR_MOMENTS
from fedcert.report import Release, Request, Smoothing, check_writable, write_whole
from fedcert.report.fields import CLASSES, ROSTER
from fedcert.report.noises import noise_choices
from fedcert.report.privacy import TOGETHER, PrivacyBudget
from fedcert.report.request import PrivateSum
from fedcert.rounds import make_request
from fedcert.secagg.threshold import default_threshold
from fedcert.show.sentences import request_lines


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
    target: Annotated[str | None, Option(help="The target's class mix, to tell the sites.")] = None,
    roster: Annotated[Path | None, Option(help="File of the clients that are asked (.txt or .json).")] = None,
    deadline: Annotated[str | None, Option(help="Such as 2026-12-01T12:00:00Z.")] = None,
    class_counts: Annotated[bool, Option(help="Ask for counts per class too.")] = False,
    minimum_examples: Annotated[int, Option(help="Ask sites with fewer examples not to answer.")] = 0,
    private: Annotated[
        bool, Option(help="Ask for a private sum instead of reports; needs --roster, and --sign for the sites.")
    ] = False,
    threshold: Annotated[
        int | None,
        Option(help="Private: the fewest sites that a sum may be over. [default: more than two thirds]"),
    ] = None,
    moments: Annotated[bool, Option(help="Private: sum what BLUP needs too.")] = False,
    spread: Annotated[
        bool, Option(help="Private: a second sum, for intervals that allow for sites that differ.")
    ] = False,
    fewest_holders: Annotated[
        int | None, Option(min=2, help="Private: leave classes out that fewer sites hold, by a sum before.")
    ] = None,
    epsilon: Annotated[
        float | None, Option(help="Private: noise in the sum, for differential privacy with this epsilon.")
    ] = None,
    delta: Annotated[float, Option(help="Of that.")] = 1e-6,
    most_per_patient: Annotated[
        int | None, Option(min=1, help="Of that: protect patients with up to so many examples.")
    ] = None,
    replace: Annotated[bool, Option(help="Of that: protect what one holds, not just whether it is there.")] = False,
    sign: Annotated[Path | None, Option(help="Secret keys of whoever asks (.json), to sign the request.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a request: what every site must agree on before it certifies."""
    if (model is None) == (model_id is None):
        raise CallError("give either --model FILE or --model-id TEXT")
    check_writable(out, (".json",), files_among(model, classes, roster, target, sign))
    keys = keys_in(sign)
    clients = names_in(roster, ROSTER, "roster") if roster is not None else None
    if private and keys is not None and keys.name in (clients or ()):
        raise CallError(
            f"{preview(keys.name)} signs the request and is on its roster: who adds up must not be added up"
        )
    names = names_in(classes, CLASSES, "classes")
    budget = budget_of(epsilon, delta, most_per_patient, replace, TOGETHER)
    private_sum = _private(
        clients, private, threshold, moments=moments, spread=spread, fewest_holders=fewest_holders, budget=budget
    )
    given = {
        "n0": n0, "n": n, "failure_probability": failure_probability, "noise": noise, "procedure": procedure,
        "tolerance": tolerance, "votes": votes, "precision": precision, "lattice": lattice,
    }  # fmt: skip
    smoothing = from_options(
        Smoothing.defaults, sigma=sigma, **{name: value for name, value in given.items() if value is not None}
    )
    unsigned = from_options(
        make_request,
        model=digest_of_file(model) if model is not None else option("--model-id", ModelName(), model_id),
        smoothing=smoothing,
        radii=radii_of(radii) or smoothing.default_radii,
        classes=names,
        target=target_of(target, names) if target is not None else None,
        roster=clients,
        deadline=deadline,
        release=from_options(Release, class_counts=class_counts, minimum_examples=minimum_examples),
        private=private_sum,
    )
    written = signed_by(keys, unsigned)
    write_whole(out, written.dumps())
    if as_json:
        print_json(written)
    else:
        _show(written, out)


def _show(written: Request, out: Path) -> None:
    """Say what the request asks, and what to run next."""
    recipients = "anyone who has the file" if written.roster is None else f"{len(written.roster)} clients"
    model = written.model if len(written.model) <= 20 else f"{written.model[:19]}…"
    smoothing = written.smoothing
    print_result(f"Wrote {out}: asks {recipients} to certify {model} with sigma {smoothing.sigma:g}.")
    for line in request_lines(written):
        print_result(line)
    print_result(precision_sentence(smoothing.precision))
    certify = f"fedcert certify MODEL DATA --request {out.name} --client NAME --out report.json"
    if written.private is None:
        print_result(f"Each site runs: {certify}")
        print_result(f"Then run: fedcert collect REPORTS --request {out.name} --out estimate.json")
        return
    common = f"--request {out.name} --trusted KEYRING --folder SHARED"
    print_result(f"Each site runs: {certify} --class-counts")
    print_result(f"and then: fedcert private join report.json {common} --keys KEYS --memory FOLDER")
    print_result(f"Meanwhile run: fedcert private sum {common} --run FOLDER --out sums.json")
    if written.signature is None:
        print_note("sites take part in private sums only if the request is signed (--sign)")


def budget_of(
    epsilon: float | None, delta: float, most_per_patient: int | None, replace: bool, noise: str
) -> PrivacyBudget | None:
    """A privacy budget from its options."""
    if epsilon is None:
        if most_per_patient is not None or replace:
            raise CallError("--most-per-patient and --replace are about differential privacy: give --epsilon too")
        return None
    return from_options(
        PrivacyBudget, epsilon=epsilon, delta=delta, unit="example" if most_per_patient is None else "group",
        most_per_unit=most_per_patient or 1, adjacency="replace" if replace else "add-remove", noise=noise,
    )  # fmt: skip


def _private(clients: tuple[str, ...] | None, private: bool, threshold: int | None, **parts: Any) -> PrivateSum | None:
    if not private:
        if threshold is not None or any(parts.values()):
            raise CallError(
                "--threshold, --moments, --spread, --fewest-holders and --epsilon are about a private sum: give "
                "--private too"
            )
        return None
    if clients is None:
        raise CallError("--private needs --roster FILE: a private sum is among sites that know each other")
    squares = bool(parts["moments"] or parts["spread"])
    wanted = threshold if threshold is not None else default_threshold(len(clients), squares=squares)
    if squares and wanted < MIN_CLIENTS_FOR_MOMENTS:
        print_note(
            f"sums of squares over {wanted} sites tell much of each; sites refuse fewer than "
            f"{MIN_CLIENTS_FOR_MOMENTS} unless their policy says otherwise (fewest_for_squares)"
        )
    return from_options(PrivateSum, threshold=wanted, **parts)
