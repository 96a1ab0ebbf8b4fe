"""Mistakes that people make, each caught where it happens: the mistake, the command, and the sentence it ends in.

Commands run for real, on a site with a tiny model. A mistake is either refused, or warned of even with --quiet.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedcert
from fedcert.cli.main import run

SITE = ["--client", "a", "--sigma", "0.25", "--out", "report.json"]
ANSWER = ["--client", "a", "--request", "request.json", "--out", "report.json"]
MODEL = ["--model-id", "bright"]
CLASSES = ["red", "green", "blue"]

NAMED = ["--classes", "classes.txt"]
HUGE = ["--procedure", "sequential", "--n", "100000000", "--time-budget", "2s"]
OTHER = ["--client", "a", "--sigma", "0.25", "--out", "other.json"]
SERVED = ["--sigma", "0.25", "--out", "labels.csv"]
CERTIFIED = ["--request", "request.json", "--out", "labels.csv"]
ASKED = ["--sigma", "0.25", "--classes", "classes.txt", "--out", "report.json"]

REFUSED, WARNED = "error", "warning"
Row = tuple[str, list[str], str, str]
"""A mistake, the command, whether it is refused or warned of, and a sentence (a part of what is printed)."""

AT_A_SITE: list[Row] = [
    ("pixels from 0 to 255, no range stated", ["certify", "ward:make", "pixels.npz", *MODEL, *SITE], REFUSED,
     "the inputs range from 0 to 255 and sigma is 0.25, but sigma is in the units of the inputs, and this one suits "
     "pixels from 0 to 1; divide x by 255, or, where the model takes inputs like these, state their range "
     "(--input-range 0,255)"),
    ("pixels from 0 to 255, 0 to 1 requested", ["certify", "ward:make", "pixels.npz", *MODEL, *ANSWER], REFUSED,
     "the inputs must lie within the stated range, 0 to 1, but x ranges from 0 to 255; divide x by 255"),
    ("pixels divided by 255 twice", ["certify", "ward:make", "tiny.npz", *MODEL, *ANSWER], REFUSED,
     "the inputs use only 0.39% of the stated range, 0 to 1: x ranges from 0 to 0.00392; multiply x by 255"),
    ("images of 4 bits read as 8", ["certify", "ward:make", "four.npz", *MODEL, *ANSWER], WARNED,
     "the inputs use only 5.9% of the stated range, 0 to 1: x ranges from 0 to 0.0588; scale x as the model was "
     "trained"),
    ("columns in another order", ["certify", "ward:make_table", "reordered.csv", *MODEL, "--client", "a", "--request",
     "columns.json", "--out", "report.json"], REFUSED,
     "the request states the columns 'age', 'glucose', 'weight', in this order, but in the data it is 'glucose', "
     "'age', 'weight'; reorder them"),
    ("a column that is missing", ["certify", "ward:make_table", "narrow.csv", *MODEL, "--client", "a", "--request",
     "columns.json", "--out", "report.json"], REFUSED,
     "but the data lacks 'weight' and has 'height', which the model does not take"),
    ("channels last", ["certify", "ward:make", "last.npz", *MODEL, *ANSWER], REFUSED,
     "the request states inputs of shape 3x4x4, but each example of x has shape 4x4x3; reorder the axes: "
     "np.transpose(x, (0, 3, 1, 2))"),
    ("data normalised outside", ["certify", "ward:make", "normalised.npz", *MODEL, *SITE], WARNED,
     "and sigma is 0.25; sigma and the radii are in the units of the inputs; pixels are best given from 0 to 1, with "
     "the normalisation as the model's first layer"),
    ("columns of unlike size", ["certify", "ward:make_table", "table.npz", *MODEL, *SITE], WARNED,
     "scale the columns beforehand, so that one sigma suits all of them"),
    ("a column too many", ["certify", "ward:make_table", "table.npz", *MODEL, "--client", "a", "--request",
     "three.json", "--out", "report.json"], REFUSED,
     "the request states inputs of shape 3, but each example of x has shape 2; give the columns that the model takes, "
     "in its order, and no others"),
    ("labels off by one", ["certify", "ward:make", "shifted.npz", *MODEL, *SITE], WARNED,
     "labels look shifted by one: without noise the model predicts 0% of the labels here, but the class before it for "
     "100%; check that y counts classes from 0, in the order of --classes"),
    ("two classes swapped", ["certify", "ward:make", "swapped.npz", *MODEL, *SITE, *NAMED], WARNED,
     "labels 'green' and 'blue' look swapped: without noise the model predicts 'blue' for most examples labelled "
     "'green', and 'green' for most labelled 'blue'; check y and the order of --classes"),
    ("sigma in other units than the stated range", ["certify", "ward:make", "pixels.npz", *MODEL, *SITE,
     "--input-range", "0,255"], WARNED,
     "sigma 0.25 is tiny beside inputs from 0 to 255: it is in their units, and 63.75 would be 0.25 times that range"),
    ("a module with its ending", ["certify", "ward.py:make", "data.npz", *MODEL, *SITE], REFUSED,
     "; write it as ward:make"),
    ("a model that guesses", ["certify", "ward:constant", "data.npz", *MODEL, *SITE], WARNED,
     "no more than chance (33.3%); check the weights, the order of the classes, and how the data is normalised"),
    ("a model not trained with noise", ["certify", "ward:make", "data.npz", *MODEL, *SITE, "--sigma", "8"], WARNED,
     "the model was hardly trained with noise; train it with this sigma, or take a smaller one"),
    ("a model that fails without noise", ["certify", "ward:spoilt", "data.npz", *MODEL, *SITE], WARNED,
     "the model is far worse without noise, as a small one that was trained on noisy inputs alone may be; otherwise "
     "check that the data is what it was trained on"),
    ("no weights", ["certify", "ward:net", "data.npz", *SITE], WARNED,
     "no --weights are given, so the weights that ward:net makes are used, random unless it loads them itself; "
     "give --weights FILE.safetensors"),
    ("labels that are unknown names", ["certify", "ward:make", "named.npz", *MODEL, *SITE, *NAMED], REFUSED,
     "unknown class 'Green' in y[1]; did you mean 'green'? Known classes: 'red', 'green', 'blue'"),
    ("labels that are names, classes not named", ["certify", "ward:make", "right.npz", *MODEL, *SITE], REFUSED,
     "y holds names, such as 'red': name the classes too, in the order of the model's outputs (--classes FILE"),
    ("channels last, no request", ["certify", "model.onnx", "last.npz", *SITE], REFUSED,
     "Got invalid dimensions for input: x for the following indices index: 1 Got: 4 Expected: 3"),
    ("pickled weights", ["certify", "ward:net", "data.npz", *SITE, "--weights", "model.pt"], REFUSED,
     "'model.pt' looks like pickled weights, which fedcert never opens; save them as safetensors: "
     "safetensors.torch.save_file(model.state_dict(), 'model.safetensors')"),
    ("the same weights in another format", ["certify", "model.onnx", "data.npz", *ANSWER], REFUSED,
     "an ONNX file and a safetensors file of the same weights have different digests"),
    ("a decimal comma", ["certify", "ward:make", "data.npz", *MODEL, *SITE, "--sigma", "0,5"], REFUSED,
     "; use a decimal point: 0.5; see: fedcert certify --help"),
    ("an unknown option", ["certify", "ward:make", "data.npz", *MODEL, *SITE, "--sgima", "0.5"], REFUSED,
     "see: fedcert certify --help"),
    ("a time budget that can never be enough", ["certify", "ward:make", "data.npz", *MODEL, *SITE, *HUGE], REFUSED,
     "of 2 s is too short: at "),
    ("another client's report in the way", ["certify", "ward:make", "data.npz", *MODEL, *OTHER], REFUSED,
     "other.json is the report of 'b', not of 'a'; give another --out, or remove it"),
    ("a request over another one", ["request", *MODEL, "--sigma", "0.5", "--classes", "classes.txt", "--out",
     "request.json"], REFUSED,
     "request.json holds another request, which sites may have, and answers to it would no longer count; give another "
     "--out, or remove it"),
    ("a request whose sigma is in other units", ["request", *MODEL, *ASKED, "--input-range", "0,255"], WARNED,
     "sigma 0.25 is tiny beside inputs from 0 to 255"),
    ("radii out of reach", ["request", *MODEL, *ASKED, "--procedure", "fixed", "--radii", "0,1,2"], WARNED,
     "2 of 3 radii are out of reach (from 1 on; with sigma 0.25 the largest is about 0.616): radii are in the units of "
     "the inputs; use a larger sigma or smaller radii"),
    ("radii in units of 8-bit pixels", ["request", *MODEL, *ASKED, "--radii", "0,64,127"], WARNED,
     "2 of 3 radii are out of reach (from 64 on; with sigma 0.25 the largest is about 0.75): radii are in the units of "
     "the inputs; use a larger sigma or smaller radii"),
    ("radii far beyond sigma, at a site", ["certify", "ward:make", "data.npz", *MODEL, "--client", "a", "--sigma",
     "0.25", "--radii", "0,0.5,5", "--out", "report.json"], WARNED,
     "1 of 3 radii are out of reach (from 5 on; with sigma 0.25 the largest is about 0.75)"),
    ("model and data swapped", ["certify", "ward:wants_normalised", "ward:make", *MODEL, *ANSWER], REFUSED,
     "DATA ward:make must be a function that returns x and y, or x, y and groups, but returned function; MODEL comes "
     "first, then DATA"),
    ("a misspelt function", ["certify", "ward:mke", "data.npz", *MODEL, *ANSWER], REFUSED,
     "the module ward has no 'mke'; did you mean ward:make?"),
    ("labels in one-hot rows", ["certify", "ward:make", "hot.npz", *MODEL, *ANSWER], REFUSED,
     "float64 of shape (30, 3); of one-hot rows use y.argmax(axis=1)"),
    ("a time budget of an instant", ["certify", "ward:make", "data.npz", *MODEL, *ANSWER, "--time-budget", "0.001s"],
     REFUSED, "after getting started and with a reserve 0 s can be used; give more time"),
    ("a range with its ends swapped", ["request", *MODEL, *ASKED, "--input-range", "1,0"], REFUSED,
     "--input-range must be the least input and then the largest, but is '1,0'"),
    ("groups under another name", ["certify", "ward:make", "patients.npz", *MODEL, *ANSWER], WARNED,
     "also holds 'patient', which is not read; the array 'groups' says which examples belong together"),
    ("settings of a request, and the request", ["certify", "ward:make", "data.npz", *MODEL, *ANSWER, "--settings-of",
     "request.json"], REFUSED, "--settings-of is for samples of the target, which answer no request"),
    ("a model with one answer, which is the frequent class", ["certify", "ward:constant", "mostly.npz", *MODEL, *SITE],
     WARNED, "without noise the model answers '0' for all 30 examples, which have 2 classes"),
    ("labels with a decimal point", ["certify", "ward:make_table", "decimal.csv", *MODEL, *SITE], REFUSED,
     "decimal.csv, line 2: label must be a whole number or a class name, but is '2.0'"),
    ("a CSV with an index", ["certify", "ward:make_table", "indexed.csv", *MODEL, *SITE], REFUSED,
     "indexed.csv has a column without a name, as an index has; write the file without it (pandas: index=False)"),
    ("a single score", ["certify", "ward:score", "data.npz", *MODEL, *SITE], REFUSED,
     "the model must answer with scores, one for each class, or with labels, whole numbers from 0, but gave 0."),
    ("another folder", ["certify", "wadr:make", "data.npz", *MODEL, *SITE], REFUSED,
     "there is no module 'wadr' here or on the Python path; run where its file is"),
    ("every example three times", ["certify", "ward:make", "thrice.npz", *MODEL, *ANSWER], WARNED,
     "60 of 90 examples are exact copies of others, which intervals count as examples of their own"),
]  # fmt: skip

IN_SERVICE: list[Row] = [
    ("pixels from 0 to 255", ["predict", "ward:make", "pixels.npz", *MODEL, *SERVED], REFUSED,
     "sigma is in the units of the inputs, and this one suits pixels from 0 to 1; divide x by 255"),
    ("other units than were certified", ["predict", "ward:make", "normalised.npz", *MODEL, *CERTIFIED], REFUSED,
     "the inputs must lie within the stated range, 0 to 1, but x ranges from -2 to 3; scale x as the model was trained"),
    ("all answers the same", ["predict", "ward:constant", "data.npz", *MODEL, *CERTIFIED], WARNED,
     "all 30 answers are 'red'; check that the inputs are scaled as the model was trained"),
    ("images of 4 bits read as 8", ["predict", "ward:make", "four.npz", *MODEL, *CERTIFIED], WARNED,
     "the inputs use only 5.9% of the stated range, 0 to 1: x ranges from 0 to 0.0588"),
    ("columns in another order", ["predict", "ward:make_table", "reordered.csv", *MODEL, "--request", "columns.json",
     "--out", "labels.csv"], REFUSED, "in this order, but in the data it is 'glucose', 'age', 'weight'; reorder them"),
    ("channels last", ["predict", "ward:make", "last.npz", *MODEL, *CERTIFIED], REFUSED,
     "reorder the axes: np.transpose(x, (0, 3, 1, 2))"),
    ("another model", ["predict", "model.onnx", "data.npz", *CERTIFIED], REFUSED,
     "the request asks for the model bright, but this one is sha256:"),
    ("another sigma", ["predict", "ward:make", "data.npz", *MODEL, *CERTIFIED, "--sigma", "1"], REFUSED,
     "the request already says sigma: leave it out"),
    ("a decimal comma in a list", ["predict", "ward:make", "data.npz", *MODEL, "--sigma", "0,25", "--out",
     "labels.csv"], REFUSED, "use a decimal point: 0.25"),
    ("no weights, with a request", ["predict", "ward:net", "data.npz", *CERTIFIED], REFUSED,
     "no --weights are given, and the weights that ward:net makes are not those of the request"),
    ("no settings", ["predict", "ward:make", "data.npz", *MODEL, "--out", "labels.csv"], REFUSED,
     "give --request FILE, or --sigma and the other settings that were certified"),
]  # fmt: skip

AT_THE_COORDINATOR: list[Row] = [
    ("a class that is spelt otherwise", ["estimate", "reports", "--target", "Red=0.5,blue=0.5"], REFUSED,
     "unknown class 'Red' in the target; did you mean 'red'? Known classes: 'red', 'green', 'blue'"),
    ("decimal commas in weights", ["estimate", "reports", "--target", "red=0,5,blue=0,5"], REFUSED,
     "with a decimal point: '5' in it has no class"),
    ("several clients in one option", ["collect", "--run", "run", "--withdraw", "site-1,site-2"], REFUSED,
     "there is no report of 'site-1,site-2' to withdraw; give --withdraw once for each client"),
    ("too much withdrawn", ["collect", "--run", "run", "--withdraw", "site-1", "--quorum", "7"], REFUSED,
     "each withdrawn report stays out until its file is collected again with --replace CLIENT"),
    ("a run folder among reports", ["page", "run", "--out", "page.html"], REFUSED,
     "run is the folder of a run: use fedcert collect --run run, or give run/reports"),
    ("a folder that is not there", ["estimate", "reprots"], REFUSED,
     "there is no file or folder reprots; check the name"),
    ("nothing to collect", ["collect", "--request", "asked.json"], REFUSED,
     "give the reports to collect, files or folders; or the folder of a run that has some (--run)"),
    ("a confidence in percent", ["estimate", "reports", "--confidence", "95"], REFUSED,
     "--confidence must be a finite number above 0 and below 1, but is 95.0; 95% is 0.95"),
    ("a request without a target as the target", ["estimate", "reports", "--target", "asked.json"], REFUSED,
     "asked.json is a request that names no target; give 'uniform', a JSON file"),
    ("a truth with another class mix", ["estimate", "reports", "--truth", "truth.json", "--target", "red=1"], WARNED,
     "the class mix of the truth's examples is not the target's (total variation "),
    ("reports of two requests", ["estimate", "reports", "late.json"], WARNED,
     "the reports answer different requests; fedcert collect takes those that answer one, and names the others"),
    ("a truth that is among the reports", ["estimate", "reports", "--truth", "reports/site_3.json"], REFUSED,
     "--truth is the report of 'site-3', which is also among the reports: a sample of the target must be no client's"),
    ("a target that differs", ["estimate", "reports", "--truth", "drift.json", "--target", "drift-mix.json"], WARNED,
     "abelled sample contradicts the estimate: "),
    ("a report that answers no request", ["estimate", "reports", "drift.json"], WARNED,
     "not all reports answer a request; fedcert collect takes those that answer one"),
    ("labels in another order at all sites", ["estimate", "rotated"], WARNED,
     "Hardly any answers to 'green', 'blue' are right: fewer than half of what guesses would be (33.3%)."),
    ("examples as the truth", ["estimate", "reports", "--truth", "target.npz"], REFUSED,
     "--truth must be a report on the target's own examples (.json), but is target.npz"),
    ("a run folder that is not there", ["collect", "--run", "rnu"], REFUSED,
     "there is no folder rnu of an earlier run; check the name, or give --request"),
    ("weights that add up to 1.4", ["estimate", "reports", "--target", "red=0.7,blue=0.7"], WARNED,
     "the target's weights add up to 1.4, not to 1 or 100%; they are scaled to red 50.0%, blue 50.0%"),
    ("one bad site of eight", ["estimate", "reports"], WARNED,
     "Suspicious: 'site-8' ("),
    ("and what to do about it", ["estimate", "reports"], WARNED,
     "Check its data and its scaling, labels and model, or remove it from the estimate with --screen"),
    ("0 to 255 at all sites", ["estimate", "pixels"], WARNED,
     "Were pixels from 0 to 255 certified with a sigma for 0 to 1? State the range in the request (--input-range)"),
    ("a flat curve", ["estimate", "flat"], WARNED,
     "The curve is flat: from 62.8% at radius 0 to 62.8% at radius 0.5"),
    ("a radius that is not there", ["estimate", "reports", "--radius", "9"], REFUSED,
     "radius (--radius) must be "),
    ("the same client twice, and no times", ["collect", "twice", "--request", "asked.json"], WARNED,
     "'site-1' has two different reports, "),
    ("an older report beside a newer one", ["collect", "corrected", "--request", "asked.json"], WARNED,
     "'site-1' has a newer report, "),
]  # fmt: skip

WARD = """
import numpy as np

