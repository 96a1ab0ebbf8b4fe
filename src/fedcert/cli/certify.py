"""fedcert certify."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from fedcert._schema.field_types import Text
from fedcert.certification.clean_pass import CleanPass, accuracy_sentence
from fedcert.certification.data.inputs import columns_sentence
from fedcert.certification.data.sources import load_data
from fedcert.certification.dataset_run import certify_dataset
from fedcert.certification.examples import write_examples
from fedcert.certification.models.classifiers import TorchClassifier
from fedcert.certification.models.loading import load_classifier
from fedcert.certification.plan import MINIMUM_EXAMPLES, check_model, check_request, plan_certification, settings_from
from fedcert.certification.precision import BFLOAT16_GAIN
from fedcert.certification.progress import approximately, duration
from fedcert.certification.progress_bar import BarListener, late_sentence, typical_sentence
from fedcert.certification.seeds import SEED_SUFFIX, keep_seed
from fedcert.cli import options
from fedcert.cli.console import is_quiet, print_json, print_note, print_result, print_status, print_warning, progress
from fedcert.cli.inputs import files_among, names_in, option, radii_of, range_of, seconds_of, wrong_option
from fedcert.cli.model_files import check_weights_are_given
from fedcert.cli.signing import check_asker, keys_in, signed_by
from fedcert.errors import CallError, FedcertError, InvalidValue, preview, require
from fedcert.estimation.accuracy import radius_among
from fedcert.privacy.policy import Policy, read_policy
from fedcert.report import Report, Request, check_writable, read_record, write_whole
from fedcert.report.fields import CLASSES, FIXED_SEED
from fedcert.report.noises import noise_choices
from fedcert.show.terminal import report_line, report_lines

if TYPE_CHECKING:
    from fedcert.privacy.keys.identity import Identity

_LABELS = 20
"""Classes whose labels are counted on the screen: two lines or so."""


def certify(
    model: Annotated[str, Argument(metavar="MODEL", help="model.onnx, or package.module:factory.")],
    data: Annotated[
        str, Argument(metavar="DATA", help="data.npz, a .csv, a CIFAR folder, or package.module:function.")
    ],
    client: options.Client,
    out: Annotated[Path | None, Option(help="The report file to write (.json).")] = None,
    request: Annotated[Path | None, Option(help="The coordinator's request file.")] = None,
    settings_of: Annotated[
        Path | None, Option(help="A request whose settings to use without answering it: for a sample of the target.")
    ] = None,
    weights: Annotated[Path | None, Option(help="Weights for the factory's module (.safetensors).")] = None,
    sigma: Annotated[float | None, Option(help="Standard deviation of the noise, in the units of the inputs.")] = None,
    n0: options.SelectionSamples = None,
    n: options.Samples = None,
    failure_probability: options.FailureProbability = None,
    radii: options.Radii = None,
    classes: options.ClassFile = None,
    radius: Annotated[float | None, Option(help="Radius to show first, one of --radii. [default: the first]")] = None,
    class_counts: options.AnswerClassCounts = None,
    every: Annotated[int, Option(help="Certify only every K-th example, on average.")] = 1,
    lattice: options.Lattice = None,
    seed: Annotated[
        int | None, Option(help="Fixes the noise, for tests: others may know it. [default: secret, kept beside --out]")
    ] = None,
    device: options.Device = "auto",
    batch_size: Annotated[int | None, Option(help="Samples per call of the model. [default: found by itself]")] = None,
    model_id: Annotated[str | None, Option(help="Name of a model that is a bare callable.")] = None,
    noise: Annotated[str | None, options.RegistryOption(lambda: f"{noise_choices()}. [default: gaussian]")] = None,
    procedure: options.Procedure = None,
    tolerance: options.Tolerance = None,
    votes: options.Votes = None,
    precision: Annotated[
        str | None,
        Option(help="float32, tf32 or bfloat16. [default: bfloat16 on a GPU that has it, else float32]"),
    ] = None,
    compile_model: Annotated[
        bool | None, Option("--compile/--no-compile", help="Have torch compile the model. [default: if it pays]")
    ] = None,
    time_budget: options.TimeBudget = None,
    minimum_examples: options.MinimumExamples = MINIMUM_EXAMPLES,
    input_range: options.InputRange = None,
    examples: Annotated[
        Path | None, Option(help="Certificates of single examples, which stay here (.parquet).")
    ] = None,
    sign: Annotated[Path | None, Option(help="This client's secret keys (.json), to sign the report.")] = None,
    trusted: Annotated[
        Path | None, Option(help="A keyring (.json); the request must be signed by one of its members.")
    ] = None,
    policy: options.PolicyFile = None,
    dry_run: Annotated[
        bool, Option(help="Show exactly what would leave, write no report. With --out, the real run reuses the work.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Certify a model on this client's own test data; the report holds counts and nothing else."""
    given = {
        "sigma": sigma, "n0": n0, "n": n, "failure_probability": failure_probability, "noise": noise,
        "procedure": procedure, "tolerance": tolerance, "votes": votes, "precision": precision, "lattice": lattice,
        "radii": radii_of(radii),
        "classes": None if classes is None else names_in(classes, CLASSES, "classes"),
    }  # fmt: skip
    stated: dict[str, Any] = {"input_range": range_of(input_range)}
    like: Request | None = None if settings_of is None else read_record(settings_of, Request)
    if like is not None:
        if request is not None:
            raise CallError("--settings-of is for samples of the target, which answer no request: leave --request out")
        given = settings_from(like, given)
        stated = {
            "input_range": stated["input_range"] or like.input_range,
            "input_shape": like.input_shape, "input_columns": like.input_columns,
        }  # fmt: skip
    inputs = files_among(model, data, request, settings_of, weights, classes, sign, trusted)
    _check_outputs(out, client, examples, dry_run, inputs)
    site = _Site.of(option("--client", Text(), client), request, trusted, sign, policy)
    try:
        plan = plan_certification(
            site.client, site.request, given, class_counts=site.class_counts(class_counts), every=every, seed=seed,
            batch_size=batch_size, compile=compile_model, time_budget=seconds_of(time_budget),
            minimum_examples=minimum_examples, **stated,
        )  # fmt: skip
    except InvalidValue as error:
        raise wrong_option(error) from None
    shown = radius_among(plan.radii, radius)
    local = load_data(data, plan.classes, plan.input_shape)
    classifier = load_classifier(model, weights=weights, model_id=model_id, device=device, classes=plan.classes)
    if weights is None and isinstance(classifier, TorchClassifier):
        asked = None if site.request is None else site.request.model
        check_weights_are_given(model, asked, classifier.identity)
    if like is not None:
        check_model(like, classifier.identity)
    if site.request is not None and site.request.smoothing.lattice is None and local.lattice is not None:
        print_note(
            "the request names no lattice, so noise on these 8-bit images is not exact; the coordinator may ask for "
            f"--lattice {local.lattice}"
        )
    site.check_before(classifier.identity, -(-len(local) // every), bool(plan.class_counts))
    site.note_class_counts(class_counts)
    listener = progress_bar(site.request)
    written = None if dry_run else out
    journal = None if out is None else out.with_name(f"{out.name}.journal")
    seed_file = None if written is None else written.with_suffix(SEED_SUFFIX)
    if journal is None:
        print_note("nothing is kept of this dry run; with --out FILE, the real run reuses its work")
    try:
        with progress() as listener.bar:
            result = certify_dataset(plan, classifier, local, listener, journal, seed_file)
        report = signed_by(site.keys, result.report)
        site.check_after(report, bool(plan.class_counts))
        if examples is not None:
            write_examples(examples, result, local.labels)
        if written is not None and seed_file is not None:
            if not result.seed.is_fixed:
                keep_seed(seed_file, result.seed, result.work)
            write_whole(written, report.dumps())
    except BaseException:
        listener.interrupted()
        raise
    if journal is not None and not result.complete:
        print_note(f"what was done is kept in {journal}; run the same command again for more examples")
    if local.columns is not None and plan.input_columns is None:
        print_note(columns_sentence(local.columns))
    _show(report, written, site, result.clean, len(local), as_json, journal, shown)


def _check_outputs(out: Path | None, client: str, examples: Path | None, dry_run: bool, inputs: list[Path]) -> None:
    """Check, before any work, that what is to be written can be.

    Raises:
        CallError: there is nothing to write to, a dry run would write, or a file would replace an input.
        MissingExtra: certificates of single examples need pyarrow.
    """
    if out is None and not dry_run:
        raise CallError("give --out FILE, or --dry-run to see what would leave")
    if out is not None and not dry_run:
        check_writable(out, (".json",), inputs)
        _check_not_of_another(out, client)
    if examples is None:
        return
    if dry_run:
        raise CallError("--dry-run writes nothing: leave --examples out")
    check_writable(examples, (".parquet",), inputs)
    require("pyarrow", "certificates of single examples", "parquet")


def _check_not_of_another(out: Path, client: str) -> None:
    """Check that a report does not replace another client's.

    Raises:
        CallError: it would.
    """
    try:
        there: Report = read_record(out, Report)
    except FedcertError:  # nothing is there, or no report
        return
    if there.client != client:
        raise CallError(
            f"{out} is the report of {preview(there.client)}, not of {preview(client)}; give another --out, or "
            "remove it"
        )


@dataclass(frozen=True)
class _Site:
    """What a site brings to a certification besides model and data.

    Attributes:
        client: its name.
        request: what it answers; None where it certifies for itself.
        keys: its secret keys, to sign the report; None where it does not sign.
        policy: its rules about what leaves it.
    """

    client: str
    request: Request | None
    keys: Identity | None
    policy: Policy

    @classmethod
    def of(
        cls, client: str, request: Path | None, trusted: Path | None, sign: Path | None, policy: Path | None
    ) -> _Site:
        """From the files that the options name.

        Raises:
            CallError: options that do not go together.
            Refused: the request is not signed by a trusted key.
        """
        received: Request | None = read_record(request, Request) if request is not None else None
        if received is not None:
            check_asker(received, trusted)
        elif trusted is not None:
            raise CallError("--trusted is about who signed the request: give --request FILE too")
        rules = read_policy(policy)
        if rules.signed_requests and (received is None or trusted is None):
            raise CallError("this site's policy wants signed requests: give --request FILE and --trusted KEYRING")
        return cls(client, received, keys_in(sign, client), rules)

    @property
    def private(self) -> bool:
        """Whether the report stays here and enters a private sum."""
        return self.request is not None and self.request.private is not None

    def class_counts(self, given: bool | None) -> bool:
        """Whether the report is to have counts per class: as given, else as the request asks and the policy allows."""
        if given is not None or self.request is None or self.private:
            return bool(given)
        return self.policy.gives_class_counts(self.request)

    def note_class_counts(self, given: bool | None) -> None:
        """Say what became of a request for counts per class, where the site did not decide by an option."""
        if given is not None or self.request is None or self.private or not self.request.release.class_counts:
            return
        if self.policy.gives_class_counts(self.request):
            print_note("the request asks for counts per class, so the report has them (--no-class-counts omits them)")
        else:
            print_note("the request asks for counts per class, which this site's policy does not let out")

    def check_before(self, model: str, examples: int, class_counts: bool) -> None:
        """Check, before hours of work, that the report will be wanted and may leave."""
        if self.request is not None:
            check_request(self.request, self.client, model, examples, datetime.now(UTC))
        if self.request is not None and self.private:
            self.policy.check_asked(self.request)
        else:
            self.policy.check_report(examples, class_counts)

    def check_after(self, report: Report, class_counts: bool) -> None:
        """Check that the report as it is may leave, or enter the sum."""
        if self.request is not None and self.private:
            self.policy.check_private(report, self.request)
        else:
            self.policy.check_report(report.examples, class_counts)


def _show(
    report: Report,
    out: Path | None,
    site: _Site,
    clean: CleanPass | None,
    examples: int,
    as_json: bool,
    journal: Path | None,
    radius: float | None,
) -> None:
    """Print the report or its summary; no report was written where there is no file."""
    if out is None or as_json:
        print_json(report)
        if clean is not None:
            print_note(accuracy_sentence(clean.right, len(clean), examples))
    if out is not None and not as_json:
        _summary(report, out, site.private, clean, examples, radius)
    elif out is None:
        stays = "this stays here, for a private sum" if site.private else "this is exactly what would leave"
        kept = "nothing was written" if journal is None else f"no report was written, and {journal} keeps the work"
        print_note(f"{stays}; {kept}")
    if site.request is not None and site.request.late(datetime.now(UTC)):
        deadline = site.request.deadline
        print_note(f"the request's deadline, {deadline}, has passed: the coordinator will not take this report")


def _summary(
    report: Report, out: Path, stays: bool, clean: CleanPass | None, examples: int, radius: float | None
) -> None:
    if not report.examples:
        print_result(f"{report.client} has no examples; its report says so. Wrote {out}.")
        return
    if is_quiet():
        print_result(report_line(report, radius, None if clean is None else clean.accuracy))
        return
    for line in report_lines(report, radius):
        print_result(line)
    if clean is not None:
        print_result(accuracy_sentence(clean.right, len(clean), examples))
    print_result(f"Labels: {_labels(report)}.")
    if stays:
        print_result(f"Wrote {out}, which stays here. Next: fedcert private join {out} …")
    else:
        print_result(f"Wrote {out}, which is all that needs to leave this machine.")
        if report.seed != FIXED_SEED:
            print_result(
                f"Keep here: {out.with_suffix(SEED_SUFFIX)}, the secret seed of the noise, for an audit; "
                f"{out}.journal, the results of single examples, to make this report anew with other disclosures."
            )


def _labels(report: Report) -> str:
    """How many examples have which label: a wrong order of classes shows here, and nowhere else."""
    held = [(count, name) for name, count in zip(report.classes, report.label_counts, strict=True) if count]
    named = ", ".join(f"{name} {count:,}" for count, name in held[:_LABELS])
    return named + (f", {len(held) - _LABELS} more" if len(held) > _LABELS else "")


def progress_bar(request: Request | None) -> _ProgressBar:
    """Shows on the terminal how certification goes, and what the request's deadline means."""
    return _ProgressBar(request)


class _ProgressBar(BarListener):
    """Shows the forecast, then a bar with the rate."""

    def __init__(self, request: Request | None) -> None:
        super().__init__()
        self.request = request
        self.journal: Path | None = None

    def keeping(self, journal: Path) -> None:
        self.journal = journal

    def interrupted(self) -> None:
        """Say where the work is kept, if any was done."""
        if self.journal is not None and self.journal.exists():
            print_note(f"what was done is kept in {self.journal}; run the same command again to resume")

    def slower_by_request(self, asked: str, faster: str) -> None:
        print_note(
            f"the request asks for {asked}, which every site can run; in {faster} a GPU like this one is up to "
            f"{BFLOAT16_GAIN} times faster: the coordinator may ask for it (fedcert request --precision {faster})"
        )

    def resumed(self, examples: int) -> None:
        print_note(f"resuming: {examples:,} example{'s are' if examples != 1 else ' is'} done already")

    def warn(self, sentence: str) -> None:
        print_warning(sentence)

    def late(self, done: int, of: int, waiting: int) -> None:
        sentence = late_sentence(done, of, waiting)
        print_note(sentence[:1].lower() + sentence[1:])

    def forecast(self, samples: int, rate: float) -> None:
        print_status(f"{samples:,} noisy samples at {rate:,.0f}/s: {approximately(samples / rate)}")
        self._check_deadline(samples / rate, "takes")
        self.start(samples)

    def forecast_at_most(self, samples: int, rate: float, examples: int) -> None:
        print_status(f"up to {samples:,} noisy samples at {rate:,.0f}/s: {duration(samples / rate)} at worst")
        self._check_deadline(samples / rate, "may take")
        self.start(examples, by_examples=True)

    def forecast_typical(self, least: float, most: float) -> None:
        sentence = typical_sentence(least, most)
        print_status(sentence[:1].lower() + sentence[1:])

    def _check_deadline(self, seconds: float, takes: str) -> None:
        if self.request is not None and self.request.late(datetime.now(UTC) + timedelta(seconds=seconds)):
            print_note(
                f"that {takes} longer than the request's deadline allows, {self.request.deadline}; --time-budget "
                "ends in time, --every K takes one example in K"
            )
