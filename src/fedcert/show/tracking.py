"""Estimates over training rounds, in TensorBoard or MLflow: robustness watched like a loss."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from fedcert.errors import CallError, require
from fedcert.estimation.diagnostics.checks import OK
from fedcert.estimation.result import Estimate

_SHOWN = 6
"""Radii that are logged by default: as many curves as a dashboard shows legibly."""
_ROUNDING = 1e-9
"""As in `Estimate.at`."""


class Writer(Protocol):
    """What writes scalars: torch's `SummaryWriter`, TensorBoard's own, or anything alike."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int, /) -> None:
        """Write a scalar."""


def metrics_of(estimate: Estimate, radii: Sequence[float] | None = None) -> dict[str, float]:
    """The numbers of an estimate that are worth watching, by name.

    Args:
        estimate: the estimate.
        radii: at which certified accuracy is logged, as `Estimate.at` reads them; six of the estimate's own where None.

    Raises:
        CallError: a radius is beyond the estimate's.

    Examples:
        >>> from fedcert.estimation.estimate import estimate
        >>> from fedcert.report import Report
        >>> site = Report(client="a", model="demo", smoothing={"sigma": 0.25}, radii=[0, 0.5], classes=["cat", "dog"],
        ...               label_counts=[80, 20], certified_counts=[90, 40])
        >>> metrics = metrics_of(estimate(site, "cat=0.8,dog=0.2"), radii=[0.5])
        >>> [name for name in metrics if name.startswith("certified")]  # doctest: +NORMALIZE_WHITESPACE
        ['certified_accuracy/radius_0.5', 'certified_accuracy_lower/radius_0.5',
         'certified_accuracy_upper/radius_0.5']
        >>> round(metrics["certified_accuracy/radius_0.5"], 3)
        0.4
    """
    chosen = _spread(estimate.radii) if radii is None else list(radii)
    metrics: dict[str, float] = {}
    for radius in chosen:
        index = next((place for place, point in enumerate(estimate.radii) if point >= radius - _ROUNDING), None)
        if index is None:
            raise CallError(
                f"radius must be at most {estimate.radii[-1]:g}, the last of the estimate, but is {radius:g}"
            )
        for name, curve in (("", estimate.certified_accuracy), ("_lower", estimate.lower), ("_upper", estimate.upper)):
            if curve is not None:
                metrics[f"certified_accuracy{name}/radius_{radius:g}"] = curve[index]
    metrics |= {"estimate/clients": float(estimate.clients), "estimate/examples": float(estimate.examples)}
    metrics["estimate/checks_not_ok"] = float(sum(check.verdict != OK for check in estimate.checks))
    if estimate.mismatch is not None:
        metrics["estimate/mismatch"] = estimate.mismatch.tv
    if estimate.effective_examples is not None:
        metrics["estimate/effective_examples"] = estimate.effective_examples
    return metrics


def _spread(radii: Sequence[float]) -> list[float]:
    if len(radii) <= _SHOWN:
        return list(radii)
    return [radii[round(step * (len(radii) - 1) / (_SHOWN - 1))] for step in range(_SHOWN)]


@contextmanager
def tensorboard(where: str | Path | Writer, radii: Sequence[float] | None = None) -> Iterator[Any]:
    """Log estimates to TensorBoard.

    Args:
        where: a folder, or a writer that is there already (torch's `SummaryWriter`); the latter is left open.
        radii: at which certified accuracy is logged; six of the estimate's own where None.

    Returns:
        A function of an estimate and the training round that it is of.

    Raises:
        MissingExtra: a folder is given, and TensorBoard is not installed.

    Examples:
        >>> class Shown:
        ...     def add_scalar(self, tag, value, step):
        ...         print(tag, round(value, 2), step)
        >>> from fedcert.estimation.estimate import estimate
        >>> from fedcert.report import Report
        >>> site = Report(client="a", model="demo", smoothing={"sigma": 0.25}, radii=[0], classes=["cat"],
        ...               label_counts=[100], certified_counts=[90])
        >>> with tensorboard(Shown()) as log:
        ...     log(estimate(site), step=10)  # doctest: +ELLIPSIS
        certified_accuracy/radius_0 0.9 10
        ...
    """
    if not isinstance(where, (str, Path)):
        yield lambda estimate, step: _written(where, metrics_of(estimate, radii), step)
        return
    summary = require("tensorboard.summary", "logging to TensorBoard", "tensorboard")
    writer = summary.Writer(str(where))
    try:
        yield lambda estimate, step: _written(writer, metrics_of(estimate, radii), step)
    finally:
        writer.close()


def _written(writer: Any, metrics: Mapping[str, float], step: int) -> None:
    for name, value in metrics.items():
        writer.add_scalar(name, value, step)
    getattr(writer, "flush", lambda: None)()


@contextmanager
def mlflow(run: str | None = None, radii: Sequence[float] | None = None, *, client: Any | None = None) -> Iterator[Any]:
    """Log estimates to a run of MLflow.

    Args:
        run: the run's id; the active run where None.
        radii: at which certified accuracy is logged; six of the estimate's own where None.
        client: an `MlflowClient`; one for MLflow's default tracking server where None.

    Returns:
        A function of an estimate and the training round that it is of.

    Raises:
        MissingExtra: MLflow is not installed.
        CallError: no run is given, and none is active.

    Examples:
        >>> class Client:
        ...     def log_batch(self, run, metrics):
        ...         print(run, len(metrics), metrics[0].key)
        >>> from fedcert.estimation.estimate import estimate
        >>> from fedcert.report import Report
        >>> site = Report(client="a", model="demo", smoothing={"sigma": 0.25}, radii=[0], classes=["cat"],
        ...               label_counts=[100], certified_counts=[90])
        >>> with mlflow("7f3a", client=Client()) as log:
        ...     log(estimate(site), step=10)
        7f3a 8 certified_accuracy/radius_0
    """
    tracking = require("mlflow", "logging to MLflow", "mlflow")
    entities = require("mlflow.entities", "logging to MLflow", "mlflow")
    if run is None:
        active = tracking.active_run()
        if active is None:
            raise CallError("no run of MLflow is active; start one (mlflow.start_run), or give its id")
        run = active.info.run_id
    logger = client if client is not None else tracking.MlflowClient()

    def log(estimate: Estimate, step: int) -> None:
        now = int(1000 * time.time())
        metrics = metrics_of(estimate, radii)
        logger.log_batch(run, metrics=[entities.Metric(name, value, now, step) for name, value in metrics.items()])

    yield log
