"""Estimates from right answers: scores and their rounding, every method, and intervals that cover what is proven."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from factories import make_report, population_report
from fedcert import CallError, Estimate, Report, Sums, certify, estimate, what_if
from fedcert.estimation.clients.aggregated import AggregatedClients
from fedcert.estimation.clients.readings import (
    Reading,
    named_readings,
    rounded_counts,
    vote_readings,
)
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.settings import Settings
from fedcert.population.design import Design
from fedcert.population.tables import designs_for
from fedcert.population.vote import VoteCurve
from fedcert.report import Smoothing
from replications import SIGNIFICANCE, ends_of, of_counts

N, VOTES, SIGMA = 32, 11, 0.5
RADII = (0.0, 0.25, 0.5, 0.75)
RATIOS = tuple(radius / SIGMA for radius in RADII)
SMOOTHING = Smoothing(sigma=SIGMA, procedure="population", n=N, votes=VOTES)
METHODS = ("vw", "ap", "ga", "blup", "poststratified", "minimax", "auto")
OF_SUMS = ("vw", "blup", "poststratified", "minimax", "auto")


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Designs that do not come with the package are kept with the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDCERT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


# What p may be: distributions of the probability that a noisy copy is predicted right.


@dataclass(frozen=True)
class Chances:
    """A distribution of p: atoms with weights, or a Beta distribution."""

    atoms: tuple[tuple[float, float], ...] = ()
    beta: tuple[float, float] | None = None

    def right_answers(self, n: int = N) -> np.ndarray:
        """P(K = 0 … n)."""
        k = np.arange(n + 1)
        if self.beta is not None:
            return np.asarray(stats.betabinom.pmf(k, n, *self.beta))
        return np.sum([weight * stats.binom.pmf(k, n, p) for weight, p in self.atoms], axis=0)

    def truth(self, ratio: float, votes: int = VOTES) -> float:
        """What the vote keeps."""
        curve = VoteCurve("gaussian", votes, ratio)

        def kept(p: float) -> float:
            return float(curve(np.array([p]), np.array([1 - p]))[0][0])

        if self.beta is None:
            return sum(weight * kept(p) for weight, p in self.atoms)
        density = stats.beta(*self.beta).pdf
        return float(integrate.quad(lambda p: kept(p) * density(p), 0, 1, limit=200)[0])

    def draw(self, size: int, generator: np.random.Generator) -> np.ndarray:
        """So many values of p."""
        if self.beta is not None:
            return generator.beta(*self.beta, size)
        weights, values = np.array(self.atoms).T
        return generator.choice(values, size, p=weights)


NETWORK = Chances(beta=(0.6, 0.25))  # most examples clearly right, some clearly wrong, as of trained networks
MIDDLING = Chances(beta=(2.0, 1.0))
HARD = Chances(beta=(0.5, 2.0))


def tightest(design: Design, side: str) -> Chances:
    """All mass where the scores prove most: the least that lies between them and what the vote keeps."""
    p = np.linspace(0.02, 0.98, 4801)
    mean = stats.binom.pmf(np.arange(design.n + 1)[:, None], design.n, p).T @ getattr(design, side)
    kept = design.curve(p, 1 - p)[0]
    gap = np.abs(kept - mean)
    nearly = np.flatnonzero(gap < gap.min() + 1e-4)
    return Chances(atoms=((1.0, float(p[nearly[np.argmin(np.abs(kept[nearly] - 0.5))]])),))  # where chance is largest


def drawn(
    labels: np.ndarray,
    chances: list[Chances],
    generator: np.random.Generator,
    *,
    discloses: bool = True,
    **changes: Any,
) -> list[Report]:
    """Reports of clients with these labels (clients x classes)."""
    reports = []
    for index, row in enumerate(labels):
        rows = [generator.multinomial(count, each.right_answers()) for count, each in zip(row, chances, strict=True)]
        reports.append(population_report(f"site-{index:03d}", rows, discloses=discloses, **changes))
    return reports


LABELS = np.random.default_rng(3).multinomial(300, np.random.default_rng(4).dirichlet(np.ones(3), 12))
WORLD = [NETWORK, MIDDLING, HARD]
OPEN = drawn(LABELS, WORLD, np.random.default_rng(12))
CLOSED = drawn(LABELS, WORLD, np.random.default_rng(12), discloses=False)
PARTLY = [report if index % 3 else CLOSED[index] for index, report in enumerate(OPEN)]
FEDERATIONS = {"open": OPEN, "closed": CLOSED, "partly": PARTLY}


def contained(made: Estimate) -> None:
    """The curve is within its interval, and all are accuracies."""
    assert made.lower is not None
    assert made.upper is not None
    assert min(made.lower) >= 0
    assert max(made.upper) <= 1
    for low, point, high in zip(made.lower, made.certified_accuracy, made.upper, strict=True):
        assert low <= point <= high


# Rounding.


def test_rounding_keeps_the_mean_and_has_the_variance_of_coins() -> None:
    shares = np.array([[0.0, 0.3, 0.7, 1.0], [0.1, 0.1, 0.9, 0.95]])
    histogram, runs = np.array([40, 30, 20, 10]), 20_000
    counts = rounded_counts(np.tile(histogram, (runs, 1)), shares, b"0")
    assert counts.shape == (runs, 2)
    variance = (shares * (1 - shares)) @ histogram
    assert counts.mean(axis=0) == pytest.approx(shares @ histogram, abs=4 * np.sqrt(variance.max() / runs))
    assert counts.var(axis=0) == pytest.approx(variance, rel=0.06)


def test_an_example_has_one_random_number_at_all_radii() -> None:
    shares = np.array([[0.2, 0.9], [0.5, 0.9], [0.2, 1.0]])
    counts = rounded_counts(np.tile([50, 50], (4000, 1)), shares, b"1")
    only = rounded_counts(np.tile([50, 0], (4000, 1)), shares, b"1")
    assert (only[:, 0] <= only[:, 1]).all()  # whoever counts at a share of 0.2 counts at 0.5
    assert (only[:, 0] == only[:, 2]).all()
    assert (counts[:, 0] <= counts[:, 2]).all()
    covariance = np.cov(only[:, 0], only[:, 1])[0, 1]
    assert covariance == pytest.approx(50 * (0.2 - 0.2 * 0.5), rel=0.15)


def test_what_is_rounded_at_a_radius_does_not_depend_on_the_others() -> None:
    """Else the radii asked about beside it could be chosen for the end that they give."""
    shares, generator = np.random.default_rng(3).random((9, 5)), np.random.default_rng(4)
    histograms = generator.integers(0, 30, (7, 5))
    histograms[0, 0] = 2**40  # drawn radius by radius
    histograms = histograms.astype(np.int64)
    together = rounded_counts(histograms, shares, b"key")
    for radius in range(len(shares)):
        alone = rounded_counts(histograms, shares[[radius]], b"key")
        assert (alone[:, 0] == together[:, radius]).all()


def test_an_end_does_not_depend_on_the_radii_beside_it() -> None:
    whole = estimate(OPEN)
    for place, radius in enumerate(RADII):
        alone = estimate(OPEN, radii=[radius])
        assert (alone.lower[0], alone.upper[0]) == pytest.approx((whole.lower[place], whole.upper[place]), abs=1e-12)


def test_the_test_of_label_shift_does_not_depend_on_the_radii_asked_about() -> None:
    def verdict(**chosen: Any) -> tuple[str, float | None]:
        (check,) = (check for check in estimate(CLOSED, **chosen).checks if check.name == "label shift")
        return check.verdict, check.figure

    assert verdict() == verdict(radii=[0.75]) == verdict(votes=1, radii=[0.1])


def test_chances_of_rounding_follow_from_secret_seeds_too() -> None:
    """Where a population allows one histogram only, its intervals must still differ from sample to sample."""

    def ends(seed: str) -> tuple[float, ...]:
        return estimate(population_report("a", [[0] * 20 + [60] + [0] * (N - 20)], discloses=False, seed=seed)).upper

    different = {ends("sha256:" + f"{number:064x}") for number in range(8)}
    assert len(different) > 1
    assert ends("sha256:" + "0" * 64) == ends("sha256:" + "0" * 64)


def test_the_check_of_passes_is_about_the_target() -> None:
    """Few examples of a hard class, and many of an easy one: the target is the hard one."""
    weak, strong = Chances(beta=(8.0, 1.0)), Chances(atoms=((1.0, 1.0),))
    reports = drawn(np.array([[400, 40_000]]), [weak, strong], np.random.default_rng(5))
    names = reports[0].classes
    of_target = estimate(reports, {names[0]: 1.0}, radii=[1.0]).checks
    of_others = estimate(reports, {names[1]: 1.0}, radii=[1.0]).checks
    verdicts = [
        next(check for check in checks if check.name == "radii in reach").verdict for checks in (of_target, of_others)
    ]
    assert verdicts == ["warning", "ok"]


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        ({"radii": [1e17]}, "radii .* that the request does not name must be at most 3 sigma"),
        ({"radii": [1.6]}, "radii .* must be at most 3 sigma \\(1.5\\), but are up to 1.6"),
        ({"votes": 33}, "votes .* that the request does not name must be at most 31, but are 33"),
    ],
)
def test_what_is_not_on_offer_is_refused(chosen: dict[str, Any], why: str) -> None:
    with pytest.raises(CallError, match=why):
        estimate(OPEN, **chosen)


@pytest.mark.parametrize("count", [0, 1, 7, 2**40])
def test_shares_of_none_and_all_are_exact(count: int) -> None:
    shares = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    histogram = np.array([[count, 3, 2]])
    counts = rounded_counts(histogram, shares, b"2")
    assert counts.tolist() == [[3, count + 2, 0, count + 5]]


def test_the_same_reports_are_rounded_alike_and_the_ends_by_chances_of_their_own() -> None:
    clients, reading = ReportedClients.of(OPEN), named_readings(SMOOTHING, RADII).lower
    first, again, other = (clients.rounded(reading, side).certified_counts for side in ("lower", "lower", "upper"))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    once, twice = estimate(OPEN), estimate(list(reversed(OPEN)))
    assert (once.lower, once.upper, once.certified_accuracy) == (twice.lower, twice.upper, twice.certified_accuracy)


@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize("p", [0.6, 0.8, 0.9])
def test_samples_from_one_population_are_not_all_rounded_to_the_same_side(p: float, sums: bool) -> None:
    """An end is wrong by the noise and by the rounding: if that erred alike in all samples, it would not average out."""
    generator, runs, examples = np.random.default_rng(17), 300, 500
    reading = named_readings(SMOOTHING, RADII).lower
    chance = stats.binom.pmf(np.arange(N + 1), N, p)
    errors = []
    for _ in range(runs):
        report = population_report("a", [generator.multinomial(examples, chance)])
        if sums:
            totals = AggregatedClients(Sums.of([report])).rounded(reading, "lower").class_totals
            assert totals is not None
            rounded = totals[1][0]
        else:
            rounded = ReportedClients.of([report]).rounded(reading, "lower").certified_counts[0]
        errors.append(rounded - reading.shares @ np.array(report.correct_counts))
    variance = examples * (reading.shares * (1 - reading.shares)) @ chance
    assert (np.abs(np.mean(errors, axis=0)) < 5 * np.sqrt(variance / runs) + 1e-9).all()


@pytest.mark.parametrize("mode", FEDERATIONS)
def test_rounded_clients_are_whole_and_add_up(mode: str) -> None:
    clients = ReportedClients.of(FEDERATIONS[mode])
    readings = vote_readings(clients.smoothing, clients.radii)
    for reading, side in ((readings.lower_end, "lower"), (readings.upper_end, "upper")):
        made = clients.rounded(reading, side)
        assert np.array_equal(made.certified_counts, np.round(made.certified_counts))
        assert (made.certified_counts <= made.sizes[:, None]).all()
        assert np.array_equal(made.class_rows.sum(axis=1), made.certified_counts[made.has_class_counts])
        labels = made.label_counts[made.has_class_counts]
        assert (made.class_rows <= labels[:, :, None]).all()
        scores = clients.read(reading).certified_counts
        means = reading.low * clients.sizes[:, None] + reading.width * made.certified_counts
        assert np.abs(means - scores).max() < 6 * np.sqrt(clients.sizes.max() / 4) * reading.width.max()


def test_scores_as_shares_of_their_range() -> None:
    reading = Reading((0.0, 0.5), np.array([[-0.2, 0.4, 1.0], [0.3, 0.3, 0.3]]))
    assert reading.shares == pytest.approx(np.array([[0.0, 0.5, 1.0], [0.0, 0.0, 0.0]]))
    assert reading.low == pytest.approx([-0.2, 0.3])
    assert reading.width == pytest.approx([1.2, 1.0])
    assert reading.as_shares().radii == reading.radii


# Point estimates.


def lower_scores(n: int = N, votes: int = VOTES) -> np.ndarray:
    return np.array([design.lower for design in designs_for("gaussian", n, votes, RATIOS)])


def clipped(curve: np.ndarray, made: Estimate) -> np.ndarray:
    """A point estimate is put within its interval."""
    return np.clip(curve, made.lower, made.upper)


@pytest.mark.parametrize("method", METHODS)
def test_of_one_client_and_its_own_mix_the_estimate_is_the_mean_of_its_scores(method: str) -> None:
    report = OPEN[0]
    mean = lower_scores() @ np.array(report.correct_counts) / report.examples
    target = dict(zip(report.classes, report.label_counts, strict=True))
    made = estimate([report], target, method)
    contained(made)
    assert made.certified_accuracy == pytest.approx(clipped(mean, made), abs=1e-12)
    assert made.certified_accuracy == pytest.approx(mean, abs=1e-12)
    assert made.votes == VOTES
    assert made.largest_radius is None
    assert "largest_radius" not in made.to_json()


def test_vw_is_the_mean_of_all_scores() -> None:
    whole = np.sum([report.correct_counts for report in CLOSED], axis=0)
    mean = lower_scores() @ whole / whole.sum()
    for source in (CLOSED, OPEN, [Sums.of(CLOSED)], [Sums.of(OPEN[:5]), Sums.of(OPEN[5:])]):
        assert estimate(source, method="vw").certified_accuracy == pytest.approx(mean, abs=1e-12)


def test_poststratified_weighs_the_classes_means() -> None:
    rows = np.sum([report.class_correct_counts for report in OPEN], axis=0)
    means = lower_scores() @ (rows / rows.sum(axis=1, keepdims=True)).T
    target = np.array([0.5, 0.3, 0.2])
    made = estimate(OPEN, target, "poststratified")
    assert made.certified_accuracy == pytest.approx(means @ target, abs=1e-12)
    assert made.by_class is not None
    assert np.array(made.by_class.certified_accuracy) == pytest.approx(np.clip(means.T, 0, 1), abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mode", FEDERATIONS)
def test_every_method_is_within_its_interval(method: str, mode: str) -> None:
    if method == "poststratified" and mode == "closed":
        pytest.skip("there are no counts per class")
    reports = FEDERATIONS[mode]
    made = estimate(reports, "uniform", method, subsets=50)
    contained(made)
    if method in OF_SUMS:
        summed = estimate([Sums.of(reports)], "uniform", method)
        contained(summed)
        assert summed.votes == VOTES
        if method != "minimax":  # whose weights follow from what is known
            assert summed.certified_accuracy == pytest.approx(made.certified_accuracy, abs=1e-6)
        if method in ("vw", "poststratified"):
            assert summed.certified_accuracy == pytest.approx(made.certified_accuracy, abs=1e-9)


@pytest.mark.parametrize("interval", ["finite-sample", "hoeffding", "asymptotic"])
@pytest.mark.parametrize("simultaneous", [False, True])
def test_every_interval_contains_the_curve(interval: str, simultaneous: bool) -> None:
    for source in (OPEN, CLOSED, [Sums.of(OPEN)], [Sums.of(CLOSED)]):
        made = estimate(source, interval=interval, simultaneous=simultaneous)
        contained(made)
        assert made.interval is not None
        assert made.interval.scope == ("all radii at once" if simultaneous else "each radius")
        if made.by_class is not None:
            for low, point, high in zip(
                made.by_class.lower, made.by_class.certified_accuracy, made.by_class.upper, strict=True
            ):
                assert (np.array(low) <= np.array(point) + 1e-12).all()
                assert (np.array(point) <= np.array(high) + 1e-12).all()
        if not simultaneous:
            longer = estimate(source, interval=interval, simultaneous=True)
            assert (np.array(longer.upper) - longer.lower >= np.array(made.upper) - made.lower - 0.01).all()


@pytest.mark.parametrize("interval", ["finite-sample", "hoeffding", "asymptotic"])
def test_a_finite_target_has_a_longer_interval(interval: str) -> None:
    population, some = estimate(OPEN, interval=interval), estimate(OPEN, interval=interval, target_examples=500)
    contained(some)
    assert (np.array(some.upper) - some.lower > np.array(population.upper) - population.lower).all()
    assert some.interval is not None
    assert some.interval.estimand == "a set of 500 examples from the population"


def test_kinds_of_intervals_by_length() -> None:
    """Hoeffding's is the longest; all kinds are about the same thing."""
    length = {}
    for kind in ("finite-sample", "hoeffding", "asymptotic"):
        made = estimate(OPEN, interval=kind)
        length[kind] = np.array(made.upper) - made.lower
    assert (length["hoeffding"] > length["finite-sample"]).all()
    assert (length["finite-sample"] > 0.9 * length["asymptotic"]).all()


