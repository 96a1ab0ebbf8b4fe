"""How models come in: ONNX files, factories with weights, callables; and their digests."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save_file, save_model

from fedcert import CallError, FileProblem, MissingExtra, ModelProblem, certify, onnx_classifier
from fedcert.certification.models.classifiers import classifier_of, digest_of_module
from fedcert.certification.models.loading import digest_of_file, load_classifier
from fedcert.lab.networks import digits_network

pytestmark = pytest.mark.filterwarnings("default::fedcert.FedcertWarning")  # models that guess are warned of

WEIGHT = np.array([[1.0, -1.0], [0.5, 0.5], [-1.0, 1.0]], dtype=np.float32)
X = np.random.default_rng(0).random((30, 3)).astype(np.float32)
Y = (X @ WEIGHT).argmax(axis=1)


def onnx_file(
    path: Path,
    *,
    batch: int | str = "batch",
    labels: bool = False,
    external: bool = False,
    kind: int = TensorProto.FLOAT,
) -> Path:
    """A linear classifier as an ONNX file."""
    weight = numpy_helper.from_array(WEIGHT.astype(helper.tensor_dtype_to_np_dtype(kind)), "weight")
    nodes = [helper.make_node("MatMul", ["x", "weight"], ["scores"])]
    output = helper.make_tensor_value_info("scores", kind, [batch, 2])
    if labels:
        nodes.append(helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0))
        output = helper.make_tensor_value_info("label", TensorProto.INT64, [batch])
    graph = helper.make_graph(
        nodes, "linear", [helper.make_tensor_value_info("x", kind, [batch, 3])], [output], [weight]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    if external:
        onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    else:
        onnx.save(model, path)
    return path


def test_an_onnx_model_gives_the_counts_of_the_same_function(tmp_path: Path) -> None:
    settings = {"seed": 0, "sigma": 0.25, "client": "a", "n": 200}
    by_file = certify(onnx_classifier(onnx_file(tmp_path / "m.onnx")), X, Y, **settings)
    by_function = certify(lambda batch: batch @ WEIGHT, X, Y, model_id="m", **settings)
    assert by_file.procedure_counts == by_function.procedure_counts
    assert by_file.model == "sha256:" + hashlib.sha256((tmp_path / "m.onnx").read_bytes()).hexdigest()


@pytest.mark.parametrize("options", [{"batch": 7}, {"batch": 1}, {"labels": True}, {"external": True}])
def test_onnx_models_of_other_forms_give_the_same_counts(tmp_path: Path, options: dict[str, object]) -> None:
    settings = {"seed": 0, "sigma": 0.25, "client": "a", "n": 200}
    usual = certify(onnx_classifier(onnx_file(tmp_path / "m.onnx")), X, Y, **settings)
    other = certify(onnx_classifier(onnx_file(tmp_path / "o.onnx", **options)), X, Y, **settings)
    assert other.procedure_counts == usual.procedure_counts


def test_the_digest_covers_weights_that_lie_in_another_file(tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "m.onnx", external=True)
    before = digest_of_file(path)
    weights = tmp_path / "weights.bin"
    data = bytearray(weights.read_bytes())
    data[3] ^= 1
    weights.write_bytes(data)
    assert digest_of_file(path) != before
    weights.unlink()
    with pytest.raises(FileProblem, match=r"cannot read .*weights\.bin.*: there is no such file"):
        digest_of_file(path)


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../b"])
def test_weights_outside_the_models_folder_are_refused(tmp_path: Path, location: str) -> None:
    path = onnx_file(tmp_path / "m.onnx", external=True)
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].external_data[0].value = location
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelProblem, match="outside its own folder"):
        digest_of_file(path)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\xff" * 100, b"\x3a\xff\xff\xff\xff\x0f"])
def test_a_file_that_is_no_onnx_model_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelProblem, match=r"m\.onnx' is not an ONNX model|onnxruntime cannot load .*m\.onnx"):
        onnx_classifier(path)


def test_a_truncated_onnx_model_is_named(tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "m.onnx")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ModelProblem):
        onnx_classifier(path)


def test_a_module_and_its_weights_file_have_the_same_digest(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).to(torch.float32)
    path = tmp_path / "w.safetensors"
    save_file(module.state_dict(), path)
    assert digest_of_file(path) == digest_of_module(module)
    wrapped = {f"_orig_mod.module.{name}": tensor for name, tensor in module.state_dict().items()}
    save_file(wrapped, path)
    assert digest_of_file(path) == digest_of_module(module)
    with torch.no_grad():
        module[0].weight[0, 0] += 1e-6
    assert digest_of_file(path) != digest_of_module(module)


def test_the_digest_is_frozen(tmp_path: Path) -> None:
    """Other programs compare digests with ours: the way it is taken may never change."""
    path = tmp_path / "w.safetensors"
    save_file({"b": torch.arange(3), "a": torch.tensor([[0.5, -1.0]], dtype=torch.bfloat16)}, path)
    assert digest_of_file(path) == "sha256:4f50ad4a32049931417dff4ac576e19100e9cbf2d06588d5fd30922009fbe084"


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:5], lambda data: b"\xff" * 8 + data[8:], lambda _: b""]
)
def test_damaged_weights_are_named(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "w.safetensors"
    save_file(digits_network().state_dict(), path)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(FileProblem, match="is not a safetensors file, or is cut off"):
        digest_of_file(path)
    with pytest.raises(FileProblem, match="cannot be read as safetensors"):
        load_classifier("fedcert.lab.networks:digits_network", weights=path, model_id=None, device="cpu")


def test_a_factory_with_weights(tmp_path: Path) -> None:
    network = digits_network()
    path = tmp_path / "w.safetensors"
    save_file(network.state_dict(), path)
    loaded = load_classifier("fedcert.lab.networks:digits_network", weights=path, model_id=None, device="auto")
    assert loaded.identity == digest_of_module(network)


def test_weights_of_another_network_are_named(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file(torch.nn.Linear(2, 2).state_dict(), path)
    with pytest.raises(ModelProblem, match="do not fit the module"):
        load_classifier("fedcert.lab.networks:digits_network", weights=path, model_id=None, device="cpu")


@pytest.mark.parametrize(
    ("model", "error", "sentence"),
    [
        ("model.pt", CallError, r"MODEL must be a file that ends in \.onnx, or package\.module:factory"),
        ("none.onnx", CallError, "there is no file none.onnx"),
        ("no_such_package:make", CallError, "there is no module 'no_such_package' here or on the Python path"),
        ("fedcert.lab.networks:missing", CallError, "the module fedcert.lab.networks has no 'missing'"),
        ("fedcert.lab.populations.mixes:draw_mix", ModelProblem, "could not make the model: TypeError"),
        ("fedcert.version:__version__", CallError, "must be a function that makes the model, but is str"),
    ],
)
def test_models_that_are_not_there_are_named(model: str, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        load_classifier(model, weights=None, model_id=None, device="cpu")


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(ModelProblem, match="the device 'cuda:77' cannot be used"):
        load_classifier("fedcert.lab.networks:digits_network", weights=None, model_id=None, device="cuda:77")


def test_without_onnxruntime_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(
        MissingExtra, match=r"certifying an ONNX model needs the package 'onnxruntime'.*pip install 'fedcert\[onnx\]'"
    ):
        onnx_classifier(onnx_file(tmp_path / "m.onnx"))


def test_a_bare_callable_needs_a_name() -> None:
    with pytest.raises(CallError, match="give its name with model_id"):
        classifier_of(lambda batch: batch)
    with pytest.raises(
        CallError, match="model must be a torch module, the path of an ONNX file, a scikit-learn .* but is int"
    ):
        classifier_of(7)


def test_modes_are_put_back() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.5))
    module[0].eval()
    seen: list[bool] = []
    module.register_forward_pre_hook(lambda part, _: seen.append(any(one.training for one in part.modules())))
    certify(module, X, Y, sigma=0.25, client="a", n=100, seed=0)
    assert not any(seen)
    assert module.training
    assert module[1].training
    assert not module[0].training
    assert torch.backends.cudnn.allow_tf32


def test_weights_under_a_wrappers_names_fit_on_either_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nets.py").write_text(
        "import torch\n"
        "class Wrapped(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__(); self.module = torch.nn.Linear(3, 2)\n"
        "    def forward(self, x):\n        return self.module(x)\n"
        "class Tied(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__(); self.a = torch.nn.Linear(3, 3, bias=False); self.b = torch.nn.Linear(3, 3, bias=False); self.b.weight = self.a.weight\n"
        "    def forward(self, x):\n        return self.b(self.a(x))\n"
        "class Lazy(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__(); self.a = torch.nn.LazyLinear(3)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import nets  # type: ignore[import-not-found]

    path = tmp_path / "w.safetensors"
    for make in (nets.Wrapped, nets.Tied):
        module = make()
        save_model(module, str(path))
        loaded = load_classifier(f"nets:{make.__name__}", weights=path, model_id=None, device="cpu")
        assert loaded.identity == digest_of_module(module) == digest_of_file(path)
    with pytest.raises(
        ModelProblem, match=r"the module's tensor 'a\.(weight|bias)' has no values yet; load its weights first"
    ):
        load_classifier("nets:Lazy", weights=None, model_id=None, device="cpu")


def test_a_model_with_weights_needs_no_name_and_one_without_does() -> None:
    with pytest.raises(CallError, match="a torch module is known by the digest of its weights: leave model_id"):
        classifier_of(torch.nn.Linear(2, 2), model_id="mine")
    with pytest.raises(CallError, match="the module has no weights to take a digest of: give its name with model_id"):
        classifier_of(torch.nn.Flatten())


def test_a_module_whose_own_import_is_missing_is_told_from_one_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "visionary_model.py").write_text("import visionary\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelProblem, match="its import needs 'visionary', which is not installed"):
        load_classifier("visionary_model:make", weights=None, model_id=None, device="cpu")


@pytest.mark.parametrize("kind", [TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_a_model_in_another_precision_is_refused(tmp_path: Path, kind: int) -> None:
    """The report would say float32, which is not the classifier that ran."""
    with pytest.raises(ModelProblem, match="the model's input 'x' must take float32, but takes tensor"):
        onnx_classifier(onnx_file(tmp_path / "m.onnx", kind=kind))


def test_devices_for_onnx_are_checked(tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "m.onnx")
    with pytest.raises(
        CallError, match="--device must be auto, cpu, cuda or cuda:N for an ONNX model, but is 'abacus'"
    ):
        onnx_classifier(path, "abacus")
    assert onnx_classifier(path, "cpu").identity == onnx_classifier(str(path)).identity


def test_a_path_is_an_onnx_model_in_python_too(tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "m.onnx")
    settings = {"seed": 0, "sigma": 0.25, "client": "a", "n": 200}
    assert (
        certify(str(path), X, Y, **settings).procedure_counts
        == certify(onnx_classifier(path), X, Y, **settings).procedure_counts
    )
    with pytest.raises(CallError, match="this classifier already has a name and a device"):
        certify(onnx_classifier(path), X, Y, model_id="mine", **settings)


def test_weights_shared_by_many_tensors_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = [numpy_helper.from_array(np.full(4, index, np.float32), f"w{index}") for index in range(20)]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        tensors,
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    opened: list[str] = []
    real = Path.open
    monkeypatch.setattr(
        Path, "open", lambda self, *rest, **more: (opened.append(self.name), real(self, *rest, **more))[1]
    )
    digest_of_file(path)
    assert opened.count("w.bin") == 1


def test_neither_autocast_nor_torchs_newer_precision_switch_gets_in_the_way() -> None:
    seen: list[torch.dtype] = []
    module = torch.nn.Linear(3, 2)
    module.register_forward_hook(lambda *parts: seen.append(parts[2].dtype))
    plain = certify(module, X, Y, sigma=0.25, client="a", n=100, seed=0)
    with torch.autocast("cpu", torch.bfloat16):
        assert certify(module, X, Y, sigma=0.25, client="a", n=100, seed=0).procedure_counts == plain.procedure_counts
    assert set(seen) == {torch.float32}
    code = (
        "import numpy as np, torch, fedcert; torch.backends.fp32_precision = 'ieee'; "
        "print(fedcert.certify(torch.nn.Linear(3, 2), np.random.rand(4, 3), [0, 1, 0, 1], sigma=0.2, client='a', n=10).examples)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "4", done.stderr
