"""Experiments carried out: stopped, resumed, certified."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedcert import CallError, DataProblem, FileProblem, Smoothing
from fedcert.certification.progress import ProgressListener
from fedcert.lab.datasets.digits import read_digits
from fedcert.lab.experiment import Experiment
from fedcert.lab.run import trace_experiment, train_experiment
from fedcert.lab.traces.trace import read_trace
from fedcert.lab.training.rounds import TrainingRound
from fedcert.lab.training.settings import Training

CPU = torch.device("cpu")
EXPERIMENT = Experiment(
    data="digits", network="small", partition="iid", clients=6,
    training=Training(rounds=8, clients_per_round=3, epochs=2, batch_size=16, learning_rate=0.1, sigma=0.2, padding=0, flip=False),
    smoothing=Smoothing.defaults(0.2, procedure="sequential", n=200), radii=(0.0, 0.2),
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
    for changed in (replace(longer, seed=5), replace(longer, clients=5)):
        with pytest.raises(CallError, match="is the checkpoint of a run with other settings"):
            train_experiment(changed, data, tmp_path, CPU)
    with pytest.raises(CallError, match="is the checkpoint of a run with other settings"):
        train_experiment(longer, replace(data, train_images=data.train_images[:, :, ::-1].copy()), tmp_path, CPU)
    with pytest.raises(CallError, match="is trained for 10 rounds, more than the 8 wanted"):
        train_experiment(EXPERIMENT, data, tmp_path, CPU)
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
    assert trace.about["noisy_accuracy_after_round"] == {"8": pytest.approx(trained.accuracy["noisy"], abs=1e-4)}
    assert not list(tmp_path.glob("*.journal"))


def test_accuracy_under_noise_is_in_the_curve_every_50_rounds(tmp_path: Path) -> None:
    longer = replace(EXPERIMENT, training=replace(EXPERIMENT.training, rounds=102, epochs=1, clients_per_round=1))
    trained = train_experiment(longer, read_digits(), tmp_path, CPU)
    assert list(trained.curve) == [50, 100, 102]
    lines = (tmp_path / "curve.csv").read_text().splitlines()[1:]
    assert {number: line.split(",")[3] for number, line in enumerate(lines, 1) if line.split(",")[3]} == {
        number: f"{noisy:.4f}" for number, noisy in trained.curve.items()
    }


def test_an_interrupted_run_keeps_its_rounds(tmp_path: Path) -> None:
    data = read_digits()

    def stop(made: TrainingRound) -> None:
        if made.number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_experiment(EXPERIMENT, data, tmp_path / "parts", CPU, stop)
    seen: list[int] = []
    part = train_experiment(EXPERIMENT, data, tmp_path / "parts", CPU, lambda made: seen.append(made.number))
    assert seen == [4, 5, 6, 7, 8]
    whole = train_experiment(EXPERIMENT, data, tmp_path / "whole", CPU)
    assert all(
        torch.equal(tensor, part.network.state_dict()[name]) for name, tensor in whole.network.state_dict().items()
    )
    assert len((tmp_path / "parts" / "curve.csv").read_text().splitlines()) == 9


def test_training_that_diverges_is_said_to(tmp_path: Path) -> None:
    wild = replace(EXPERIMENT, training=replace(EXPERIMENT.training, learning_rate=1e6))
    with pytest.raises(DataProblem, match="training diverged: its loss is .* in round .*; lower learning_rate"):
        train_experiment(wild, read_digits(), tmp_path, CPU)


@pytest.mark.parametrize("damage", [b"round,loss,seconds,noisy accuracy\nx,1,2,3\n", b"h\n1,1,abc,3\n", b"\xff\xfe"])
def test_a_damaged_curve_is_said_to_be(tmp_path: Path, damage: bytes) -> None:
    data = read_digits()
    train_experiment(EXPERIMENT, data, tmp_path, CPU)
    (tmp_path / "curve.csv").write_bytes(damage)
    with pytest.raises(DataProblem, match="curve.csv.* must be the learning curve of an earlier run, but is not"):
        train_experiment(EXPERIMENT, data, tmp_path, CPU)


def test_certificates_are_kept_until_the_trace_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = read_digits()
    trained = train_experiment(EXPERIMENT, data, tmp_path, CPU)

    def full(*_: object) -> None:
        raise FileProblem("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("fedcert.lab.run.write_trace", full)
        with pytest.raises(FileProblem, match="No space left"):
            trace_experiment(EXPERIMENT, data, trained, tmp_path / "t.parquet", journals=tmp_path)
    assert {file.name for file in tmp_path.glob("*.journal")} == {"clients.journal", "target.journal"}

    class Counting(ProgressListener):
        drawn, kept = 0, 0

        def advance(self, samples: int) -> None:
            self.drawn += samples

        def resumed(self, examples: int) -> None:
            self.kept += examples

    watcher = Counting()
    trace = trace_experiment(EXPERIMENT, data, trained, tmp_path / "t.parquet", watcher, journals=tmp_path)
    assert watcher.kept == len(trace.clients) + len(trace.target)
    assert watcher.drawn == 0
    assert not list(tmp_path.glob("*.journal"))
    fresh = trace_experiment(EXPERIMENT, data, trained, tmp_path / "u.parquet")
    assert (trace.clients.radius == fresh.clients.radius).all()


def test_a_round_that_was_interrupted_while_its_answers_were_merged_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedcert.lab.training.algorithms.FedAvg.finish", stop)
    with pytest.raises(KeyboardInterrupt):
        train_experiment(EXPERIMENT, read_digits(), tmp_path, CPU)
    assert not (tmp_path / "checkpoint.safetensors").exists()
