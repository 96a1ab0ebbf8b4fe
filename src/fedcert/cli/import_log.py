"""fedcert import-log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedcert._schema.field_types import ModelName, Text
from fedcert.certification.logs import read_log
from fedcert.cli.console import results
from fedcert.cli.inputs import from_options, names_in, option, radii_of
from fedcert.cli.options import ClassFile, Client, PolicyFile, Radii, ReportClassCounts, Sigma
from fedcert.errors import DataProblem
from fedcert.privacy.policy import read_policy
from fedcert.report import DEFAULT_RADII, Report, Smoothing, check_writable, write_whole
from fedcert.report.fields import CLASSES, RADII
from fedcert.report.provenance import provenance
from fedcert.show.terminal import printable, report_table


def import_log(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A log that Cohen et al.'s certify.py wrote.")],
    client: Client,
    model_id: Annotated[str, typer.Option(help="Name of the model that was certified.")],
    sigma: Sigma,
    out: Annotated[Path, typer.Option(help="The report file to write (.json).")],
    n0: Annotated[int, typer.Option(help="Samples that selected a class (--N0).")] = 100,
    n: Annotated[int, typer.Option(help="Samples that bounded its probability (--N).")] = 100_000,
    failure_probability: Annotated[float, typer.Option(help="Of each certificate (--alpha).")] = 0.001,
    radii: Radii = None,
    classes: ClassFile = None,
    class_counts: ReportClassCounts = False,
    policy: PolicyFile = None,
) -> None:
    """Make a report of existing certificates: idx, label, predict, radius, correct, with tabs between."""
    check_writable(out, (".json",), [log])
    smoothing = from_options(Smoothing, sigma=sigma, n0=n0, n=n, failure_probability=failure_probability)
    wanted = option("--radii", RADII, radii_of(radii)) if radii is not None else DEFAULT_RADII
    read = read_log(log)
    named = names_in(classes, CLASSES, "classes") if classes is not None else None
    width = int(max(read.labels.max(), read.predicted.max())) + 1
    if named is not None and len(named) < width:
        raise DataProblem(f"{log} has the class index {width - 1}, but --classes names {len(named)} classes; name all")
    names = named or tuple(str(index) for index in range(width))
    right = read.right[:, None] & (read.radius[:, None] >= np.asarray(wanted))
    certified = np.zeros((len(names), len(wanted)), dtype=np.int64)
    np.add.at(certified, read.labels, right.astype(np.int64))
    report = Report(
        client=option("--client", Text(), client),
        model=option("--model-id", ModelName(), model_id),
        smoothing=smoothing,
        radii=wanted,
        classes=names,
        label_counts=tuple(np.bincount(read.labels, minlength=len(names)).tolist()),
        certified_counts=tuple(certified.sum(axis=0).tolist()),
        class_certified_counts=tuple(map(tuple, certified.tolist())) if class_counts else None,
        samples=len(read.labels) * (n0 + n),
        **provenance(),
    )
    read_policy(policy).check_report(report.examples, class_counts)
    write_whole(out, report.dumps())
    console = results()
    count = report.certified_counts[0]
    console.print(printable(f"{report.client}: {report.examples} examples of {log}, of which {count} count."))
    console.print(report_table(report))
    console.print(printable(f"Wrote {out}."))
