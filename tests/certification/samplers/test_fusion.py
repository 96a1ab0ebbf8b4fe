"""Fused networks: the same function, without changing the user's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedcert.certification.models.classifiers import digest_of_module
from fedcert.certification.samplers.fusion import FusedConvolution, fused, scores_match, shifted_sum
from fedcert.lab.networks import mobilenet_v2_cifar10, resnet18_cifar10


def settled(module: nn.Module) -> nn.Module:
    """A network whose normalisations have statistics of their own."""
    generator = torch.Generator().manual_seed(0)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean = torch.randn(part.num_features, generator=generator) * 0.1
            part.running_var = torch.rand(part.num_features, generator=generator) + 0.5
    return module.eval()


@pytest.mark.parametrize("factory", [resnet18_cifar10, mobilenet_v2_cifar10])
def test_a_fused_network_gives_the_same_scores(factory: object) -> None:
    module = settled(factory())  # type: ignore[operator]
    before = digest_of_module(module)
    made = fused(module, torch.float32)
    assert made is not None
    batch = torch.rand((4, 3, 32, 32), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert torch.allclose(made(batch), module(batch), rtol=1e-3, atol=1e-3)
    assert digest_of_module(module) == before
    assert not any(isinstance(part, nn.BatchNorm2d) for name, part in made.named_modules() if name in _called(made))


def _called(module: nn.Module) -> set[str]:
    return {str(node.target) for node in module.graph.nodes if node.op == "call_module"}  # type: ignore[union-attr]


def test_sums_and_rectifiers_are_joined_in_a_residual_network() -> None:
    made = fused(settled(resnet18_cifar10()), torch.float32)
    assert made is not None
    convolutions = [part for name, part in made.named_modules() if isinstance(part, FusedConvolution)]
    assert len(convolutions) == 20
    assert sum(part.rectified for part in convolutions) == 17  # all but the three projections
    left = [node for node in made.graph.nodes if node.op == "call_method" and node.target == "relu"]  # type: ignore[union-attr]
    assert left == []


def test_what_cannot_be_fused_is_left_alone() -> None:
    class Branching(nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return batch if batch.sum() > 0 else -batch

    assert fused(Branching(), torch.float32) is None
    assert fused(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), torch.float32) is None


def test_a_convolution_that_is_used_twice_or_read_twice_stays_right() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(8, 8, 3, padding=1)
            self.norm = nn.BatchNorm2d(8)

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            first = self.convolution(batch)
            second = self.convolution(torch.relu(first))
            return torch.relu(self.norm(second) + first) + first

    module = settled(Twice())
    made = fused(module, torch.float32)
    batch = torch.rand((2, 8, 6, 6), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert made is None or torch.allclose(made(batch), module(batch), atol=1e-4)


def test_scores_that_differ_are_told_apart() -> None:
    scores = torch.rand((8, 10), generator=torch.Generator().manual_seed(1))
    assert scores_match(scores, scores * 1.001)
    assert not scores_match(scores, scores.flip(0))


@pytest.mark.parametrize("stride", [1, (2, 1)])
@pytest.mark.parametrize(("size", "padding", "dilation"), [(3, 1, 1), ((3, 5), (0, 2), (2, 1)), (1, 0, 1)])
def test_a_sum_of_shifted_pictures_is_a_convolution_of_each_channel(
    stride: object, size: object, padding: object, dilation: object
) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(6, 6, size, stride, padding, dilation, groups=6)  # type: ignore[arg-type]
    batch = torch.randn(2, 6, 9, 8)
    with torch.inference_mode():
        made = shifted_sum(batch, layer.weight, layer.bias, layer.stride, layer.padding, layer.dilation)  # type: ignore[arg-type]
        assert torch.allclose(made, layer(batch), atol=1e-6)


def test_a_compiled_network_gives_the_same_scores() -> None:
    """Compiled, single channels are summed by our own formula; without a compiler's back end the trace is enough."""
    made = fused(settled(mobilenet_v2_cifar10()), torch.float32)
    assert made is not None
    batch = torch.rand((2, 3, 32, 32), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert torch.allclose(torch.compile(made, backend="eager")(batch), made(batch), rtol=1e-3, atol=1e-3)
