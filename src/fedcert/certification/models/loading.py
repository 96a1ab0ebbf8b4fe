"""How a model comes in from the command line: an ONNX file, or a factory with safetensors weights.

Nothing is ever unpickled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedcert._arrays import Images
from fedcert._files.paths import check_readable
from fedcert.certification.models.classifiers import ArrayClassifier, Classifier, classifier_of, is_module
from fedcert.certification.models.digest import bare_name, digest_of_onnx, digest_of_safetensors, distinct_tensors
from fedcert.certification.python_name import imported, is_python_name, user_errors
from fedcert.errors import CallError, FedcertError, FileProblem, ModelProblem, preview, require

_PICKLED = (".pt", ".pth", ".bin", ".ckpt", ".pkl")
"""Endings of files that torch and others pickle."""
KINDS = "a file that ends in .onnx, or package.module:factory (with --weights FILE.safetensors)"


def load_classifier(
    model: str, *, weights: Path | None, model_id: str | None, device: str, classes: Sequence[str] | None = None
) -> Classifier:
    """Load MODEL as the command line names it.

    Args:
        model: "model.onnx" or "package.module:factory".
        weights: safetensors file to load into the module that the factory makes.
        model_id: name of a factory's bare callable.
        device: "auto" (a GPU where there is one), "cpu", "cuda", "cuda:1", …
        classes: class names in index order, where they are known; a scikit-learn classifier may predict names.

    Raises:
        CallError: MODEL is neither, or its file is not there.
        ModelProblem: it cannot be loaded.
    """
    if model.endswith(".onnx"):
        if weights is not None or model_id is not None:
            raise CallError(
                "an ONNX model has its weights, and so its digest, inside: leave --weights and --model-id out"
            )
        return onnx_classifier(Path(model), device)
    if not is_python_name(model):
        raise CallError(f"MODEL must be {KINDS}, but is {preview(model, 300)}")
    built = _build(model)
    torch = require("torch", f"the model {model}", "torch") if is_module(built) or weights else None
    if weights is not None:
        if not is_module(built):
            raise CallError(f"--weights goes with a torch module, but {model} gave {type(built).__name__}")
        _load_weights(built, weights)
    if torch is not None:
        chosen = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        return classifier_of(built, model_id=model_id, device=chosen, classes=classes)
    return classifier_of(built, model_id=model_id, device=None if device == "auto" else device, classes=classes)


def module_of(factory: str, weights: Path) -> Any:
    """A torch module from package.module:factory and a safetensors file.

    Raises:
        CallError: the name is not of that form, or gives no module.
        ModelProblem: the weights do not fit.
    """
    if not is_python_name(factory):
        raise CallError(f"a model must be package.module:factory, but is {preview(factory, 300)}")
    module = _build(factory)
    if not is_module(module):
        raise CallError(f"{factory} must give a torch module, but gave {type(module).__name__}")
    _load_weights(module, weights)
    return module


def digest_of_file(path: Path) -> str:
    """The digest of an ONNX or safetensors file; needs neither torch nor onnxruntime.

    Raises:
        CallError: there is no such file, or it ends in something else.
        FileProblem: it cannot be read.
    """
    _check_not_pickled(path)
    check_readable(path, (".onnx", ".safetensors"))
    return digest_of_onnx(path) if path.suffix == ".onnx" else digest_of_safetensors(path)


def onnx_classifier(path: str | Path, device: str = "auto") -> Classifier:
    """An ONNX model as a classifier: its first input takes the batch, its first output answers.

    Raises:
        MissingExtra: onnxruntime is not installed.
        ModelProblem: onnxruntime cannot load the model, or it has not exactly one input.

    Examples:
        >>> classifier = onnx_classifier("model.onnx")  # doctest: +SKIP
        >>> try:
        ...     onnx_classifier("missing.onnx")
        ... except ValueError as error:
        ...     print(error)
        there is no file missing.onnx; check the name
    """
    path = Path(path)
    check_readable(path, (".onnx",))
    digest = digest_of_onnx(path)
    runtime = require("onnxruntime", "certifying an ONNX model", "onnx")
    try:
        session = runtime.InferenceSession(str(path), providers=_providers(runtime, device))
        inputs = session.get_inputs()
    except FedcertError:
        raise
    except Exception as error:  # noqa: BLE001  onnxruntime raises types of its own
        reason = str(error).strip().splitlines()[0][:300]
        raise ModelProblem(f"onnxruntime cannot load {preview(str(path), 300)}: {reason}") from None
    if len(inputs) != 1:
        raise ModelProblem(f"{preview(str(path), 300)} must have one input, but has {len(inputs)}; export it with one")
    return ArrayClassifier(_onnx_function(session), digest)


def _providers(runtime: Any, device: str) -> list[Any]:
    """Where onnxruntime is to run a model, in real float32 (its CUDA provider would round to TF32)."""
    if re.fullmatch(r"auto|cpu|cuda(:\d+)?", device) is None:
        raise CallError(f"--device must be auto, cpu, cuda or cuda:N for an ONNX model, but is {preview(device)}")
    has_gpu = "CUDAExecutionProvider" in runtime.get_available_providers()
    if not has_gpu and device.startswith("cuda"):
        raise ModelProblem(f"this onnxruntime cannot use the device {device!r}; use --device cpu")
    if device == "cpu" or not has_gpu:
        return ["CPUExecutionProvider"]
    number = int(device.partition(":")[2] or 0) if device != "auto" else 0
    return [("CUDAExecutionProvider", {"device_id": number, "use_tf32": 0}), "CPUExecutionProvider"]


def _onnx_function(session: Any) -> Callable[[Images], object]:
    entry = session.get_inputs()[0]
    name, output = entry.name, session.get_outputs()[0].name
    if entry.type != "tensor(float)":
        raise ModelProblem(
            f"the model's input {name!r} must take float32, but takes {entry.type}; export it in float32"
        )
    if session.get_outputs()[0].type == "tensor(string)":
        raise ModelProblem(
            f"the model's first output, {output!r}, holds names, whose order the file does not say; make scores or "
            "class indices its first output (fit a scikit-learn classifier with class indices, and convert it again)"
        )
    size = entry.shape[0] if entry.shape and isinstance(entry.shape[0], int) and entry.shape[0] > 0 else None

    def run(batch: Images) -> object:
        return session.run([output], {name: batch})[0]

    def run_in_fixed_batches(batch: Images) -> object:
        assert size is not None  # noqa: S101  only used then
        short = -len(batch) % size
        padded = np.concatenate([batch, np.repeat(batch[-1:], short, axis=0)]) if short else batch
        answers = [np.asarray(run(padded[start : start + size])) for start in range(0, len(padded), size)]
        return np.concatenate(answers)[: len(batch)]

    return run if size is None else run_in_fixed_batches


def _build(name: str) -> Any:
    factory = imported(name, "MODEL")
    if not callable(factory):
        raise CallError(f"{name} must be a function that makes the model, but is {type(factory).__name__}")
    if is_module(factory):
        return factory
    with user_errors(ModelProblem, f"{name} could not make the model"):
        return factory()


def _check_not_pickled(path: Path) -> None:
    """Check that a file is not one of pickled weights: reading it could run any code.

    Raises:
        CallError: it is, by its name.
    """
    if path.suffix.lower() in _PICKLED:
        raise CallError(
            f"{preview(str(path), 300)} looks like pickled weights, which fedcert never opens; save them as "
            "safetensors: safetensors.torch.save_file(model.state_dict(), 'model.safetensors')"
        )


def _load_weights(module: Any, path: Path) -> None:
    _check_not_pickled(path)
    check_readable(path, (".safetensors",))
    safetensors = require("safetensors.torch", "--weights", "torch")
    try:
        saved = safetensors.load_file(str(path))
    except Exception as error:  # noqa: BLE001  safetensors raises a type of its own
        raise FileProblem(f"{preview(str(path), 300)} cannot be read as safetensors: {str(error)[:200]}") from None
    state = module.state_dict()
    names = {bare_name(name): name for name in state}
    # A wrapper's prefix may stand before the names on either side; where bare names are not unique, all must agree.
    usable = len(names) == len(state)
    given = {(names.get(bare_name(name), name) if usable else name): tensor for name, tensor in saved.items()}
    missing = [name for name in distinct_tensors(module) if name not in given]
    unknown = [name for name in given if name not in state]
    if missing or unknown:
        reasons = [
            f"{words} {', '.join(some[:3])}{', …' if len(some) > 3 else ''}"
            for words, some in (("it lacks", missing), ("it has besides", unknown))
            if some
        ]
        raise ModelProblem(f"the weights in {preview(str(path), 300)} do not fit the module: {' and '.join(reasons)}")
    try:
        module.load_state_dict(given, strict=False)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:400]
        raise ModelProblem(f"the weights in {preview(str(path), 300)} do not fit the module: {reason}") from None
