"""fedcert lab, as a researcher runs it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedcert.cli.main import run
from fedcert.lab.experiment import Experiment
from fedcert.lab.paper.published import TABLES
from fedcert.lab.paper.tables import trace_path
from fedcert.lab.populations.partition import partition_of
from fedcert.lab.traces.trace import Examples, Trace, read_trace, write_trace

SMALL = """
data = "digits"
network = "small"
partition = "dirichlet:0.5"
clients = 5
radii = [0, 0.1, 0.2]
[training]
rounds = 3
clients_per_round = 3
epochs = 1
batch_size = 16
learning_rate = 0.1
sigma = 0.2
padding = 0
flip = false
[smoothing]
sigma = 0.2
n = 200
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an experiment in it, and in the way."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.toml").write_text(SMALL)
    return tmp_path


def test_data_is_checked_and_described(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "data", "digits"]) == 0
    assert "1,198 training and 599 test images of 8 x 8 pixels, 1 channel, 10 classes." in capsys.readouterr().out
    assert run(["lab", "data", "cifar10", "--folder", "nowhere"]) == 2
    assert "CIFAR-10: there is no folder nowhere; download cifar-10-binary.tar.gz" in capsys.readouterr().err


def test_a_partition_is_drawn(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "partition", "e.toml", "--out", "p.svg"]) == 0
    assert "Wrote p.svg: clients hold" in capsys.readouterr().out
    assert (place / "p.svg").read_text().startswith("<?xml")
    assert run(["lab", "partition", "e.toml", "--out", "p.gif"]) == 2