def test_uniform_noise_and_other_passes_and_votes_are_read_too() -> None:
    generator = np.random.default_rng(9)
    rows = [generator.multinomial(400, NETWORK.right_answers(16)) for _ in range(2)]
    made = estimate([population_report("a", rows, smoothing={"votes": 1})])
    contained(made)
    assert made.votes == 1
    uniform = {"noise": "uniform", "norm": "l1"}
    other = estimate([population_report("a", rows, smoothing=uniform, radii=[0.0, 0.2])])
    contained(other)
    assert other.certified_accuracy[0] > other.certified_accuracy[1]


def test_one_pass_of_each_example_is_an_estimate_too() -> None:
    made = estimate([population_report("a", [[30, 70], [20, 80]], smoothing={"votes": 1}, radii=[0.0, 0.1])])
    contained(made)
    assert made.certified_accuracy[0] == pytest.approx(0.75)


# What is chosen afterwards.


def test_votes_chosen_afterwards_have_a_wider_interval_and_say_so() -> None:
    named = estimate(OPEN)
    made = estimate(OPEN, votes=31)
    contained(made)
    assert made.votes == 31
    assert made.settings["votes"] == 31
    assert made.interval is not None
    assert made.interval.scope == "all radii at once"
    assert "Radii or votes were chosen after the counts were made" in made.guarantee
    assert "any choice of radii to 3 sigma and of odd numbers of votes up to 31" in made.guarantee
    assert "chosen after" not in named.guarantee
    assert (np.array(made.upper) - made.lower > np.array(named.upper) - named.lower).all()
    again = estimate(OPEN, votes=VOTES, radii=RADII)  # what the request named
    assert (again.lower, again.upper) == (named.lower, named.upper)
    some = estimate(OPEN, radii=RADII[1:3])  # some of what it named
    assert "chosen after" not in some.guarantee


