"""The precision where none is asked for: decided once, by the model's device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedcert import Smoothing, certify
from fedcert.certification import precision
from fedcert.certification.models.classifiers import ArrayClassifier, TorchClassifier, classifier_of
from fedcert.certification.plan import plan_certification
from fedcert.certification.precision import default_precision, precision_sentence
from fedcert.certification.progress import ProgressListener
from fedcert.cli.certify import _ProgressBar
from fedcert.cli.main import run
from fedcert.lab.experiment import Experiment, read_experiment
from fedcert.rounds import make_request

X = np.random.default_rng(0).random((8, 6)).astype(np.float32)
Y = np.arange(8) % 3


@pytest.mark.parametrize(("has", "expected"), [(True, "bfloat16"), (False, "float32")])
def test_a_gpu_computes_in_bfloat16_where_it_can(monkeypatch: pytest.MonkeyPatch, has: bool, expected: str) -> None:
    monkeypatch.setattr(precision, "has_bfloat16", lambda _device: has)
    assert default_precision(torch.device("cuda", 1)) == expected
    assert default_precision(torch.device("cpu")) == "float32"
    assert TorchClassifier(torch.nn.Linear(6, 3), "m", torch.device("cuda")).default_precision == expected
    assert classifier_of(torch.nn.Linear(6, 3)).default_precision == "float32"
    assert ArrayClassifier(lambda batch: batch, "m").default_precision == "float32"


def test_an_emulation_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(torch.cuda, "device", lambda _device: torch.inference_mode())
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **given: bool(asked.append(given)))
    assert not precision.has_bfloat16(torch.device("cuda"))
    assert asked == [{"including_emulation": False}]


class FastInBfloat16(ProgressListener):
    """Notes what a request costs."""

    def __init__(self) -> None:
        self.slower: list[tuple[str, str]] = []

    def slower_by_request(self, asked: str, faster: str) -> None:
        self.slower.append((asked, faster))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's CPU, taken for a GPU that computes in bfloat16."""
    monkeypatch.setattr(TorchClassifier, "default_precision", "bfloat16")


@pytest.mark.usefixtures("gpu")
def test_without_a_request_the_device_decides_unless_one_is_given() -> None:
    listener = FastInBfloat16()
    settings: dict[str, Any] = {"client": "a", "sigma": 0.25, "n": 100, "progress": listener}
    module = torch.nn.Linear(6, 3)
    assert certify(module, X, Y, **settings).smoothing.precision == "bfloat16"
    assert certify(module, X, Y, **settings, precision="float32").smoothing.precision == "float32"
    plain = certify(lambda batch: batch[:, :3], X, Y, **settings, model_id="m")
    assert plain.smoothing.precision == "float32"
    assert listener.slower == []


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(("asked", "slower"), [("float32", [("float32", "bfloat16")]), ("bfloat16", [])])
def test_under_a_request_the_request_decides_and_a_slow_one_is_named(asked: str, slower: list[tuple[str, str]]) -> None:
    module = torch.nn.Linear(6, 3)
    smoothing = Smoothing.defaults(0.25, n=100, precision=asked)
    request = make_request(classifier_of(module).identity, smoothing, ("a", "b", "c"))
    listener = FastInBfloat16()
    report = certify(module, X, Y, client="a", request=request, progress=listener)
    assert report.smoothing.precision == asked
    assert listener.slower == slower


def test_plans_that_name_a_precision_keep_it() -> None:
    named = plan_certification("a", None, {"sigma": 0.25, "precision": "float32"})
    assert named.with_precision("bfloat16") is named
    left_open = plan_certification("a", None, {"sigma": 0.25})
    assert left_open.with_precision("bfloat16").smoothing == Smoothing.defaults(0.25, precision="bfloat16")
    assert left_open.with_precision("float32").smoothing == Smoothing.defaults(0.25)


def test_a_slow_request_is_one_note_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    _ProgressBar(None).slower_by_request("float32", "bfloat16")
    assert capsys.readouterr().err == (
        "fedcert: note: the request asks for float32, which every site can run; in bfloat16 a GPU like this one is up "
        "to 21 times faster: the coordinator may ask for it (fedcert request --precision bfloat16)\n"
    )


@pytest.mark.parametrize("asked", ["float32", "bfloat16", "tf32"])
def test_a_request_says_what_its_precision_means_for_sites(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("classes.txt").write_text("a\nb\n", encoding="utf-8")
    model = f"sha256:{'0' * 64}" if asked == "float32" else "m"  # what has a name alone runs in float32 anyway
    command = ["request", "--model-id", model, "--sigma", "0.25", "--classes", "classes.txt", "--out", "r.json"]
    assert run([*command, *(() if asked == "float32" else ("--precision", asked))]) == 0
    assert " ".join(precision_sentence(asked).split()) in " ".join(capsys.readouterr().out.split())
    assert "ONNX file" in precision_sentence(asked)
    assert ("352,000 instead of 16,600" in precision_sentence(asked)) == (asked == "float32")


def test_an_experiment_trains_and_certifies_in_the_devices_precision_unless_it_says(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text("")
    (tmp_path / "said.toml").write_text('[training]\nbfloat16 = false\n[smoothing]\nprecision = "tf32"\n')
    fast = read_experiment(tmp_path / "empty.toml", "bfloat16")
    assert (fast.training.bfloat16, fast.smoothing.precision) == (True, "bfloat16")
    assert read_experiment(tmp_path / "empty.toml") == Experiment()
    said = read_experiment(tmp_path / "said.toml", "bfloat16")
    assert (said.training.bfloat16, said.smoothing.precision) == (False, "tf32")
