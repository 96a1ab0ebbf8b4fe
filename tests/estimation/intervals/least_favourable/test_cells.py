"""Cells: what is spread over fewer weights keeps its mean, and its cumulant function only grows."""

from __future__ import annotations

import numpy as np
import pytest

from fedcert.estimation.intervals.least_favourable import cells as module
from fedcert.estimation.intervals.least_favourable.cells import MOST_ROWS, Cells, ClientRows, client_rows
from fedcert.estimation.intervals.least_favourable.ends import rejected_by_tilting


def many_clients(seed: int, clients: int = 600, classes: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights of an example, label counts and a target."""
    generator = np.random.default_rng(seed)
    labels = generator.multinomial(
        1 + (generator.pareto(2, clients) * 40).astype(int), generator.dirichlet(np.full(classes, 0.5), clients)
    ).astype(float)
    shares = labels / labels.sum(axis=1, keepdims=True)
    target = generator.dirichlet(np.ones(classes))
    weights = np.maximum(shares @ generator.uniform(-0.2, 1.0, classes), -0.1) + 0.05
    return weights / (weights * labels.sum(axis=1)).sum(), labels, target


def exactly(weights: np.ndarray, labels: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> ClientRows:
    with monkeypatch.context() as patch:
        patch.setattr(module, "MOST_ROWS", 10**9)
        return client_rows(weights, labels)


def cumulants(rows: ClientRows, tilt: float, accuracy: np.ndarray) -> float:
    z = tilt * rows.weights[:, None]
    return float(np.sum(rows.examples * np.log1p(accuracy * np.expm1(z))))


@pytest.mark.parametrize("seed", range(4))
def test_binned_clients_keep_their_means_and_are_above_the_exact_ones(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, labels, target = many_clients(seed)
    binned, exact = client_rows(weights, labels), exactly(weights, labels, monkeypatch)
    assert len(exact.weights) == len(weights) > MOST_ROWS > len(binned.weights)
    one, other = Cells(target, binned), Cells(target, exact)
    assert one.total_weight == pytest.approx(other.total_weight, rel=1e-12)
    assert one.means == pytest.approx(other.means, rel=1e-10)
    assert one.examples == pytest.approx(other.examples, rel=1e-12)
    assert one.sum_squares >= other.sum_squares * (1 - 1e-12)
    assert binned.squares.sum() == pytest.approx(exact.squares.sum(), rel=1e-12)
    assert binned.cubes.sum() == pytest.approx(exact.cubes.sum(), rel=1e-12)
    generator = np.random.default_rng(seed)
    for tilt in np.sqrt(8 * 3.7 / other.sum_squares) * np.array([0.5, 1, 3, 10]):
        for _ in range(10):
            accuracy = generator.uniform(0, 1, len(target)) ** float(generator.uniform(0.2, 5))
            assert cumulants(binned, float(tilt), accuracy) >= cumulants(exact, float(tilt), accuracy) - 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_intervals_of_binned_clients_are_at_most_half_a_percent_longer(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, labels, target = many_clients(seed)
    binned, exact = Cells(target, client_rows(weights, labels)), Cells(target, exactly(weights, labels, monkeypatch))
    values = np.linspace(0.02, 0.98, 25)
    by_bins, one_by_one = (rejected_by_tilting(cells, values, float(np.log(40))) for cells in (binned, exact))
    # Lines of the bracket are drawn anew, which may shorten a little by chance.
    assert np.all(by_bins <= one_by_one + 0.002 * (values - one_by_one))
    assert np.all(values - by_bins <= 1.005 * (values - one_by_one) + 1e-9)


def test_clients_of_one_weight_are_one_row() -> None:
    labels = np.random.default_rng(0).integers(0, 50, (1_000, 3)).astype(float)
    rows = client_rows(np.full(1_000, 1 / labels.sum()), labels)
    assert rows.weights.shape == (1,)
    assert rows.examples[0] == pytest.approx(labels.sum(axis=0))
    each = pytest.approx(1 / labels.sum())
    assert Cells(labels.sum(axis=0) / labels.sum(), rows).positive_weights == (each, each, labels.sum())


def test_groups_are_fewer_and_heavier_and_not_smooth() -> None:
    labels = np.array([[30.0, 10.0], [20.0, 20.0]])
    plain = Cells(np.full(2, 0.5), client_rows(np.array([0.01, 0.015]), labels))
    grouped = Cells(np.full(2, 0.5), client_rows(np.array([0.01, 0.015]), labels, np.array([5.0, 1.0])))
    assert grouped.clients is not None
    assert grouped.clients.weights == pytest.approx([0.05, 0.015])
    assert grouped.clients.examples[0] == pytest.approx([6.0, 2.0])
    assert grouped.means == pytest.approx(plain.means)
    assert len(grouped.clients.low) == 1
    assert plain.positive_weights == (0.01, 0.015, 80)
    assert grouped.positive_weights is None


def test_a_group_of_alike_examples_has_no_larger_cumulant_function_than_its_cells() -> None:
    """Groups of up to m examples of any classes, certified all together or not at all, as its cells' worst case."""
    generator = np.random.default_rng(0)
    for _ in range(300):
        most = int(generator.integers(1, 30))
        group = generator.integers(0, 3, int(generator.integers(1, most + 1)))  # the classes of its examples
        accuracy, weights = generator.uniform(0, 1, 3), generator.normal(0, 0.1, 3)
        tilt = float(np.exp(generator.uniform(-2, 4)))
        # One common uniform decides all of them: the largest dependence there is.
        cuts = np.sort(np.append(accuracy, [0.0, 1.0]))
        sums = [float(weights[group][accuracy[group] > cut].sum()) for cut in cuts[:-1]]
        actual = float(np.log(np.sum(np.diff(cuts) * np.exp(tilt * np.array(sums)))))
        bound = float(np.sum(np.log1p(accuracy[group] * np.expm1(tilt * most * weights[group])) / most))
        assert actual <= bound + 1e-9


def test_a_target_set_takes_its_accuracy_off() -> None:
    cells = Cells(np.array([0.25, 0.75]), client_rows(np.array([0.01]), np.array([[25.0, 75.0]]))).with_target_set(20)
    assert cells.means == pytest.approx([0.0, 0.0])
    assert cells.total_weight == pytest.approx(0.0)
    assert cells.sum_squares == pytest.approx(1 / 100 + 1 / 20)
