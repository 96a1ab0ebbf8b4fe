"""What a page is about: an estimate, others to compare it with, who contributed, and what other mixes need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedcert.errors import CallError, EstimationProblem
from fedcert.estimation.assembly import WITH_CLASS_CURVES
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.comparable import check_comparable
from fedcert.estimation.estimate import Prepared, estimate_of, pool_of
from fedcert.estimation.methods.registry import Settings
from fedcert.estimation.mix_evaluator import MOST_CLASSES, MixEvaluator, mix_evaluator
from fedcert.estimation.result import Estimate
from fedcert.report import LoadedReports

COMPARED = ("vw", "ap", "ga", "blup", "poststratified", "minimax")
_MOST_CLIENTS = 20_000


@dataclass(frozen=True)
class Contributors:
    """The clients that are in an estimate.

    Attributes:
        names: theirs, the first of them where they are very many.
        sizes: examples of each.
        tells_classes: which of them tell counts per class.
        count: how many there are.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    tells_classes: tuple[bool, ...]
    count: int


@dataclass(frozen=True)
class Contents:
    """What a page shows.

    Attributes:
        estimates: the one that it is about, and others of the same target to compare with.
        failed: method -> why there is no estimate by it.
        contributors: who is in it; None where that is not known.
        bases: method -> what other class mixes need.
        no_basis: why there are none.
        labels: examples of each class, all clients together; None where that is not known.
    """

    estimates: tuple[Estimate, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    contributors: Contributors | None = None
    bases: Mapping[str, MixEvaluator] = field(default_factory=dict)
    no_basis: str | None = None
    labels: tuple[int, ...] | None = None

    @classmethod
    def of_estimates(cls, estimates: Sequence[Estimate]) -> Contents:
        """Of estimates alone: other class mixes need the reports.

        Raises:
            CallError: there is none, or they do not belong together.
        """
        if not estimates:
            raise CallError("there is no estimate to show")
        check_comparable(estimates)
        why = "A page made from estimates alone does not know what other class mixes need; make it from the reports."
        return cls(tuple(estimates), no_basis=why)

    @classmethod
    def of_reports(cls, gathered: LoadedReports, target: object, method: str, settings: Settings) -> Contents:
        """Of reports or sums: the estimate, the other methods', and what other class mixes need.

        Raises:
            CannotCombine: they do not belong together.
            CallError: an unknown method, or a target of the wrong form.
            EstimationProblem: there is nothing to estimate from.
        """
        given = Prepared.of(pool_of(gathered), settings)
        main = estimate_of(given, target, method, settings)
        others, failed = [main], dict[str, str]()
        for name in COMPARED:
            if name == method:
                continue
            try:
                others.append(estimate_of(given, target, name, settings))
            except EstimationProblem as error:
                failed[name] = str(error)
        bases, no_basis = _bases(given, settings)
        pool = given.pool
        known = _contributors(pool) if isinstance(pool, ReportedClients) else None
        labels = tuple(int(count) for count in pool.labels.tolist())
        return cls(tuple(others), failed, known, bases, no_basis, labels)

    def about(self, main: Estimate) -> Contents:
        """The same page about an estimate that says more: who is missing, what the truth is."""
        return replace(self, estimates=(main, *self.estimates[1:]))

    @property
    def method(self) -> str:
        """The method that other mixes are estimated by, where there is one."""
        main = self.estimates[0]
        chosen = str(main.details.get("chosen", main.method))
        return chosen if chosen in self.bases or not self.bases else next(iter(self.bases))


def _contributors(pool: ReportedClients) -> Contributors:
    largest = sorted(range(pool.count), key=lambda row: (-pool.sizes[row], pool.clients[row]))[:_MOST_CLIENTS]
    opens: Any = pool.opens
    return Contributors(
        tuple(pool.clients[row] for row in largest),
        tuple(round(float(pool.sizes[row])) for row in largest),
        tuple(bool(opens[row]) for row in largest),
        pool.count,
    )


def _bases(given: Prepared, settings: Settings) -> tuple[dict[str, MixEvaluator], str | None]:
    pool, made = given.pool, dict[str, MixEvaluator]()
    for method in WITH_CLASS_CURVES:
        if method == "poststratified" and pool.class_totals is None:
            continue
        if method == "blup" and (pool.evidence is None or getattr(pool, "noise", None) is not None):
            continue
        if method == "blup" and settings.non_negative:  # the page's script knows weights of any sign alone
            continue
        basis = mix_evaluator(pool, method, settings, given.whole)
        if basis is not None:
            made[method] = basis
    if made:
        return made, None
    if len(pool.classes) > MOST_CLASSES:
        return (
            {},
            f"With more than {MOST_CLASSES} classes, and no counts per class, use 'fedcert what-if' for other mixes.",
        )
    if settings.non_negative:
        return {}, "With non-negative weights, use 'fedcert estimate' for other class mixes."
    return {}, "These sums do not tell what other class mixes need."
