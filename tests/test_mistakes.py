"""Mistakes that people make, each caught where it happens: the mistake, the command, and the sentence it ends in.

Commands run for real, on a site with a tiny model. A mistake is either refused, or warned of even with --quiet.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedcert.cli.main import run

SITE = ["--client", "a", "--sigma", "0.25", "--out", "report.json"]
ANSWER = ["--client", "a", "--request", "request.json", "--out", "report.json"]
MODEL = ["--model-id", "bright"]

REFUSED, WARNED = "error", "warning"
Row = tuple[str, list[str], str, str]
"""A mistake, the command, whether it is refused or warned of, and a sentence (a part of what is printed)."""

AT_A_SITE: list[Row] = [
    ("pixels from 0 to 255, no range stated", ["certify", "ward:make", "pixels.npz", *MODEL, *SITE], REFUSED,
     "the inputs range from 0 to 255 and sigma is 0.25, but sigma is in the units of the inputs, and this one suits "
     "pixels from 0 to 1; divide x by 255, or, where the model takes inputs like these, state their range: "
     "--input-range 0,255"),
    ("pixels from 0 to 255, 0 to 1 requested", ["certify", "ward:make", "pixels.npz", *MODEL, *ANSWER], REFUSED,
     "the inputs must lie within the stated range, 0 to 1, and fill it, but x ranges from 0 to 255; divide x by 255"),
    ("pixels divided by 255 twice", ["certify", "ward:make", "tiny.npz", *MODEL, *ANSWER], REFUSED,
     "and fill it, but x ranges from 0 to 0.00392; multiply x by 255"),
    ("channels last", ["certify", "ward:make", "last.npz", *MODEL, *ANSWER], REFUSED,
     "the request states inputs of shape 3x4x4, but each example of x has shape 4x4x3; reorder the axes: "
     "np.transpose(x, (0, 3, 1, 2))"),
    ("data normalised outside", ["certify", "ward:make", "normalised.npz", *MODEL, *SITE], WARNED,
     "and sigma is 0.25; sigma and the radii are in the units of the inputs; pixels are best given from 0 to 1, with "
     "the normalisation as the model's first layer"),
    ("columns of unlike size", ["certify", "ward:make_table", "table.npz", *MODEL, *SITE], WARNED,
     "scale the columns beforehand, so that one sigma suits all of them"),
    ("labels off by one", ["certify", "ward:make", "shifted.npz", *MODEL, *SITE], WARNED,
     "labels look shifted by one: without noise the model predicts 0% of the labels here, but the class before it for "
     "100%; check that y counts classes from 0, in the order of --classes"),
    ("a model that guesses", ["certify", "ward:constant", "data.npz", *MODEL, *SITE], WARNED,
     "no more than chance (33.3%); check the weights, the order of the classes, and how the data is normalised"),
    ("a model not trained with noise", ["certify", "ward:make", "data.npz", *MODEL, *SITE, "--sigma", "8"], WARNED,
     "the model was hardly trained with noise; train it with this sigma, or take a smaller one"),
    ("a model that fails without noise", ["certify", "ward:spoilt", "data.npz", *MODEL, *SITE], WARNED,
     "the model fails without noise; check that the data is what the model was trained on"),
    ("no weights", ["certify", "ward:net", "data.npz", *SITE], WARNED,
     "no --weights are given, so the weights that ward:net makes are certified, random unless it loads them itself; "
     "give --weights FILE.safetensors"),
]  # fmt: skip

WARD = """
import numpy as np

def make():
    return lambda batch: np.argmax(batch.mean(axis=(2, 3)), axis=1)

def constant():
    return lambda batch: np.zeros((len(batch), 3)) + np.array([1, 0, 0])

def make_table():
    return lambda batch: np.eye(3)[np.clip(np.floor(3 * batch[:, 0]), 0, 2).astype(int)]

def spoilt():
    def model(batch):
        noisy = batch.reshape(len(batch), -1).std(axis=1) > 0.33
        return (np.argmax(batch.mean(axis=(2, 3)), axis=1) + np.where(noisy, 0, 1)) % 3
    return model

def net():
    import torch
    class Bright(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(1))
        def forward(self, x):
            return self.scale * x.mean(dim=(2, 3))
    return Bright()
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model that names the brightest channel, its data, and what people do to it; entered."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "ward", raising=False)
    (tmp_path / "ward.py").write_text(WARD)
    (tmp_path / "classes.txt").write_text("red\ngreen\nblue\n")
    y = np.arange(30) % 3
    x = np.full((30, 3, 4, 4), 0.25, dtype=np.float32)
    x[np.arange(30), y] = 0.75
    x[:, :, 0, 0], x[:, :, 0, 1] = 0.0, 1.0
    table = np.stack([(y + 0.5) / 3, 1000.0 * y], axis=1).astype(np.float32)
    save: Callable[..., None] = lambda name, x, y=y: np.savez(tmp_path / f"{name}.npz", x=x, y=y)  # noqa: E731
    save("data", x)
    save("pixels", 255 * x)
    save("tiny", x / 255)
    save("last", x.transpose(0, 2, 3, 1))
    save("normalised", (x - 0.4) / 0.2)
    save("table", table)
    save("shifted", x, (y + 1) % 3)
    asked = ["request", *MODEL, "--sigma", "0.25", "--classes", "classes.txt", "--out", "request.json"]
    assert run([*asked, "--input-range", "0,1", "--input-shape", "3,4,4"]) == 0
    return tmp_path


@pytest.mark.filterwarnings("default::fedcert.FedcertWarning")
@pytest.mark.parametrize(
    ("command", "how", "sentence"), [row[1:] for row in AT_A_SITE], ids=[row[0] for row in AT_A_SITE]
)
def test_a_mistake_is_caught_where_it_happens(
    site: Path, capsys: pytest.CaptureFixture[str], command: list[str], how: str, sentence: str
) -> None:
    capsys.readouterr()
    code = run(["--quiet", *command])
    lines = [line for line in capsys.readouterr().err.splitlines() if sentence in line]
    assert lines, f"nothing was said of it (exit {code})"
    assert lines[0].startswith(f"fedcert: {how}: ")
    assert (code != 0) == (how == REFUSED)
    assert (site / "report.json").exists() == (how == WARNED)


def test_what_is_right_is_not_warned_of(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["certify", "ward:make", "data.npz", *MODEL, *ANSWER]) == 0
    said = capsys.readouterr().err
    assert "warning: " not in said
    assert "accuracy without noise: 100.0% of 30 examples (stays here)" in said
    assert '"input_range": [0.0, 1.0]' in (site / "report.json").read_text()
