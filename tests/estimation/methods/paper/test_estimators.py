"""The paper's lemmas, theorem and algorithms, by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fedcert import Report, estimate
from fedcert.estimation.methods.paper.estimators import worst_spread


def theorem_1_bound(mismatch: float, class_accuracies: np.ndarray) -> float:
    """Theorem 1: δ·Q with Q² = Σ (L - mean L)² over the classes' certified accuracies L at one radius.

    Guarantee: for weights that add up to 1, the expectation of the estimate differs from that of the
    target's certified accuracy by no more than this. (Without that condition the theorem is false.)
    """
    spread = class_accuracies - class_accuracies.mean()
    return float(mismatch * np.linalg.norm(spread))


RANDOM = np.random.default_rng(0)


def test_lemma_1_the_pools_accuracy_is_the_volume_weighted_mean(make_report: Callable[..., Report]) -> None:
    reports = [make_report("a", [3, 1], [4, 1]), make_report("b", [10, 2], [6, 6]), make_report("c", [0, 4], [1, 0])]
    pool = np.sum([report.certified_counts for report in reports], axis=0) / 20
    result = estimate(reports, "uniform", "vw")
    assert result.certified_accuracy == pytest.approx(tuple(pool), abs=1e-15)
    assert result.weights == pytest.approx({"a": 4 / 20, "b": 12 / 20, "c": 4 / 20})


@pytest.mark.parametrize("method", ["ap", "ga"])
def test_lemma_2_an_exact_mixture_is_recovered_exactly(make_report: Callable[..., Report], method: str) -> None:
    """Clients whose counts are their expectations: the target's expectation follows without error."""
    accuracy = {0.0: [0.9, 0.5, 0.2], 0.25: [0.4, 0.3, 0.0]}
    labels = [[80, 10, 10], [10, 60, 30], [20, 0, 80], [40, 40, 20]]
    reports = []
    for index, row in enumerate(labels):
        counts = [round(float(np.dot(row, accuracies))) for accuracies in accuracy.values()]
        assert counts == pytest.approx([np.dot(row, accuracies) for accuracies in accuracy.values()])
        reports.append(make_report(f"site {index}", row, counts))
    mixture = np.array([0.1, 0.4, 0.3, 0.2]) @ np.array(labels) / 100
    result = estimate(reports, mixture, method)
    truth = [float(mixture @ accuracies) for accuracies in accuracy.values()]
    assert result.certified_accuracy == pytest.approx(truth, abs=1e-12)
    assert result.mismatch is not None
    assert result.mismatch.l2 < 1e-12


def test_ga_worked_on_paper_with_a_last_virtual_client_below_tau(make_report: Callable[..., Report]) -> None:
    """τ = 50, sizes 60 | 20, 40 | 45: sorted small ones 20 + 40 = 60 >= 50 close a group, 45 is left alone.

    Groups: V1 = {a, b}: labels (40, 20), mix (2/3, 1/3), certified 30/60 = 1/2.
            V2 = {c}: labels (9, 36), mix (1/5, 4/5), certified 9/45 = 1/5, below τ.
            large d: labels (60, 0), mix (1, 0), certified 54/60 = 9/10.
    Target (1/2, 1/2). One dimension: first shares 2/3, 1/5, 1. Exact mixtures of least Σα²/n, with
    n = 60, 45, 60: minimise x²/60 + y²/45 + z²/60, x + y + z = 1, 2x/3 + y/5 + z = 1/2. With
    multipliers, α_i = n_i (u + v s_i): Σ n = 165, Σ ns = 40 + 9 + 60 = 109, Σ ns² = 80/3 + 9/5 + 60 = 1327/15,
    so 165 u + 109 v = 1 and 109 u + (1327/15) v = 1/2.
    """
    reports = [
        make_report("a", [15, 5], [12]),
        make_report("b", [25, 15], [18]),
        make_report("c", [9, 36], [9]),
        make_report("d", [60, 0], [54]),
    ]
    result = estimate(reports, "uniform", "ga", threshold=50)
    u, v = np.linalg.solve([[165, 109], [109, 1327 / 15]], [1, 0.5])
    first, second, large = 60 * (u + v * 2 / 3), 45 * (u + v / 5), 60 * (u + v)
    assert [list(group["clients"]) for group in result.details["groups"]] == [["a", "b"], ["c"], ["d"]]
    assert [group["examples"] for group in result.details["groups"]] == [60, 45, 60]
    assert [group["weight"] for group in result.details["groups"]] == pytest.approx([first, second, large])
    assert result.weights == pytest.approx({"a": first / 3, "b": first * 2 / 3, "c": second, "d": large})
    assert result.certified_accuracy == pytest.approx((first / 2 + second / 5 + large * 0.9,))
    assert list(result.details["subset"]) == ["a", "b", "c", "d"]
    assert result.mismatch is not None
    assert result.mismatch.l2 < 1e-12


def test_theorem_1_is_never_violated() -> None:
    """Weights that add up to 1, of any sign: |Σ (p - p')·L| <= δQ, and the sharp bound is below the worst case."""
    for _ in range(5000):
        classes, clients = RANDOM.integers(1, 12, size=2)
        mixes = RANDOM.dirichlet(np.full(classes, 0.3), size=clients)
        target = RANDOM.dirichlet(np.ones(classes))
        weights = RANDOM.normal(size=clients)
        weights += (1 - weights.sum()) / clients
        accuracies = (
            RANDOM.integers(0, 2, size=classes).astype(float) if RANDOM.random() < 0.5 else RANDOM.random(classes)
        )
        difference = target - weights @ mixes
        distance = float(np.linalg.norm(difference))
        error = abs(float(difference @ accuracies))
        bound = theorem_1_bound(distance, accuracies)
        assert error <= bound + 1e-12
        assert bound <= distance * worst_spread(int(classes)) + 1e-12
        assert error <= np.abs(difference).sum() / 2 + 1e-12
        assert np.abs(difference).sum() / 2 <= distance * worst_spread(int(classes)) + 1e-12


def test_theorem_1_is_false_for_weights_that_do_not_add_up_to_1() -> None:
    mixes, target, weights = np.array([[0.5, 0.5]]), np.array([0.5, 0.5]), np.array([0.5])
    constant = np.ones(2)
    error = abs(float((target - weights @ mixes) @ constant))
    assert error > theorem_1_bound(float(np.linalg.norm(target - weights @ mixes)), constant)


def test_the_worst_spread_is_the_largest_over_all_corners() -> None:
    for classes in range(1, 9):
        corners = (np.arange(2**classes)[:, None] >> np.arange(classes)) & 1
        spreads = np.linalg.norm(corners - corners.mean(axis=1, keepdims=True), axis=1)
        assert worst_spread(classes) == pytest.approx(spreads.max())


def test_ap_takes_clients_by_themselves(make_report: Callable[..., Report]) -> None:
    reports = [make_report(f"site {index}", [index + 1, 9 - index], [5]) for index in range(9)]
    result = estimate(reports, "uniform", "ap", subset_size=3, subsets=50)
    assert all(len(group["clients"]) == 1 for group in result.details["groups"])
    assert len(result.details["subset"]) == 3
    assert result.details["subsets_drawn"] == 50
    assert set(result.weights or {}) == {f"site {index}" for index in range(9)}
