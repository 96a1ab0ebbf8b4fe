"""An audit at the site: certificates repeated with the seed that the report committed to."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcert.certification.certificate import CertificateTable
from fedcert.certification.data.local_data import LocalData
from fedcert.certification.dataset_run import certify_dataset
from fedcert.certification.examples import read_examples
from fedcert.certification.models.classifiers import Classifier
from fedcert.certification.plan import CertificationPlan
from fedcert.certification.progress import ProgressListener
from fedcert.certification.seeds import Seed
from fedcert.errors import DataProblem, ModelProblem
from fedcert.report import Report


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
        """Whether nothing was found."""
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

    Without kept certificates all are repeated, and the report's counts are compared. With them, the report's counts are
    compared with theirs, and a random sample of them is repeated.

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
        ModelProblem: it is another model, or it fails.
        DataProblem: the data is not what the report is about, or seed or certificates are of another report.
    """
    if seed.statement != report.seed:
        raise DataProblem(
            f"the report says of its seed {report.seed or 'nothing'}, but this one is {seed.statement}; use the seed "
            "file that was written with the report"
        )
    if classifier.identity != report.model:
        raise ModelProblem(f"the report is about the model {report.model}, but this one is {classifier.identity}")
    kept = None if examples is None else read_examples(examples)
    only = None if kept is None else _sampled(kept, sample)
    plan = CertificationPlan(
        report.client, report.smoothing, report.radii, report.classes, every=every, request=report.request,
        class_counts=report.class_certified_counts is not None,
    )  # fmt: skip
    again = certify_dataset(plan, classifier, data, progress or ProgressListener(), seed=seed, only=only).certificates
    if kept is None:
        return AuditResult(len(again), 0, _same_counts(report, again, data))
    rows = np.searchsorted(kept.index, again.index)
    different = (kept.selected[rows] != again.selected) | (np.abs(kept.radius[rows] - again.radius) > 0)
    return AuditResult(len(again), int(np.count_nonzero(different)), _same_counts(report, kept, data))


def _sampled(kept: CertificateTable, sample: int) -> frozenset[int]:
    chosen = secrets.SystemRandom().sample(range(len(kept)), min(sample, len(kept)))
    return frozenset(int(kept.index[row]) for row in chosen)


def _same_counts(report: Report, certificates: CertificateTable, data: LocalData) -> bool:
    if len(certificates) and int(certificates.index[-1]) >= len(data):
        raise DataProblem(
            f"the certificates are of more examples than the {len(data)} here; give the data as it was then"
        )
    by_class = report.class_certified_counts is not None
    labels = data.labels[certificates.index]
    counted = certificates.counts(labels, len(report.classes), report.radii, class_counts=by_class)
    return all(getattr(report, name) == value for name, value in counted.items())
