"""An attack on the epsilon: it guesses from a release whether an example was in the data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from fedcert import Report, certify
from fedcert.privacy.dp.accounting import noise_shares
from fedcert.privacy.dp.mechanism import cells_of, noisy_counts
from fedcert.report.privacy import PrivacyBudget
from fedcert.report.request import PrivateSum
from fedcert.secagg.vectors import VectorLayout
from secure_sums import private_request

RUNS, CONFIDENCE, DELTA = 3_000, 0.99, 1e-6
RANDOM = np.random.default_rng(0)
X = RANDOM.random((300, 2)).astype(np.float32)
Y = (X[:, 0] + 0.1 * RANDOM.normal(size=300) > 0.5).astype(int)


def counted(kept: slice, seed: int = 0, client: str = "a", procedure: str = "fixed") -> Report:
    return certify(
        lambda batch: (batch[:, 0] > 0.5).astype(int), X[kept], Y[kept], client=client, model_id="m", sigma=0.25,
        n=32 if procedure == "population" else 200, procedure=procedure, classes=["0", "1"], class_counts=True,
        seed=seed,
    )  # fmt: skip


def least_epsilon(scores: tuple[np.ndarray, np.ndarray]) -> float:
    """A lower bound of epsilon from an attack's scores without and with the example.

    Thresholds are chosen on one half of the scores; on the other, rates of right and wrong guesses are bounded.
    """
    (without, others), (with_it, others_with) = (np.array_split(part, 2) for part in scores)
    guesses = [
        (
            float(
                np.log((np.mean(sign * with_it > sign * end) + 1e-9) / (np.mean(sign * without > sign * end) + 1e-3))
            ),
            sign,
            end,
        )
        for end in np.quantile(np.concatenate([without, with_it]), np.linspace(0.1, 0.9, 33))
        for sign in (1, -1)
    ]
    _, sign, end = max(guesses)
    right, wrong = (int(np.sum(sign * part > sign * end)) for part in (others_with, others))
    size, tail = len(others), (1 - CONFIDENCE) / 2
    low = stats.beta.ppf(tail, right, size - right + 1) if right else 0.0
    return float(np.log(max(low - DELTA, 1e-12) / stats.beta.isf(tail, wrong + 1, size - wrong)))


def attacked(release: Callable[[Report], tuple[np.ndarray, np.ndarray]], without: Report, with_it: Report) -> float:
    """The likelihood ratio, up to its threshold: noisy counts along the difference of the two data sets' own."""
    moved = cells_of(with_it) - cells_of(without)
    sizes = moved.sum(axis=1)

    def scores(report: Report) -> np.ndarray:
        values = []
        for _ in range(RUNS):
            cells, classes = release(report)
            values.append(float((cells * moved).sum() + (classes * sizes).sum()))
        return np.array(values)

    return least_epsilon((scores(without), scores(with_it)))


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "procedure"), [(0.5, "fixed"), (1.0, "fixed"), (1.0, "population")])
def test_an_attack_on_a_release_does_not_exceed_epsilon(epsilon: float, procedure: str) -> None:
    budget = PrivacyBudget(epsilon=epsilon)
    with_it, without = counted(slice(None), procedure=procedure), counted(slice(1, None), procedure=procedure)
    shares = noise_shares(budget, 1, *cells_of(with_it).shape)

    def release(report: Report) -> tuple[np.ndarray, np.ndarray]:
        cells, sizes = noisy_counts(report, shares)
        return cells / shares.cells.of_examples, sizes.sum(axis=0) / shares.sizes.of_examples

    assert np.abs(cells_of(with_it) - cells_of(without)).sum() == 1
    assert attacked(release, without, with_it) < epsilon
    # Where the noise of all others is drawn anew, as by their places in the data, the same attack succeeds.
    assert attacked(release, counted(slice(1, None), seed=1, procedure=procedure), with_it) > epsilon


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_an_attack_on_a_private_sum_does_not_exceed_epsilon(epsilon: float) -> None:
    """Noise made together by three sites, of which the attacker knows the others' counts."""
    others = [counted(slice(None), client=name) for name in ("b", "c")]
    with_it, without = counted(slice(None)), counted(slice(1, None))
    layout = VectorLayout(
        private_request(
            ["a", "b", "c"], radii=with_it.radii, classes=with_it.classes, model="m", smoothing=with_it.smoothing,
            private=PrivateSum(threshold=3, budget=PrivacyBudget(epsilon=epsilon)),
        )
    )  # fmt: skip

    def release(report: Report) -> tuple[np.ndarray, np.ndarray]:
        total = np.sum([layout.pack(each) for each in (report, *others)], axis=0, dtype=np.uint64)
        private = layout.sums(total, 3).private
        assert private is not None
        return np.array(private.cells) / private.variance, np.sum(private.sizes, axis=0) / private.sizes_variance

    assert attacked(release, without, with_it) < epsilon