def test_radii_chosen_afterwards_have_a_wider_interval() -> None:
    named, made = estimate(OPEN), estimate(OPEN, radii=[0.0, 0.25, 0.45, 0.5, 0.75])
    contained(made)
    assert made.radii == (0.0, 0.25, 0.45, 0.5, 0.75)
    assert "any choice of radii to 3 sigma" in made.guarantee
    rows = [0, 1, 3, 4]
    own, others = np.array([made.lower, made.upper])[:, rows], np.array([named.lower, named.upper])
    assert (own[1] - own[0] > others[1] - others[0]).all()
    assert np.array(made.certified_accuracy)[rows] == pytest.approx(named.certified_accuracy, abs=1e-9)


def test_off_the_grid_of_radii_ends_are_those_of_the_next_step_and_all_fall() -> None:
    step = SIGMA / 20
    radii = [0.0, 0.9 * step, step, 1.5 * step, 2 * step, 10.2 * step, 11 * step]
    made = estimate(OPEN, radii=radii)
    contained(made)
    for curve in (made.certified_accuracy, made.lower, made.upper):
        assert (np.diff(np.array(curve)) <= 1e-12).all()
    assert made.lower is not None
    assert made.upper is not None
    assert made.lower[1] == pytest.approx(made.lower[2], abs=1e-12)  # its lower end is that of the next larger step
    assert made.upper[1] <= made.upper[0]  # its upper end that of the next smaller one, or less
    assert made.lower[3] == pytest.approx(made.lower[4], abs=1e-12)
    assert made.lower[5] == pytest.approx(made.lower[6], abs=1e-12)