def test_training_goes_on_and_is_traced(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "train", "e.toml", "--out", "work", "--rounds", "2", "--device", "cpu"]) == 0
    assert "2 rounds in" in capsys.readouterr().out
    assert {file.name for file in (place / "work").iterdir()} == {
        "checkpoint.safetensors", "curve.csv", "model.safetensors",
    }  # fmt: skip
    assert run(["lab", "trace", "e.toml", "--out", "t.parquet", "--work", "work", "--device", "cpu"]) == 0
    assert "Wrote t.parquet:" in capsys.readouterr().out
    assert read_trace(place / "t.parquet").rounds == 3
    assert len((place / "work" / "curve.csv").read_text().splitlines()) == 4
    # The same trace has CERTIFY and the vote.
    assert run(["lab", "paper", "vote", "--traces", "t.parquet", "--markdown", "v.md"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "small, digits, dirichlet:0.5, fedavg: 3 rounds, sigma 0.2. Passes of an example: CERTIFY" in said
    assert "radius radius/sigma CERTIFY vote of 11 estimate 95% interval 0.000 0 0." in said
    assert len((place / "v.md").read_text().splitlines()) == 2 + 2 + 7
    write_trace(place / "older.parquet", made_up(Experiment()))
    assert run(["lab", "paper", "vote", "--traces", "."]) == 0
    assert "traces without right answers are left out: older" in capsys.readouterr().err


def made_up(experiment: Experiment) -> Trace:
    """A trace of a paper's row that nobody trained."""
    generator = np.random.default_rng(0)
    classes = 100 if experiment.data == "cifar100" else 10

    def examples(size: int, clients: int) -> Examples:
        label = generator.integers(0, classes, size)
        radius = np.minimum(generator.gamma(2.0, 0.1 + label / classes / 4), experiment.smoothing.largest_radius)
        owner = np.full(size, -1, dtype=np.int32)
        if clients:
            for number, part in enumerate(partition_of(experiment.partition).divide(label, clients, generator)):
                owner[part] = number
        count = np.arange(size, dtype=np.int32)
        return Examples(owner, count, label.astype(np.int32), label.astype(np.int32), radius, count)

    return Trace(
        experiment, tuple(map(str, range(classes))), "m", 7, {"clean": 0.5, "noisy": 0.4}, {},
        examples(3000, experiment.clients), examples(3000, 0),
    )  # fmt: skip


@pytest.mark.parametrize("table", ["table1", "table3", "table5"])
def test_tables_come_from_traces(place: Path, capsys: pytest.CaptureFixture[str], table: str) -> None:
    (place / "traces").mkdir()
    for setting in {row.setting for row in TABLES[table]}:
        write_trace(trace_path(place / "traces", setting), made_up(setting.experiment()))
    assert run(["lab", "paper", table, "--draws", "2", "--markdown", "t.md"]) == 0
    assert "RMSE" in capsys.readouterr().out
    text = (place / "t.md").read_text()
    for row in TABLES[table]:
        assert f"| paper | {row.rmse[0]:.3f} | {row.rmse[1]:.3f} | {row.rmse[2]:.3f} |" in text
    assert text.count("| ours |") == 4 * len(TABLES[table])
    assert "| 7 | 50.0% / 40.0% |" in text
    # One trace less is some rows less.
    gone = TABLES[table][-1].setting
    trace_path(place / "traces", gone).unlink()
    rest = [row for row in TABLES[table] if row.setting != gone]
    if table == "table3":
        assert run(["lab", "paper", table, "--draws", "1", "--markdown", "t.md"]) == 0
        assert f"rows whose traces are not in traces are left out: {gone.name}" in " ".join(
            capsys.readouterr().err.split()
        )
        assert (place / "t.md").read_text().count("| ours |") == 4 * len(rest)


def test_figure_2_is_drawn(place: Path) -> None:
    (place / "traces").mkdir()
    setting = TABLES["table4"][0].setting
    write_trace(trace_path(place / "traces", setting), made_up(setting.experiment()))
    assert run(["lab", "paper", "figure2", "--draws", "2", "--out", "f.png"]) == 0
    assert (place / "f.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["paper", "table1"], "traces has none of the traces resnet18-cifar10-dirichlet0.1-fedavg, resnet18"),
        (["paper", "table9"], "the paper has table1, table2, table3, table4, table5 and figure2, but not 'table9'"),
        (
            ["paper", "table1", "--run"],
            "making the missing traces of table1 needs cifar10; name its folder (--cifar10)",
        ),
        # Before hours of training on the data that is there.
        (["paper", "table1", "--run", "--cifar10", "."], "needs cifar100; name its folder (--cifar100)"),
        (["paper", "table1", "--out", "t.png"], "--out is for figure2's file, but table1 is asked for"),
        (["paper", "vote"], "traces holds no trace; make one with 'fedcert lab trace'"),
        (["paper", "vote", "--run"], "--run is for the paper's tables and figure2, but vote is asked for"),
        (["paper", "vote", "--draws", "2"], "--draws is for the paper's tables and figure2, but vote is asked for"),
        (["paper", "vote", "--out", "v.png"], "--out is for figure2's file, but vote is asked for"),
        (["paper", "figure2", "--markdown", "f.md"], "--markdown is for tables, but figure2 is asked for"),
        (["train", "e.toml", "--out", "w", "--device", "meta"], "the device 'meta' cannot be used"),
        (["train", "none.toml", "--out", "w"], "there is no file none.toml"),
        (["train", "e.toml", "--out", "w", "--device", "quantum"], "the device 'quantum' cannot be used"),
        (["trace", "e.toml", "--out", "t.csv"], "must end in .parquet"),
    ],
)
def test_mistakes_are_one_sentence(
    place: Path, capsys: pytest.CaptureFixture[str], command: list[str], sentence: str
) -> None:
    assert run(["lab", *command]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_a_trace_under_another_name_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "traces").mkdir()
    pareto, prox = TABLES["table4"][0].setting, TABLES["table3"][1].setting
    path = trace_path(place / "traces", pareto)
    for experiment, sentence in (
        (prox.experiment(), "must be of partition 'pareto:2', but is of 'dirichlet:0.1'"),
        (replace(pareto.experiment(), radii=(0.0, 0.5)), "must be of radii"),
        (replace(pareto.experiment(), clients=30), "must be of clients 100, but is of 30"),
    ):
        write_trace(path, made_up(experiment))
        for command in (["table4"], ["figure2", "--out", "f.png"]):
            assert run(["lab", "paper", *command, "--draws", "1"]) == 1
            assert sentence in " ".join(capsys.readouterr().err.split())
    assert not (place / "f.png").exists()


def test_full_memory_is_one_sentence(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("fedcert.lab.datasets.library.read_dataset", full)
    assert run(["lab", "data", "digits"]) == 1
    assert "the memory is full" in capsys.readouterr().err
