"""fedcert what-if."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated

from typer import Option

from fedcert._files.paths import check_readable
from fedcert.cli import options
from fedcert.cli.console import print_json, print_result, working
from fedcert.cli.inputs import files_among, from_options, radii_of
from fedcert.errors import CallError, InvalidValue
from fedcert.estimation.accuracy import radius_among
from fedcert.estimation.estimate import what_if_of
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.result import WhatIf
from fedcert.estimation.settings import Settings
from fedcert.report import check_writable, load, read_documents, write_whole
from fedcert.show.sentences import accuracy_of, method_title, share
from fedcert.show.terminal import check_lines, target_table

_FORMATS = (".json", ".csv")
_LONGEST_NAME = 200
"""Characters of a target's name, as in all names."""


def what_if(
    reports: options.Reports,
    target: Annotated[
        list[str] | None, Option(help="A target as for 'fedcert estimate'; may be given many times.")
    ] = None,
    targets: Annotated[Path | None, Option(help="A JSON file from names to targets (class to weight).")] = None,
    method: options.WhatIfMethodName = "auto",
    out: Annotated[Path | None, Option(help="The table to write (.json or .csv).")] = None,
    confidence: options.Confidence = 0.95,
    interval: options.IntervalName = "finite-sample",
    simultaneous: options.Simultaneous = False,
    target_examples: options.TargetExamples = None,
    votes: options.OtherVotes = None,
    radii: options.OtherRadii = None,
    radius: Annotated[
        float | None, Option(help="A radius to show, one of the estimate's. [default: a quarter of the largest]")
    ] = None,
    verbose: options.Verbose = False,
    as_json: options.AsJson = False,
) -> None:
    """Estimate the certified accuracy of many target populations at once."""
    if out is not None:
        check_writable(out, _FORMATS, [*reports, *files_among(targets, *(target or []))])
    wanted: dict[str, object] = dict(_in_file(targets)) if targets is not None else {}
    for text in target or []:
        if text in wanted:
            raise CallError(f"the target {text} is given twice")
        wanted[text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"] = text
    if not wanted:
        raise CallError("there are no targets; give --target or --targets")
    settings = from_options(
        Settings, confidence=confidence, interval=interval, simultaneous=simultaneous,
        target_examples=target_examples, votes=votes, radii=radii_of(radii),
    )  # fmt: skip
    with working("reading and estimating"):
        result = what_if_of(PreparedClients.of(clients_of(load(reports)), settings), wanted, method)
    shown = radius_among(result.radii, radius)
    if out is not None:
        write_whole(out, _as_csv(result) if out.suffix == ".csv" else result.dumps())
    if as_json:
        print_json(result)
        return
    print_result(
        f"{_capital(accuracy_of(result))} of {len(result.targets)} targets by {method_title(result.method)}, each with "
        f"its interval of confidence {share(result.confidence)} ({result.clients} clients, {result.examples} examples)."
    )
    if result.classifier is not None:
        print_result(result.classifier)
    print_result(target_table(result, shown))
    for line in check_lines(result.checks, verbose):
        print_result(line)
    if out is not None:
        print_result(f"Wrote {out}.")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _in_file(path: Path) -> dict[str, object]:
    check_readable(path, (".json",))
    ((place, document),) = read_documents(path)
    if not isinstance(document, dict) or not document or not all(isinstance(mix, dict) for mix in document.values()):
        expected = "a JSON object from target names to objects from class name to weight"
        raise InvalidValue("the targets", expected, document, place=place)
    return document


def _as_csv(result: WhatIf) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["target", "radius", "certified_accuracy", "lower", "upper"])
    for curve in result.targets:
        for row in zip(result.radii, curve.certified_accuracy, curve.lower, curve.upper, strict=True):
            table.writerow([curve.target.name, *row])
    return text.getvalue()