def make():
    return lambda batch: np.argmax(batch.mean(axis=(2, 3)), axis=1)

def constant():
    return lambda batch: np.zeros((len(batch), 3)) + np.array([1, 0, 0])

def score():
    return lambda batch: batch.mean(axis=(1, 2, 3))

def make_table():
    return lambda batch: np.eye(3)[np.clip(np.floor(3 * batch[:, 0]), 0, 2).astype(int)]

def spoilt():
    def model(batch):
        noisy = batch.reshape(len(batch), -1).std(axis=1) > 0.33
        return (np.argmax(batch.mean(axis=(2, 3)), axis=1) + np.where(noisy, 0, 1)) % 3
    return model

def wants_normalised():
    return lambda batch: np.minimum(np.argmax(batch.mean(axis=(2, 3)), axis=1), 1)

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


def brightest_channel() -> bytes:
    """An ONNX model of inputs of 3x4x4, which scores channels by their brightness."""
    from onnx import TensorProto, helper

    shapes = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 4, 4])]
    scores = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 3])]
    nodes = [helper.make_node("ReduceMean", ["x", "axes"], ["scores"], keepdims=0)]
    axes = helper.make_tensor("axes", TensorProto.INT64, [2], [2, 3])
    graph = helper.make_graph(nodes, "bright", shapes, scores, [axes])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return bytes(made.SerializeToString())


