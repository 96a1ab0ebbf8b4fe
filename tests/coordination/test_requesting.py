"""fedcert.request: the command's abilities as a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import fedcert
from fedcert.certification.models.classifiers import digest_of_module
from fedcert.cli.main import run

CLASSES = ["cat", "dog"]
ROSTER = ["site-a", "site-b", "site-c", "site-d"]


def test_a_request_with_the_defaults_of_new_work() -> None:
    asked = fedcert.request("demo", 0.25, CLASSES)
    assert asked.smoothing == fedcert.Smoothing.defaults(0.25)
    assert asked.radii == asked.smoothing.default_radii
    assert (asked.classes, asked.roster, asked.target, asked.private) == (("cat", "dog"), None, None, None)
    assert asked.nonce != fedcert.request("demo", 0.25, CLASSES).nonce


def test_the_model_is_known_by_its_weights(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    module = torch.nn.Linear(3, 2)
    digest = digest_of_module(module)
    file = tmp_path / "weights.safetensors"
    save_file(module.state_dict(), file)
    for model in (module, file, str(file), digest):
        assert fedcert.request(model, 0.25, CLASSES).model == digest
    with pytest.raises(fedcert.CallError, match="^model must be a torch module, the path of an .onnx or .safetensors"):
        fedcert.request(7, 0.25, CLASSES)
    with pytest.raises(fedcert.CallError, match="there is no file"):
        fedcert.request(tmp_path / "gone.onnx", 0.25, CLASSES)


def test_all_that_the_command_can_ask() -> None:
    asked = fedcert.request(
        "demo", 0.5, CLASSES, radii=[0, 0.25], target="cat=0.25,dog=0.75", roster=ROSTER, deadline="2999-12-01T12:00:00Z",
        class_counts=True, minimum_examples=20, procedure="sequential", n=1000, n0=50, failure_probability=0.01,
        tolerance=0.01, lattice=255,
    )  # fmt: skip
    assert asked.radii == (0, 0.25)
    assert asked.target is not None
    assert asked.target.distribution["dog"] == 0.75
    assert asked.roster == tuple(ROSTER)
    assert (asked.release.class_counts, asked.release.minimum_examples) == (True, 20)
    settings = asked.smoothing
    assert (settings.procedure, settings.n, settings.n0, settings.lattice) == ("sequential", 1000, 50, 255)
    assert fedcert.request("demo", 0.5, CLASSES, seconds=60).deadline is not None


def test_the_command_makes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("classes.txt").write_text("cat\ndog\n")
    arguments = ["--model-id", "demo", "--sigma", "0.25", "--classes", "classes.txt", "--votes", "5"]
    assert run(["request", *arguments, "--class-counts", "--out", "request.json"]) == 0
    written = fedcert.Request.load("request.json").to_json()
    own = fedcert.request("demo", 0.25, CLASSES, votes=5, class_counts=True).to_json()
    for name in ("nonce", "created"):
        written.pop(name), own.pop(name)
    assert written == own


def test_a_private_sum() -> None:
    asked = fedcert.request("demo", 0.25, CLASSES, roster=ROSTER, private=True, epsilon=1.0, most_per_patient=3)
    assert asked.private is not None
    assert asked.private.threshold == 3
    assert asked.private.budget is not None
    assert (asked.private.budget.epsilon, asked.private.budget.unit) == (1.0, "group")
    with pytest.warns(fedcert.FedcertWarning, match="sums of squares over 4 sites disclose much of each"):
        fedcert.request("demo", 0.25, CLASSES, roster=ROSTER, private=True, moments=True, threshold=4)


def test_it_is_signed(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    assert run(["keys", "new", "desk", "--out", str(tmp_path / "desk.keys.json")]) == 0
    asked = fedcert.request("demo", 0.25, CLASSES, sign=tmp_path / "desk.keys.json")
    assert asked.signature is not None
    assert str(asked).endswith("\nSigned.")
    with pytest.raises(fedcert.CallError, match="'desk' signs the request and is on its roster"):
        fedcert.request("demo", 0.25, CLASSES, sign=tmp_path / "desk.keys.json", private=True, roster=["desk", *ROSTER])


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"threshold": 3}, fedcert.CallError, "are about a private sum: give private"),
        ({"private": True}, fedcert.CallError, "needs a roster"),
        ({"private": True, "roster": ROSTER, "replace": True}, fedcert.CallError, "are about differential privacy"),
        ({"deadline": "2001-01-01T00:00:00Z"}, fedcert.CallError, "the deadline must be in the future"),
        ({"deadline": "2999-01-01T00:00:00Z", "seconds": 5}, fedcert.CallError, "give either seconds or a deadline"),
        ({"target": {"cow": 1}}, fedcert.FedcertError, "cow"),
        ({"n": 0}, fedcert.InvalidValue, "^n must be"),
        ({"radii": [1, 0]}, fedcert.InvalidValue, "^radii"),
        ({"roster": ["a", "a"]}, fedcert.InvalidValue, "^roster"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(options: dict[str, Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        fedcert.request("demo", 0.25, CLASSES, **options)


def onnx_file(path: Path, outputs: list[int | str]) -> Path:
    """An ONNX file of inputs of 3x4x4 that states these sizes of its answers."""
    from onnx import TensorProto, helper

    shapes = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 4, 4])]
    scores = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, outputs)]
    nodes = [helper.make_node("Identity", ["x"], ["scores"])]
    path.write_bytes(helper.make_model(helper.make_graph(nodes, "g", shapes, scores)).SerializeToString())
    return path


def test_an_onnx_model_states_its_classes_and_its_inputs(tmp_path: Path) -> None:
    assert fedcert.request(onnx_file(tmp_path / "a.onnx", ["n", 2]), 0.25, CLASSES).input_shape == (3, 4, 4)
    with pytest.raises(fedcert.errors.ModelProblem, match="the model gives scores for 4 classes, but 2 classes are"):
        fedcert.request(onnx_file(tmp_path / "b.onnx", ["n", 4]), 0.25, CLASSES)
    for place, silent in enumerate((["n", "classes"], ["n"], ["n", 1])):  # open, or labels
        fedcert.request(onnx_file(tmp_path / f"c{place}.onnx", silent), 0.25, CLASSES)


def test_columns_state_the_shape() -> None:
    asked = fedcert.request("demo", 0.25, CLASSES, input_columns=["age", "glucose"])
    assert asked.input_columns == ("age", "glucose")
    with pytest.raises(fedcert.errors.InvalidValue, match=r"input_shape must be a list of 2, the number of input_col"):
        fedcert.request("demo", 0.25, CLASSES, input_columns=["age", "glucose"], input_shape=[3])
