"""fedcert predict: labels in a file, and every way to call it wrongly."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from fedcert.cli.main import run

PREDICT = ["predict", "ward:make", "data.npz", "--model-id", "m", "--sigma", "0.05", "--out", "labels.csv"]


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, data and class names, entered."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "ward", raising=False)
    (tmp_path / "ward.py").write_text(
        "import torch\n"
        "def make():\n    return lambda batch: (batch[:, 0] > 0.5).astype(int)\n"
        "def module():\n    return torch.nn.Linear(2, 2)\n"
        "def angry():\n    def model(batch):\n        raise ValueError('bad shape')\n    return model\n"
    )
    x = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]], dtype=np.float32)  # clear, clear, and on the boundary
    np.savez(tmp_path / "data.npz", x=x)
    np.savez(tmp_path / "nan.npz", x=np.where(x == 1, np.nan, x))
    np.savez(tmp_path / "none.npz", x=x[:0])
    (tmp_path / "data.csv").write_text("a,b\n0,0\n1,0\n")
    (tmp_path / "classes.txt").write_text("below\nabove\n")
    (tmp_path / "one.txt").write_text("below\n")
    return tmp_path


def rows(name: str = "labels.csv") -> list[dict[str, str]]:
    with Path(name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_labels_are_written_with_their_votes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*PREDICT, "--classes", "classes.txt"]) == 0
    assert Path("labels.csv").read_bytes().startswith(b"index,label,class_index,votes,share\r\n0,below,0,11,1.0\r\n")
    _, above, unclear = rows()
    assert above == {"index": "1", "label": "above", "class_index": "1", "votes": "11", "share": "1.0"}
    assert unclear["label"] in ("below", "above")
    assert 6 <= int(unclear["votes"]) <= 11
    assert float(unclear["share"]) == pytest.approx(int(unclear["votes"]) / 11, abs=1e-6)
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith("3 inputs, 11 votes each: ")
    assert shown.endswith(f"the least clear has {unclear['votes']} of 11. Wrote labels.csv.")


def test_without_class_names_labels_are_indices() -> None:
    assert run([*PREDICT, "--votes", "3"]) == 0
    assert [row["label"] for row in rows()][:2] == ["0", "1"]
    assert rows()[0]["votes"] == "3"


def test_predict_abstains(capsys: pytest.CaptureFixture[str], site: Path) -> None:
    np.savez(site / "data.npz", x=[[0.0, 0.0]] * 2 + [[0.5, 0.0]])
    assert run([*PREDICT, "--abstain", "1e-9", "--n", "200", "--classes", "classes.txt"]) == 0
    assert [row["label"] for row in rows()] == ["below", "below", "abstain"]
    assert rows()[2]["class_index"] == "-1"
    shown = " ".join(capsys.readouterr().out.split())
    assert shown == (
        "PREDICT answers 2 of 3 inputs at level 1e-09, from 200 noisy samples each, and abstains on 1. Wrote labels.csv."
    )


def test_a_table_a_module_and_its_weights() -> None:
    weights = {"weight": torch.tensor([[0.0, 0.0], [1.0, 0.0]]), "bias": torch.tensor([0.5, 0.0])}
    safetensors.torch.save_file(weights, "w.safetensors")
    command = ["predict", "ward:module", "data.csv", "--weights", "w.safetensors", "--sigma", "0.05"]
    assert run([*command, "--device", "cpu", "--out", "labels.csv"]) == 0
    assert [row["class_index"] for row in rows()] == ["0", "1"]


def test_two_runs_do_not_share_noise(site: Path) -> None:
    np.savez(site / "data.npz", x=np.full((100, 2), 0.5))
    assert run([*PREDICT]) == run([*PREDICT[:-1], "again.csv"]) == 0
    assert rows() != rows("again.csv")


def test_no_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([word.replace("data.npz", "none.npz") for word in PREDICT]) == 0
    assert rows() == []
    assert capsys.readouterr().out == "There are no inputs. Wrote labels.csv.\n"


def swapped(old: str, new: str) -> list[str]:
    return [new if word == old else word for word in PREDICT]


MISTAKES: dict[str, tuple[list[str], int, str]] = {
    "even votes": ([*PREDICT, "--votes", "10"], 2, "--votes must be an odd number from 1 to 9999, but is 10"),
    "no sigma": (PREDICT[:5] + PREDICT[7:], 2, "give --request FILE, or --sigma and the other settings that were certified"),
    "no out": (PREDICT[:-2], 2, "missing option '--out'"),
    "sigma of zero": (swapped("0.05", "0"), 2, "--sigma must be a finite number above 0 and of at most 1e+12, but is 0.0"),
    "both rules": ([*PREDICT, "--votes", "11", "--abstain", "0.1"], 2, "votes and abstain exclude one another: give"),
    "n of a vote": ([*PREDICT, "--n", "100"], 2, "n (--n) goes with abstain (--abstain)"),
    "too few samples": ([*PREDICT, "--abstain", "0.001", "--n", "9"], 2, "--n must be at least 11 for a test at level 0.001"),
    "level of one": ([*PREDICT, "--abstain", "1"], 2, "--abstain must be a finite number above 0 and below 1, but is 1.0"),
    "unknown noise": ([*PREDICT, "--noise", "pink"], 2, "--noise must be 'gaussian' or 'uniform', but is 'pink'"),
    "unknown precision": ([*PREDICT, "--precision", "int8"], 2, "--precision must be 'float32', 'tf32' or 'bfloat16'"),
    "precision of a function": ([*PREDICT, "--precision", "bfloat16"], 2, "precision must be 'float32' for this model"),
    "lattice below zero": ([*PREDICT, "--lattice", "-1"], 2, "--lattice must be a whole number from 1 to 65535, but is -1"),
    "batch of none": ([*PREDICT, "--batch-size", "0"], 2, "--batch-size must be a whole number from 1"),
    "no name": (PREDICT[:3] + PREDICT[5:], 2, "a bare callable has no weights to take a digest of: give its name"),
    "missing data": (swapped("data.npz", "gone.npz"), 2, "there is no file gone.npz; check the name"),
    "missing table": (swapped("data.npz", "gone.csv"), 2, "there is no file gone.csv; check the name"),
    "missing classes": ([*PREDICT, "--classes", "gone.txt"], 2, "there is no file gone.txt; check the name"),
    "NaN": (swapped("data.npz", "nan.npz"), 1, "x[1] must hold finite numbers, but holds NaN or infinity"),
    "failing model": (swapped("ward:make", "ward:angry"), 1, "the model failed on a float32 batch of shape (33, 2): ValueError"),
    "too few classes": ([*PREDICT, "--classes", "one.txt"], 1, "the model must answer with labels from 0 to 0, but gave 1"),
    "other ending": (swapped("labels.csv", "labels.json"), 2, "cannot write to 'labels.json': the name must end in .csv"),
    "no folder": (swapped("labels.csv", "no/l.csv"), 2, "cannot write to 'no/l.csv': the folder 'no' does not exist"),
    "over the data": (
        [*swapped("data.npz", "data.csv")[:-1], "data.csv"], 2,
        "cannot write to 'data.csv': it is one of the files to read; name another",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_and_touches_nothing(
    name: str, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, code, sentence = MISTAKES[name]
    Path("labels.csv").write_text("older")
    before = {file.name: file.read_bytes() for file in site.iterdir() if file.is_file()}
    assert run(command) == code
    shown = capsys.readouterr()
    text = " ".join(shown.err.split())
    assert text.startswith("fedcert: error: ")
    assert sentence in text
    assert shown.out == ""
    assert {file.name: file.read_bytes() for file in site.iterdir() if file.is_file()} == before


def test_the_help_says_what_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Classify inputs as the smoothed classifier that was certified does" in shown
    for option in ("--sigma", "--votes", "--abstain", "--n", "--lattice", "--precision", "--out"):
        assert option in shown
    assert "--seed" not in shown  # noise that can be fixed is noise that can be known
