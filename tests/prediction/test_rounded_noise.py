"""Noise on a lattice: certification's own at points of the lattice, and rounded with the input elsewhere."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy import stats

from fedcert import CallError, DataProblem, Smoothing
from fedcert.certification.perturbation import Gaussian, LatticePerturbation, perturbation_of
from fedcert.certification.streams import Stream
from fedcert.prediction.rounded_noise import RoundedPerturbation, deployed_perturbation
from fedcert.report.noises import NOISES, Noise

STREAM = Stream(bytes(range(32)))
IMAGE = (np.arange(24, dtype=np.float32).reshape(2, 3, 4) * 9 / np.float32(255)).astype(np.float32)
SAMPLES = 20_000
UNLIKELY = 1e-6
"""How often each comparison with a distribution may fail by chance, over all streams; this stream passes."""


def deployed(noise: str = "gaussian", sigma: float = 0.25, lattice: int = 255) -> RoundedPerturbation:
    perturbation = deployed_perturbation(
        Smoothing.defaults(sigma, noise=noise, lattice=lattice, norm=NOISES[noise].norm)
    )
    assert isinstance(perturbation, RoundedPerturbation)
    return perturbation


def drawn(perturbation: RoundedPerturbation, image: npt.NDArray[np.float32], samples: int) -> npt.NDArray[np.float32]:
    out = np.empty((samples, *image.shape), dtype=np.float32)
    perturbation.perturb(image, STREAM, out)
    return out


def test_without_a_lattice_it_is_certifications_own() -> None:
    assert deployed_perturbation(Smoothing.defaults(0.25)) == Gaussian(0.25)


@pytest.mark.parametrize("noise", ["gaussian", "uniform"])
def test_on_the_lattice_it_is_certifications_own_to_the_bit(noise: str) -> None:
    perturbation = deployed(noise)
    expected = np.empty((50, *IMAGE.shape), dtype=np.float32)
    certified = perturbation_of(Smoothing.defaults(0.25, noise=noise, lattice=255, norm=NOISES[noise].norm))
    assert isinstance(certified, LatticePerturbation)
    certified.perturb(IMAGE, STREAM, expected)
    assert np.array_equal(drawn(perturbation, IMAGE, 50), expected)


@pytest.mark.parametrize("noise", ["gaussian", "uniform"])
@pytest.mark.parametrize("at", [0.0, 0.1, -0.3, 0.374])
def test_the_distribution_is_that_of_the_rounded_sum(noise: str, at: float) -> None:
    """A coarse lattice, of four steps to 1: at 0 by certification's table, elsewhere by rounding input and noise."""
    image = np.full((1,), at, dtype=np.float32)
    steps = np.rint(drawn(deployed(noise, lattice=4), image, SAMPLES).ravel() * 4).astype(int)
    law = stats.norm(0, 0.25) if noise == "gaussian" else stats.uniform(-(3**0.5) / 4, 2 * 3**0.5 / 4)
    values = np.arange(-12, 13)
    exact = np.diff(law.cdf((np.append(values, 13) - 0.5) / 4 - float(image[0])))
    common = exact * SAMPLES > 10
    observed = np.array([(steps == value).sum() for value in values])
    observed, expected = (np.append(part[common], part[~common].sum()) for part in (observed, exact * SAMPLES))
    if expected[-1] < 1:
        assert observed[-1] <= 10
        observed, expected = observed[:-1], expected[:-1] * observed[:-1].sum() / expected[:-1].sum()
    assert stats.chisquare(observed, expected).pvalue > UNLIKELY


def test_rounding_the_input_first_would_be_another_classifier() -> None:
    """Just under the middle between two points: a model that is rounded first never sees that it is half a step off."""
    image = np.full((1,), 0.124, dtype=np.float32)  # 0.496 of a step: rounded first, 0
    assert drawn(deployed(lattice=4), image, SAMPLES).mean() == pytest.approx(0.124, abs=0.01)


@pytest.mark.parametrize("at", [0.0, 0.1])
def test_what_the_model_is_given_lies_on_the_lattice(at: float) -> None:
    noisy = drawn(deployed(), IMAGE + np.float32(at), 50)
    points = (np.rint(noisy.astype(np.float64) * 255).astype(np.float32) + 0.0) / np.float32(255)
    assert np.array_equal(noisy, points.astype(np.float32))
    assert not np.signbit(noisy[noisy == 0]).any()


def test_tensors_on_the_lattice_are_certifications_own() -> None:
    perturbation, images = deployed(), [torch.from_numpy(IMAGE), torch.from_numpy(IMAGE[::-1].copy())]
    streams, sizes = [STREAM, Stream(STREAM[::-1])], [3, 5]
    out, expected = torch.empty((8, *IMAGE.shape)), torch.empty((8, *IMAGE.shape))
    perturbation.perturb_tensors(images, streams, sizes, out)
    perturbation.exact.perturb_tensors(images, streams, sizes, expected)
    assert torch.equal(out, expected)


def test_tensors_off_the_lattice_are_rounded_with_their_noise() -> None:
    perturbation, image = deployed(), IMAGE + np.float32(0.001)
    out = torch.empty((4, *IMAGE.shape))
    perturbation.perturb_tensor(torch.from_numpy(image), STREAM, out)
    assert np.array_equal(out.numpy(), drawn(perturbation, image, 4))


def test_an_input_far_out_is_refused_in_one_sentence() -> None:
    sentence = "^inputs must be below 16448.3 in absolute value on a lattice of 255 steps to 1, but one is 20000; scale"
    far = np.full((1, 2), 20_000, dtype=np.float32)
    with pytest.raises(DataProblem, match=sentence):
        drawn(deployed(), far, 1)
    with pytest.raises(DataProblem, match=sentence):
        deployed().perturb_tensor(torch.from_numpy(far), STREAM, torch.empty((1, 1, 2)))


def test_a_noise_that_is_known_on_the_lattice_only() -> None:
    gaussian = deployed()
    pink = Noise("pink", "l2", gaussian.noise.radius, "known by a table", on_lattice=True)
    perturbation = RoundedPerturbation(gaussian.exact, pink, 0.25, 255)
    assert np.array_equal(drawn(perturbation, IMAGE, 2), drawn(gaussian, IMAGE, 2))
    with pytest.raises(
        CallError, match="^the noise 'pink' is drawn at multiples of 1/255 only, and an input is off them"
    ):
        drawn(perturbation, IMAGE + np.float32(0.001), 2)
