"""CERTIFY: by hand, and against classifiers whose exact radius is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from certifying import certificates
from fedcert.certification.bounds import lower_bound
from fedcert.certification.certificate import CertificateTable, InFlight, in_flight
from fedcert.certification.models.classifiers import ArrayClassifier
from fedcert.certification.perturbation import Gaussian
from fedcert.certification.seeds import Seed
from fedcert.certification.streams import Phase, Streams
from fedcert.report import Smoothing

SETTINGS = Smoothing(sigma=0.5, n0=100, n=1000, failure_probability=0.001)


class Scripted:
    """A sampler that answers with prepared counts; estimation comes in proportion to what is asked."""

    def __init__(self, selection: list[list[int]], estimation: list[list[int]]) -> None:
        self.streams = Streams(Seed.fixed(0), "scripted")
        self.answers = {Phase.SELECTION: np.array(selection), Phase.ESTIMATION: np.array(estimation)}
        self.asked: list[tuple[int, Phase, int, int]] = []

    def counts(self, examples: Sequence[InFlight], on_samples: Callable[[int], None] = print) -> npt.NDArray[np.int64]:
        self.asked += [(example.state.index, example.phase, example.first, example.samples) for example in examples]
        on_samples(sum(example.samples for example in examples))
        return np.stack([self.answers[example.phase][example.state.index] for example in examples])


def labels_for(count: int, label: int = 0) -> npt.NDArray[np.int64]:
    return np.full(count, label, dtype=np.int64)


def test_selection_then_fresh_estimation() -> None:
    sampler = Scripted([[60, 40, 0], [10, 30, 60], [50, 50, 0]], [[990, 10, 0], [500, 20, 480], [1000, 0, 0]])
    spent: list[int] = []
    made = certificates(sampler, np.zeros((3, 2), np.float32), labels_for(3), SETTINGS, [0.0], spent.append)
    assert sampler.asked == [
        *((example, Phase.SELECTION, 0, 100) for example in range(3)),
        *((example, Phase.ESTIMATION, 0, 1000) for example in range(3)),
    ]
    assert spent == [300, 3000]
    assert made.selected.tolist() == [0, 2, 0]  # the tie goes to the lowest index
    assert made.abstains.tolist() == [False, True, False]
    first = 0.5 * stats.norm.ppf(stats.beta.ppf(0.001, 990, 11))
    assert made.radius.tolist() == pytest.approx([first, 0.0, SETTINGS.largest_radius])
    assert made.samples.tolist() == [1100, 1100, 1100]


def test_it_abstains_unless_the_bound_is_above_one_half() -> None:
    successes = np.arange(500, 600)
    bounds = lower_bound(successes, 1000, 0.001)
    sampler = Scripted([[1, 0]] * 100, np.stack([successes, 1000 - successes], axis=1).tolist())
    made = certificates(sampler, np.zeros((100, 1), np.float32), labels_for(100), SETTINGS, [0.0], lambda _: None)
    assert made.abstains.tolist() == (bounds <= 0.5).tolist()
    assert 0 < made.abstains.sum() < 100


def test_only_right_and_certified_examples_count() -> None:
    made = CertificateTable(
        np.arange(4), np.array([0, 0, 1, 1]), np.array([0.3, 0.0, 0.3, 0.1]), np.zeros(4, np.int64), np.ones(4, bool)
    )
    labels = np.array([0, 0, 0, 1])
    assert made.certified(labels, [0.0, 0.1, 0.3, 0.4]).tolist() == [
        [True, True, True, False],
        [False, False, False, False],  # abstained: not even at radius 0
        [False, False, False, False],  # wrong
        [True, True, False, False],
    ]


def certify_linear(
    margins: npt.NDArray[np.float64], dimension: int, settings: Smoothing, seed: int
) -> tuple[CertificateTable, npt.NDArray[np.float64]]:
    """Certify x -> [w·x > 0] at points of given signed distances from its plane; also their exact radii."""
    direction = np.random.default_rng(99).normal(size=dimension)
    direction /= np.linalg.norm(direction)
    images = (margins[:, None] * direction).astype(np.float32)
    exact = np.abs(images.astype(np.float64) @ direction)
    classifier = ArrayClassifier(lambda batch: (batch @ direction > 0).astype(np.int64), "linear")
    sampler = classifier.sampler(2, Gaussian(settings.sigma), Streams(Seed.fixed(seed), "test"), None)
    return certificates(sampler, images, labels_for(len(images), 1), settings, [0.0]), exact


@pytest.mark.slow
@pytest.mark.parametrize("failure_probability", [0.001, 0.05])
def test_the_certified_radius_exceeds_the_exact_one_no_more_often_than_allowed(failure_probability: float) -> None:
    """10,000 certifications of a linear classifier, whose smoothed version has the radius |w·x| / ‖w‖."""
    settings = Smoothing(sigma=0.5, n0=100, n=1000, failure_probability=failure_probability)
    margins = np.random.default_rng(0).uniform(0.05, 1.4, size=10_000)
    made, exact = certify_linear(margins, 8, settings, seed=1)
    wrong = int(np.sum((made.radius > exact) | ((made.selected != 1) & ~made.abstains)))
    assert stats.binomtest(wrong, len(margins), failure_probability, alternative="greater").pvalue > 0.001
    # The bound is sharp: at 5% some must exceed, else the test could not fail.
    if failure_probability == 0.05:
        assert wrong > 100


@pytest.mark.slow
def test_the_loss_shrinks_with_n_as_the_bound_predicts() -> None:
    """At p = Φ(margin/σ) the mean radius is σΦ⁻¹ of the bound, averaged over the binomial counts."""
    margin, losses = 0.5, []
    for n in (100, 1000, 10_000):
        settings = Smoothing(sigma=0.5, n0=100, n=n, failure_probability=0.001)
        made, exact = certify_linear(np.full(400, margin), 4, settings, seed=n)
        p = stats.norm.cdf(exact[0] / 0.5)
        k = np.arange(n + 1)
        radii = np.where(lower_bound(k, n, 0.001) > 0.5, 0.5 * stats.norm.ppf(lower_bound(k, n, 0.001)), 0.0)
        chance = stats.binom.pmf(k, n, p)
        mean, deviation = chance @ radii, np.sqrt(chance @ radii**2 - (chance @ radii) ** 2)
        assert made.radius.mean() == pytest.approx(mean, abs=4 * deviation / np.sqrt(400))
        losses.append(exact[0] - made.radius.mean())
    # A factor 10 in n shrinks the loss by about √10.
    assert 2.0 < losses[0] / losses[1] < 4.5
    assert 2.5 < losses[1] / losses[2] < 4.0


def test_a_constant_model_is_certified_to_the_cap() -> None:
    classifier = ArrayClassifier(lambda batch: np.full(len(batch), 2), "constant")
    sampler = classifier.sampler(4, Gaussian(0.5), Streams(Seed.fixed(0), "a"), None)
    made = certificates(sampler, np.zeros((5, 3), np.float32), labels_for(5), SETTINGS, [0.0])
    assert made.selected.tolist() == [2] * 5
    assert made.radius == pytest.approx([SETTINGS.largest_radius] * 5)


def test_exactly_tied_scores_go_to_the_lowest_class() -> None:
    classifier = ArrayClassifier(lambda batch: np.zeros((len(batch), 3)), "tied")
    sampler = classifier.sampler(3, Gaussian(0.5), Streams(Seed.fixed(0), "a"), None)
    assert (
        sampler.counts(in_flight(np.zeros((2, 3), np.float32), [0, 1], Phase.SELECTION, 50)).tolist()
        == [[50, 0, 0]] * 2
    )


def test_a_coin_is_never_certified_to_more_than_it_may() -> None:
    classifier = ArrayClassifier(lambda batch: (batch[:, 0] > 0).astype(int), "coin")
    sampler = classifier.sampler(2, Gaussian(0.5), Streams(Seed.fixed(0), "a"), None)
    made = certificates(sampler, np.zeros((500, 1), np.float32), labels_for(500), SETTINGS, [0.0])
    assert made.abstains.sum() >= 495
