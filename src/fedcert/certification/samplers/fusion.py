"""A convolutional network with its layers fused, for GPUs: the same function in fewer, larger steps.

Batch normalisation is folded into the convolution before it, and a rectifier, perhaps behind a sum, is done by the same
kernel. The certificate is about the network as it runs, so this is part of the arithmetic that a report names: in
float32 nothing is fused.
"""

from __future__ import annotations

import copy
import operator
from collections import Counter
from typing import Any

import torch
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

_ALIGNMENT = 8
"""cuDNN's fused kernels want channels in multiples of this."""
_RECTIFIERS = (torch.relu, torch.nn.functional.relu)
_LARGEST_DIFFERENCE = 0.05
"""Of the scores' norm: room for the rounding of bfloat16 through many layers, not for a layer that is wrong."""

_Pair = tuple[int, int]


class FusedConvolution(nn.Module):
    """A convolution with its bias, and perhaps a sum and a rectifier, in one step."""

    def __init__(self, convolution: nn.Conv2d, dtype: torch.dtype, *, rectified: bool) -> None:
        super().__init__()
        weight = convolution.weight.detach().to(dtype)
        if convolution.groups == 1:
            weight = nn.functional.pad(weight, (0, 0, 0, 0, 0, -convolution.in_channels % _ALIGNMENT))
        weight, bias = weight.contiguous(memory_format=torch.channels_last), convolution.bias
        plain = torch.zeros(len(weight), device=weight.device) if bias is None else bias.detach()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = nn.Parameter(plain.to(dtype), requires_grad=False)
        self.places: Any = (convolution.stride, convolution.padding, convolution.dilation, convolution.groups)
        self.rectified = rectified
        self.dense = convolution.groups == 1
        self.depthwise = convolution.groups == convolution.in_channels == convolution.out_channels > 1

    def forward(self, batch: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """The answer, plus another tensor where given, rectified where asked."""
        batch = self._aligned(batch)
        if self.rectified and self.dense and batch.is_cuda:
            if other is None:
                return torch.cudnn_convolution_relu(batch, self.weight, self.bias, *self.places)
            other = other.to(batch.dtype, memory_format=torch.channels_last)
            return torch.cudnn_convolution_add_relu(batch, self.weight, other, 1.0, self.bias, *self.places)
        # cuDNN is slow at single channels; a compiler makes one fast kernel of the sum and what is around it.
        if self.depthwise and torch.compiler.is_compiling():
            answer = shifted_sum(batch, self.weight, self.bias, *self.places[:3])
        else:
            answer = torch.nn.functional.conv2d(batch, self.weight, self.bias, *self.places)
        answer = answer if other is None else answer + other
        return answer.relu() if self.rectified else answer

    def _aligned(self, batch: torch.Tensor) -> torch.Tensor:
        """The batch as the kernels want it: in the weights' type, channels last, empty channels filling up."""
        channels = batch.shape[1]
        wanted = self.weight.shape[1] if self.dense else channels
        if channels == wanted:
            return batch.to(self.weight.dtype, memory_format=torch.channels_last)
        shape = (len(batch), wanted, *batch.shape[2:])
        filled = torch.empty(shape, dtype=self.weight.dtype, device=batch.device, memory_format=torch.channels_last)
        filled[:, :channels] = batch
        filled[:, channels:] = 0
        return filled


def shifted_sum(
    batch: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, stride: _Pair, padding: _Pair, dilation: _Pair
) -> torch.Tensor:
    """A convolution of each channel by itself, written as a sum of shifted pictures, in float32.

    Args:
        batch: N x C x H x W.
        weight: C x 1 x the kernel's height and width.
        bias: of each channel.
        stride: down and right.
        padding: above and below, left and right.
        dilation: down and right.
    """
    padded = nn.functional.pad(batch, (padding[1], padding[1], padding[0], padding[0]))
    across = [dilation[axis] * (weight.shape[2 + axis] - 1) for axis in (0, 1)]
    height, width = (padded.shape[2 + axis] - across[axis] for axis in (0, 1))
    answer = bias.float()[:, None, None]
    for row in range(weight.shape[2]):
        for column in range(weight.shape[3]):
            down, right = row * dilation[0], column * dilation[1]
            window = padded[:, :, down : down + height : stride[0], right : right + width : stride[1]]
            answer = answer + window.float() * weight[:, 0, row, column].float()[:, None, None]
    return answer.to(batch.dtype)


def fused(module: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    """A copy of a network in evaluation mode with its layers fused; None where it is not of that kind.

    The module itself is not changed.

    Args:
        module: the network.
        dtype: of its convolutions.
    """
    try:
        traced = fx.symbolic_trace(copy.deepcopy(module).eval())
    except Exception:  # noqa: BLE001 (a network that cannot be traced may fail in any way)
        return None
    parts = dict(traced.named_modules())
    convolutions = [part for part in parts.values() if isinstance(part, nn.Conv2d)]
    if not convolutions or any(isinstance(part.padding, str) or part.padding_mode != "zeros" for part in convolutions):
        return None
    _fold(traced, parts)
    _join(traced, dict(traced.named_modules()), dtype)
    traced.graph.lint()
    traced.recompile()
    return traced


def mostly_fused(network: nn.Module) -> bool:
    """Whether most convolutions of a network that `fused` made are one kernel with what follows them."""
    kernels = [part.dense and part.rectified for part in network.modules() if isinstance(part, FusedConvolution)]
    return 2 * sum(kernels) > len(kernels)


def scores_match(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether scores agree as well as rounding allows."""
    scale = first.float().norm()
    return bool((first.float() - second.float()).norm() <= _LARGEST_DIFFERENCE * scale)


def _fold(traced: fx.GraphModule, parts: dict[str, nn.Module]) -> None:
    """Fold batch normalisations into the convolutions before them."""
    calls = _calls(traced)
    for node in list(traced.graph.nodes):
        part = _called(node, parts)
        if not isinstance(part, nn.BatchNorm2d) or not isinstance(node.args[0], fx.Node):
            continue
        before, name = node.args[0], str(node.args[0].target)
        convolution = _called(before, parts)
        if not isinstance(convolution, nn.Conv2d) or len(before.users) > 1 or part.running_mean is None:
            continue
        if calls[name] > 1:  # elsewhere it is used without the normalisation
            continue
        parts[name] = fuse_conv_bn_eval(convolution, part)
        traced.set_submodule(name, parts[name])
        node.replace_all_uses_with(before)
        traced.graph.erase_node(node)


def _join(traced: fx.GraphModule, parts: dict[str, nn.Module], dtype: torch.dtype) -> None:
    """Have each convolution do the sum and the rectifier behind it."""
    calls = _calls(traced)
    for node in list(traced.graph.nodes):
        convolution = _called(node, parts)
        if not isinstance(convolution, nn.Conv2d) or calls[str(node.target)] > 1:
            continue
        last, other = node, None
        following = _only_user(node)
        if following is not None and _is_sum(following):
            other = next((argument for argument in following.args if argument is not node), None)
            last, following = following, _only_user(following)
        rectifies = following is not None and _rectifies(following, parts)
        if rectifies:
            last = following
        elif other is not None:
            last, other = node, None
        traced.set_submodule(str(node.target), FusedConvolution(convolution, dtype, rectified=rectifies))
        if last is not node:
            _move(traced, node, last, other)


def _move(traced: fx.GraphModule, node: fx.Node, last: fx.Node, other: Any) -> None:
    """Let a convolution stand where the last of its steps was: only there is the other part of a sum known."""
    with traced.graph.inserting_before(last):
        arguments = (node.args[0],) if other is None else (node.args[0], other)
        call = traced.graph.call_module(str(node.target), arguments)
    last.replace_all_uses_with(call)
    traced.graph.eliminate_dead_code()


def _calls(traced: fx.GraphModule) -> Counter[str]:
    """How often each module is called."""
    return Counter(str(node.target) for node in traced.graph.nodes if node.op == "call_module")


def _called(node: fx.Node, parts: dict[str, nn.Module]) -> nn.Module | None:
    """The module that a node calls, if it calls one."""
    return parts.get(str(node.target)) if node.op == "call_module" else None


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _is_sum(node: fx.Node) -> bool:
    plain = node.op == "call_function" and node.target in (operator.add, torch.add, operator.iadd)
    operands = all(isinstance(argument, fx.Node) for argument in node.args)
    return plain and len(node.args) == 2 and not node.kwargs and operands


def _rectifies(node: fx.Node, parts: dict[str, nn.Module]) -> bool:
    if node.op == "call_module":
        return type(parts.get(str(node.target))) is nn.ReLU
    if node.op == "call_method":
        return node.target in ("relu", "relu_")
    return node.op == "call_function" and node.target in _RECTIFIERS
