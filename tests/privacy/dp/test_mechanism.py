"""Differential privacy: the accounting, the noise, and intervals that allow for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from factories import RADII, dirichlet, ordinary, reports_of
from fedcert import CannotCombine, Estimate, Report, Sums, estimate, what_if
from fedcert.cli.main import run
from fedcert.errors import EstimationProblem, InvalidValue, Refused
from fedcert.estimation.clients.aggregated import AggregatedClients
from fedcert.estimation.intervals.statement import make_interval
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.settings import Settings
from fedcert.privacy.dp.accounting import NoiseShares, Share, epsilon_of, noise_shares, rho_of, rho_together, share_of
from fedcert.privacy.dp.mechanism import cells_of, describe_budget, noisy_counts, released, with_noise
from fedcert.report.privacy import ALONE, TOGETHER, AddedNoise, PrivacyBudget
from fedcert.report.request import PrivateSum, Request
from fedcert.report.sums.algebra import noisy_sums
from fedcert.secagg.vectors import VectorLayout
from right_answers import FIVE
from secure_sums import private_request

dp.enable_features("contrib")
LOCAL = PrivacyBudget(epsilon=1.0, noise=ALONE)


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 4.0, 10.0])
def test_the_conversion_is_that_of_opendp(epsilon: float, delta: float) -> None:
    rho = rho_of(epsilon, delta)
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    measurement = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=(1 / (2 * rho)) ** 0.5))
    assert measurement.map(1.0).epsilon(delta) == pytest.approx(epsilon, rel=1e-6)
    assert epsilon_of(rho, delta) == pytest.approx(epsilon, rel=1e-6)
    assert epsilon_of(rho, delta) <= epsilon * (1 + 1e-9)


def test_one_site_alone_is_the_plain_discrete_gaussian() -> None:
    assert rho_together(25.0, 1, 1000, 2.0) == pytest.approx(4 / 50)
    share = share_of(LOCAL, 1, 220)
    assert share.rho == pytest.approx(rho_of(1.0, 1e-6), rel=1e-6)
    assert share.of_examples == pytest.approx(1 / (2 * share.rho), rel=1e-6)
    assert share.scale == 1


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 20.0])
@pytest.mark.parametrize("sites", [2, 7, 34, 500])
def test_shares_make_up_the_whole_and_hardly_more(sites: int, epsilon: float) -> None:
    """Where shares would be tiny they are drawn in fractions of an example."""
    share = share_of(PrivacyBudget(epsilon=epsilon), sites, 220)
    whole = rho_of(epsilon, 1e-6)
    assert share.rho <= whole * (1 + 1e-9)
    assert share.variance >= 4.0
    assert 1 <= sites * share.of_examples * 2 * whole < 1.0001
    # More sites than the fewest add more noise, never less privacy.
    assert rho_together(share.variance, sites + 3, 220, share.scale) < share.rho


def test_what_a_unit_moves() -> None:
    assert PrivacyBudget(epsilon=1).sensitivity == 1
    assert PrivacyBudget(epsilon=1, adjacency="replace").sensitivity == pytest.approx(2**0.5)
    assert PrivacyBudget(epsilon=1, unit="group", most_per_unit=5).sensitivity == 5
    larger = share_of(PrivacyBudget(epsilon=1, unit="group", most_per_unit=5), 1, 10)
    assert larger.of_examples == pytest.approx(25 * share_of(PrivacyBudget(epsilon=1), 1, 10).of_examples, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 20.0])
@pytest.mark.parametrize("sites", [1, 7, 500])
def test_all_releases_together_cost_the_budget_and_hardly_less(sites: int, epsilon: float) -> None:
    budget = PrivacyBudget(epsilon=epsilon, adjacency="replace", unit="group", most_per_unit=3)
    shares = noise_shares(budget, sites, 10, 22)
    whole = rho_of(epsilon, 1e-6)
    each = [
        rho_together(share.variance, sites, counts, budget.sensitivity * share.scale)
        for share, counts in ((shares.cells, 220), (shares.sizes, 10), (shares.sizes, 10))
    ]
    assert shares.rho == pytest.approx(sum(each), rel=1e-12)
    assert whole * (1 - 1e-6) < shares.rho <= whole * (1 + 1e-9)
    assert epsilon_of(shares.rho, 1e-6) <= epsilon * (1 + 1e-9)
    assert shares.sizes.scale == shares.cells.scale
    assert min(shares.sizes.variance, shares.cells.variance) >= 4.0


def test_all_releases_together_cost_the_budget_by_the_accounts_of_opendp() -> None:
    """A unit moves a cell by 1, and its class's size by 1 in each release: three measurements, composed."""
    shares = noise_shares(LOCAL, 1, 10, 22)
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    parts = [shares.cells, shares.sizes, shares.sizes]
    losses = [dp.m.make_gaussian(*space, scale=share.variance**0.5).map(float(share.scale)) for share in parts]
    measurement = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=(1 / (2 * sum(losses))) ** 0.5))
    assert measurement.map(1.0).epsilon(LOCAL.delta) == pytest.approx(LOCAL.epsilon, rel=1e-6)


