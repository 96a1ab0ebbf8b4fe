"""The hot loop on a GPU. These tests run wherever torch finds one."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy import stats

from certifying import certificates
from fedcert import FedcertWarning, certify
from fedcert.certification.certificate import in_flight
from fedcert.certification.models.classifiers import classifier_of
from fedcert.certification.perturbation import Gaussian
from fedcert.certification.seeds import Seed
from fedcert.certification.streams import Phase, Streams
from fedcert.lab.networks import mobilenet_v2_cifar10, resnet18_cifar10
from fedcert.report import Smoothing

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU on this machine")

IMAGES = np.random.default_rng(0).random((9, 3, 8, 8)).astype(np.float32)


def network() -> torch.nn.Module:
    """A small convolutional network with scores of four classes."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(288, 4))


def counts(batch_size: int | None, samples: int = 250, seed: int = 7) -> np.ndarray:
    classifier = classifier_of(network(), device="cuda")
    with classifier.running("float32"):
        sampler = classifier.sampler(4, Gaussian(0.5), Streams(Seed.fixed(seed), "site"), batch_size)
        return sampler.counts(in_flight(IMAGES, range(9), Phase.ESTIMATION, samples))


def test_rows_add_up_and_runs_repeat() -> None:
    first = counts(None)
    assert first.sum(axis=1).tolist() == [250] * 9
    assert np.array_equal(first, counts(None))
    assert not np.array_equal(first, counts(None, seed=8))


def test_batch_size_changes_nothing_but_ties() -> None:
    """Other batch sizes may pick other kernels, which round differently: a few predictions may tip."""
    for batch_size in (64, 100, 1000):
        assert np.abs(counts(batch_size) - counts(None)).sum() <= 4


def test_the_gpu_estimates_what_the_cpu_does() -> None:
    classifier = classifier_of(network())
    with classifier.running("float32"):
        sampler = classifier.sampler(4, Gaussian(0.5), Streams(Seed.fixed(7), "site"), None)
        other = sampler.counts(in_flight(IMAGES, range(9), Phase.ESTIMATION, 4000))
    table = np.stack([counts(None, 4000), other])
    for row in range(9):
        held = table[:, row][:, table[:, row].sum(axis=0) > 10]
        if held.shape[1] > 1:
            assert stats.chi2_contingency(held).pvalue > 1e-4


def test_seeds_keep_all_their_bits() -> None:
    def draw(seed: int) -> torch.Tensor:
        return torch.empty(64, device="cuda").normal_(generator=torch.Generator("cuda").manual_seed(seed))

    assert not torch.equal(draw(7), draw(7 + 2**40))


def test_float32_is_float32() -> None:
    """TF32 is switched off while certifying, and put back afterwards."""
    seen: list[tuple[bool, bool]] = []
    module = network()
    module.register_forward_pre_hook(
        lambda *_: seen.append((torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32))
    )
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    report = certify(module, IMAGES, np.zeros(9, int), sigma=0.5, client="a", n=100, device="cuda", precision="float32")
    assert report.smoothing.precision == "float32"
    assert set(seen) == {(False, False)}
    assert (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32) == before


def test_certified_radii_of_a_linear_classifier_hold() -> None:
    """10,000 certifications against the exact radius |w·x| / ‖w‖, at a failure probability of 5%."""
    settings = Smoothing(sigma=0.5, n0=100, n=1000, failure_probability=0.05)
    direction = torch.nn.functional.normalize(torch.randn(8, generator=torch.Generator().manual_seed(1)), dim=0)
    module = torch.nn.Linear(8, 2, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.stack([-direction, direction]))
    margins = np.random.default_rng(0).uniform(0.05, 1.4, size=10_000)
    images = (margins[:, None] * direction.numpy()).astype(np.float32)
    exact = images.astype(np.float64) @ direction.numpy().astype(np.float64)
    classifier = classifier_of(module, device="cuda")
    with classifier.running("float32"):
        sampler = classifier.sampler(2, Gaussian(0.5), Streams(Seed.fixed(1), "test"), None)
        made = certificates(sampler, images, np.ones(len(images), np.int64), settings, [0.0])
    wrong = int(np.sum((made.radius > exact) | ((made.selected != 1) & ~made.abstains)))
    assert stats.binomtest(wrong, 10_000, 0.05, alternative="greater").pvalue > 0.001
    assert wrong > 100


def resnet_counts(precision: str, samples: int = 2000, batch_size: int | None = None) -> np.ndarray:
    """Counts of a network with random weights and settled normalisations, in some arithmetic."""
    torch.manual_seed(0)
    module = resnet18_cifar10().eval()
    images = np.random.default_rng(0).random((6, 3, 32, 32)).astype(np.float32)
    classifier = classifier_of(module, device="cuda")
    with classifier.running(precision):
        sampler = classifier.sampler(10, Gaussian(0.5), Streams(Seed.fixed(3), "site"), batch_size, precision)
        sampler.fuse(images)
        assert sampler._fused == (precision != "float32")  # type: ignore[attr-defined]
        return sampler.counts(in_flight(images, range(6), Phase.ESTIMATION, samples))


def test_low_precisions_are_fused_and_close_to_float32() -> None:
    plain = resnet_counts("float32") / 2000
    for precision, most in (("tf32", 0.03), ("bfloat16", 0.1)):
        assert np.abs(resnet_counts(precision) / 2000 - plain).max() < most


def test_a_low_precision_is_reproducible_and_nearly_the_same_in_other_batches() -> None:
    first = resnet_counts("bfloat16")
    assert np.array_equal(first, resnet_counts("bfloat16"))
    assert np.abs(resnet_counts("bfloat16", batch_size=640) - first).sum() <= 0.01 * first.sum()


def test_memory_that_runs_out_halves_the_batch() -> None:
    with pytest.warns(FedcertWarning, match="the device's memory does not hold"):
        few = resnet_counts("bfloat16", samples=200, batch_size=2**23)
    assert few.sum(axis=1).tolist() == [200] * 6


def test_a_compiled_network_counts_the_same_but_for_ties() -> None:
    """A network whose layers are hardly fused is compiled where the work is long; here because it is asked for."""
    torch.manual_seed(0)
    module = mobilenet_v2_cifar10().eval()
    images = np.random.default_rng(0).random((4, 3, 32, 32)).astype(np.float32)
    made = []
    for compiled in (False, True):
        classifier = classifier_of(module, device="cuda")
        with classifier.running("bfloat16"):
            sampler = classifier.sampler(10, Gaussian(0.5), Streams(Seed.fixed(3), "site"), 800, "bfloat16")
            sampler.fuse(images)
            assert sampler.pays_to_compile
            if compiled:
                sampler.compile(images)
            made.append(sampler.counts(in_flight(images, range(4), Phase.ESTIMATION, 2000)))
    assert np.abs(made[0] - made[1]).sum() / 2 <= 0.05 * made[0].sum()


def test_a_device_that_fails_is_one_sentence() -> None:
    """In a process of its own: a device that failed is lost to it."""
    code = """
import numpy as np, torch, fedcert
class Breaking(torch.nn.Module):
    calls = 0
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 2)
    def forward(self, batch):
        Breaking.calls += 1
        torch._assert_async(torch.tensor(Breaking.calls < 12, device=batch.device))
        return self.linear(batch)
try:
    fedcert.certify(Breaking(), np.random.rand(200, 6), np.arange(200) % 2, client="a", sigma=0.5, n=100_000,
                    procedure="fixed", device="cuda")
except fedcert.DeviceProblem as error:
    print("told:", error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("told: the device 'cuda' failed: CUDA error: device-side assert triggered"), done