def test_certifys_reports_cannot_be_read_at_other_radii_or_votes() -> None:
    reports = [make_report("a", [30, 40], [50, 20])]
    population = "; population certificates (--procedure population) can be read at any"
    for sums in (False, True):
        source: Any = [Sums.of(reports)] if sums else reports
        for call in (estimate, lambda given, **more: what_if(given, ["uniform"], **more)):
            with pytest.raises(CallError) as caught:
                call(source, radii=[0.1])
            counted = "must be left out for CERTIFY's reports (fixed), as it counted at the radii of its request"
            assert str(caught.value) == f"radii (--radii) {counted}, but is a list of 1{population}"
            with pytest.raises(CallError) as caught:
                call(source, votes=31)
            voted = "must be left out for CERTIFY's reports (fixed), as it is about no vote, but is 31"
            assert str(caught.value) == f"votes (--votes) {voted}{population}"


@pytest.mark.parametrize("votes", [0, 2, 10_001, 1.5, True])
def test_votes_are_odd(votes: Any) -> None:
    with pytest.raises(ValueError, match="^votes must be an odd number from 1 to 9999, or null, but is "):
        estimate(OPEN, votes=votes)


def test_a_what_if_reads_right_answers_for_each_target() -> None:
    made = what_if(OPEN, {"first": "class 0=1", "all": "uniform"})
    assert made.votes == VOTES
    for curve, target in zip(made.targets, ("class 0=1", "uniform"), strict=True):
        single = estimate(OPEN, target, "poststratified")
        assert curve.certified_accuracy == pytest.approx(single.certified_accuracy, abs=1e-9)
        assert (curve.lower, curve.upper) == (single.lower, single.upper)
    assert what_if(OPEN, ["uniform"], votes=31).votes == 31