def test_cells_and_both_releases_of_sizes_have_noise_of_their_own() -> None:
    report = reports_of(0, "open")[0]
    shares = NoiseShares(Share(400.0, 2, 0.1), Share(2500.0, 2, 0.1))
    cells, sizes = zip(*(noisy_counts(report, shares) for _ in range(400)), strict=True)
    off = np.stack([
        (np.array(cells) - 2 * cells_of(report)).sum(axis=2).ravel() / (400 * 22) ** 0.5,
        *((np.array(sizes) - 2 * np.array(report.label_counts)) / 50).transpose(1, 0, 2).reshape(2, -1),
    ])  # fmt: skip
    assert np.abs(np.cov(off) - np.eye(3)).max() < 0.15


def test_each_example_is_in_one_cell() -> None:
    report = reports_of(0, "open")[0]
    cells = cells_of(report)
    assert cells.min() >= 0
    assert cells.sum(axis=1).tolist() == list(report.label_counts)
    assert report.class_certified_counts is not None
    for radius in range(len(report.radii)):
        certified = [row[radius] for row in report.class_certified_counts]
        assert cells[:, 1 + radius :].sum(axis=1).tolist() == certified
    with pytest.raises(Refused, match="has no counts per class, on which the noise goes; certify with --class-counts"):
        cells_of(replace(report, class_certified_counts=None))


def test_each_example_is_in_the_cell_of_its_right_answers() -> None:
    report = FIVE.reports(0)[0]
    cells = cells_of(report)
    assert cells.shape == (5, 33)
    assert cells.tolist() == [list(row) for row in report.class_correct_counts or ()]
    assert cells.sum(axis=1).tolist() == list(report.label_counts)
    with pytest.raises(Refused, match="has no counts per class, on which the noise goes; certify with --class-counts"):
        cells_of(replace(report, class_correct_counts=None))


def test_noise_for_right_answers_is_accounted_for_by_their_cells() -> None:
    """All 5 x 33 cells and both releases of 5 sizes cost the budget together, at each site alone and in a sum."""
    reports = FIVE.reports(0)
    alone = released(reports[0], LOCAL)
    assert alone.private is not None
    shares = noise_shares(LOCAL, 1, 5, 33)
    assert (alone.private.rho, alone.private.variance) == (shares.rho, shares.cells.of_examples)
    assert np.array(alone.private.cells).shape == (5, 33)
    assert (sum(alone.correct_counts or ()), alone.certified_counts) == (alone.examples, None)
    assert Sums.from_json(json.loads(alone.dumps())) == alone
    layout, _ = private_noise(reports, 1.0, threshold=45)
    assert layout.length == 5 * 33 + 2 * 5
    total = np.sum([layout.pack(report) for report in reports], axis=0, dtype=np.uint64)
    private = layout.sums(total, 60).private
    assert private is not None
    shares = noise_shares(PrivacyBudget(epsilon=1.0), layout.fewest_honest, 5, 33)
    assert (private.rho, private.scale) == (shares.rho, shares.cells.scale)
    assert private.variance == pytest.approx(60 * shares.cells.of_examples)
    assert epsilon_of(private.rho, 1e-6) == pytest.approx(1.0, rel=1e-5)
    clear = sum(cells_of(report) for report in reports)
    off = (np.array(private.cells) / private.scale - clear).ravel()
    assert abs(off.std() / private.variance**0.5 - 1) < 0.35
    assert layout.contribution(reports[0])["cells"] == cells_of(reports[0]).tolist()
    merged = alone.merged(released(reports[1], LOCAL))
    assert merged.private is not None
    assert merged.private.variance == pytest.approx(2 * alone.private.variance)
    assert sum(merged.correct_counts or ()) == merged.examples


