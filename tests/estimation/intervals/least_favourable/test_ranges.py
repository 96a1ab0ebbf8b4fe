"""Ranges of single classes: the worst case within them, and coverage by exact sums over all outcomes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from fedcert.estimation.intervals.finite_sample import finite_sample
from fedcert.estimation.intervals.least_favourable import segments
from fedcert.estimation.intervals.least_favourable.cells import Cells, ClassRows
from fedcert.estimation.intervals.least_favourable.ranges import Ranges, class_ranges, rejected_within
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.settings import Settings
from replications import check_ends, ends_of, of_counts, replicated
from tail_bounds import exact, tilted_bound

LEVEL = float(np.log(40))


def test_ranges_are_clopper_and_pearsons() -> None:
    certified, examples = np.array([[0.0, 3.0], [7.0, 20.0], [0.0, 0.0]]), np.array([12.0, 20.0, 0.0])
    low, high = class_ranges(certified, examples, 0.001)
    assert low[:, 2:] == pytest.approx(1 - high[:, :2])
    for row, column in product(range(2), range(2)):
        wanted = stats.binomtest(int(certified[row, column]), int(examples[row])).proportion_ci(0.998, "exact")
        assert (low[row, column], high[row, column]) == pytest.approx((wanted.low, wanted.high), rel=1e-6)
    assert (low[2, 0], high[2, 0]) == (0, 1)


def random_rows(generator: np.random.Generator) -> Cells:
    """Classes' totals weighed by a target; some classes may have no examples, or be in no target."""
    classes = int(generator.integers(2, 7))
    target = generator.dirichlet(np.full(classes, 0.7))
    examples = np.floor(np.exp(generator.uniform(1, 8, classes)))
    if classes > 2 and generator.random() < 0.4:
        examples[0] = 0
    if classes > 2 and generator.random() < 0.3:
        target[1] = 0.0
    weights = np.divide(target, examples, out=np.zeros(classes), where=examples > 0)
    return Cells(target, None, ClassRows(weights[None], examples[None], np.array([True])))


def random_ranges(cells: Cells, values: int, generator: np.random.Generator) -> Ranges:
    """Long ones and short ones, next to 0 and 1 too."""
    size = (values, len(cells.target))
    ends = generator.beta(0.3, 0.3, (2, *size))
    low, high = ends.min(axis=0), ends.max(axis=0)
    for end, part in ((0.0, low), (1.0, high)):
        part[generator.random(size) < 0.3] = end
    return Ranges(low, high, low @ cells.target)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("with_bracket", [True, False])
def test_no_accuracies_within_the_ranges_explain_what_is_rejected(seed: int, with_bracket: bool) -> None:
    """Random accuracies with p·L up to what is rejected: the bound by the formula is within what T leaves."""
    generator = np.random.default_rng([seed, with_bracket])
    used = 0
    for _ in range(30):
        cells = random_rows(generator)
        tilt = float(np.sqrt(8 * LEVEL / cells.sum_squares) * np.exp(generator.uniform(-0.5, 2)))
        bound = tilted_bound(cells, tilt, with_bracket)
        values = generator.uniform(0, 1.2, 25)
        ranges = random_ranges(cells, 25, generator)
        within = rejected_within(bound, values, LEVEL, ranges)
        everywhere = bound.rejected(values, LEVEL)
        assert np.all(within >= np.minimum(everywhere, ranges.high @ cells.target) - 1e-9)
        for place, (value, largest) in enumerate(zip(values, within, strict=True)):
            for _ in range(6):
                span = ranges.high[place] - ranges.low[place]
                accuracy = ranges.low[place] + span * generator.beta(0.4, 0.4, len(span))
                theta = float(cells.target @ accuracy)
                if ranges.least[place] < theta > largest:  # as near below it as that goes
                    share = max(largest - ranges.least[place], 0) / (theta - ranges.least[place])
                    accuracy = ranges.low[place] + share * (accuracy - ranges.low[place])
                    theta = float(cells.target @ accuracy)
                if not ranges.least[place] + 1e-9 < theta <= largest:
                    continue
                used += 1
                room = tilt * value - LEVEL
                assert exact(cells, tilt, accuracy) <= room + 1e-9 * max(1.0, abs(room)), (value, theta)
    assert used > 300


def test_ranges_that_exclude_nothing_change_nothing() -> None:
    generator = np.random.default_rng(1)
    for _ in range(30):
        cells = random_rows(generator)
        tilt = float(np.sqrt(8 * LEVEL / cells.sum_squares) * np.exp(generator.uniform(-0.5, 1.5)))
        bound, values = tilted_bound(cells, tilt), generator.uniform(-0.1, 1.3, 30)
        size = (30, len(cells.target))
        within = rejected_within(bound, values, LEVEL, Ranges(np.zeros(size), np.ones(size), np.zeros(30)))
        assert within == pytest.approx(np.maximum(bound.rejected(values, LEVEL), 0.0), abs=1e-9)


def outcomes(sizes: tuple[int, ...]) -> np.ndarray:
    """All certified counts of the classes, classes x outcomes."""
    return np.array(list(product(*(range(size + 1) for size in sizes)))).T


