"""fedcert certify."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress, TaskID

from fedcert._schema.field_types import Text
from fedcert.certification.data.sources import load_data
from fedcert.certification.examples import write_examples
from fedcert.certification.models.loading import load_classifier
from fedcert.certification.plan import check_request, plan_certification
from fedcert.certification.run import ProgressListener, certify_dataset
from fedcert.cli.console import duration, print_json, progress, results, tell
from fedcert.cli.inputs import files_among, names_in, option, radii_of, seconds_of, wrong_option
from fedcert.cli.signing import check_asker, keys_in, signed_by
from fedcert.errors import CallError, InvalidValue, require
from fedcert.privacy.policy import read_policy
from fedcert.report import Report, Request, check_writable, read_record, write_whole
from fedcert.report.fields import CLASSES, RADII
from fedcert.show.terminal import printable, report_table


def certify(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="model.onnx, or package.module:factory.")],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="data.npz, images.csv, a CIFAR folder, or package.module:function.")
    ],
    client: Annotated[str, typer.Option(help="This client's name, unique in its federation.")],
    out: Annotated[Path | None, typer.Option(help="The report file to write (.json).")] = None,
    request: Annotated[Path | None, typer.Option(help="The coordinator's request file.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Weights for the factory's module (.safetensors).")] = None,
    sigma: Annotated[
        float | None, typer.Option(help="Standard deviation of the noise, in the units of the inputs.")
    ] = None,
    n0: Annotated[int | None, typer.Option(help="Samples that select a class. [default: 100]")] = None,
    n: Annotated[
        int | None, typer.Option(help="The most samples for each example. [default: 10000; fixed: 1000]")
    ] = None,
    failure_probability: Annotated[float | None, typer.Option(help="Of each certificate. [default: 0.001]")] = None,
    radii: Annotated[str | None, typer.Option(help="0,0.25,0.5 or first:last:step. [default: 0:1:0.05]")] = None,
    classes: Annotated[Path | None, typer.Option(help="File of class names in index order (.txt or .json).")] = None,
    class_counts: Annotated[bool, typer.Option(help="Tell counts per class too: more precise, reveals more.")] = False,
    every: Annotated[int, typer.Option(help="Certify every so many-th example only.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the noise.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, …")] = "auto",
    batch_size: Annotated[
        int | None, typer.Option(help="Samples per call of the model. [default: found by itself]")
    ] = None,
    model_id: Annotated[str | None, typer.Option(help="Name of a model that is a bare callable.")] = None,
    noise: Annotated[str | None, typer.Option(help="gaussian (L2), or uniform (L1). [default: gaussian]")] = None,
    procedure: Annotated[
        str | None, typer.Option(help="sequential, or fixed (always n samples). [default: sequential]")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Sequential: what giving up may cost at a radius. [default: 0.005]")
    ] = None,
    precision: Annotated[str | None, typer.Option(help="float32, tf32 or bfloat16. [default: float32]")] = None,
    compile_model: Annotated[
        bool | None, typer.Option("--compile/--no-compile", help="Have torch compile the model. [default: if it pays]")
    ] = None,
    time_budget: Annotated[str | None, typer.Option(help="Stop in time with a smaller report: 90s, 45m, 3h.")] = None,
    examples: Annotated[
        Path | None, typer.Option(help="Certificates of single examples, which stay here (.parquet).")
    ] = None,
    sign: Annotated[Path | None, typer.Option(help="This client's secret keys (.json), to sign the report.")] = None,
    trusted: Annotated[
        Path | None, typer.Option(help="A keyring (.json); the request must be signed by one of its members.")
    ] = None,
    policy: Annotated[Path | None, typer.Option(help="This site's rules about what leaves it (.json).")] = None,
    dry_run: Annotated[bool, typer.Option(help="Certify, show exactly what would leave, write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Certify a model on this client's own test data; the report holds counts and nothing else."""
    client = option("--client", Text(), client)
    if out is None and not dry_run:
        raise CallError("give --out FILE, or --dry-run to see what would leave")
    if out is not None and not dry_run:
        check_writable(out, (".json",), files_among(model, data, request, weights, classes, sign, trusted))
    asked: Request | None = read_record(request, Request) if request is not None else None
    if asked is not None:
        check_asker(asked, trusted)
    elif trusted is not None:
        raise CallError("--trusted is about who signed the request: give --request FILE too")
    keys = keys_in(sign, client)
    rules = read_policy(policy)
    if rules.signed_requests and (asked is None or trusted is None):
        raise CallError("this site's policy wants signed requests: give --request FILE and --trusted KEYRING")
    if examples is not None:
        if dry_run:
            raise CallError("--dry-run writes nothing: leave --examples out")
        check_writable(examples, (".parquet",), files_among(model, data, request, weights, classes))
        require("pyarrow", "certificates of single examples", "parquet")
    given: dict[str, Any] = {
        "sigma": sigma, "n0": n0, "n": n, "failure_probability": failure_probability, "noise": noise,
        "procedure": procedure, "tolerance": tolerance, "precision": precision,
    }  # fmt: skip
    given["radii"] = option("--radii", RADII, radii_of(radii)) if radii is not None else None
    given["classes"] = names_in(classes, CLASSES, "classes") if classes is not None else None
    given = {name: value for name, value in given.items() if value is not None}
    try:
        plan = plan_certification(
            option("--client", Text(), client), asked, given,
            class_counts=class_counts, every=every, seed=seed, batch_size=batch_size, compile=compile_model,
            time_budget=seconds_of(time_budget) if time_budget is not None else None,
        )  # fmt: skip
    except InvalidValue as error:
        raise wrong_option(error) from None
    local = load_data(data, plan.classes)
    classifier = load_classifier(model, weights=weights, model_id=model_id, device=device)
    if asked is not None:
        check_request(asked, client, classifier.identity, -(-len(local) // every), datetime.now(UTC))
        if asked.release.class_counts and not class_counts:
            tell("note: the request asks for counts per class; add --class-counts if you agree to give them")
    if asked is None or asked.private is None:  # before hours of work
        rules.check_report(-(-len(local) // every), class_counts)
    else:
        rules.check_asked(asked)
    journal = out.with_name(f"{out.name}.journal") if out is not None and not dry_run else None
    watcher = _Bar(asked)
    try:
        with progress() as watcher.bar:
            done = certify_dataset(plan, classifier, local, watcher, journal)
        report = signed_by(keys, done.report)
        if asked is None or asked.private is None:
            rules.check_report(report.examples, class_counts)
        else:  # it stays here, and enters the sum
            rules.check_private(report, asked)
        if examples is not None:
            write_examples(examples, done, local.labels)
        if not dry_run and out is not None:
            write_whole(out, report.dumps())
    except BaseException:
        watcher.broken_off()
        raise
    if journal is not None and done.complete:
        journal.unlink(missing_ok=True)
    elif journal is not None:
        tell(f"note: what was done is kept in {journal}; run the same command again for more examples")
    if dry_run or as_json:
        print_json(report)
    stays = asked is not None and asked.private is not None
    if dry_run:
        tell(
            "note: this stays here, for a private sum; nothing was written"
            if stays
            else "note: this is exactly what would leave; nothing was written"
        )
    elif not as_json:
        _summary(report, out, stays)
    if asked is not None and asked.late(datetime.now(UTC)):
        tell(f"note: the request's deadline, {asked.deadline}, has passed: the coordinator will not take this report")


def _summary(report: Report, out: Path | None, stays: bool) -> None:
    console = results()
    if not report.examples:
        console.print(printable(f"{report.client} has no examples; its report says so. Wrote {out}."))
        return
    share, radius = report.certified_accuracy[0], report.radii[0]
    console.print(
        printable(
            f"{report.client}: {share:.1%} of {report.examples} examples are predicted right "
            f"and certified to radius {radius:g}."
        )
    )
    console.print(report_table(report))
    cap = report.smoothing.largest_radius
    if cap < report.radii[-1]:
        console.print(f"Radii above {cap:.3f} are beyond what n = {report.smoothing.n} samples can certify.")
    if stays:
        console.print(printable(f"Wrote {out}, which stays here. Next: fedcert private join {out} …"))
    else:
        console.print(printable(f"Wrote {out}, which is all that needs to leave this machine."))


class _Bar(ProgressListener):
    """Shows the forecast, then a bar with the rate."""

    bar: Progress

    def __init__(self, asked: Request | None) -> None:
        self.asked = asked
        self.journal: Path | None = None
        self.task: TaskID | None = None
        self.by_examples = False
        self.done = 0

    def keeping(self, journal: Path) -> None:
        self.journal = journal

    def broken_off(self) -> None:
        """Say where the work is kept, if any was done."""
        if self.journal is not None and self.journal.exists():
            tell(f"note: what was done is kept in {self.journal}; run the same command again to go on")

    def resumed(self, examples: int) -> None:
        tell(f"note: going on where an earlier run was: {examples:,} examples are done")

    def late(self, done: int, of: int) -> None:
        tell(f"note: the time budget is spent; the report is about {done:,} of {of:,} examples")

    def forecast(self, samples: int, rate: float) -> None:
        tell(f"{samples:,} noisy samples at about {rate:,.0f} a second: {duration(samples / rate)}")
        self._check_deadline(samples / rate, "takes")
        self.task = self.bar.add_task("certifying", total=samples, rate="")

    def forecast_at_most(self, samples: int, rate: float, examples: int) -> None:
        at_most = duration(samples / rate)
        tell(f"at most {samples:,} noisy samples at about {rate:,.0f} a second: {at_most}, and mostly much less")
        self._check_deadline(samples / rate, "may take")
        self.task = self.bar.add_task("certifying", total=examples, rate="")
        self.by_examples = True

    def _check_deadline(self, seconds: float, takes: str) -> None:
        if self.asked is not None and self.asked.late(datetime.now(UTC) + timedelta(seconds=seconds)):
            tell(
                f"note: that {takes} longer than the request's deadline allows, {self.asked.deadline}; --time-budget "
                "ends in time, --every K takes every K-th example"
            )

    def finished(self, examples: int) -> None:
        if self.task is not None and self.by_examples:
            self.bar.update(self.task, advance=examples)

    def advance(self, samples: int) -> None:
        self.done += samples
        if self.task is not None:
            elapsed = self.bar.tasks[0].elapsed or 0.0
            rate = f"{self.done / elapsed:,.0f} samples/s" if elapsed > 0 else ""
            self.bar.update(self.task, advance=0 if self.by_examples else samples, rate=rate)