def test_a_report_of_other_passes_does_not_enter_a_noisy_sum() -> None:
    layout, _ = private_noise(FIVE.reports(0), 1.0)
    other = replace(FIVE, smoothing=replace(FIVE.smoothing, n=16)).reports(0)[0]
    for step in (layout.pack, layout.contribution):
        with pytest.raises(Refused, match="^the report of 'client 0' has other smoothing than the private sum is over"):
            step(other)


def test_the_noise_is_a_discrete_gaussian_of_the_variance() -> None:
    noise = with_noise(np.zeros((100, 200), dtype=np.int64), Share(6.25, 1, 0.1)).ravel()
    assert noise.dtype == np.int64
    values = np.arange(-12, 13)
    weights = np.exp(-(values**2) / 12.5)
    expected = weights / weights.sum() * len(noise)
    seen = np.array([(np.clip(noise, -12, 12) == value).sum() for value in values])
    kept = expected > 5
    other = len(noise) - seen[kept].sum(), len(noise) - expected[kept].sum()
    assert stats.chisquare([*seen[kept], other[0]], [*expected[kept], other[1]]).pvalue > 1e-4


def test_a_release_says_what_it_protects_and_tells_nothing_without_noise() -> None:
    report = reports_of(0, "open")[0]
    sums = released(report, LOCAL)
    assert sums.contributors == 1
    assert sums.private is not None
    assert sums.private.budget == LOCAL
    assert sums.noise == (
        "discrete Gaussian noise, added by each site: (1, 1e-06)-differential privacy for whether one example is there"
    )
    assert Sums.from_json(json.loads(sums.dumps())) == sums
    assert sums.moments is None
    assert released(report, LOCAL).private != sums.private
    words = describe_budget(PrivacyBudget(epsilon=2, unit="group", most_per_unit=3, adjacency="replace"))
    assert words.endswith("differential privacy for what one group of at most 3 examples holds")


def test_groups_need_a_budget_for_groups() -> None:
    report = replace(reports_of(0, "open")[0], design_effect=(1.5,) * len(RADII), largest_group=4)
    with pytest.raises(Refused, match="come in groups, and noise for single examples does not protect a group"):
        released(report, LOCAL)
    with pytest.raises(Refused, match="has a group of 4 examples, but the privacy budget is for at most 3"):
        released(report, replace(LOCAL, unit="group", most_per_unit=3))
    with pytest.raises(Refused, match="does not say how many examples its largest group has"):
        released(replace(report, largest_group=None), replace(LOCAL, unit="group", most_per_unit=3))
    sums = released(report, replace(LOCAL, unit="group", most_per_unit=5))
    # Not what there is, which nobody is to know, but what the budget allows.
    assert (sums.design_effect, sums.largest_group) == ((5.0,) * len(RADII), 5)


def test_releases_of_different_sites_merge_and_others_do_not() -> None:
    reports = reports_of(0, "open")[:3]
    sums = [released(report, LOCAL) for report in reports]
    merged = sums[0].merged(sums[1]).merged(sums[2])
    parts = [one.private for one in sums]
    assert merged.private is not None
    assert merged.contributors == 3
    assert merged.private.variance == pytest.approx(3 * parts[0].variance)  # type: ignore[union-attr]
    assert merged.private.sizes_variance == pytest.approx(3 * parts[0].sizes_variance)  # type: ignore[union-attr]
    for name in ("cells", "sizes"):
        assert (np.array(getattr(merged.private, name)) == sum(np.array(getattr(part, name)) for part in parts)).all()
    with pytest.raises(CannotCombine, match="sums with noise cannot be merged with others"):
        sums[0].merged(Sums.of(reports[1:]))
    with pytest.raises(CannotCombine, match="only if each site added noise by itself, for the same budget"):
        sums[0].merged(released(reports[1], replace(LOCAL, epsilon=2.0)))


