"""Intervals: closed forms, and coverage as a guarantee."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from factories import RADII, World, dirichlet, federation, limited, ordinary
from fedcert import EstimationProblem, Report, estimate
from fedcert.estimation.intervals.half_widths import allowed_ends, asymptotic, folded_quantile, hoeffding
from fedcert.estimation.intervals.ingredients import Uncertainty, of_weights
from fedcert.estimation.intervals.statement import make_interval
from fedcert.estimation.methods.linear_model import fit
from fedcert.estimation.methods.registry import METHODS, estimator
from fedcert.estimation.mix_evaluator import MixEvaluator
from fedcert.estimation.prepared import PreparedClients
from fedcert.estimation.settings import Settings
from replications import check_ends, ends_of, of_counts, replicated


def simple(bias: float = 0.0, squares: float = 0.01, accuracy: float = 0.5, radii: int = 3) -> Uncertainty:
    """One class, the same at every radius."""
    return Uncertainty(
        np.full(radii, accuracy),
        bias,
        np.full((1, radii), squares),
        np.full(radii, squares),
        np.full((1, radii), accuracy),
    )


def test_hoeffdings_half_width_is_chance_plus_the_bias() -> None:
    half = hoeffding(simple(0.1), np.ones(1), 0.95, False, None)
    assert half == pytest.approx(0.1 + np.sqrt(np.log(2 / 0.05) / 2 * 0.01))
    assert hoeffding(simple(0.1), np.ones(1), 0.95, True, None) == pytest.approx(
        0.1 + np.sqrt(np.log(6 / 0.05) / 2 * 0.01)
    )
    assert hoeffding(simple(), np.ones(1), 0.95, False, 50) == pytest.approx(np.sqrt(np.log(2 / 0.05) / 2 * 0.03))


def with_few_examples(variance: Any, lean: Any, squares: float, confidence: float = 0.95) -> Any:
    """Standard errors with what few examples add ("Many examples" in the proofs)."""
    z = stats.norm.ppf(0.5 + confidence / 2)
    return np.sqrt(variance * (1 + z**2 * squares) + z**2 * np.square(lean) / 2)


def test_the_asymptotic_half_width_without_and_with_bias() -> None:
    target = np.ones(1)
    se = with_few_examples(0.25 * 0.01, 0.0, 0.01)
    assert asymptotic(simple(), target, 0.95, False, None) == pytest.approx(1.959964 * se, rel=1e-5)
    half = asymptotic(simple(0.05), target, 0.95, False, None)[0]
    shift = 0.05 / se
    assert stats.norm.cdf(half / se - shift) - stats.norm.cdf(-half / se - shift) == pytest.approx(0.95, abs=1e-6)
    assert asymptotic(simple(5.0), target, 0.95, False, None) == pytest.approx(5.0 + 1.644854 * se, rel=1e-5)
    # One and the same example at every radius: simultaneous is as short as pointwise, up to the simulation.
    assert asymptotic(simple(), target, 0.95, True, None) == pytest.approx(1.959964 * se, rel=0.03)


def test_without_loads_the_class_of_largest_variance_stands_for_all() -> None:
    target, squares = np.full(2, 0.5), np.full(3, 0.01)
    accuracy = np.array([[0.9, 0.8, 0.5], [0.99, 0.95, 0.9]])
    unknown = Uncertainty(np.full(3, 0.5), 0.0, None, squares, None)
    assert asymptotic(unknown, target, 0.95, False, None) == pytest.approx(
        1.959964 * with_few_examples(0.0025, 0.0, 0.01), rel=1e-5
    )
    known = Uncertainty(np.full(3, 0.5), 0.0, None, squares, accuracy)
    variance, lean = 0.01 * np.array([0.09, 0.16, 0.25]), 0.01 * np.array([0.8, 0.6, 0.0])
    errors = with_few_examples(variance, lean, 0.01)
    assert asymptotic(known, target, 0.95, False, None) == pytest.approx(1.959964 * errors, rel=1e-5)
    errors = with_few_examples(variance, lean, 0.01, 1 - 0.05 / 3)
    assert asymptotic(known, target, 0.95, True, None) == pytest.approx(stats.norm.ppf(1 - 0.05 / 6) * errors, rel=1e-5)
    loaded = Uncertainty(np.full(3, 0.5), 0.0, np.full((2, 3), 0.005), squares, accuracy)
    assert np.all(asymptotic(loaded, target, 0.95, True, None) <= asymptotic(known, target, 0.95, True, None))


def test_the_folded_quantile_is_scipys() -> None:
    shift = np.array([0.0, 0.3, 1.0, 3.0, 8.0])
    for confidence in (0.5, 0.9, 0.95, 0.999):
        assert folded_quantile(shift, confidence) == pytest.approx(stats.foldnorm.ppf(confidence, shift), rel=1e-7)


def test_ends_allow_for_failing_certificates_and_stay_within_0_and_1() -> None:
    centre = np.array([0.5, 0.02, 0.99])
    lower, upper = allowed_ends(centre - 0.1, centre + 0.1, 0.001, False)
    assert lower == pytest.approx([0.399, 0.0, 0.889])
    assert upper == pytest.approx([0.6, 0.12, 1.0])
    centre = np.array([0.5, 0.6, 0.3])
    lower, upper = allowed_ends(centre - 0.1, centre + 0.1, 0.0, True)
    assert lower == pytest.approx([0.5, 0.5, 0.2])
    assert upper == pytest.approx([0.6, 0.6, 0.4])


def test_poststratified_by_hand(make_report: Callable[..., Report]) -> None:
    rows = {"class_certified_counts": [[8, 4], [3, 0]]}
    reports = [make_report("a", [10, 10], [11, 4], **rows), make_report("b", [10, 10], [11, 4], **rows)]
    result = estimate(reports, {"class 0": 3, "class 1": 1}, "poststratified", interval="hoeffding")
    assert result.certified_accuracy == pytest.approx((0.75 * 0.8 + 0.25 * 0.3, 0.75 * 0.4))
    half = np.sqrt(np.log(2 / 0.05) / 2 * (0.75**2 / 20 + 0.25**2 / 20))
    assert result.upper is not None
    assert result.upper == pytest.approx((0.675 + half, 0.3 + half))
    assert result.weights is None
    assert result.weights_note == "classes are weighted, not clients"


def test_a_class_that_nobody_holds_is_ignorance(make_report: Callable[..., Report]) -> None:
    reports = [make_report("a", [100, 0], [80], class_certified_counts=[[80], [0]])]
    result = estimate(reports, {"class 0": 0.6, "class 1": 0.4}, "poststratified", interval="hoeffding")
    half = np.sqrt(np.log(2 / 0.05) / 2 * 0.36 / 100)
    assert result.certified_accuracy == pytest.approx((0.6 * 0.8 + 0.2,))
    assert result.lower is not None
    assert result.upper is not None
    assert result.lower[0] == pytest.approx(0.48 - half - 0.001)
    assert result.upper[0] == pytest.approx(0.48 + 0.4 + half)


def test_poststratification_needs_counts_per_class(make_report: Callable[..., Report]) -> None:
    with pytest.raises(EstimationProblem, match="no report has counts per class, which post-stratification needs"):
        estimate([make_report("a", [5, 5], [8])], "uniform", "poststratified")


def test_auto_says_what_it_chose_and_why(make_report: Callable[..., Report]) -> None:
    rows = {"class_certified_counts": [[5], [3]]}
    closed = [make_report(f"c{index}", [5, 5 + index], [8]) for index in range(3)]
    opened = [make_report(f"o{index}", [5, 5], [8], **rows) for index in range(2)]
    for reports, chosen, why in (
        (closed, "blup", "no client shared counts per class"),
        (opened, "poststratified", "all clients shared counts per class"),
        (closed + opened, "poststratified", "2 of 5 clients shared counts per class"),
    ):
        details = estimate(reports).details
        assert (details["chosen"], details["because"]) == (chosen, why)
    assert "3 of 5 clients shared no counts per class" in estimate(closed + opened).details["partly_open"]


def test_a_design_effect_widens_the_interval(make_report: Callable[..., Report]) -> None:
    for interval in HONEST:
        plain = estimate([make_report("a", [50, 50], [50])], "uniform", "vw", interval=interval)
        grouped = estimate([make_report("a", [50, 50], [50], design_effect=[4.0])], "uniform", "vw", interval=interval)
        assert plain.upper is not None
        assert grouped.upper is not None
        if interval == "hoeffding":
            assert grouped.upper[0] - 0.5 == pytest.approx(2 * (plain.upper[0] - 0.5))
        assert grouped.upper[0] - 0.5 >= 2 * (plain.upper[0] - 0.5) - 1e-9


def adversarial(labels: np.ndarray, target: np.ndarray, method: str, settings: Settings) -> World:
    """Accuracies of 0 and 1 that make the most of what the weights miss."""
    answer = estimator(method)(
        federation(labels, np.zeros((*labels.shape, len(RADII)), int), method == "poststratified"), target, settings
    )
    if answer.weights is None:
        worst = np.ones(labels.shape[1])
    else:
        held = labels[labels.sum(axis=1) > 0]
        worst = (target - answer.weights @ (held / held.sum(axis=1, keepdims=True)) > 0).astype(float)
    return World(np.outer(worst, np.ones(len(RADII))))


SETTINGS: dict[str, tuple[int, int, Any]] = {
    "M=10 N=100 Dirichlet 0.1": (10, 100, dirichlet(0.1)),
    "M=10 N=100 class-limited": (10, 100, limited(0.2)),
    "M=100 N=100 Dirichlet 0.3": (100, 100, dirichlet(0.3)),
    "M=100 N=100 class-limited": (100, 100, limited(0.1)),
    "M=10 N=10 few clients": (10, 10, dirichlet(0.5)),
}
METHODS_TESTED = ("minimax", "ga", "vw", "poststratified")
HONEST = ("finite-sample", "hoeffding")
RUNS = 1000


def check_coverage(
    labels: np.ndarray, target: np.ndarray, world: World, methods: Sequence[str], generator: np.random.Generator
) -> None:
    """1,000 replications of the counts over fixed labels, the same for all methods; a binomial test at 0.001 of each."""
    truth = target @ world.accuracy
    weights: dict[tuple[str, bool], Any] = {}
    covered: Counter[tuple[str, str, bool]] = Counter()
    curves, totals = [], []
    for _ in range(RUNS):
        cells = world.draw(labels, generator)
        curves.append(cells.sum(axis=1))
        totals.append(cells.sum(axis=0))
        by_curves, by_class = (federation(labels, cells, disclosed) for disclosed in (False, True))
        fitted = fit(by_curves.statistics)
        for method, at_once in product(methods, (False, True)):
            settings = Settings(interval="asymptotic", simultaneous=at_once)
            clients = by_class if method == "poststratified" else by_curves
            if method == "poststratified" or (method, at_once) not in weights:
                answer = estimator(method)(clients, target, settings)
                weights[method, at_once], uncertainty = answer.weights, answer.uncertainty
            else:  # these weights look at the labels alone, which stay the same
                uncertainty = of_weights(clients, target, weights[method, at_once], fitted)
            assert uncertainty is not None
            bounds = make_interval(uncertainty, target, clients, settings)
            inside = (bounds.lower <= truth + 1e-12) & (truth <= bounds.upper + 1e-12)
            covered[method, "asymptotic", at_once] += int(inside.all() if at_once else inside[4])
    one = np.ones(1, dtype=bool)
    by_curves = of_counts(
        labels, np.concatenate(curves, axis=1), np.zeros(len(labels), dtype=bool), np.zeros((0, 1, 1))
    )
    summed = np.concatenate(totals, axis=1)
    by_class = of_counts(labels.sum(axis=0, keepdims=True), summed.sum(axis=0, keepdims=True), one, summed[None])
    for method, interval, at_once in product(methods, HONEST, (False, True)):
        # All replications' radii are estimated together: for all radii at once each has its part of the error.
        settings = Settings(interval=interval, confidence=1 - 0.05 / (len(RADII) if at_once else 1))
        lower, upper = ends_of(by_class if method == "poststratified" else by_curves, target, method, settings)
        inside = (lower.reshape(RUNS, -1) <= truth + 1e-12) & (truth <= upper.reshape(RUNS, -1) + 1e-12)
        covered[method, interval, at_once] = int(np.sum(inside.all(axis=1) if at_once else inside[:, 4]))
    for (method, interval, at_once), count in covered.items():
        nominal = 0.95 if interval in HONEST else 0.94
        p_value = stats.binomtest(count, RUNS, nominal, alternative="less").pvalue
        assert p_value > 0.001, (method, interval, at_once, count)


def drawn_setting(name: str, world: str) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    classes, clients, partition = SETTINGS[name]
    generator = np.random.default_rng(list(f"{name} {world}".encode()))
    labels = partition(classes, generator)[:clients]
    return labels[labels.sum(axis=1) > 0], generator.dirichlet(np.full(classes, 0.7)), generator


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_intervals_cover_as_often_as_they_say(name: str) -> None:
    labels, target, generator = drawn_setting(name, "ordinary")
    check_coverage(labels, target, ordinary(len(target), generator), METHODS_TESTED, generator)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS_TESTED)
@pytest.mark.parametrize("name", SETTINGS)
def test_intervals_cover_where_the_accuracies_are_worst_for_a_method(name: str, method: str) -> None:
    labels, target, generator = drawn_setting(name, "adversarial")
    check_coverage(labels, target, adversarial(labels, target, method, Settings()), [method], generator)


@pytest.mark.parametrize("interval", HONEST)
@pytest.mark.parametrize("known", [True, False])
def test_intervals_that_know_of_groups_cover_and_those_that_do_not_fail(
    known: bool, interval: str, make_report: Callable[..., Report]
) -> None:
    """Groups of ten alike examples: 20 groups of 10 at one client."""
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        certified = int(10 * generator.binomial(20, 0.5))
        effect = {"design_effect": [10.0]} if known else {}
        report = make_report("a", [100, 100], [certified], **effect)
        result = estimate([report], "uniform", "vw", interval=interval)
        assert result.lower is not None
        assert result.upper is not None
        covered += result.lower[0] <= 0.5 <= result.upper[0]
    if known:
        assert stats.binomtest(covered, 300, 0.95, alternative="less").pvalue > 0.001
    else:
        assert covered / 300 < 0.75


@pytest.mark.parametrize("interval", [*HONEST, "asymptotic"])
@pytest.mark.parametrize("method", ["minimax", "vw", "poststratified", "blup"])
def test_the_lower_end_allows_for_certificates_that_fail(method: str, interval: str) -> None:
    """Certificates that fail at the full allowed rate: the lower end stays below the true robust accuracy.

    The target is the clients' pool, so that nothing but chance and failing certificates is at work. An example that is
    not robust is certified all the same with the failure probability, of all examples.
    """
    generator = np.random.default_rng(0)
    failure, runs = 0.05, 200
    labels = dirichlet(0.5)(10, generator) * 30  # so many that chance does not hide what failing certificates do
    labels = labels[labels.sum(axis=1) > 0]
    target = labels.sum(axis=0) / labels.sum()
    robust = ordinary(10, generator).accuracy[:, 4] * (1 - failure)
    opens = np.full(len(labels), method == "poststratified")
    made = replicated(labels, robust + failure, generator, runs, opens)
    made = replace(made, smoothing=replace(made.smoothing, failure_probability=failure))
    settings = Settings(interval=interval)
    answer = estimator(method)(made, target, settings)
    assert answer.uncertainty is not None
    bounds = make_interval(answer.uncertainty, target, made, settings)
    covered = int(np.sum(bounds.lower <= target @ robust))
    assert stats.binomtest(covered, runs, 0.95, alternative="less").pvalue > 0.001
    assert not np.any(bounds.point_range[0] <= target @ robust)  # without the allowance it would hardly ever


@pytest.mark.parametrize("interval", HONEST)
@pytest.mark.parametrize("known", [True, False])
def test_post_stratified_intervals_know_of_groups_that_span_classes(
    known: bool, interval: str, make_report: Callable[..., Report]
) -> None:
    """Groups of ten alike examples, five of each class: alike across the classes, too."""
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        right = int(5 * generator.binomial(20, 0.5))
        effect = {"design_effect": [10.0], "largest_group": 10} if known else {}
        report = make_report("a", [100, 100], [2 * right], class_certified_counts=[[right], [right]], **effect)
        result = estimate([report], "uniform", "poststratified", interval=interval)
        assert result.lower is not None
        assert result.upper is not None
        covered += result.lower[0] <= 0.5 <= result.upper[0]
    if known:
        assert stats.binomtest(covered, 300, 0.95, alternative="less").pvalue > 0.001
    else:
        assert covered / 300 < 0.75


@pytest.mark.parametrize("mode", ["closed", "partly open"])
@pytest.mark.parametrize("world", ["ordinary", "adversarial"])
def test_what_if_intervals_cover(mode: str, world: str) -> None:
    """The weights look at labels alone: their intervals are honest for every mix, counts per class or not."""
    generator = np.random.default_rng(1)
    labels = dirichlet(0.5)(10, generator)[:25]
    labels = labels[labels.sum(axis=1) > 0]
    mixes = generator.dirichlet(np.full(10, 0.5), size=6)
    accuracy = (
        ordinary(10, generator).accuracy[:, 4] if world == "ordinary" else generator.integers(0, 2, 10).astype(float)
    )
    opens = (np.arange(len(labels)) % 3 == 0) & (mode == "partly open")
    runs = 1000
    made = replicated(labels, accuracy, generator, runs, opens)
    first = replace(
        made, radii=(0.0,), certified_counts=made.certified_counts[:, :1], class_rows=made.class_rows[:, :, :1]
    )
    for interval in HONEST:
        evaluator = MixEvaluator(PreparedClients.of(first, Settings(interval=interval)), METHODS["blup"])
        for mix in mixes:
            lower, upper = ends_of(made, mix, "blup", Settings(interval=interval))
            check_ends(lower, upper, float(mix @ accuracy), 0.95, (interval, mode, world))
            alone = evaluator.at(mix).interval
            assert alone is not None
            if evaluator.prepared.clients_differ:
                continue  # by chance: the interval then allows for it
            assert alone.point_range[0][0] == pytest.approx(lower[0], abs=1e-9)
            assert alone.point_range[1][0] == pytest.approx(upper[0], abs=1e-9)


def test_the_surest_interval_is_still_one() -> None:
    """As close to 1 as a number can be."""
    assert np.all(np.isfinite(folded_quantile(np.array([0.0, 1.0, 1e6]), np.nextafter(1.0, 0.0))))
