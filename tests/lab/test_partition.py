"""Partitions: everything once, the right shares, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedcert.lab.partition import dirichlet_partition, draw_mix


@given(st.integers(1, 30), st.floats(0.01, 10), st.integers(0, 2**32), st.integers(0, 200))
def test_every_example_goes_to_one_client(clients: int, concentration: float, seed: int, size: int) -> None:
    labels = np.random.default_rng(seed).integers(0, 5, size=size)
    if size == 0:
        return
    parts = dirichlet_partition(labels, clients, concentration, np.random.default_rng(seed))
    assert len(parts) == clients
    assert sorted(np.concatenate(parts)) == list(range(size))


def test_the_shares_follow_the_dirichlet_distribution() -> None:
    """A client's share of a class is Beta(β, β(N - 1))."""
    labels = np.repeat(np.arange(200), 1000)
    parts = dirichlet_partition(labels, 10, 0.5, np.random.default_rng(0))
    shares = np.bincount(labels[parts[3]], minlength=200) / 1000
    # Shares are rounded to 1/1000: a little noise of that size keeps the comparison with a continuous law fair.
    smooth = np.clip(shares + np.random.default_rng(1).uniform(-5e-4, 5e-4, 200), 0, 1)
    assert stats.kstest(smooth, stats.beta(0.5, 4.5).cdf).pvalue > 0.001


def test_a_seed_gives_the_same_partition() -> None:
    labels = np.arange(100) % 7
    first, second = (dirichlet_partition(labels, 5, 0.3, np.random.default_rng(4)) for _ in range(2))
    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))


def test_a_mix_is_drawn_without_repetition() -> None:
    labels = np.repeat(np.arange(4), 50)
    drawn = draw_mix(labels, np.array([0.1, 0.2, 0.3, 0.4]), 101, np.random.default_rng(0))
    assert len(set(drawn)) == 101
    assert np.bincount(labels[drawn]).tolist() == [10, 20, 30, 41]
    with pytest.raises(ValueError, match="class 3 must have at least 60 examples, but has 50"):
        draw_mix(labels, np.array([0, 0, 0, 1]), 60, np.random.default_rng(0))