# Missing classes, screening, groups.


@pytest.mark.parametrize("method", ["poststratified", "minimax"])
@pytest.mark.parametrize("sums", [False, True])
def test_of_classes_that_no_client_holds_the_vote_keeps_anything(method: str, sums: bool) -> None:
    """The lower end is that of accuracy 0 for them, and the upper one that of 1."""
    labels = LABELS.copy()
    labels[:, 2] = 0
    reports = drawn(labels, WORLD, np.random.default_rng(6))
    source: Any = [Sums.of(reports)] if sums else reports
    held = estimate(source, [0.5, 0.5, 0.0], method)
    for share in (0.2, 0.6):
        made = estimate(source, [0.5 * (1 - share), 0.5 * (1 - share), share], method)
        contained(made)
        low, high = (1 - share) * np.array(held.lower), (1 - share) * np.array(held.upper) + share
        if method == "poststratified":
            assert np.array(made.lower) == pytest.approx(low, abs=1e-3)
            assert np.array(made.upper) == pytest.approx(high, abs=1e-3)
        else:  # minimax weights give some of their length to the class that is not there
            assert (np.array(made.lower) <= low + 1e-3).all()
            assert (np.array(made.upper) >= high - 1e-3).all()
    alone = estimate(source, [0.0, 0.0, 1.0], method)
    assert (set(alone.lower or ()), set(alone.upper or ())) == ({0.0}, {1.0})


