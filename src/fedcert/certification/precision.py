"""The arithmetic in which a model runs: the default where none is asked for, and what each one means for sites."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_FLOAT32_RATE, _BFLOAT16_RATE = 16_600, 352_000
"""Noisy samples per second measured on an H200 with ResNet-18 on CIFAR-10: strict float32, and bfloat16 with fused
layers (docs/benchmarks.md: 16,593, and 379,071 in a longer run)."""

BFLOAT16_GAIN = _BFLOAT16_RATE // _FLOAT32_RATE
"""How many times faster than float32 a large GPU is in bfloat16: 21 by the rates above."""


def default_precision(device: torch.device) -> str:
    """bfloat16 on a GPU that computes in it, where it is many times faster than float32; float32 elsewhere."""
    return "bfloat16" if device.type == "cuda" and has_bfloat16(device) else "float32"


def has_bfloat16(device: torch.device) -> bool:
    """Whether a GPU computes in bfloat16 itself: an emulation is slower than float32."""
    import torch

    with torch.cuda.device(device):
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def precision_sentence(precision: str) -> str:
    """What a request's precision means for the sites that are to answer it."""
    if precision == "float32":
        return (
            f"float32 runs at every site. With --precision bfloat16, sites with a GPU would be up to {BFLOAT16_GAIN} "
            f"times faster ({_BFLOAT16_RATE:,} instead of {_FLOAT32_RATE:,} noisy samples a second: ResNet-18 on "
            "CIFAR-10, H200); sites whose model is an ONNX file or a bare function could not answer, and those without "
            "such a GPU would be no faster."
        )
    if precision == "bfloat16":
        return (
            "bfloat16 shuts out sites whose model is an ONNX file or a bare function; sites without a GPU that has it "
            "are no faster."
        )
    return f"{precision} shuts out sites without a GPU, and those whose model is an ONNX file or a bare function."
