"""Federations that are hard on arithmetic or on assumptions: intervals stay honest, or say that they are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedcert import EstimationProblem, InvalidValue, Report, Sums, estimate, what_if
from fedcert.estimation.clients.statistics import SufficientStatistics
from fedcert.estimation.intervals.half_widths import hoeffding_deviations
from fedcert.estimation.methods.linear_weights import ridge_rules
from fedcert.estimation.methods.minimax_solver import shortest

RADII = (0.0, 0.5)


def report(client: str, labels: list[int], certified: list[int], **changes: Any) -> Report:
    return Report(
        client=client,
        model="m",
        smoothing={"sigma": 0.5},  # type: ignore[arg-type]
        radii=RADII[: len(certified)],
        classes=tuple(f"k{index}" for index in range(len(labels))),
        label_counts=tuple(labels),
        certified_counts=tuple(certified),
        **changes,
    )


def drawn(seed: int, classes: int, clients: int) -> tuple[list[Report], np.ndarray, dict[str, float]]:
    """Made-up reports, the truth for a target, and the target."""
    generator = np.random.default_rng(seed)
    accuracy = generator.uniform(0, 1, classes)
    labels = generator.multinomial(
        generator.integers(5, 300, clients), generator.dirichlet(np.full(classes, 0.4), clients)
    )
    reports = [
        report(f"c{index}", row.tolist(), [int(generator.binomial(row, accuracy).sum())])
        for index, row in enumerate(labels)
    ]
    target = generator.dirichlet(np.full(classes, 0.5))
    return reports, target @ accuracy, {f"k{index}": float(share) for index, share in enumerate(target)}


@pytest.mark.parametrize(("classes", "clients"), [(3, 2), (10, 5), (10, 9), (40, 30), (10, 30)])
def test_intervals_from_sums_are_honest_with_fewer_clients_than_classes(classes: int, clients: int) -> None:
    """Rounded moments have no exact null space, which a solver would exploit."""
    missed: dict[str, int] = {}
    runs = 25
    for seed in range(runs):
        reports, truth, target = drawn(seed, classes, clients)
        sums = Sums.of(reports)
        for name, made in (
            ("blup", estimate(sums, target, "blup")),
            ("minimax", estimate(sums, target, "minimax")),
            ("what-if", what_if(sums, [target]).targets[0]),
            ("what-if from reports", what_if(reports, [target]).targets[0]),
        ):
            assert made.lower is not None
            assert made.upper is not None
            assert made.lower[0] <= made.certified_accuracy[0] <= made.upper[0]
            missed[name] = missed.get(name, 0) + int(not made.lower[0] <= truth <= made.upper[0])
        exact, summed = estimate(reports, target, "minimax"), estimate(sums, target, "minimax")
        assert exact.interval is not None
        ends = (*(exact.lower or ()), *(exact.upper or ()))
        if exact.interval.kind == "finite-sample" and min(ends) > 0 and max(ends) < 1:
            assert np.subtract(summed.upper, summed.lower) >= np.subtract(exact.upper, exact.lower) - 1e-6
    assert max(missed.values()) <= 3, missed  # nominal 5% of 25; these intervals are far from tight


def test_two_clients_alike_know_nothing_of_another_mix() -> None:
    reports = [report(name, [30, 10, 5, 0], [22]) for name in ("a", "b")]
    for method in ("blup", "minimax"):
        for source in (reports, Sums.of(reports)):
            made = estimate(source, {"k1": 1}, method)
            assert made.lower is not None
            assert made.upper is not None
            assert made.lower[0] < 0.02
            assert made.upper[0] > 0.98


def test_ridge_rules_are_never_better_than_the_best() -> None:
    z = hoeffding_deviations(0.95)
    for seed in range(60):
        generator = np.random.default_rng(seed)
        classes, clients = int(generator.integers(2, 15)), int(generator.integers(2, 15))
        labels = generator.multinomial(
            generator.integers(1, 10**6, clients), generator.dirichlet(np.full(classes, 0.4), clients)
        )
        evidence = SufficientStatistics.of_clients(labels, np.zeros((clients, 1)))
        mix = generator.dirichlet(np.ones(classes))
        (rule,) = ridge_rules(evidence, mix[None, :], z)
        weights = labels @ rule.coefficients
        sizes = labels.sum(axis=1)
        assert weights.sum() == pytest.approx(1, abs=1e-6)
        squares = float(np.sum(weights**2 / sizes))
        assert rule.sum_squared_weights(evidence) == pytest.approx(squares, rel=1e-4)
        half = np.abs(mix - weights @ (labels / sizes[:, None])).sum() / 2 + z * np.sqrt(squares)
        assert half >= shortest(evidence.labels_labels, mix, z).half_width - 1e-6


@pytest.mark.parametrize("size", [10**4, 10**6, 10**9, 10**11])
def test_huge_clients_are_estimated_like_others(size: int) -> None:
    generator = np.random.default_rng(1)
    reports = []
    for index in range(5):
        labels = np.rint(generator.dirichlet(np.full(10, 0.3)) * size).astype(int)
        reports.append(report(f"c{index}", labels.tolist(), [int(labels.sum() * 0.6), int(labels.sum() * 0.2)]))
    for method in ("auto", "blup", "minimax", "vw", "ga"):
        made = estimate(reports, "uniform", method)
        assert made.certified_accuracy[0] == pytest.approx(0.6, abs=0.02)
        assert sum((made.weights or {}).values()) == pytest.approx(1, abs=1e-9)


def test_more_examples_than_moments_hold_leave_the_moments_out() -> None:
    many = [report(name, [2**50, 5], [2**49]) for name in ("a", "b")]
    sums = Sums.of(many)
    assert sums.moments is None
    assert estimate(sums, method="vw").certified_accuracy[0] == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("method", ["minimax", "blup"])
@pytest.mark.parametrize("simultaneous", [False, True])
def test_counts_that_contradict_each_other_are_called_out(method: str, simultaneous: bool) -> None:
    reports = [report("a", [10**6, 0], [10**6, 0]), report("b", [5 * 10**5, 5 * 10**5], [5 * 10**5, 5 * 10**5])]
    made = estimate(reports, {"k1": 1}, method, simultaneous=simultaneous)
    for lower, point, upper in zip(made.lower or (), made.certified_accuracy, made.upper or (), strict=True):
        assert lower <= point <= upper
    if simultaneous:
        assert {check.name: check.verdict for check in made.checks}["consistency"] == "unreliable"
    beyond = [report("a", [10**5, 0], [0]), report("b", [5 * 10**4, 5 * 10**4], [80_000])]
    checks = {check.name: check for check in estimate(beyond, {"k1": 1}, method).checks}
    assert "counts contradict each other" in checks["consistency"].sentence


def test_a_group_that_is_not_told_is_not_taken_for_one() -> None:
    rows = {"class_certified_counts": [[50], [50]]}
    silent = report("a", [100, 100], [100], design_effect=[50.0], **rows)
    telling = report("b", [100, 100], [100], design_effect=[1.0], largest_group=1, **rows)
    quiet = report("b", [100, 100], [100], **rows)
    wide = estimate([silent, quiet], "uniform", "poststratified")
    assert estimate([silent, telling], "uniform", "poststratified").upper == pytest.approx(wide.upper)
    for sources in ([Sums.of([silent]), Sums.of([telling])], [Sums.of([silent, telling])]):
        summed = estimate(sources, "uniform", "poststratified")
        assert summed.upper is not None
        assert wide.upper is not None
        assert summed.upper[0] >= wide.upper[0]  # of sums, the largest group may be anybody's


def test_a_group_of_nearly_all_of_a_class_is_found_in_the_design_effect() -> None:
    """990 single examples of one class, and ten alike ones that are all of the other: by chance all right or all wrong.

    The effect is 1.09; that the group has at most 10 examples follows from it, and somebody who tells nothing of groups
    does not change that.
    """
    grouped = {"design_effect": [1.09], "class_certified_counts": [[495], [10]]}
    alone = report("a", [990, 10], [505], **grouped)
    other = report("b", [5, 5], [5], class_certified_counts=[[3], [2]])
    for sources in ([alone], [alone, other], [Sums.of([alone]), Sums.of([other])], [Sums.of([alone, other])]):
        made = estimate(sources, "uniform", "poststratified")
        assert made.lower is not None
        # Accuracies of 0.495 and 0.09 give so many right ones with probability 0.09 · 0.37, more than 0.025.
        assert made.lower[0] <= (0.495 + 0.09) / 2
    unknown = report("a", [990, 10], [505], class_certified_counts=[[495], [10]])
    unaware = estimate([unknown], "uniform", "poststratified").lower
    assert unaware is not None
    assert unaware[0] > 0.5


@pytest.mark.parametrize("method", ["vw", "minimax", "poststratified"])
def test_a_largest_group_alone_widens_as_much_as_such_groups_can(method: str) -> None:
    rows = {"class_certified_counts": [[50], [50]]}
    told = report("a", [100, 100], [100], largest_group=10, **rows)
    whole = report("a", [100, 100], [100], largest_group=10, design_effect=[10.0], **rows)
    plain = report("a", [100, 100], [100], **rows)
    for one in ([told], [Sums.of([told])]):
        for interval in ("finite-sample", "hoeffding"):
            made = estimate(one, "uniform", method, interval=interval)
            assert made.upper is not None
            assert made.interval is not None
            kind = made.interval.kind  # Hoeffding's for curves from sums
            assert made.upper == pytest.approx(estimate([whole], "uniform", method, interval=kind).upper)
            assert made.upper[0] > estimate([plain], "uniform", method, interval=kind).upper[0] + 0.05


def test_a_largest_group_alone_is_not_lost_in_a_merge() -> None:
    sums = Sums.of([report("a", [100, 100], [100])])
    told = Sums.from_json({**sums.to_json(), "largest_group": 10})
    other = Sums.of([report("b", [100, 100], [100], design_effect=[2.0])])
    for both in (told.merged(other), other.merged(told)):
        assert (both.design_effect, both.largest_group) == ((10.0,), 14)
    assert sums.merged(sums).design_effect is None


def test_a_design_effect_of_no_groups_is_refused() -> None:
    plain = estimate([report("a", [50, 50], [50])], "uniform", "vw")
    single = report("a", [50, 50], [50], design_effect=[1.0], largest_group=1)
    assert estimate([single], "uniform", "vw").upper == plain.upper
    assert estimate(Sums.of([single]), "uniform", "vw").upper == pytest.approx(plain.upper)
    for effect, rule in ((0.5, "of at least 1, but is 0.5"), (101.0, r"at most the examples \(100\), as")):
        with pytest.raises(InvalidValue, match=rule):
            report("a", [50, 50], [50], design_effect=[effect])
    with pytest.raises(InvalidValue, match="of at least 1, but is 0.5"):
        Sums.from_json({**Sums.of([single]).to_json(), "design_effect": [0.5]})


@pytest.mark.parametrize("sizes", [[1] * 30, [30], [5, 5, 10], [2, 2, 4, 4, 8], [1, 1, 1, 27], [7, 1, 1]])
def test_every_design_effect_of_groups_is_taken(sizes: list[int]) -> None:
    effect = float(np.sum(np.square(sizes)) / sum(sizes))
    for largest in (max(sizes), None):
        made = report("a", [sum(sizes), 0], [1], design_effect=[effect], largest_group=largest)
        assert Report.from_json(made.to_json()) == made


def test_the_largest_design_effect_counts_at_every_radius() -> None:
    """Groups do not change with the radius, so values that do are not Σ m²/n at all of them."""
    site = {"smoothing": {"sigma": 0.5}, "radii": [0, 0.5], "classes": ["k1", "k2"], "label_counts": [50, 50]}
    each, most = (
        Report(client="a", model="demo", certified_counts=[50, 40], design_effect=effects, **site)
        for effects in ([2.0, 4.0], [4.0, 4.0])
    )
    assert estimate([each], "uniform", "vw").upper == estimate([most], "uniform", "vw").upper


def test_noisy_sums_have_no_interval_yet() -> None:
    sums = Sums.of([report("a", [50, 50], [50])])
    noisy = Sums.from_json({**sums.to_json(), "noise": "discrete Gaussian, sigma 3"})
    with pytest.raises(EstimationProblem, match=r"these sums have noise added \(discrete Gaussian, sigma 3\)"):
        estimate(noisy)


def test_a_client_without_examples_does_not_change_the_settings() -> None:
    few = Report(
        **{
            **{name: getattr(report("x", [0, 0], [0]), name) for name in Report.field_types()},
            "smoothing": {"sigma": 0.5, "n": 100},
        }
    )  # type: ignore[arg-type]
    reports = [report("a", [50, 50], [50]), report("b", [20, 80], [50]), few]
    whole, summed = estimate(reports, method="vw"), estimate(Sums.of(reports), method="vw")
    assert whole.guarantee == summed.guarantee
    assert whole.smoothing == summed.smoothing
    assert whole.largest_radius == summed.largest_radius


def test_non_negative_weights_are_refused_for_sums_by_every_method() -> None:
    sums = Sums.of([report("a", [50, 50], [50]), report("b", [20, 80], [50])])
    for method in ("auto", "blup", "minimax"):
        with pytest.raises(EstimationProblem, match="non-negative weights need the clients' reports"):
            estimate(sums, "uniform", method, non_negative=True)


def test_made_up_sums_are_refused() -> None:
    rows = {"class_certified_counts": [[30], [20]]}
    good = Sums.of(
        [report("a", [50, 50], [50], **rows), report("b", [20, 80], [50], class_certified_counts=[[20], [30]])]
    ).to_json()
    moments = good["moments"]

    def changed(**changes: Any) -> dict[str, Any]:
        return {**good, **changes}

    cases = {
        "moments.labels_labels[1][0] must be the same as labels_labels[0][1]": changed(
            moments={
                **moments,
                "labels_labels": [
                    [moments["labels_labels"][0][0], moments["labels_labels"][0][1] + 1],
                    moments["labels_labels"][1],
                ],
            }
        ),
        "adding up to 70 in units of 1/scale": changed(moments={**moments, "labels_labels": [[0, 0], [0, 0]]}),
        "column 0 of moments.labels_certified must be adding up to 100": changed(
            moments={**moments, "labels_certified": [[0], [0]]}
        ),
        "moments.clients must be from 1 to the contributors (2), but is 3": changed(moments={**moments, "clients": 3}),
        "column 0 of by_class.certified_counts must be adding up to certified_counts[0] (90)": changed(
            certified_counts=[90], moments=None
        ),
        "certified_counts[0] must be 0, as n = 1000 samples certify no radius above": changed(
            radii=[50.0], moments=None, by_class=None
        ),
    }
    for sentence, document in cases.items():
        with pytest.raises(InvalidValue) as caught:
            Sums.from_json(document)
        assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "mode", ["one client", "one class", "nothing certified", "everything certified", "single examples"]
)
@pytest.mark.parametrize("method", ["auto", "minimax", "vw", "ga", "ap"])
@pytest.mark.parametrize("options", [{}, {"interval": "asymptotic", "simultaneous": True}, {"screen": True}])
def test_small_and_plain_federations(mode: str, method: str, options: dict[str, Any]) -> None:
    made = {
        "one client": [report("a", [5, 5], [6, 2])],
        "one class": [report("a", [5], [4, 2]), report("b", [50], [20, 5]), report("c", [9], [4, 2])],
        "nothing certified": [report(name, [5, 9], [0, 0]) for name in "abcd"],
        "everything certified": [report(name, [5, 9], [14, 14]) for name in "abcd"],
        "single examples": [
            report(f"c{index}", [index % 2, 1 - index % 2], [int(index % 3 > 0), 0]) for index in range(40)
        ],
    }[mode]
    result = estimate(made, "uniform", method, **options)
    for lower, point, upper in zip(result.lower or (), result.certified_accuracy, result.upper or (), strict=True):
        assert 0 <= lower <= point <= upper <= 1


def test_a_share_that_is_next_to_nothing_is_none() -> None:
    """Pieces of a class without a share cost nothing: dropping them would shorten the interval at will."""
    reports = [report("a", [500, 500], [500]), report("b", [505, 495], [495])]  # accuracies 0 and 1
    for share in (0.0, 5e-324, 1e-300, 1e-250, 1e-100):
        for options in ({}, {"target_examples": 100}):
            made = estimate(reports, [1.0, share], "minimax", **options)  # type: ignore[arg-type]
            assert made.lower is not None
            assert made.lower[0] < 0.01


def test_rounded_shares_move_no_end_far() -> None:
    """All examples weigh about the same: so does the binomial test."""
    reports = [report("a", [10, 10, 10], [1]), report("b", [10, 10, 10], [0])]
    exact, rounded, thirds = (
        estimate(reports, shares, "minimax").upper for shares in ([1, 1, 1], [1, 1, 1 + 1e-11], [0.333, 0.333, 0.334])
    )
    assert exact is not None
    assert rounded == pytest.approx(exact, abs=1e-9)
    assert thirds == pytest.approx(exact, abs=2e-3)