def test_screening_leaves_the_same_clients_out_of_the_point_and_both_ends() -> None:
    liar = population_report("liar", [[0] * 32 + [count] for count in (400, 400, 400)])
    reports = [*OPEN, liar]
    made = estimate(reports, screen=True)
    contained(made)
    assert list(made.excluded) == ["liar"]
    honest = estimate(OPEN, screen=True)
    assert made.certified_accuracy == pytest.approx(honest.certified_accuracy, abs=0.02)
    assert made.lower == pytest.approx(honest.lower, abs=0.03)
    assert made.upper == pytest.approx(honest.upper, abs=0.03)
    fooled = estimate(reports)
    assert fooled.certified_accuracy[3] > made.certified_accuracy[3] + 0.05
    kept = estimate(reports, screen=True, trusted=["liar"])
    assert "liar" not in kept.excluded


def test_clients_that_differ_have_an_interval_that_allows_for_it() -> None:
    generator = np.random.default_rng(8)
    reports = []
    for index, row in enumerate(LABELS):
        shift = float(generator.uniform(0.3, 3.0))
        chances = [Chances(beta=(shift, 1.0))] * 3
        reports += [
            population_report(
                f"s{index}", [generator.multinomial(c, e.right_answers()) for c, e in zip(row, chances, strict=True)]
            )
        ]
    made = estimate(reports)
    contained(made)
    assert made.interval is not None
    assert made.interval.kind == "cluster-robust"
    assert "differ at random" in made.guarantee
    assert (np.array(made.upper) - made.lower > 0.05).all()


@pytest.mark.parametrize("kind", ["finite-sample", "hoeffding", "asymptotic"])
def test_groups_of_examples_lengthen_the_interval_as_their_design_effect_says(kind: str) -> None:
    (report,) = drawn(LABELS.sum(axis=0, keepdims=True), WORLD, np.random.default_rng(5))
    plain = estimate([report], interval=kind)
    grouped = [replace(report, design_effect=[4.0] * 4, largest_group=4)]
    made = estimate(grouped, interval=kind)
    contained(made)
    ratio = (np.array(made.upper) - made.lower) / (np.array(plain.upper) - plain.lower)
    assert (ratio > 1.6).all()
    assert (
        ratio < (2.6 if kind != "finite-sample" else 4.0)
    ).all()  # of which groups are bounded by more than variance
    assert made.certified_accuracy == pytest.approx(plain.certified_accuracy, abs=1e-12)
    summed = estimate([Sums.of(grouped)], interval=kind)
    contained(summed)
    chosen = estimate(grouped, interval=kind, radii=[0.0, 0.5])  # fewer radii than the effects were given at
    assert chosen.radii == (0.0, 0.5)


