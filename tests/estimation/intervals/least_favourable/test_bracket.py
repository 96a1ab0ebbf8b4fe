"""The factor beside Chernoff's bound: its closed form, its convexity, and lines that are above it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special, stats

from fedcert.estimation.intervals.least_favourable.bracket import BERRY_ESSEEN, KNOTS, lines_above, tail_factor

GRID = np.geomspace(1e-3, 1e9, 801)


def log_factor(w: np.ndarray, largest: float, cubes: float) -> np.ndarray:
    """log(H + 2·C·B), B by the better of its two bounds at each w."""
    lyapunov = np.minimum(largest / np.sqrt(w), cubes / w**1.5)
    return np.asarray(np.log(tail_factor(np.sqrt(w)) + 2 * BERRY_ESSEEN * lyapunov))


@pytest.mark.parametrize("x", [1e-4, 0.01, 0.1, 0.5, 1.0, 2.0, 3.0, 7.0, 30.0, 300.0, 1e4])
def test_the_tail_factor_is_a_maximum(x: float) -> None:
    """Over z, of exp(xz + x²/2)·(1 - Φ(z + x)), found by numerical search."""

    def log_value(y: float) -> float:  # y = z + x
        return float(x * (y - x) + x**2 / 2 + special.log_ndtr(-y))

    grid = np.linspace(-12, max(12.0, x + 2), 4_001)
    start = grid[int(np.argmax([log_value(float(y)) for y in grid]))]
    best = optimize.minimize_scalar(
        lambda y: -log_value(y), bounds=(start - 1, start + 1), method="bounded", options={"xatol": 1e-12}
    )
    assert float(tail_factor(np.array([x]))[0]) == pytest.approx(np.exp(-best.fun), rel=1e-9)


def test_the_tail_factor_is_an_integral_at_its_largest() -> None:
    """∫ λ e^(-λs) P(t <= N(0, v) <= t + s) ds over s >= 0, the largest over t, with λ = x and v = 1."""
    for x in (0.3, 1.0, 4.0):
        y = np.linspace(0, 40 / x, 8_001)
        values = [
            np.trapezoid(x * np.exp(-x * y) * (stats.norm.cdf(t + y) - stats.norm.cdf(t)), y)
            for t in np.linspace(-6, 3, 91)
        ]
        assert max(values) == pytest.approx(float(tail_factor(np.array([x]))[0]), rel=2e-3)
        assert max(values) <= float(tail_factor(np.array([x]))[0]) * (1 + 1e-6)


def test_the_tail_factor_is_below_its_simple_bound() -> None:
    x = np.sqrt(GRID)
    assert np.all(tail_factor(x) <= np.minimum(1.0, stats.norm.pdf(0) / x) * (1 + 1e-12))


@pytest.mark.parametrize("bound", ["largest", "cubes"])
@pytest.mark.parametrize("size", [0.0, 1e-3, 0.05, 0.7, 20.0])
def test_the_logarithm_falls_and_is_convex_with_either_bound(bound: str, size: float) -> None:
    lyapunov = size / np.sqrt(GRID) if bound == "largest" else size / GRID**1.5
    logs = np.log(tail_factor(np.sqrt(GRID)) + 2 * BERRY_ESSEEN * lyapunov)
    assert np.all(np.diff(logs) < 0)
    for apart in (1, 5, 50, 300):  # each value between two others is below their chord
        low, middle, high = GRID[: -2 * apart], GRID[apart:-apart], GRID[2 * apart :]
        share = (high - middle) / (high - low)
        chord = share * logs[: -2 * apart] + (1 - share) * logs[2 * apart :]
        assert np.all(logs[apart:-apart] <= chord + 1e-13 * np.maximum(1.0, np.abs(chord)))


def test_lines_are_above_the_factor_wherever_it_can_be() -> None:
    generator = np.random.default_rng(0)
    helpful = 0
    for _ in range(150):
        most = float(np.exp(generator.uniform(np.log(0.5), np.log(1e8))))
        largest = float(np.exp(generator.uniform(np.log(1e-4), np.log(0.7))))
        # Σ n z² = 4·most, and no z is above the largest: κ is at most z·most/2, and by Jensen not below that of 1 cell.
        cubes = largest * most / 2 * float(generator.uniform(0.05, 1))
        lines = lines_above(largest, cubes, most)
        if lines is None:
            continue
        helpful += 1
        w = np.concatenate([np.geomspace(1e-6, most, 800), KNOTS[most > KNOTS], [most]])
        above = (lines.heights[:, None] - lines.slopes[:, None] * w).max(axis=0)
        exact = np.minimum(log_factor(w, largest, cubes), 0.0)
        assert np.all(above >= exact - 1e-12), (largest, cubes, most)
        assert np.all(lines.slopes >= 0)
    assert helpful > 50


def test_lines_are_close_to_the_factor_where_tests_are() -> None:
    """About w = 9 to 16, where 95% tests have theirs: knots cost 0.05 of a logarithm of 2 at most."""
    w = np.linspace(9, 16, 200)
    lines = lines_above(0.01, 0.01 * 1e4 / 8, 1e4)
    assert lines is not None
    above = (lines.heights[:, None] - lines.slopes[:, None] * w).max(axis=0)
    assert np.all(above - np.log(tail_factor(np.sqrt(w)) + 2 * BERRY_ESSEEN * 0.01 / np.sqrt(w)) < 0.05)


def test_too_few_examples_have_no_lines() -> None:
    assert lines_above(0.5, 0.1, 0.5) is None
    assert lines_above(3.0, 100.0, 3.0) is None  # the factor is above 1 wherever it can be