def ends_of_outcomes(
    sizes: tuple[int, ...], target: np.ndarray, confidence: float
) -> tuple[np.ndarray, np.ndarray, bool]:
    """The ends of the intervals of all outcomes of one client, and whether ranges were used."""
    counts = outcomes(sizes)
    made = of_counts(np.array([sizes]), counts.sum(axis=0)[None], np.array([True]), counts[None].astype(np.int32))
    answer = estimator("poststratified")(made, target, Settings(confidence=confidence))
    assert answer.uncertainty is not None
    assert answer.uncertainty.segments is not None
    statistic = answer.uncertainty.segments(float(np.log(2 / (1 - confidence))))[-1].statistics[-1][0]
    lower, upper = finite_sample(answer.uncertainty, target, confidence, False, None)
    return lower, upper, statistic.certified is not None


@pytest.mark.parametrize("confidence", [0.95, 0.8])
@pytest.mark.parametrize(
    ("sizes", "target"), [((40, 90), (0.5, 0.5)), ((25, 60), (0.8, 0.2)), ((9, 11, 30), (0.3, 0.3, 0.4))]
)
def test_all_entries_of_few_classes(
    sizes: tuple[int, ...], target: tuple[float, ...], confidence: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exact probability of missing the truth, for accuracies on a grid and in the corners; with ranges throughout."""
    for decides in ("worth_ranges", "_still_shorter"):
        monkeypatch.setattr(segments, decides, lambda *_: True)
    shares = np.array(target)
    lower, upper, ranged = ends_of_outcomes(sizes, shares, confidence)
    assert ranged
    grid = np.concatenate([[0.0, 0.001, 0.01, 0.03], np.linspace(0.1, 0.9, 9), [0.97, 0.99, 1.0]])
    worst = 0.0
    for accuracy in product(grid, repeat=len(sizes)):
        chances = np.ones(1)
        for size, one in zip(sizes, accuracy, strict=True):
            chances = np.multiply.outer(chances, stats.binom.pmf(np.arange(size + 1), size, one))
        theta = float(shares @ accuracy)
        missed = (lower > theta + 1e-12) | (upper < theta - 1e-12)
        worst = max(worst, float(chances.ravel()[missed].sum()))
    assert worst <= 1 - confidence + 1e-12
    assert worst > 0.1 * (1 - confidence)


def federation_of(each: int, classes: int) -> np.ndarray:
    return np.full((4, classes), each // 4)


def test_what_ranges_are_worth() -> None:
    """Classes at 0.02 and 0.98: the worst case without ranges has them at ½. Alike classes lose next to nothing."""
    labels, target = federation_of(400, 10), np.full(10, 0.1)
    apart, alike = np.where(np.arange(10) < 5, 0.02, 0.98), np.full(10, 0.5)
    made = replicated(labels, np.column_stack([apart, alike]), np.random.default_rng(0), 200, np.ones(4, dtype=bool))
    with_ranges = np.subtract(*ends_of(made, target, "poststratified", Settings())[::-1]).reshape(2, 200).mean(axis=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "worth_ranges", lambda *_: False)
        without = np.subtract(*ends_of(made, target, "poststratified", Settings())[::-1]).reshape(2, 200).mean(axis=1)
    assert with_ranges[0] < 0.5 * without[0]
    assert with_ranges[1] < 1.02 * without[1]


def test_where_there_are_no_ranges() -> None:
    """One class, many classes, few examples; and where the interval could be longer than Hoeffding's."""

    def ranged(labels: np.ndarray, target: np.ndarray, level: float = LEVEL) -> bool:
        made = replicated(labels, np.full(len(target), 0.5), np.random.default_rng(0), 1, np.ones(len(labels), bool))
        answer = estimator("poststratified")(made, target, Settings())
        assert answer.uncertainty is not None
        assert answer.uncertainty.segments is not None
        return answer.uncertainty.segments(level)[-1].statistics[-1][0].certified is not None

    assert ranged(federation_of(400, 3), np.full(3, 1 / 3))
    assert not ranged(federation_of(400, 3), np.array([0.0, 1.0, 0.0]))
    assert not ranged(federation_of(40, 3), np.full(3, 1 / 3))
    assert not ranged(federation_of(1_000, 201), np.full(201, 1 / 201))
    uneven, share = np.array([[3, 1_287]]), np.array([0.078, 0.922])
    assert ranged(uneven, share)
    assert not ranged(uneven, share, float(np.log(2 / 0.8)))


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(300, 300), (1_500, 200, 160, 250), (500,) * 10])
def test_accuracies_at_the_ends_of_each_others_ranges(sizes: tuple[int, ...]) -> None:
    """Where ranges fail most and where they are tight: next to 0 and 1, and classes far apart."""
    generator = np.random.default_rng(len(sizes))
    labels, count = np.array([sizes]), len(sizes)
    rare = np.array([0.2, 1.0, 3.0, 8.0])[:, None] / np.array(sizes)  # so many certified examples are expected
    mixed = np.where(generator.random((8, count)) < 0.5, generator.uniform(0, 0.02, (8, count)), 0.5)
    worlds = np.vstack([rare, 1 - rare, mixed, 1 - mixed]).T
    for target in (np.full(count, 1 / count), generator.dirichlet(np.full(count, 0.7))):
        made = replicated(labels, worlds, generator, 4_000, np.ones(1, dtype=bool))
        lower, upper = ends_of(made, target, "poststratified", Settings())
        for world, low, high in zip(worlds.T, lower.reshape(-1, 4_000), upper.reshape(-1, 4_000), strict=True):
            check_ends(low, high, float(target @ world), 0.95, world)