def test_what_is_said_of_an_estimate_from_right_answers() -> None:
    made = estimate(OPEN)
    assert "the majority vote of 11 noisy copies" in made.guarantee
    assert "it is not about single images" in made.guarantee
    assert "failure" not in made.guarantee
    assert Estimate.from_json(made.to_json()) == made
    names = {check.name for check in made.checks}
    assert "radii in reach" in names


# How long, and how sure.


@pytest.mark.parametrize("chances", [NETWORK, Chances(beta=(0.3, 0.1)), Chances(beta=(0.4, 0.6))])
def test_the_interval_is_hardly_longer_than_that_of_the_scores_themselves(chances: Chances) -> None:
    """10,000 examples: rounding and exactness cost 15% of a normal interval's length at most, on average."""
    generator, longer = np.random.default_rng(12), []
    designs = designs_for("gaussian", N, VOTES, RATIOS)
    for _ in range(30):
        rows = generator.multinomial(10_000, chances.right_answers())
        made = estimate([population_report("a", [rows])], method="vw")
        shares = rows / 10_000
        deviation = np.sqrt([shares @ design.lower**2 - (shares @ design.lower) ** 2 for design in designs])
        between = np.array([shares @ design.gap for design in designs])  # two designs, one for each end
        length = np.array(made.upper) - made.lower - between
        longer.append(length / (2 * stats.norm.ppf(0.975) * deviation / 100))
    average = np.mean(longer, axis=0)
    assert average[:3].mean() < 1.15
    assert average[3] < 1.35  # at 1.5 sigma, where little is left, scores range farther than they spread


def test_a_linear_classifier_is_covered_from_the_image_to_the_estimate() -> None:
    """Everything exact: p = Φ(margin / sigma), and the vote under the worst attack is what the curve says."""
    generator = np.random.default_rng(21)
    examples, sigma = 4000, 0.25
    margins = generator.normal(0.3, 0.35, examples)
    direction = np.array([0.6, 0.8, 0.0], dtype=np.float32)
    images = margins[:, None] * direction
    images[:, 2] = generator.random(examples)
    report = certify(
        lambda batch: (batch @ direction > 0).astype(int), images.astype(np.float32), np.ones(examples, int),
        client="a", sigma=sigma, procedure="population", n=N, model_id="linear", classes=["no", "yes"], seed=2,
        radii=[0.0, 0.2, 0.4],
    )  # fmt: skip
    made = estimate([report], "yes=1", "vw")
    p = stats.norm.cdf(margins / sigma)
    for place, radius in enumerate(made.radii):
        truth = VoteCurve("gaussian", VOTES, radius / sigma)(p, 1 - p)[0].mean()
        assert made.lower[place] <= truth <= made.upper[place]  # type: ignore[index]
        assert made.certified_accuracy[place] == pytest.approx(truth, abs=0.02)


def replicated(
    labels: np.ndarray, chances: list[Chances], scores: np.ndarray, opens: bool, runs: int, seed: int
) -> tuple[ReportedClients, float, float]:
    """Federations whose right answers are read by some scores and rounded, one in the place of each radius."""
    generator = np.random.default_rng(seed)
    reading = Reading((0.0,), scores[None])
    cells = np.zeros((*labels.shape, runs), dtype=np.int64)
    for client, row in enumerate(labels):
        for label, count in enumerate(row):
            histograms = generator.multinomial(count, chances[label].right_answers(), size=runs)
            cells[client, label] = rounded_counts(histograms, reading.shares, generator.bytes(16))[:, 0]
    disclosing = np.full(len(labels), opens)
    made = of_counts(labels, cells.sum(axis=1), disclosing, cells if opens else cells[:0])
    return made, float(reading.low[0]), float(reading.width[0])


def check_covered(wrong: int, runs: int, confidence: float, about: object) -> None:
    """An end is on the wrong side no more often than half of what is allowed, by a binomial test."""
    p_value = stats.binomtest(wrong, runs, (1 - confidence) / 2, alternative="greater").pvalue
    assert p_value > SIGNIFICANCE, (about, wrong, runs)


