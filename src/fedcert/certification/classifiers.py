"""A classifier, ready to be certified: its identity, and a sampler of its noisy predictions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedcert.certification.digest import Tensor, digest_of_tensors
from fedcert.certification.noise import Gaussian, Streams
from fedcert.certification.sampler import ArraySampler, Images, Labels, Sampler, guarded, labels_of
from fedcert.errors import CallError, ModelProblem

if TYPE_CHECKING:
    import torch


class Classifier(Protocol):
    """What certification needs of a model."""

    @property
    def identity(self) -> str:
        """The digest of its weights, or a name that its owner vouches for."""
        ...

    def width(self, example: Images) -> int | None:
        """Number of classes that it tells apart; None where it answers with bare labels.

        Args:
            example: a batch of one.

        Raises:
            ModelProblem: it cannot answer.
        """
        ...

    def sampler(self, classes: int, noise: Gaussian, streams: Streams, batch_size: int | None) -> Sampler:
        """A sampler of its predictions under noise."""
        ...

    def running(self) -> AbstractContextManager[None]:
        """Keeps the model in the state that the certificate speaks of."""
        ...


@dataclass(frozen=True)
class ArrayClassifier:
    """A function from a float32 batch to scores or labels: an ONNX session, or any callable."""

    function: Callable[[Images], object]
    identity: str

    def width(self, example: Images) -> int | None:
        """See `Classifier.width`."""
        answer = np.asarray(self._answer(example))
        labels_of(answer, len(example), None)
        return answer.shape[1] if answer.ndim == 2 else None

    def sampler(self, classes: int, noise: Gaussian, streams: Streams, batch_size: int | None) -> Sampler:
        """See `Classifier.sampler`."""

        def predict(batch: Images) -> Labels:
            return labels_of(self._answer(batch), len(batch), classes)

        return ArraySampler(predict, classes, noise, streams, batch_size)

    def running(self) -> AbstractContextManager[None]:
        """A function has no modes."""
        return nullcontext()

    def _answer(self, batch: Images) -> object:
        return guarded(lambda: self.function(batch), batch.shape)


@dataclass(frozen=True)
class TorchClassifier:
    """A torch module that maps a float32 batch to scores, certified in evaluation mode."""

    module: torch.nn.Module
    identity: str
    device: torch.device

    def width(self, example: Images) -> int | None:
        """See `Classifier.width`."""
        import torch

        with torch.inference_mode():
            batch = torch.from_numpy(example).to(self.device)
            scores = guarded(lambda: self.module(batch), tuple(batch.shape))
        if not isinstance(scores, torch.Tensor) or scores.ndim != 2 or len(scores) != len(example):
            came = f"a tensor of shape {tuple(scores.shape)}" if isinstance(scores, torch.Tensor) else type(scores)
            raise ModelProblem(
                f"the module must answer {len(example)} examples with scores of shape ({len(example)}, classes), "
                f"but gave {came}; wrap it in one that does"
            )
        return int(scores.shape[1])

    def sampler(self, classes: int, noise: Gaussian, streams: Streams, batch_size: int | None) -> Sampler:
        """See `Classifier.sampler`."""
        from fedcert.certification.torch_sampler import TorchSampler

        return TorchSampler(self.module, classes, noise, streams, self.device, batch_size)

    def running(self) -> AbstractContextManager[None]:
        """Evaluation mode and real float32, for as long as the context lasts."""
        from fedcert.certification.torch_sampler import as_certified

        return as_certified(self.module)


def classifier_of(model: object, *, model_id: str | None = None, device: str | None = None) -> Classifier:
    """Take a model as a user has it: a classifier, a torch module, or any callable.

    Args:
        model: the model.
        model_id: name of a bare callable, which has no weights to take a digest of.
        device: where a torch module is to run; it is moved there. Where it is, if None.

    Raises:
        CallError: it is none of those, or a bare callable without a name.
        ModelProblem: the device is not there.
    """
    if isinstance(model, (ArrayClassifier, TorchClassifier)):
        return model
    if "torch" in sys.modules:
        import torch

        if isinstance(model, torch.nn.Module):
            return _torch_classifier(model, device)
    if not callable(model):
        raise CallError(
            "model must be a torch module or a callable from a batch to scores or labels, "
            f"but is {type(model).__name__}"
        )
    if model_id is None:
        raise CallError("a bare callable has no weights to take a digest of: give its name with model_id")
    return ArrayClassifier(model, model_id)


def digest_of_module(module: torch.nn.Module) -> str:
    """The digest of a module's state, equal to that of its safetensors file.

    Raises:
        ModelProblem: it holds a tensor of a type that safetensors does not have.
    """
    return digest_of_tensors([_tensor(name, tensor) for name, tensor in module.state_dict().items()])


def _torch_classifier(module: torch.nn.Module, device: str | None) -> TorchClassifier:
    import torch

    first: Any = next(iter([*module.parameters(), *module.buffers()]), None)
    try:
        where = torch.device(device) if device else (first.device if first is not None else torch.device("cpu"))
        module.to(where)
        torch.empty(0, device=where)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise ModelProblem(f"the device {device!r} cannot be used: {reason}; use 'cpu' or another one") from None
    return TorchClassifier(module, digest_of_module(module), where)


def _tensor(name: str, tensor: torch.Tensor) -> Tensor:
    import torch

    types = {
        torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
        torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
        torch.bool: "BOOL",
    }  # fmt: skip
    if tensor.dtype not in types:
        raise ModelProblem(f"the tensor {name!r} has the type {tensor.dtype}, for which there is no digest")

    def data() -> Iterator[bytes]:
        raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        if sys.byteorder == "big":
            raw = raw.reshape(-1, tensor.element_size())[:, ::-1]
        yield raw.tobytes()

    return Tensor(name, types[tensor.dtype], tuple(tensor.shape), data())
