"""Trackers: what TensorBoard and MLflow really hold afterwards."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import fedcert
from factories import drawn_reports
from fedcert.errors import CallError, MissingExtra
from fedcert.show.tracking import metrics_of, mlflow, tensorboard

ROUNDS = {step: fedcert.estimate(drawn_reports(5, 3, 21, seed=step)) for step in (10, 20)}


def test_what_is_worth_watching() -> None:
    made = ROUNDS[10]
    told = metrics_of(made)
    assert len([name for name in told if name.startswith("certified_accuracy/")]) == 6
    assert told["certified_accuracy/radius_0"] == made.certified_accuracy[0]
    assert told["certified_accuracy_upper/radius_1"] == made.upper[-1]  # type: ignore[index]
    assert metrics_of(made, [0.12])["certified_accuracy/radius_0.12"] == made.at(0.12).certified_accuracy
    with pytest.raises(CallError, match="radius must be at most 1, the last of the estimate, but is 2"):
        metrics_of(made, [2.0])


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", ["folder", "torch's writer"])
def test_tensorboard_holds_them(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    where: Any = tmp_path
    if kind != "folder":
        from torch.utils.tensorboard import SummaryWriter

        where = SummaryWriter(str(tmp_path))
    with tensorboard(where, radii=[0.25]) as log:
        for step, made in ROUNDS.items():
            log(made, step)
    if kind != "folder":
        where.add_scalar("still open", 1.0, 1)
        where.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    tags = events.Tags()
    name = "certified_accuracy/radius_0.25"
    if name in tags["scalars"]:
        found = {event.step: event.value for event in events.Scalars(name)}
    else:
        from tensorboard.util import tensor_util

        found = {event.step: float(tensor_util.make_ndarray(event.tensor_proto)) for event in events.Tensors(name)}
    assert found == pytest.approx({step: made.at(0.25).certified_accuracy for step, made in ROUNDS.items()}, abs=1e-6)


@pytest.mark.filterwarnings("default")
def test_mlflow_holds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow import MlflowClient

    client = MlflowClient(tmp_path.as_uri())
    run = client.create_run(client.create_experiment("ward")).info.run_id
    with mlflow(run, radii=[0.25], client=client) as log:
        for step, made in ROUNDS.items():
            log(made, step)
    history = client.get_metric_history(run, "certified_accuracy/radius_0.25")
    assert {one.step: one.value for one in history} == {
        step: made.at(0.25).certified_accuracy for step, made in ROUNDS.items()
    }
    assert client.get_run(run).data.metrics["estimate/clients"] == 5
    with pytest.raises(CallError, match="no run of MLflow is active"), mlflow():
        pass


@pytest.mark.parametrize(("name", "module"), [("tensorboard", "tensorboard.summary"), ("mlflow", "mlflow")])
def test_what_is_not_installed_is_named(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with (
        pytest.raises(MissingExtra, match=rf"fedcert\[{name}\]"),
        {"tensorboard": tensorboard, "mlflow": mlflow}[name](str(tmp_path)),
    ):
        pass