@pytest.fixture
def site(site_made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model that names the brightest channel, its data, and what people do to it; entered."""
    shutil.copytree(site_made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "ward", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def site_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("site")
    (tmp_path / "ward.py").write_text(WARD)
    (tmp_path / "classes.txt").write_text("red\ngreen\nblue\n")
    y = np.arange(30) % 3
    x = np.full((30, 3, 4, 4), 0.25, dtype=np.float32)
    x[np.arange(30), y] = 0.75
    x[:, :, 0, 0], x[:, :, 0, 1] = 0.0, 1.0
    x[:, :, 0, 2] += np.arange(30)[:, None] / 255  # no two examples are equal
    table = np.stack([(y + 0.5) / 3, 1000.0 * y], axis=1).astype(np.float32)
    save: Callable[..., None] = lambda name, x, y=y: np.savez(tmp_path / f"{name}.npz", x=x, y=y)  # noqa: E731
    save("data", x)
    save("thrice", np.tile(x, (3, 1, 1, 1)), np.tile(y, 3))
    save("pixels", 255 * x)
    save("tiny", x / 255)
    save("four", np.round(15 * x) / 255)
    save("last", x.transpose(0, 2, 3, 1))
    save("normalised", (x - 0.4) / 0.2)
    save("table", table)
    save("mostly", x, (np.arange(30) >= 25).astype(int))
    (tmp_path / "decimal.csv").write_text("age,label\n" + "0.1,2.0\n" * 30)
    (tmp_path / "indexed.csv").write_text(",age,label\n" + "1,0.1,2\n" * 30)
    np.savez(tmp_path / "patients.npz", x=x, y=y, patient=y)
    save("shifted", x, (y + 1) % 3)
    save("swapped", x, np.array([0, 2, 1])[y])
    save("hot", x, np.eye(3)[y])
    save("right", x, np.array(["red", "green", "blue"])[y])
    save("named", x, np.array(["red", "Green", "blue"])[y])
    (tmp_path / "model.onnx").write_bytes(brightest_channel())
    other = fedcert.certify(
        lambda batch: np.argmax(batch.mean(axis=(2, 3)), axis=1), x, y, client="b", sigma=0.25, model_id="b"
    )
    other.save(tmp_path / "other.json")
    fedcert.request("bright", 0.25, CLASSES, input_shape=(3, 4, 4), input_range=(0, 1)).save(tmp_path / "request.json")
    fedcert.request("bright", 0.25, CLASSES, input_shape=(3,)).save(tmp_path / "three.json")
    fedcert.request("bright", 0.25, CLASSES, input_columns=["age", "glucose", "weight"]).save(tmp_path / "columns.json")
    for name, columns in (("reordered", "glucose,age,weight"), ("narrow", "age,glucose,height")):
        (tmp_path / f"{name}.csv").write_text(f"{columns},label\n" + "0.1,0.5,0.9,green\n" * 30)
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


@pytest.mark.parametrize(
    ("command", "how", "sentence"), [row[1:] for row in IN_SERVICE], ids=[row[0] for row in IN_SERVICE]
)
def test_a_mistake_is_caught_in_service(
    site: Path, capsys: pytest.CaptureFixture[str], command: list[str], how: str, sentence: str
) -> None:
    assert (run(["--quiet", *command]) != 0) == (how == REFUSED)
    assert sentence in capsys.readouterr().err
    assert (site / "labels.csv").exists() == (how == WARNED)


def test_what_was_certified_is_deployed_by_its_request(site: Path) -> None:
    assert run(["predict", "ward:make", "data.npz", *MODEL, *CERTIFIED]) == 0
    rows = (site / "labels.csv").read_text().splitlines()
    assert rows[0] == "index,label,class_index,votes,share"
    assert [row.split(",")[1] for row in rows[1:4]] == ["red", "green", "blue"]


@pytest.fixture
def desk(desk_made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A coordinator's folder with the reports of eight sites, and what people send; entered."""
    shutil.copytree(desk_made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def desk_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("desk")
    asked = fedcert.request("bright", 0.25, CLASSES, class_counts=True)
    asked.save(tmp_path / "asked.json")
    generator = np.random.default_rng(0)

    def report(client: str, right: float, request: fedcert.Request = asked, **more: Any) -> fedcert.Report:
        labels = generator.multinomial(120, generator.dirichlet([2, 2, 2]))
        cells = np.linspace(0, 1, 33)
        rows = []
        for count in labels:
            chances = np.exp(-((cells - right) ** 2) / 0.05)
            rows.append(tuple(generator.multinomial(count, chances / chances.sum()).tolist()))
        return fedcert.Report(
            client=client, model="bright", request=request.digest, smoothing=request.smoothing, radii=request.radii,
            classes=CLASSES, label_counts=labels.tolist(), class_correct_counts=rows,
            correct_counts=np.sum(rows, axis=0).tolist(), seed="sha256:" + "0" * 63 + client[-1], **more,
        )  # fmt: skip

    def save(folder: str, **reports: fedcert.Report) -> None:
        (tmp_path / folder).mkdir()
        for name, made in reports.items():
            made.save(tmp_path / folder / f"{name}.json")

    good = {f"site_{number}": report(f"site-{number}", 0.9) for number in range(1, 8)}
    save("reports", **good, site_8=report("site-8", 0.05))
    fedcert.collect(list(good.values()), request=asked, run=tmp_path / "run")
    save("pixels", **{name: replace(made, input_range=(0.0, 500.0)) for name, made in good.items()})
    flat = {}
    for name, made in good.items():
        right, labels = [round(0.628 * count) for count in (1000, 1000, 1000)], [1000, 1000, 1000]
        rows = [(count - sure, *[0] * 31, sure) for count, sure in zip(labels, right, strict=True)]
        counts = np.sum(rows, axis=0).tolist()
        flat[name] = replace(made, label_counts=labels, class_correct_counts=rows, correct_counts=counts)
    save("flat", **flat)
    drift = replace(report("drift-0", 0.05), request=None)
    drift.save(tmp_path / "drift.json")
    (tmp_path / "drift-mix.json").write_text(json.dumps(dict(zip(CLASSES, drift.label_counts, strict=True))))
    rotated = {}
    for name, made in good.items():
        rows = list(made.class_correct_counts or ())
        rows[1:] = [(sum(row), *[0] * 32) for row in rows[1:]]
        counts = np.sum(rows, axis=0).tolist()
        rotated[name] = replace(made, class_correct_counts=tuple(rows), correct_counts=counts)
    save("rotated", **rotated)
    report("truth-0", 0.9).save(tmp_path / "truth.json")
    report("site-9", 0.9, fedcert.request("bright", 0.25, CLASSES, class_counts=True)).save(tmp_path / "late.json")
    first, second = report("site-1", 0.9), report("site-1", 0.8)
    save("twice", a=first, b=second, c=good["site_2"])
    times = {"created": "2026-11-01T00:00:00Z"}, {"created": "2026-11-02T00:00:00Z"}
    save("corrected", b=replace(first, **times[0]), a=replace(second, **times[1]), c=good["site_2"])
    return tmp_path


@pytest.mark.filterwarnings("default::fedcert.FedcertWarning")
@pytest.mark.parametrize(
    ("command", "how", "sentence"), [row[1:] for row in AT_THE_COORDINATOR], ids=[row[0] for row in AT_THE_COORDINATOR]
)
def test_a_mistake_is_caught_at_the_coordinator(
    desk: Path, capsys: pytest.CaptureFixture[str], command: list[str], how: str, sentence: str
) -> None:
    code = run(["--quiet", *command])
    said = capsys.readouterr()
    assert sentence in " ".join((said.out + said.err).split()), f"nothing was said of it (exit {code})"
    assert (code != 0) == (how == REFUSED)


def test_what_is_right_is_not_warned_of(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["certify", "ward:make", "data.npz", *MODEL, *ANSWER]) == 0
    said = capsys.readouterr()
    assert "warning: " not in said.err
    assert "Accuracy without noise: 100.0% of 30 examples (shown here only; it is not in the report)" in " ".join(
        said.out.split()
    )
    assert '"input_range": [0.0, 1.0]' in (site / "report.json").read_text()


def test_a_request_that_asks_the_same_stays(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever repeats a command keeps the request that the sites have."""
    before = (site / "request.json").read_bytes()
    asked = ["request", *MODEL, "--sigma", "0.25", "--classes", "classes.txt", "--out", "request.json"]
    assert run([*asked, "--input-range", "0,1", "--input-shape", "3,4,4"]) == 0
    assert "request.json stays as it is, since it asked the same before" in " ".join(capsys.readouterr().out.split())
    assert (site / "request.json").read_bytes() == before


def test_other_votes_than_were_certified_are_warned_of(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--quiet", "predict", "ward:make", "data.npz", *MODEL, *CERTIFIED, "--votes", "1"]) == 0
    said = capsys.readouterr()
    assert (
        "fedcert: warning: the request asks for a vote of 11, so its numbers are not about one noisy copy: estimate "
        "with --votes 1, or leave --votes out here"
    ) in said.err
    assert "30 inputs, one noisy copy each." in said.out
    assert run(["--quiet", "predict", "ward:make", "data.npz", *MODEL, *CERTIFIED, "--votes", "11"]) == 0
    assert "warning" not in capsys.readouterr().err


def test_a_site_sees_its_labels_by_name(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["certify", "ward:make", "data.npz", *MODEL, *ANSWER]) == 0
    assert "Labels: red 10, green 10, blue 10." in " ".join(capsys.readouterr().out.split())


def test_weights_in_percent(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "reports", "--target", "red=70%,blue=30%"]) == 0
    said = capsys.readouterr()
    assert "red 70%, blue 30%" in said.out
    assert "scaled" not in said.err


def test_labels_may_be_names(site: Path) -> None:
    assert run(["certify", "ward:make", "right.npz", *MODEL, *SITE, *NAMED]) == 0
    assert fedcert.Report.load("report.json").label_counts == (10, 10, 10)


def test_a_forgotten_normalisation_shows_in_the_accuracy_at_the_site(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody else can know which accuracy the site expects; it is shown even with --quiet, and does not leave."""
    assert run(["--quiet", "certify", "ward:wants_normalised", "data.npz", *MODEL, *SITE]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("a: ")
    assert said.endswith("% of 30 examples proven right at radius 0; 66.7% right without noise (shown here only).")
    assert "66.7" not in (site / "report.json").read_text()


def test_the_radius_of_the_headline_is_named_and_shown_everywhere(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["certify", "ward:make", "data.npz", *MODEL, *ANSWER, "--radius", "0.325"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert " at radius 0.325, on average (30 examples" in said
    for command in (["estimate", "report.json"], ["what-if", "report.json", "--target", "uniform"]):
        assert run([*command, "--radius", "0.325"]) == 0
        assert "0.325" in capsys.readouterr().out
        assert run([*command, "--radius", "0.33"]) == 2
        assert "radius (--radius) must be one of the estimate's radii" in capsys.readouterr().err
    assert run(["certify", "ward:make", "data.npz", *MODEL, *ANSWER, "--radius", "0.33"]) == 2


def test_a_sample_of_the_target_has_the_settings_of_the_request(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It answers no request, and needs no place on the roster."""
    sample = ["certify", "ward:make", "data.npz", *MODEL, "--settings-of", "request.json", "--client", "sample"]
    assert run([*sample, "--out", "sample.json"]) == 0
    made, asked = fedcert.Report.load("sample.json"), fedcert.Request.load("request.json")
    assert (made.smoothing, made.radii, made.classes, made.request) == (
        asked.smoothing,
        asked.radii,
        asked.classes,
        None,
    )
    capsys.readouterr()
    assert run([*sample, "--sigma", "0.5", "--out", "wrong.json"]) == 2
    assert "the request already says sigma: leave it out" in capsys.readouterr().err
    assert run(["certify", "ward:make", "pixels.npz", *sample[3:], "--out", "wrong.json"]) == 1
    assert "the inputs must lie within the stated range" in capsys.readouterr().err


def test_the_printed_command_names_a_model_without_a_digest(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["request", *MODEL, "--sigma", "0.25", "--classes", "classes.txt", "--out", "new.json"]) == 0
    said = capsys.readouterr()
    assert "fedcert certify MODEL DATA --model-id bright --request new.json" in " ".join(said.out.split())
    assert "bright' is a name, not a digest: nothing checks that all sites run the same model" in said.err
    assert "Classes, in the order of the model's outputs: 0 'red', 1 'green', 2 'blue'." in " ".join(said.out.split())


def test_secrets_of_sites_in_the_inbox_are_pointed_out(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (desk / "reports" / "site_1.seed").write_text("secret")
    assert run(["collect", "reports", "--request", "asked.json"]) == 0
    assert "reports holds site_1.seed: secret seeds and results of single examples are for their site alone" in (
        capsys.readouterr().err
    )


def test_a_page_says_what_a_labelled_sample_says(desk: Path) -> None:
    """A verdict must not be better on what is handed on than on the terminal."""
    sample = ["--truth", "drift.json", "--target", "drift-mix.json"]
    for number, command in enumerate((["estimate", "reports"], ["collect", "--run", "run"])):
        assert run(["--quiet", *command, *sample, "--page", f"{number}.html"]) == 0
        assert "The labelled sample contradicts the estimate" in (desk / f"{number}.html").read_text()
