"""A torch module as it is certified: its mode, its arithmetic, its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from fedcert.certification.models.answers import guarded
from fedcert.errors import DeviceProblem, ModelProblem


@contextmanager
def device_errors(device: torch.device) -> Iterator[None]:
    """Turn a device's own failure into one sentence.

    Raises:
        DeviceProblem: the device failed; running out of memory is not meant.
    """
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError as error:
        text = str(error)
        if type(error).__name__ != "AcceleratorError" and "CUDA error" not in text and "cuDNN error" not in text:
            raise
        raise DeviceProblem(
            f"the device {str(device)!r} failed: {(text.splitlines() or ['no message'])[0][:200]}; see whether it is "
            "still there (nvidia-smi), then run the same again, or with another --device (device=)"
        ) from None


def channels_last(batch: torch.Tensor) -> torch.Tensor:
    """Images with their channels last in memory, as convolutions like them on any device."""
    return batch.contiguous(memory_format=torch.channels_last) if batch.ndim == 4 else batch


def largest_activation(module: torch.nn.Module, example: torch.Tensor) -> int:
    """Numbers in the largest tensor that the parts of a module make of an example; 0 where that cannot be seen."""
    sizes = [0]

    def note_size(_part: torch.nn.Module, _batch: object, activation: object) -> None:
        if isinstance(activation, torch.Tensor):
            sizes.append(activation.numel())

    handles = []
    try:
        handles = [part.register_forward_hook(note_size) for part in module.modules()]
        scores_of(module, channels_last(example))
    except RuntimeError:  # scripted modules may refuse hooks
        return 0
    finally:
        for handle in handles:
            handle.remove()
    return max(sizes)


def scores_of(module: Callable[[torch.Tensor], Any], batch: torch.Tensor) -> torch.Tensor:
    """A module's scores, one row per example.

    Raises:
        ModelProblem: it raises an error, or answers something else.
    """
    scores = guarded(lambda: module(batch), tuple(batch.shape))
    answer = type(scores).__name__
    if isinstance(scores, torch.Tensor):
        if scores.is_floating_point() and scores.ndim == 2 and len(scores) == len(batch):
            return scores
        answer = f"{scores.dtype} of shape {tuple(scores.shape)}"
    raise ModelProblem(
        f"the module must answer {len(batch)} examples with floating-point scores of shape "
        f"({len(batch)}, classes), but gave {answer}; wrap it in one that does"
    )


@contextmanager
def as_certified(module: torch.nn.Module, device: torch.device, precision: str = "float32") -> Iterator[None]:
    """Run a module as its certificate says: in evaluation mode, in the stated arithmetic.

    By default cuDNN rounds the operands of float32 convolutions to 10 bits (TF32), and a surrounding autocast would
    round everything: that is another classifier. All modes are put back afterwards.

    Args:
        module: the module.
        device: where it is.
        precision: "float32", "tf32" (GPUs: operands of matrix products rounded to 10 bits) or "bfloat16" (autocast).
    """
    modes = {part: part.training for part in module.modules()}
    module.eval()
    low = precision == "bfloat16"
    try:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=low), _rounding(device, precision == "tf32"):
            yield
    finally:
        for part, training in modes.items():
            part.training = training


@contextmanager
def _rounding(device: torch.device, tf32: bool) -> Iterator[None]:
    """Switch TF32 on or off on a GPU; torch has two ways to say so, which must not be mixed."""
    if device.type != "cuda":
        yield
        return
    backends: tuple[Any, ...] = (torch.backends.cudnn, torch.backends.cuda.matmul)
    name = "allow_tf32"
    wanted: Any = tf32
    try:
        before = [getattr(backend, name) for backend in backends]
    except RuntimeError:  # the program uses the newer way
        backends = (torch.backends.cudnn.conv, torch.backends.cudnn.rnn, torch.backends.cuda.matmul)  # type: ignore[attr-defined]
        name, wanted = "fp32_precision", "tf32" if tf32 else "ieee"
        before = [getattr(backend, name) for backend in backends]
    for backend in backends:
        setattr(backend, name, wanted)
    try:
        yield
    finally:
        for backend, value in zip(backends, before, strict=True):
            setattr(backend, name, value)