def test_sums_that_were_rounded_by_an_earlier_version_are_refused() -> None:
    document = released(reports_of(0, "open")[0], LOCAL).to_json()
    private = {name: value for name, value in document["private"].items() if name not in ("budget", "rho")}
    with pytest.raises(InvalidValue, match="private.budget must be .*, but is missing"):
        Sums.from_json(document | {"private": private | {"rounding": 5}})
    with pytest.raises(InvalidValue, match="private.budget must be .*, but is null"):
        Sums.from_json(document | {"private": private | {"budget": None, "rho": None, "rounding": 5}})


def private_noise(reports: list[Report], epsilon: float, threshold: int | None = None) -> tuple[VectorLayout, Request]:
    names = [report.client for report in reports]
    private = PrivateSum(threshold=threshold or 2 * len(names) // 3 + 1, budget=PrivacyBudget(epsilon=epsilon))
    request = private_request(
        names, radii=reports[0].radii, classes=reports[0].classes, private=private, model=reports[0].model,
        smoothing=reports[0].smoothing,
    )  # fmt: skip
    return VectorLayout(request), request


def test_noise_made_together_is_sized_for_the_fewest_honest_sites() -> None:
    reports = reports_of(0, "open")
    layout, _ = private_noise(reports, 1.0, threshold=45)
    assert layout.fewest_honest == 45 - min(2 * 45 - 60 - 1, 43)
    total = np.sum([layout.pack(report) for report in reports], axis=0, dtype=np.uint64)
    sums = layout.sums(total, 60)
    assert sums.private is not None
    shares = noise_shares(PrivacyBudget(epsilon=1.0), layout.fewest_honest, 5, 22)
    scale = shares.cells.scale
    assert sums.private.variance == pytest.approx(60 * shares.cells.of_examples)
    assert sums.private.sizes_variance == pytest.approx(60 * shares.sizes.of_examples)
    assert (sums.private.rho, sums.private.scale) == (shares.rho, scale)
    assert scale > 1
    clear = sum(cells_of(report) for report in reports)
    off = (np.array(sums.private.cells) / scale - clear).ravel()
    assert abs(off.std() / sums.private.variance**0.5 - 1) < 0.35
    off = (np.array(sums.private.sizes) / scale - np.sum(clear, axis=1)).ravel()
    assert 0.3 < off.std() / sums.private.sizes_variance**0.5 < 2
    assert layout.length == 5 * 22 + 2 * 5  # nothing is summed without noise
    said = layout.contribution(reports[0])
    assert said["cells"] == cells_of(reports[0]).tolist()
    assert said["sizes"] == list(reports[0].label_counts)


def test_what_cannot_be_asked_for() -> None:
    with pytest.raises(InvalidValue, match="moments must be false, and class_counts true"):
        PrivateSum(threshold=3, moments=True, budget=PrivacyBudget(epsilon=1))
    with pytest.raises(InvalidValue, match=f"budget.noise must be '{TOGETHER}' in a private sum"):
        PrivateSum(threshold=3, budget=LOCAL)
    for wrong in ({"epsilon": 0}, {"epsilon": -1}, {"epsilon": float("inf")}, {"epsilon": 1, "delta": 1.0}):
        with pytest.raises(InvalidValue):
            PrivacyBudget(**wrong)  # type: ignore[arg-type]


def lengths(made: Estimate) -> np.ndarray:
    assert made.upper is not None
    assert made.lower is not None
    return np.subtract(made.upper, made.lower)


def test_an_estimate_from_noisy_sums() -> None:
    reports = reports_of(0, "open")
    layout, _ = private_noise(reports, 4.0)
    sums = layout.sums(np.sum([layout.pack(report) for report in reports], axis=0, dtype=np.uint64), 60)
    made, clear = estimate(sums), estimate(reports)
    assert np.abs(np.subtract(made.certified_accuracy, clear.certified_accuracy)).max() < 0.02
    assert made.interval is not None
    assert "With probability at least 0.95, for each radius, the interval covers" in made.guarantee
    exact, asymptotic = (estimate(source, interval="asymptotic") for source in (Sums.of(reports), sums))
    assert (lengths(asymptotic) > lengths(exact)).all()
    assert "approximately, for many examples and to first order in the noise that was added" in asymptotic.guarantee
    noisier, _ = private_noise(reports, 1.0)
    noisier_sums = noisier.sums(np.sum([noisier.pack(report) for report in reports], axis=0, dtype=np.uint64), 60)
    assert lengths(made).mean() < lengths(estimate(noisier_sums)).mean()
    for method in ("blup", "minimax", "vw"):
        with pytest.raises(
            EstimationProblem, match=f"^the method '{method}' does not allow for the noise in these sums; use"
        ):
            estimate(sums, method=method)
    assert made.checks[-1].name == "privacy noise"
    assert made.details["privacy"]["epsilon"] == 4.0
    assert what_if(sums, ["uniform"]).targets[0].upper == pytest.approx(made.upper)
    with pytest.raises(EstimationProblem, match="does not allow for the noise"):
        what_if(sums, ["uniform"], "blup")


def test_an_estimate_of_a_vote_from_noisy_sums() -> None:
    """Its interval has the truth in it, and is longer than without noise; radii and votes may be chosen afterwards."""
    reports, truth = FIVE.reports(0), FIVE.truth.mean(axis=0)
    layout, _ = private_noise(reports, 4.0)
    sums = layout.sums(np.sum([layout.pack(report) for report in reports], axis=0, dtype=np.uint64), 60)
    made, clear = estimate(sums), estimate(Sums.of(reports))
    assert np.abs(np.subtract(made.certified_accuracy, clear.certified_accuracy)).max() < 0.02
    assert (lengths(made) > lengths(clear)).all()
    for one in (made, clear, estimate(sums, interval="asymptotic"), estimate(sums, simultaneous=True)):
        assert (np.array(one.lower) <= truth).all()
        assert (truth <= np.array(one.upper)).all()
    assert "With probability at least 0.95, for each radius" in made.guarantee
    assert "the majority vote of 11 noisy copies" in made.guarantee
    assert (made.checks[-1].name, made.details["privacy"]["epsilon"]) == ("privacy noise", 4.0)
    chosen = estimate(sums, radii=[0.4], votes=31)
    assert chosen.radii == (0.4,)
    assert lengths(chosen)[0] > lengths(made)[1]
    assert what_if(sums, ["uniform"]).targets[0].upper == pytest.approx(made.upper)
    for method in ("blup", "minimax", "vw"):
        with pytest.raises(EstimationProblem, match=f"^the method '{method}' does not allow for the noise in these"):
            estimate(sums, method=method)


def test_noise_larger_than_the_counts_leaves_nothing_to_say() -> None:
    sums = released(replace(reports_of(0, "open")[0]), replace(LOCAL, epsilon=0.01))
    with pytest.raises(
        EstimationProblem, match="the noise in these sums is larger than what they count: nothing can be"
    ):
        estimate(sums)


def noisy(cells: np.ndarray, shares: NoiseShares, radii: Sequence[float] = RADII) -> Sums:
    """Noisy sums of cells, as a private sum gives them."""
    classes = tuple(f"class {index}" for index in range(len(cells)))
    like = Sums(
        model="m", smoothing={"sigma": 0.5}, radii=tuple(radii), classes=classes, contributors=100,  # type: ignore[arg-type]
        label_counts=(0,) * len(classes), certified_counts=(0,) * len(radii),
    )  # fmt: skip
    noise = AddedNoise(
        budget=PrivacyBudget(epsilon=1.0), rho=shares.rho, variance=shares.cells.of_examples,
        sizes_variance=shares.sizes.of_examples, scale=shares.cells.scale,
        cells=with_noise(cells, shares.cells).tolist(),
        sizes=with_noise(np.tile(cells.sum(axis=1), (2, 1)), shares.sizes).tolist(),
    )  # fmt: skip
    return noisy_sums(like, noise, 100, "noise")


def of_all_sites(shares: NoiseShares) -> NoiseShares:
    """The noise of a hundred sites."""
    return NoiseShares(*(replace(share, variance=100 * share.variance) for share in (shares.cells, shares.sizes)))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("classes", [2, 10])
def test_widened_intervals_cover_as_often_as_they_say(epsilon: float, classes: int) -> None:
    """1,000 replications of counts and noise over fixed labels; a binomial test at 0.001 against 95% (asymptotic: 94%).

    The noise is that of 100 sites with the usual threshold, all of them honest.
    """
    generator = np.random.default_rng([classes, int(10 * epsilon)])
    labels = dirichlet(0.5)(classes, generator).sum(axis=0)
    target = generator.dirichlet(np.full(classes, 0.7))
    world = ordinary(classes, generator)
    truth = target @ world.accuracy
    shares, runs = of_all_sites(noise_shares(PrivacyBudget(epsilon=epsilon), 67 - 33, classes, len(RADII) + 1)), 1000
    covered: dict[tuple[str, bool], int] = {}
    for _ in range(runs):
        certified = world.draw(labels, generator)
        cells = np.column_stack([labels - certified[:, 0], -np.diff(certified, axis=1), certified[:, -1]])
        pool = AggregatedClients(noisy(cells, shares))
        for interval in ("finite-sample", "asymptotic"):
            for at_once in (False, True):
                settings = Settings(interval=interval, simultaneous=at_once)
                answer = estimator("poststratified")(pool, target, settings)
                assert answer.uncertainty is not None
                bounds = make_interval(answer.uncertainty, target, pool, settings)
                inside = (bounds.lower <= truth + 1e-12) & (truth <= bounds.upper + 1e-12)
                key = (interval, at_once)
                covered[key] = covered.get(key, 0) + int(inside.all() if at_once else inside[4])
    for (interval, at_once), count in covered.items():
        nominal = 0.95 if interval == "finite-sample" else 0.94
        assert stats.binomtest(count, runs, nominal, alternative="less").pvalue > 0.001, (interval, at_once, count)


def rows_of(counts: np.ndarray) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, counts.tolist()))


