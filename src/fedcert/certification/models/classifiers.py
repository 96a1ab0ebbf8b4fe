"""A classifier, ready to be certified: its identity, and a sampler of its noisy predictions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeGuard

import numpy as np

from fedcert._arrays import Images, Integers
from fedcert._schema.field_types import ModelName
from fedcert.certification.models.answers import check_width, guarded, labels_of
from fedcert.certification.models.digest import digest_of_tensors, distinct_tensors, tensor_of
from fedcert.certification.models.estimators import estimator_function, input_columns, is_estimator
from fedcert.certification.perturbation import Perturbation
from fedcert.certification.precision import default_precision
from fedcert.certification.samplers.numpy_sampler import ArraySampler
from fedcert.certification.samplers.protocol import Sampler
from fedcert.certification.streams import Streams
from fedcert.errors import CallError, InvalidValue, ModelProblem

if TYPE_CHECKING:
    import torch


class Classifier(Protocol):
    """What certification needs of a model."""

    @property
    def identity(self) -> str:
        """The digest of its weights, or a name that its owner gives it."""

    @property
    def default_precision(self) -> str:
        """The arithmetic in which it runs where none is asked for: the fastest that its device computes in."""

    def width(self, example: Images) -> int | None:
        """Number of classes that it distinguishes; None where it answers with bare labels.

        Args:
            example: a batch of one.

        Raises:
            ModelProblem: it cannot answer.
        """

    def sampler(
        self,
        classes: int,
        perturbation: Perturbation,
        streams: Streams,
        batch_size: int | None,
        precision: str = "float32",
    ) -> Sampler:
        """A sampler of its predictions under a perturbation, for the arithmetic in which it is running."""

    def running(self, precision: str) -> AbstractContextManager[None]:
        """Keeps the model in the state, and the arithmetic, that the certificate speaks of.

        Raises:
            CallError: the model cannot run in that arithmetic.
        """


@dataclass(frozen=True)
class ArrayClassifier:
    """A function from a float32 batch to scores or labels: an ONNX session, or any callable.

    Attributes:
        function: it.
        identity: see `Classifier.identity`.
        input_columns: names of the columns that it takes, in order; None where they are not known.
    """

    function: Callable[[Images], object]
    identity: str
    input_columns: tuple[str, ...] | None = None
    default_precision: ClassVar[str] = "float32"

    def width(self, example: Images) -> int | None:
        """See `Classifier.width`."""
        answer = np.asarray(self._answer(example))
        labels_of(answer, len(example), None)
        return answer.shape[1] if answer.ndim == 2 and answer.shape[1] > 1 else None

    def sampler(
        self,
        classes: int,
        perturbation: Perturbation,
        streams: Streams,
        batch_size: int | None,
        precision: str = "float32",
    ) -> Sampler:
        """See `Classifier.sampler`."""

        def predict(batch: Images) -> Integers:
            return labels_of(self._answer(batch), len(batch), classes)

        self.running(precision)  # refuses what a function cannot run in
        return ArraySampler(predict, classes, perturbation, streams, batch_size)

    def running(self, precision: str) -> AbstractContextManager[None]:
        """A function has no modes, and its arithmetic is its own: it is given float32."""
        if precision != "float32":
            raise CallError(
                f"precision must be 'float32' for this model, but is {precision!r}: only torch modules run in others"
            )
        return nullcontext()

    def _answer(self, batch: Images) -> object:
        return guarded(lambda: self.function(batch), batch.shape)


@dataclass(frozen=True)
class TorchClassifier:
    """A torch module that maps a float32 batch to scores, certified in evaluation mode."""

    module: torch.nn.Module
    identity: str
    device: torch.device

    @property
    def default_precision(self) -> str:
        """See `Classifier.default_precision`."""
        return default_precision(self.device)

    def width(self, example: Images) -> int | None:
        """See `Classifier.width`."""
        import torch

        from fedcert.certification.models.torch_module import scores_of

        with torch.inference_mode():
            width = int(scores_of(self.module, torch.from_numpy(example).to(self.device)).shape[1])
        check_width(width, None)
        return width

    def sampler(
        self,
        classes: int,
        perturbation: Perturbation,
        streams: Streams,
        batch_size: int | None,
        precision: str = "float32",
    ) -> Sampler:
        """See `Classifier.sampler`."""
        if self.device.type == "cpu":
            from fedcert.certification.samplers.torch_cpu import CpuSampler

            return CpuSampler(self.module, classes, perturbation, streams, batch_size, precision)
        from fedcert.certification.samplers.torch_gpu import DeviceSampler

        return DeviceSampler(self.module, classes, perturbation, streams, self.device, batch_size, precision)

    def running(self, precision: str) -> AbstractContextManager[None]:
        """Evaluation mode and the stated arithmetic, for as long as the context lasts."""
        from fedcert.certification.models.torch_module import as_certified

        if precision == "tf32" and self.device.type != "cuda":
            raise CallError("precision 'tf32' is a GPU's; use 'float32' here")
        return as_certified(self.module, self.device, precision)


def classifier_of(
    model: object, *, model_id: str | None = None, device: str | None = None, classes: Sequence[str] | None = None
) -> Classifier:
    """Take a model as a user has it: a classifier, a torch module, a scikit-learn classifier, or any callable.

    Args:
        model: the model.
        model_id: name of a scikit-learn classifier or a bare callable, which have no weights to take a digest of.
        device: where a torch module is to run; it is moved there. Where it is, if None.
        classes: class names in index order, where they are known; a scikit-learn classifier may predict names.

    Raises:
        CallError: it is none of those, or has no name where it needs one.
        ModelProblem: the device is not there.
    """
    if isinstance(model, (ArrayClassifier, TorchClassifier)):
        if model_id is not None or device is not None:
            raise CallError("this classifier already has a name and a device: leave model_id and device out")
        return model
    if is_module(model):
        return _torch_classifier(model, model_id, device)
    function = function_of(model, classes)
    what = "a bare callable" if function is model else "a scikit-learn classifier"
    if device is not None:
        raise CallError(f"device goes with a torch module; {what} runs where it pleases: leave it out")
    if model_id is None:
        raise CallError(f"{what} has no weights to take a digest of: give its name with model_id (--model-id)")
    return ArrayClassifier(function, _checked_name(model_id), input_columns(model))


def function_of(model: object, classes: Sequence[str] | None = None) -> Callable[[Images], object]:
    """The function from a batch to scores or labels that a scikit-learn classifier or a callable stands for.

    Raises:
        CallError: it is neither.
    """
    if is_estimator(model):
        return estimator_function(model, classes)
    if not callable(model):
        raise CallError(
            "model must be a torch module, the path of an ONNX file, a scikit-learn classifier (with predict_proba) or "
            f"a callable from a batch to scores or labels, but is {type(model).__name__}"
        )
    return model


def is_module(model: object) -> TypeGuard[torch.nn.Module]:
    """Whether a thing is a torch module; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _checked_name(model_id: str) -> str:
    try:
        return ModelName().validate(model_id, "model_id (--model-id)")
    except InvalidValue as error:
        raise CallError(str(error)) from None


