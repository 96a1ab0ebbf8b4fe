"""fedcert import-log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from fedcert._schema.field_types import ModelName, Text
from fedcert.certification.logs import read_log
from fedcert.cli import options
from fedcert.cli.console import print_result
from fedcert.cli.inputs import from_options, names_in, option, radii_of
from fedcert.errors import DataProblem
from fedcert.privacy.policy import read_policy
from fedcert.report import DEFAULT_RADII, Report, Smoothing, check_writable, write_whole
from fedcert.report.fields import CLASSES
from fedcert.report.provenance import provenance
from fedcert.show.terminal import own_table


def import_log(
    log: Annotated[Path, Argument(metavar="LOG", help="A log that Cohen et al.'s certify.py wrote.")],
    client: options.Client,
    model_id: Annotated[str, Option(help="Name of the model that was certified.")],
    sigma: options.Sigma,
    out: Annotated[Path, Option(help="The report file to write (.json).")],
    n0: Annotated[int, Option(help="Samples that selected a class (--N0).")] = 100,
    n: Annotated[int, Option(help="Samples that bounded its probability (--N).")] = 100_000,
    failure_probability: Annotated[
        float, Option(help="Failure probability of each certificate (--alpha in the log).")
    ] = 0.001,
    radii: options.Radii = None,
    classes: options.ClassFile = None,
    class_counts: options.ReportClassCounts = False,
    policy: options.PolicyFile = None,
) -> None:
    """Make a report of existing certificates: idx, label, predict, radius, correct, with tabs between."""
    check_writable(out, (".json",), [log])
    smoothing = from_options(Smoothing, sigma=sigma, n0=n0, n=n, failure_probability=failure_probability)
    wanted = radii_of(radii) or DEFAULT_RADII
    certificates, labels = read_log(log)
    named = names_in(classes, CLASSES, "classes") if classes is not None else None
    width = int(max(labels.max(), certificates.selected.max())) + 1
    if named is not None and len(named) < width:
        raise DataProblem(f"{log} has the class index {width - 1}, but --classes names {len(named)} classes; name all")
    names = named or tuple(str(index) for index in range(width))
    report = Report(
        client=option("--client", Text(), client),
        model=option("--model-id", ModelName(), model_id),
        smoothing=smoothing,
        radii=wanted,
        classes=names,
        **certificates.counts(labels, len(names), wanted, class_counts=class_counts),
        samples=len(labels) * (n0 + n),
        **provenance(),
    )
    read_policy(policy).check_report(report.examples, class_counts)
    write_whole(out, report.dumps())
    print_result(f"{report.client}: {report.examples} examples of {log}, of which {report.procedure_counts[0]} count.")
    print_result(own_table(report, report.certified_accuracy))
    print_result(f"Wrote {out}.")
