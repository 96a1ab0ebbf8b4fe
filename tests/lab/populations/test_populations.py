"""Partitions and target mixes: every example once, shares of the right law, reproducible."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fedcert import CallError
from fedcert.lab.populations.mixes import counts_of_mix, draw_mix, largest_set, mix_at_distance
from fedcert.lab.populations.partition import Dirichlet, Iid, Limited, Pareto, local_split, partition_of

LABELS = np.random.default_rng(0).integers(0, 10, size=5000)
KINDS = ["iid", "dirichlet:0.1", "dirichlet:3", "pareto:2", "pareto:6", "limited:2:1.5", "limited:20:3"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clients", [1, 7, 100])
def test_every_example_goes_to_exactly_one_client(kind: str, clients: int) -> None:
    parts = partition_of(kind).divide(LABELS, clients, np.random.default_rng(1))
    assert len(parts) == clients
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(LABELS)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_the_same_partition_another_seed_another(kind: str) -> None:
    first, again, other = (partition_of(kind).divide(LABELS, 20, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(one, two) for one, two in zip(first, again, strict=True))
    assert not all(np.array_equal(one, two) for one, two in zip(first, other, strict=True))


@pytest.mark.parametrize("concentration", [0.1, 1.0, 3.0])
def test_dirichlet_shares_have_the_beta_law(concentration: float) -> None:
    """A component of a symmetric Dirichlet draw of N is Beta(β, (N - 1)β)."""
    shares = Dirichlet(concentration).shares(400, 25, np.random.default_rng(3))[:, 0]
    assert stats.kstest(shares, stats.beta(concentration, 24 * concentration).cdf).pvalue > 0.001


@pytest.mark.parametrize("shape", [2.0, 3.0, 6.0])
def test_pareto_shares_have_the_power_law(shape: float) -> None:
    """Dividing by the sum hides a draw; the ratio of two does not: its logarithm is Laplace's with rate β."""
    shares = Pareto(shape).shares(600, 30, np.random.default_rng(4))
    assert stats.kstest(np.log(shares[:, 0] / shares[:, 1]), stats.laplace(scale=1 / shape).cdf).pvalue > 0.001
    assert np.allclose(shares.sum(axis=1), 1)


@pytest.mark.parametrize("kind", ["dirichlet:0.5", "pareto:2", "limited:3:2"])
def test_examples_follow_the_shares_but_for_rounding(kind: str) -> None:
    partition = partition_of(kind)
    parts = partition.divide(LABELS, 12, np.random.default_rng(5))
    shares = partition.shares(10, 12, np.random.default_rng(5))
    sizes = np.bincount(LABELS)
    counts = np.stack([np.bincount(LABELS[part], minlength=10) for part in parts], axis=1)
    assert np.abs(counts - shares * sizes[:, None]).max() <= 1.0


def test_iid_clients_are_alike() -> None:
    parts = Iid().divide(LABELS, 10, np.random.default_rng(6))
    assert {len(part) for part in parts} == {500}
    table = np.stack([np.bincount(LABELS[part], minlength=10) for part in parts])
    assert stats.chi2_contingency(table).pvalue > 0.001


def test_limited_clients_hold_few_classes_and_heavy_volumes() -> None:
    parts = Limited(2, 1.2).divide(LABELS, 40, np.random.default_rng(7))
    held = [len(np.unique(LABELS[part])) for part in parts]
    assert max(held) <= 3  # two, and perhaps a class that nobody drew
    sizes = np.sort([len(part) for part in parts])
    assert sizes[-1] > 4 * sizes[20]


def test_a_class_that_nobody_drew_goes_to_one_client() -> None:
    parts = Limited(1, 2.0).divide(LABELS, 3, np.random.default_rng(8))
    assert sum(len(part) for part in parts) == len(LABELS)


@pytest.mark.parametrize("kind", KINDS)
def test_names_read_back(kind: str) -> None:
    assert str(partition_of(kind)) == kind


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("zipf:1", "partition must be iid, dirichlet:0.1, pareto:3 or limited:2:1.5, but is 'zipf:1'"),
        ("dirichlet", "partition must be of the form dirichlet:<concentration>, but is 'dirichlet'"),
        ("pareto:x", "the partition's shape must be a number, but is 'x' in 'pareto:x'"),
        ("limited:1.5:2", "the partition's classes per client must be a number, but is '1.5' in 'limited:1.5:2'"),
    ],
)
def test_other_names_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(CallError) as caught:
        partition_of(text)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("text", ["dirichlet:0", "dirichlet:nan", "pareto:-1", "pareto:inf", "limited:0:1"])
def test_figures_out_of_range_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the partition's .* must be"):
        partition_of(text)


@pytest.mark.parametrize("size", [0, 1, 4, 5, 1000])
def test_a_clients_examples_are_split_at_random(size: int) -> None:
    train, test = local_split(np.arange(size), 0.8, np.random.default_rng(9))
    assert sorted([*train, *test]) == list(range(size))
    assert len(train) == round(0.8 * size)
    if size > 100:
        assert not np.array_equal(np.sort(train), train)


def test_a_drawn_set_has_the_mix_and_no_example_twice() -> None:
    mix = np.array([0.3, 0.1, 0.05, 0.05, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05])
    drawn = draw_mix(LABELS, mix, 1000, np.random.default_rng(10))
    assert len(set(drawn.tolist())) == 1000
    assert np.bincount(LABELS[drawn]).tolist() == (1000 * mix).round().astype(int).tolist()
    with pytest.raises(CallError, match="class 0 must have at least 900 examples for a set of 3000, but has"):
        draw_mix(LABELS, mix, 3000, np.random.default_rng(10))


def test_the_largest_set_can_be_drawn_and_no_larger_one() -> None:
    generator = np.random.default_rng(11)
    for _ in range(20):
        mix = generator.dirichlet(np.ones(10))
        size = largest_set(LABELS, mix)
        assert len(draw_mix(LABELS, mix, size, generator)) == size
        assert np.any(counts_of_mix(mix, size + 1) > np.bincount(LABELS))


@pytest.mark.parametrize("distance", [0.2, 0.3, 0.4, 0.5, 0.6])
def test_a_mix_is_at_the_wanted_distance_and_holds_every_class(distance: float) -> None:
    start = np.full(10, 0.1)
    mix = mix_at_distance(start, distance, np.random.default_rng(12))
    assert np.linalg.norm(mix - start) == pytest.approx(distance, abs=1e-9)
    assert mix.min() > 0
    assert mix.sum() == pytest.approx(1)


def test_a_distance_out_of_reach_is_refused() -> None:
    with pytest.raises(CallError, match="no mix of 3 classes at an L2 distance of 1.4 was found"):
        mix_at_distance(np.full(3, 1 / 3), 1.4, np.random.default_rng(0))
