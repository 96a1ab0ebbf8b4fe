"""fedcert audit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from fedcert.certification.audit import audit_report
from fedcert.certification.data.sources import load_data
from fedcert.certification.models.loading import load_classifier
from fedcert.certification.seeds import Seed, read_seed
from fedcert.cli import options
from fedcert.cli.certify import progress_bar
from fedcert.cli.console import print_json, print_result, progress
from fedcert.errors import CallError
from fedcert.report import Report, read_record


def audit(
    report: Annotated[Path, Argument(metavar="REPORT", help="The report that this site made (.json).")],
    model: Annotated[str, Argument(metavar="MODEL", help="model.onnx, or package.module:factory.")],
    data: Annotated[str, Argument(metavar="DATA", help="The data as it was then.")],
    seed_file: Annotated[Path | None, Option(help="The file that certify wrote beside the report (.seed).")] = None,
    seed: Annotated[int | None, Option(help="The number, where --seed was given then.")] = None,
    weights: Annotated[Path | None, Option(help="Weights for the factory's module (.safetensors).")] = None,
    model_id: Annotated[str | None, Option(help="Name of a model that is a bare callable.")] = None,
    device: options.Device = "auto",
    every: Annotated[int, Option(min=1, help="As it was given then.")] = 1,
    examples: Annotated[
        Path | None, Option(help="Certificates of single examples that certify --examples kept (.parquet).")
    ] = None,
    sample: Annotated[int, Option(min=1, help="With --examples: how many certificates to repeat.")] = 100,
    as_json: options.AsJson = False,
) -> int:
    """Repeat certificates of this site's own report with the seed of its noise, and say whether they agree."""
    if (seed_file is None) == (seed is None):
        raise CallError("give --seed-file FILE, or --seed NUMBER where the report's seed was fixed")
    own: Report = read_record(report, Report)
    used = Seed.fixed(seed) if seed is not None else read_seed(seed_file).value  # type: ignore[arg-type]
    local = load_data(data, own.classes)
    classifier = load_classifier(model, weights=weights, model_id=model_id, device=device, classes=own.classes)
    listener = progress_bar(None)
    with progress() as listener.bar:
        result = audit_report(
            own, classifier, local, used, every=every, examples=examples, sample=sample, progress=listener
        )
    if as_json:
        print_json({
            "agrees": result.agrees, "repeated": result.repeated, "different": result.different,
            "counts_agree": result.counts_agree,
        })  # fmt: skip
    elif result.agrees:
        print_result(f"The {result.repeated:,} certificates that were repeated agree with the report of {own.client}.")
    else:
        print_result(
            f"They do not agree: {result.different:,} of {result.repeated:,} repeated certificates came out otherwise, "
            f"and the report's counts {'are' if result.counts_agree else 'are not'} theirs. A GPU draws other noise "
            "than a CPU: repeat on the kind of device that certified, with the same data and --every."
        )
    return 0 if result.agrees else 1
