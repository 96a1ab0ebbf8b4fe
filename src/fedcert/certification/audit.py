"""An audit at the site: certificates repeated with the seed that the report committed to."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedcert._arrays import Integers
from fedcert.certification.certificate import CorrectTable, ExampleTable
from fedcert.certification.data.local_data import LocalData
from fedcert.certification.dataset_run import certify_dataset, chosen_examples, report_of
from fedcert.certification.examples import KeptExamples, read_examples
from fedcert.certification.models.classifiers import Classifier
from fedcert.certification.plan import CertificationPlan
from fedcert.certification.progress import ProgressListener
from fedcert.certification.seeds import Seed
from fedcert.errors import CallError, DataProblem, ModelProblem
from fedcert.report import Report

_COUNTED = (
    "label_counts", "procedure_counts", "class_procedure_counts", "abstained", "design_effect", "largest_group",
    "samples",
)  # fmt: skip
"""What a report says of its certificates."""


@dataclass(frozen=True)
class AuditResult:
    """What an audit found.

    Attributes:
        repeated: certificates that were made again.
        different: how many of them came out otherwise.
        counts_agree: whether the report's counts are those of the certificates.
    """

    repeated: int
    different: int
    counts_agree: bool

    @property
    def agrees(self) -> bool:
        """Whether nothing is wrong."""
        return self.counts_agree and not self.different


def audit_report(
    report: Report,
    classifier: Classifier,
    data: LocalData,
    seed: Seed,
    *,
    every: int = 1,
    examples: Path | None = None,
    sample: int = 100,
    progress: ProgressListener | None = None,
) -> AuditResult:
    """Repeat certificates, and compare them with what the report says.

    Without kept certificates all are repeated, and the report's counts are compared. With them, which must be those of
    all examples that were to be certified, the report's counts are compared with theirs, and a random sample of them is
    repeated.

    Guarantee: with kept certificates of which a share s was made otherwise, a sample of m finds one with probability
    1 - (1 - s)^m at least: 95% for m = 100 and 3%.

    Args:
        report: what the site reported.
        classifier: the model, on the same kind of device as then: a GPU draws other noise than a CPU.
        data: the site's data as it was then.
        seed: of the noise.
        every: as it was then.
        examples: the kept certificates of single examples (.parquet).
        sample: how many of them to repeat.
        progress: called as the work goes on.

    Raises:
        CallError: the report was made under a time budget, and there are no kept certificates.
        ModelProblem: it is another model, or it fails.
        DataProblem: data, seed or certificates are not those of the report.
    """
    if report.seed is None:
        raise DataProblem("the report does not say how its noise was drawn, so that it cannot be repeated")
    if seed.statement != report.seed:
        raise DataProblem(
            f"the report says of its seed {report.seed}, but this one is {seed.statement}; use the seed file that was "
            "written with the report"
        )
    if classifier.identity != report.model:
        raise ModelProblem(f"the report is about the model {report.model}, but this one is {classifier.identity}")
    if examples is None and report.time_budget is not None:
        raise CallError(
            "the report was made under a time budget, and how many examples were done in time does not repeat: give "
            "the certificates that certify --examples kept"
        )
    plan = CertificationPlan(
        report.client, report.smoothing, report.radii, report.classes, every=every, request=report.request,
        class_counts=report.class_procedure_counts is not None,
    )  # fmt: skip
    kept = None if examples is None else _checked(read_examples(examples), plan, report, data, seed)
    only = None if kept is None else _sampled(kept, sample)
    again = certify_dataset(plan, classifier, data, progress or ProgressListener(), seed=seed, only=only).certificates
    if kept is None:
        return AuditResult(len(again), 0, _same_counts(plan, report, again, data, seed))
    rows = np.searchsorted(kept.index, again.index)
    different = _differ(kept, rows, again)
    return AuditResult(len(again), int(np.count_nonzero(different)), _same_counts(plan, report, kept, data, seed))


def _differ(kept: ExampleTable, rows: Integers, again: ExampleTable) -> npt.NDArray[np.bool_]:
    """Which examples came out otherwise."""
    if isinstance(kept, CorrectTable) or isinstance(again, CorrectTable):
        assert kept.correct is not None  # noqa: S101 (both are of the report's procedure)
        return np.asarray(kept.correct[rows] != again.correct, dtype=np.bool_)
    radius = np.abs(kept.radius[rows] - again.radius) > 0
    return np.asarray((kept.selected[rows] != again.selected) | radius, dtype=np.bool_)


def _checked(kept: KeptExamples, plan: CertificationPlan, report: Report, data: LocalData, seed: Seed) -> ExampleTable:
    """The kept certificates, if they are of this report and of all its examples, each once.

    Raises:
        DataProblem: they are not.
    """
    document, certificates = report.to_json(), kept.certificates
    same = all(kept.header.get(name) == document[name] for name in ("client", "model", "smoothing", "radii", "classes"))
    if not same or isinstance(certificates, CorrectTable) != plan.smoothing.is_population:
        raise DataProblem("the certificates are of another report; give those that were kept with this one")
    if isinstance(certificates, CorrectTable) and not _possible(certificates, plan.smoothing.n):
        raise DataProblem(f"the certificates have right answers that {plan.smoothing.n} noisy copies cannot have")
    wanted = np.array(list(chosen_examples(plan, data, plan.streams(seed))), dtype=np.int64)
    index = certificates.index
    others = len(np.setdiff1d(index, wanted)) > 0
    if others or (len(index) != len(wanted) and report.time_budget is None):
        raise DataProblem(
            f"the certificates must be those of the {len(wanted)} examples that were to be certified here, but the "
            f"file has {len(index)} that are not; give the data, and --every, as they were then"
        )
    return certificates


def _possible(certificates: CorrectTable, n: int) -> bool:
    """Whether each example has from none to all of its copies right."""
    return bool(np.all((certificates.correct >= 0) & (certificates.correct <= n)))


def _sampled(kept: ExampleTable, sample: int) -> frozenset[int]:
    chosen = secrets.SystemRandom().sample(range(len(kept)), min(sample, len(kept)))
    return frozenset(int(kept.index[row]) for row in chosen)


def _same_counts(
    plan: CertificationPlan, report: Report, certificates: ExampleTable, data: LocalData, seed: Seed
) -> bool:
    counted = report_of(plan, report.model, report.classes, data, certificates, seed)
    return all(getattr(report, name) == getattr(counted, name) for name in _COUNTED)
