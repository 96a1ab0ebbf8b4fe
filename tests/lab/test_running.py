"""Experiments carried out: stopped, resumed, certified."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedcert import CallError, FileProblem, Smoothing
from fedcert.lab.datasets.digits import read_digits
from fedcert.lab.experiment import Experiment
from fedcert.lab.running import trace_experiment, train_experiment
from fedcert.lab.traces.trace import read_trace
from fedcert.lab.training.settings import Training

CPU = torch.device("cpu")
EXPERIMENT = Experiment(
    data="digits", network="small", partition="iid", clients=6,
    training=Training(rounds=8, clients_per_round=3, epochs=2, batch_size=16, learning_rate=0.1, sigma=0.2, padding=0, flip=False),
    smoothing=Smoothing.usual(0.2, n=200), radii=(0.0, 0.2),
)  # fmt: skip


def test_a_run_that_was_stopped_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    data = read_digits()
    whole = train_experiment(EXPERIMENT, data, tmp_path / "whole", CPU)
    seen: list[int] = []
    parts = 0
    while True:
        parts += 1
        part = train_experiment(
            EXPERIMENT, data, tmp_path / "parts", CPU, lambda made: seen.append(made.number), seconds=1e-9
        )
        if part.rounds == 8:
            break
    assert parts == 8
    assert seen == list(range(1, 9))
    assert part.accuracy == whole.accuracy
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, part.network.state_dict()[name])
    curves = [(tmp_path / name / "curve.csv").read_text().splitlines() for name in ("whole", "parts")]
    assert [line.split(",")[:2] for line in curves[0]] == [line.split(",")[:2] for line in curves[1]]
    assert len(curves[0]) == 9
    assert curves[0][0] == "round,loss,seconds,noisy accuracy"
    assert curves[0][-1].split(",")[3] == f"{whole.accuracy['noisy']:.4f}"


def test_training_may_be_prolonged_but_not_changed(tmp_path: Path) -> None:
    data = read_digits()
    train_experiment(EXPERIMENT, data, tmp_path, CPU)
    longer = replace(EXPERIMENT, training=replace(EXPERIMENT.training, rounds=10))
    assert train_experiment(longer, data, tmp_path, CPU).rounds == 10
    other = replace(EXPERIMENT, training=replace(EXPERIMENT.training, learning_rate=0.2))
    with pytest.raises(CallError, match="is the checkpoint of a run with other settings"):
        train_experiment(other, data, tmp_path, CPU)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileProblem, match="cannot make the folder"):
        train_experiment(EXPERIMENT, data, tmp_path / "file", CPU)


def test_a_trace_tells_how_it_was_made(tmp_path: Path) -> None:
    data = read_digits()
    trained = train_experiment(EXPERIMENT, data, tmp_path, CPU)
    assert trained.accuracy["clean"] > 0.5
    trace_experiment(EXPERIMENT, data, trained, tmp_path / "t.parquet", journals=tmp_path)
    trace = read_trace(tmp_path / "t.parquet")
    assert (trace.rounds, trace.accuracy) == (8, trained.accuracy)
    assert trace.about["data"] == data.digest
    assert trace.about["torch"] == torch.__version__
    assert not list(tmp_path.glob("*.journal"))
