"""Estimators evaluated on a trace: their errors against the target's own certificates, over many draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcert._threads import single_blas_thread
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.compare import compare
from fedcert.estimation.methods.registry import METHODS, find_method
from fedcert.estimation.settings import Settings
from fedcert.estimation.target import distribution_of
from fedcert.lab.populations.mixes import mix_at_distance
from fedcert.lab.populations.partition import partition_of
from fedcert.lab.traces.federations import draw_federation, resample_clients
from fedcert.lab.traces.trace import Trace

PAPER = tuple(sorted(name for name, method in METHODS.items() if method.paper))
OURS = tuple(sorted(name for name, method in METHODS.items() if method.compared and not method.paper))


@dataclass(frozen=True)
class Errors:
    """A method's errors over draws.

    Attributes:
        rmse: of each draw.
        mape: of each draw; NaN where the truth is 0 at all radii.
    """

    rmse: tuple[float, ...]
    mape: tuple[float, ...]

    @property
    def first(self) -> tuple[float, float]:
        """RMSE and MAPE of the federation that was trained."""
        return self.rmse[0], self.mape[0]

    @property
    def mean(self) -> tuple[float, float]:
        """Mean RMSE and MAPE."""
        return float(np.mean(self.rmse)), float(np.mean(self.mape))

    @property
    def spread(self) -> tuple[float, float]:
        """Their standard deviations over the draws; 0 for a single one."""
        if len(self.rmse) < 2:
            return 0.0, 0.0
        return float(np.std(self.rmse, ddof=1)), float(np.std(self.mape, ddof=1))


@single_blas_thread()
def evaluate(
    trace: Trace,
    methods: Sequence[str] = (*PAPER, *OURS),
    *,
    draws: int = 10,
    shift: float | None = None,
    subsets: int = 1000,
    subset_size: int = 10,
    threshold: int = 50,
    seed: int = 0,
) -> dict[str, Errors]:
    """Errors of methods on a trace.

    The first draw has the clients as they were in training. In the others the clients' examples are spread anew by the
    same partition: that is another federation with the same model. AP and GA draw other subsets each time.
    Post-stratification is given counts per class, all other methods the paper's reports and no more.

    Args:
        trace: the trace.
        methods: names of estimators.
        draws: how many federations.
        shift: L2 distance of the target's mix from that of the clients' pool, a new mix each time; the target is all
            test images where None.
        subsets: T of AP and GA.
        subset_size: E of AP and GA.
        threshold: τ of GA.
        seed: of everything drawn.
    """
    experiment = trace.experiment
    pooled = np.bincount(trace.clients.label, minlength=len(trace.classes)) / max(1, len(trace.clients))
    errors: dict[str, list[tuple[float, float]]] = {method: [] for method in methods}
    for number in range(draws):
        generator = np.random.default_rng([seed, number])
        parts = None
        if number:
            parts = resample_clients(trace, partition_of(experiment.partition), experiment.clients, generator)
        mix = None if shift is None else mix_at_distance(pooled, shift, generator)
        drawn = draw_federation(trace, generator, parts=parts, mix=mix)
        whole = ReportedClients.of(drawn.reports)
        without_class_counts = whole.without_class_counts()
        distribution = distribution_of(drawn.target, whole.classes)
        settings = Settings(subsets=subsets, subset_size=subset_size, threshold=threshold, seed=seed + number)
        for name in methods:
            method = find_method(name)
            clients = whole if method.from_class_counts else without_class_counts
            point = method.estimator()(clients, distribution, settings)
            error = compare(point.certified_accuracy.tolist(), drawn.truth.tolist())
            errors[name].append((error.rmse, float("nan") if error.mape is None else error.mape))
    return {
        method: Errors(tuple(rmse for rmse, _ in pairs), tuple(mape for _, mape in pairs))
        for method, pairs in errors.items()
    }