@pytest.mark.parametrize("classes", [100, 1000])
def test_many_classes_little_above_the_noise_are_covered(classes: int) -> None:
    """Noise in n moves k/n by a little in the same direction everywhere, which many classes do not average out."""
    generator, runs = np.random.default_rng(classes), 200
    shares = NoiseShares(Share(1100.0, 1, 0.1), Share(470.0, 1, 0.1))  # as 22 cells of variance 100
    size = int(8 * np.sqrt(470.0))
    target, truth = np.full(classes, 1 / classes), 0.85
    cells = np.zeros((classes, 2), dtype=np.int64)
    covered = dict.fromkeys(["finite-sample", "asymptotic"], 0)
    sums = noisy(cells, shares, [0.0])
    assert sums.private is not None
    for _ in range(runs):
        cells[:, -1] = generator.binomial(size, truth, classes)
        cells[:, 0] = size - cells[:, -1]
        noisy_cells = np.rint(cells + generator.normal(0, 1100**0.5, cells.shape)).astype(np.int64)
        sizes = np.rint(size + generator.normal(0, 470**0.5, (2, classes))).astype(np.int64)
        released_counts = replace(sums.private, cells=rows_of(noisy_cells), sizes=rows_of(sizes))
        pool = AggregatedClients(noisy_sums(sums, released_counts, 100, "noise"))
        for interval in covered:
            settings = Settings(interval=interval)
            answer = estimator("poststratified")(pool, target, settings)
            assert answer.uncertainty is not None
            bounds = make_interval(answer.uncertainty, target, pool, settings)
            covered[interval] += int(bounds.lower[-1] <= truth <= bounds.upper[-1])
    for interval, count in covered.items():
        nominal = 0.95 if interval == "finite-sample" else 0.94
        assert stats.binomtest(count, runs, nominal, alternative="less").pvalue > 0.001, (interval, count)


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for index, report in enumerate(reports_of(0, "open")[:30]):
        Path(f"{index}.json").write_text(report.dumps())
        assert run(["private", "release", f"{index}.json", "--epsilon", "8", "--out", f"{index}.sums.json"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "110 counts get noise of standard deviation 0.8, and the classes' sizes, which are released twice, noise of 1.8"
        in said
    )
    assert "Each further release of the same examples adds to epsilon." in said
    Path("votes.json").write_text(FIVE.reports(0)[0].dumps())
    assert run(["private", "release", "votes.json", "--epsilon", "8", "--dry-run", "--out", "x.json"]) == 0
    assert "165 counts get noise of standard deviation 0.8" in " ".join(capsys.readouterr().out.split())
    assert run(["estimate", *(f"{index}.sums.json" for index in range(30)), "--json"]) == 0
    made: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert made["clients"] == 30
    assert run(["private", "release", "0.json", "--out", "x.json"]) == 2
    assert run(["private", "release", "0.json", "--epsilon", "-1", "--out", "x.json"]) == 2
    assert run(["private", "release", "0.json", "--epsilon", "1", "--dry-run", "--out", "x.json"]) == 0
    assert not Path("x.json").exists()
    Path("roster.txt").write_text("a\nb\nc\n")
    Path("classes.txt").write_text("cat\ndog\n")
    ask = ["request", "--model-id", "m", "--sigma", "0.25", "--classes", "classes.txt", "--roster", "roster.txt"]
    assert run([*ask, "--epsilon", "1", "--out", "r.json"]) == 2
    assert run([*ask, "--private", "--most-per-patient", "2", "--out", "r.json"]) == 2
    assert run([*ask, "--private", "--epsilon", "1", "--most-per-patient", "2", "--out", "r.json"]) == 0
    budget = Request.from_json(json.loads(Path("r.json").read_text())).private.budget  # type: ignore[union-attr]
    assert budget == PrivacyBudget(epsilon=1, unit="group", most_per_unit=2)


def test_classes_within_the_noise_take_the_pooled_curve_in_the_point_and_nothing_in_the_interval() -> None:
    cells = np.tile(np.array([60] + [0] * (len(RADII) - 1) + [40]), (50, 1)).astype(np.int64)
    cells[0] *= 100
    sums = noisy(cells, NoiseShares(Share(36.0, 1, 0.1), Share(900.0, 1, 0.1)))
    assert sums.private is not None
    # As if chance had made the noise 0 everywhere: 100 examples are within four deviations of it, 10,000 are not.
    sizes = np.tile(cells.sum(axis=1), (2, 1))
    exact = replace(sums.private, cells=rows_of(cells), sizes=rows_of(sizes))
    pool = AggregatedClients(noisy_sums(sums, exact, 100, "noise"))
    assert pool.class_totals is not None
    known = pool.class_totals[0] > 0
    assert known.tolist() == [True] + [False] * 49
    target = np.full(50, 1 / 50)
    answer = estimator("poststratified")(pool, target, Settings())
    assert answer.certified_accuracy[0] == pytest.approx(0.4)
    assert answer.uncertainty is not None
    assert answer.uncertainty.bias == pytest.approx(target[~known].sum() / 2)
    bounds = make_interval(answer.uncertainty, target, pool, Settings())
    assert bounds.lower[0] < 0.4 / 50
    assert bounds.upper[0] > 49 / 50 + 0.4 / 50


def test_what_chooses_a_class_is_not_what_counts_it() -> None:
    """Of two classes of 50 with noise of 15, the one whose first size came out high is held, with its second size."""
    cells = np.tile(np.array([25] + [0] * (len(RADII) - 1) + [25]), (2, 1)).astype(np.int64)
    sums = noisy(cells, NoiseShares(Share(1.0, 1, 0.1), Share(225.0, 1, 0.1)))
    assert sums.private is not None
    chosen = replace(sums.private, cells=rows_of(cells), sizes=((80, 20), (50, 50)))
    totals = AggregatedClients(noisy_sums(sums, chosen, 100, "noise")).noisy_totals
    assert totals is not None
    assert totals.sizes.tolist() == [80, 0]
    assert totals.labels == pytest.approx([50, 50])
    assert totals.certified[:, -1] == pytest.approx([25, 25])
