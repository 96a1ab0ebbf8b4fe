"""The sequential procedure: its bound is valid, whatever stops it, and it loses no more than it may."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from certifying import certificates
from fedcert.certification.certificate import CertificateTable
from fedcert.certification.models.classifiers import ArrayClassifier
from fedcert.certification.perturbation import Gaussian, Uniform
from fedcert.certification.seeds import Seed
from fedcert.certification.sequential import LookSchedule, SamplingPolicy
from fedcert.certification.streams import Stream, Streams
from fedcert.report import Smoothing

RADII = tuple(np.arange(0, 1.01, 0.05).round(9).tolist())


@pytest.mark.parametrize("n", [1, 99, 100, 101, 1000, 10_000, 100_000])
@pytest.mark.parametrize("step", [1, 7, 100])
def test_looks_grow_to_n_and_spend_what_they_may(n: int, step: int) -> None:
    looks = LookSchedule.of(n, 0.001, step)
    assert looks.sizes[-1] == n
    assert list(looks.sizes) == sorted(set(looks.sizes))
    assert all(size % step == 0 for size in looks.sizes[:-1])
    assert sum(looks.shares) <= 0.001 * (1 + 1e-12)
    if len(looks.sizes) > 1:
        assert sum(looks.shares) == pytest.approx(0.001, rel=1e-12)
    assert looks.shares[-1] == pytest.approx(0.0004)
    assert min(looks.shares) > 0
    assert len(looks.sizes) <= 45


@pytest.mark.parametrize("n", [1, 10, 100, 110, 130, 1000, 10_000])
@pytest.mark.parametrize("failure", [0.001, 0.05, 0.5, 0.99])
@pytest.mark.parametrize("step", [1, 7, 100])
def test_no_look_certifies_more_than_the_settings_say(n: int, failure: float, step: int) -> None:
    settings = Smoothing(sigma=0.5, n=n, failure_probability=failure, procedure="sequential")
    looks = LookSchedule.of(n, failure, step)
    assert sum(looks.shares) <= failure * (1 + 1e-12)
    best = [float(Gaussian(0.5).radius(looks.error_bound(look, size))) for look, size in enumerate(looks.sizes)]
    assert max(best) <= settings.largest_radius + 1e-9
    assert best[-1] == pytest.approx(settings.largest_radius)


def ever_exceeds(looks: LookSchedule, p: float) -> float:
    """The probability that the bound of some look exceeds the true p, by dynamic programming over the looks.

    The state is the number of successes so far, of runs whose bounds have all held; those that exceed are taken out.
    """
    alive, before, lost = np.ones(1), 0, 0.0
    for look, size in enumerate(looks.sizes):
        steps = stats.binom.pmf(np.arange(size - before + 1), size - before, p)
        alive = np.convolve(alive, steps)
        exceeds = 1 - looks.error_bound(look, np.arange(size + 1)) > p
        lost += float(alive[exceeds].sum())
        alive[exceeds] = 0.0
        before = size
    return lost


@pytest.mark.parametrize("failure", [0.001, 0.05])
@pytest.mark.parametrize("n", [300, 3000])
def test_the_bound_ever_exceeds_p_no_more_often_than_allowed(n: int, failure: float) -> None:
    """Exactly, for a fine grid of p: whatever rule stops early, it cannot do worse than the worst look."""
    looks = LookSchedule.of(n, failure, 100)
    worst = max(
        ever_exceeds(looks, p) for p in np.concatenate([np.linspace(0.5, 0.999, 60), 1 - np.geomspace(1e-6, 1e-3, 15)])
    )
    assert worst <= failure
    assert worst > 0.25 * failure  # not so careful as to waste nearly all of it


def linear(
    margins: np.ndarray, smoothing: Smoothing, radii: tuple[float, ...], seed: int
) -> tuple[CertificateTable, np.ndarray]:
    """Certify x -> [w·x > 0] at points of given distances from its plane; also their exact radii."""
    direction = np.random.default_rng(99).normal(size=4)
    direction /= np.linalg.norm(direction)
    images = (margins[:, None] * direction).astype(np.float32)
    classifier = ArrayClassifier(lambda batch: (batch @ direction > 0).astype(np.int64), "linear")
    sampler = classifier.sampler(2, Gaussian(smoothing.sigma), Streams(Seed.fixed(seed), "test"), None)
    return certificates(sampler, images, np.ones(len(images), np.int64), smoothing, radii), images @ direction


@pytest.mark.slow
@pytest.mark.parametrize("failure", [0.001, 0.05])
def test_with_the_real_sampler_certificates_fail_no_more_often_than_allowed(failure: float) -> None:
    smoothing = Smoothing(sigma=0.5, n=3000, failure_probability=failure, procedure="sequential")
    margins = np.random.default_rng(0).uniform(0.02, 1.2, size=10_000)
    made, exact = linear(margins, smoothing, RADII, seed=3)
    wrong = int(np.sum(made.radius > exact))
    assert stats.binomtest(wrong, len(margins), failure, alternative="greater").pvalue > 0.001
    if failure == 0.05:
        assert wrong > 50


def test_it_spends_less_and_loses_little_against_fixed() -> None:
    margins = np.random.default_rng(1).uniform(0.0, 1.5, size=600)
    fixed, exact = linear(margins, Smoothing(sigma=0.5, n=10_000), RADII, seed=5)
    settings = Smoothing(sigma=0.5, n=10_000, procedure="sequential")
    made, _ = linear(margins, settings, RADII, seed=5)
    labels = np.ones(len(margins), np.int64)
    lost = fixed.certified(labels, RADII).mean(axis=0) - made.certified(labels, RADII).mean(axis=0)
    assert lost.max() <= 0.015
    assert made.samples.sum() < 0.5 * fixed.samples.sum()
    assert np.all(made.samples <= fixed.samples)
    generous, _ = linear(margins, Smoothing(sigma=0.5, n=10_000, procedure="sequential", tolerance=0.02), RADII, seed=5)
    assert generous.samples.sum() < 0.85 * made.samples.sum()
    assert len(exact) == 600


def test_wrong_examples_cost_no_estimation() -> None:
    classifier = ArrayClassifier(lambda batch: np.zeros(len(batch), np.int64), "constant")
    sampler = classifier.sampler(2, Gaussian(0.5), Streams(Seed.fixed(0), "a"), None)
    settings = Smoothing(sigma=0.5, n=10_000, procedure="sequential")
    made = certificates(sampler, np.zeros((4, 3), np.float32), np.array([0, 1, 0, 1]), settings, RADII)
    assert made.samples[[1, 3]].tolist() == [100, 100]
    assert made.estimated.tolist() == [True, False, True, False]
    assert np.all(made.samples[[0, 2]] < 2000)  # all radii are certified long before n


def test_the_allowed_misses_are_the_most_that_the_last_look_certifies() -> None:
    smoothing = Smoothing(sigma=0.5, n=2000, procedure="sequential")
    policy = SamplingPolicy.of(smoothing, (*RADII, 2.0), 100)
    last = len(policy.looks.sizes) - 1
    for radius, allowed in zip(policy.radii, policy._allowed_errors, strict=True):
        if allowed >= 0:
            assert float(Gaussian(0.5).radius(policy.looks.error_bound(last, 2000 - allowed))) >= radius
        assert float(Gaussian(0.5).radius(policy.looks.error_bound(last, 2000 - (allowed + 1)))) < max(radius, 1e-300)
    assert policy._allowed_errors[-1] == -1  # beyond the cap


def test_uniform_noise_certifies_its_closed_form_in_l1() -> None:
    """A half-space x₀ > 0 at distance d: with uniform noise its probability is ½ + d/(2λ), so the radius is d."""
    noise = Uniform(0.5)
    half = noise.half_width
    for distance in (0.0, 0.1, 0.4, half):
        miss = 0.5 - distance / (2 * half)
        assert float(noise.radius(miss)) == pytest.approx(distance, abs=1e-12)
    classifier = ArrayClassifier(lambda batch: (batch[:, 0] > 0).astype(np.int64), "half-space")
    settings = Smoothing(sigma=0.5, noise="uniform", norm="l1", n=2000, failure_probability=0.05)
    sampler = classifier.sampler(2, noise, Streams(Seed.fixed(1), "a"), None)
    distances = np.random.default_rng(0).uniform(0.05, 0.8, size=2000)
    images = np.zeros((2000, 3), np.float32)
    images[:, 0] = distances
    made = certificates(sampler, images, np.ones(2000, np.int64), settings, RADII)
    wrong = int(np.sum(made.radius > images[:, 0]))
    assert stats.binomtest(wrong, 2000, 0.05, alternative="greater").pvalue > 0.001
    assert wrong > 20
    assert np.mean(images[:, 0] - made.radius) < 0.05


def test_uniform_noise_has_the_stated_deviation_and_bounds() -> None:
    out = np.empty((1000, 20), np.float32)
    Uniform(0.25).fill(Stream(bytes(32)), out)
    assert out.std() == pytest.approx(0.25, rel=0.02)
    assert np.abs(out).max() <= np.sqrt(3) * 0.25 + 1e-6


def test_caps_of_both_noises_and_procedures() -> None:
    for procedure, share in (("fixed", 1.0), ("sequential", 0.4)):
        gaussian = Smoothing(sigma=0.5, n=1000, procedure=procedure)
        p = (0.001 * share) ** (1 / 1000)
        assert gaussian.largest_radius == pytest.approx(0.5 * stats.norm.ppf(p), rel=1e-9)
        uniform = Smoothing(sigma=0.5, n=1000, noise="uniform", norm="l1", procedure=procedure)
        assert uniform.largest_radius == pytest.approx(np.sqrt(3) * 0.5 * (2 * p - 1), rel=1e-9)