SMALL = np.array([[40, 10, 30], [10, 60, 20], [25, 25, 50], [80, 5, 10], [5, 40, 60]])
MIX = np.array([0.5, 0.3, 0.2])


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [0.0, 0.8, 1.5, 2.0])
@pytest.mark.parametrize("kind", ["finite-sample", "hoeffding", "asymptotic"])
def test_both_ends_cover_what_the_vote_keeps(kind: str, ratio: float) -> None:
    """1,000 federations for each distribution of p: ordinary ones, and all mass where the design is tightest."""
    (design,) = designs_for("gaussian", N, VOTES, [ratio])
    runs, settings = 1000, Settings(interval=kind)
    for side in ("lower", "upper"):
        adversarial = tightest(design, side)
        mixed = Chances(atoms=((0.5, adversarial.atoms[0][1]), (0.5, 1.0 if side == "lower" else 0.0)))
        worlds: list[tuple[str, list[Chances]]] = [
            ("ordinary", WORLD), ("tightest", [adversarial] * 3), ("tightest and certain", [mixed] * 3),
        ]  # fmt: skip
        for name, world in worlds:
            ways: list[tuple[np.ndarray, np.ndarray, str, bool]] = [
                (SMALL.sum(axis=0, keepdims=True), SMALL.sum(axis=0) / SMALL.sum(), "vw", False),
                (SMALL, MIX, "poststratified", True),
                *((SMALL, row, "poststratified", True) for row in np.eye(3)[:1]),  # the curve of a class
            ]
            if kind != "asymptotic":  # of curves these are made one by one, see `replications`
                ways.append((SMALL, MIX, "minimax", False))
            for labels, target, method, opens in ways:
                made, low, width = replicated(labels, world, getattr(design, side), opens, runs, 7)
                lower, upper = ends_of(made, target, method, settings)
                truth = sum(share * each.truth(ratio) for share, each in zip(target, world, strict=True))
                wrong = low + width * lower > truth + 1e-12 if side == "lower" else low + width * upper < truth - 1e-12
                # Approximate intervals, of a few hundred examples, may be wrong a little more often than they say.
                confidence = 0.95 if kind != "asymptotic" else 0.9
                check_covered(int(wrong.sum()), runs, confidence, (name, side, method))
                if ratio == 0 and kind == "finite-sample" and method == "vw" and name == "tightest":
                    assert wrong.mean() > 0.005, (name, side)  # the scores are the vote's own: the ends are sharp


@pytest.mark.slow
@pytest.mark.parametrize(
    "chances", [NETWORK, Chances(atoms=((1.0, 0.8),)), "tightest"], ids=["network", "0.8", "tightest"]
)
@pytest.mark.parametrize(
    ("kind", "simultaneous"),
    [("finite-sample", False), ("finite-sample", True), ("hoeffding", True), ("asymptotic", True)],
)
def test_reports_to_estimates_cover_what_the_vote_keeps(kind: str, simultaneous: bool, chances: Chances | str) -> None:
    """From the report on, 1,000 times: each radius, or all of them at once."""
    designs = designs_for("gaussian", N, VOTES, RATIOS)
    world = tightest(designs[2], "lower") if isinstance(chances, str) else chances
    truth = np.array([world.truth(ratio) for ratio in RATIOS])
    generator, runs = np.random.default_rng(31), 1000
    below, above = np.zeros((runs, 4), dtype=bool), np.zeros((runs, 4), dtype=bool)
    for index in range(runs):
        report = population_report("a", [generator.multinomial(500, world.right_answers())], discloses=False)
        made = estimate([report], method="vw", interval=kind, simultaneous=simultaneous)
        below[index], above[index] = np.array(made.lower) > truth + 1e-12, np.array(made.upper) < truth - 1e-12
    confidence = 0.95 if kind != "asymptotic" else 0.9
    if simultaneous:
        missed = int((below | above).any(axis=1).sum())
        assert stats.binomtest(missed, runs, 1 - confidence, alternative="greater").pvalue > SIGNIFICANCE
    else:
        for column in (*below.T, *above.T):
            check_covered(int(column.sum()), runs, confidence, kind)


@pytest.mark.slow
def test_whoever_chooses_radius_and_votes_by_what_looks_best_is_covered() -> None:
    """After the counts were seen: of some pairs of radius and votes, the lower end that exceeds the truth by most."""
    world, generator, runs = (
        tightest(designs_for("gaussian", N, VOTES, [1.0])[0], "lower"),
        np.random.default_rng(41),
        150,
    )
    radii = [SIGMA * step / 10 for step in range(0, 21, 2)]
    missed = 0
    for _ in range(runs):
        report = population_report("a", [generator.multinomial(400, world.right_answers())], discloses=False)
        wrong = False
        for votes in (1, 31):
            made = estimate([report], method="vw", radii=radii, votes=votes)
            truth = np.array([world.truth(radius / SIGMA, votes) for radius in radii])
            wrong |= bool((np.array(made.lower) > truth + 1e-12).any() or (np.array(made.upper) < truth - 1e-12).any())
        missed += wrong
    assert stats.binomtest(missed, runs, 0.05, alternative="greater").pvalue > SIGNIFICANCE