def digest_of_module(module: torch.nn.Module) -> str:
    """The digest of a module's state, equal to that of its safetensors file.

    Tensors that share memory (tied weights) count once, under the first of their names, as safetensors saves them.

    Raises:
        ModelProblem: it holds a tensor of a type that safetensors does not have, or one without values yet.
    """
    return digest_of_tensors([tensor_of(name, tensor) for name, tensor in distinct_tensors(module).items()])


def _torch_classifier(module: torch.nn.Module, model_id: str | None, device: str | None) -> TorchClassifier:
    import torch

    digest = digest_of_module(module)
    weights = bool(module.state_dict())
    if weights and model_id is not None:
        raise CallError("a torch module is known by the digest of its weights: leave model_id (--model-id) out")
    if not weights and model_id is None:
        raise CallError("the module has no weights to take a digest of: give its name with model_id (--model-id)")
    first: Any = next(iter([*module.parameters(), *module.buffers()]), None)
    try:
        where = torch.device(device) if device else (first.device if first is not None else torch.device("cpu"))
        module.to(where)
        torch.empty(0, device=where)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise ModelProblem(f"the device {device!r} cannot be used: {reason}; use 'cpu' or another one") from None
    return TorchClassifier(module, digest if weights else _checked_name(model_id or ""), where)
