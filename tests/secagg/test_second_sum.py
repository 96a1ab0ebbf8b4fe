"""The second sum: errors that allow for clients that differ, from sums alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from factories import dirichlet, ordinary, reports_of
from fedcert import Report, Sums, estimate
from fedcert.errors import Refused
from fedcert.estimation.clients.readings import named_readings
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.intervals.cluster_robust import ClassEffects
from fedcert.report import DEFAULT_RADII
from fedcert.secagg.second_sum import SecondSum
from right_answers import FIVE

TARGET = (0.3, 0.1, 0.2, 0.25, 0.15)


def summed(reports: list[Report], target: tuple[float, ...] = TARGET) -> Sums:
    """Sums and their spread, as two secure sums would give them."""
    sums = Sums.of(reports)
    about = SecondSum.of(sums, target)
    total = np.sum([about.pack(report) for report in reports], axis=0, dtype=np.uint64)
    return replace(sums, spread=about.spread(total))


def test_the_sandwich_is_that_of_the_reports_in_the_clear() -> None:
    reports = reports_of(0, "open")
    sums = summed(reports)
    assert sums.spread is not None
    moves = (
        ClassEffects.of(ReportedClients.of(__import__("fedcert.report", fromlist=["Table"]).Table.of(reports)))
        .scores(np.array(TARGET), None)
        .client_scores
    )
    assert np.abs(np.array(sums.spread.covariance) - moves.T @ moves).max() < 1e-11
    assert Sums.from_json(sums.to_json()) == sums


def test_the_sandwich_of_right_answers_is_that_of_their_scores() -> None:
    """In scores, though shares of their range are summed; of each radius that the request names."""
    reports = FIVE.reports(0)
    sums, scores = summed(reports), named_readings(FIVE.smoothing, FIVE.radii).lower.scores
    assert sums.spread is not None
    clients = ReportedClients.of(reports)
    scored = replace(clients, class_rows=clients.class_rows @ scores.T, reading=None)
    moves = ClassEffects.of(scored).scores(np.array(TARGET), None).client_scores
    assert np.array(sums.spread.covariance).shape == (3, 3)
    assert np.abs(np.array(sums.spread.covariance) - moves.T @ moves).max() < 1e-11
    assert Sums.from_json(sums.to_json()) == sums


def test_scores_below_zero_fit_into_the_second_sum() -> None:
    """16 passes at two sigma: scores from -0.2 on, of one client that is nearly a whole class."""
    hard = replace(FIVE, smoothing=replace(FIVE.smoothing, n=16), radii=(0.9,))
    assert named_readings(hard.smoothing, hard.radii).lower.low[0] < -0.15
    first, second = hard.reports(0, clients=2)
    wide = replace(first, class_correct_counts=None, label_counts=(99, 0, 0, 0, 0), correct_counts=(0,) * 16 + (99,))
    wide = replace(wide, class_correct_counts=((0,) * 16 + (99,), *[(0,) * 17] * 4))
    rows = ((11,) + (0,) * 16, *[(0,) * 17] * 4)
    small = replace(second, class_correct_counts=None, label_counts=(11, 0, 0, 0, 0), correct_counts=rows[0])
    made = summed([wide, replace(small, class_correct_counts=rows)], (1.0, 0.0, 0.0, 0.0, 0.0)).spread
    assert made is not None
    scores = named_readings(hard.smoothing, hard.radii).lower.scores[0]
    pooled = (99 * scores[-1] + 11 * scores[0]) / 110
    parts = [99 * (scores[-1] - pooled) / 110 / np.sqrt(1 - 0.9), 11 * (scores[0] - pooled) / 110 / np.sqrt(1 - 0.1)]
    assert made.covariance[0][0] == pytest.approx(np.square(parts).sum(), rel=1e-9)


def test_clients_of_equal_weight_are_worth_their_number() -> None:
    report = reports_of(0, "open")[0]
    reports = [replace(report, client=f"client {number}") for number in range(12)]
    spread = summed(reports).spread
    assert spread is not None
    assert spread.freedom == pytest.approx(11, rel=1e-6)


def test_ten_thousand_equal_sites_are_worth_their_number() -> None:
    """Nothing is rounded away, and the powers of weights fit."""
    about = SecondSum((1_000_000,), ((500_000, 400_000),), (1.0,))
    own = Report(
        client="c", model="m", smoothing={"sigma": 0.5}, radii=(0.0, 0.5), classes=("a",), label_counts=(100,),  # type: ignore[arg-type]
        certified_counts=(60, 30), class_certified_counts=((60, 30),),
    )  # fmt: skip
    made = about.spread(about.pack(own) * np.uint64(10_000))
    assert made.freedom == pytest.approx(9_999, rel=0.02)


@pytest.mark.parametrize("reports", [reports_of(0, "open"), FIVE.reports(0)], ids=["certify", "population"])
def test_the_interval_is_wider_and_says_so_for_its_own_target_only(reports: list[Report]) -> None:
    sums = summed(reports)
    mix = dict(zip(sums.classes, TARGET, strict=True))
    made, plain = estimate(sums, mix, "poststratified"), estimate(Sums.of(reports), mix, "poststratified")
    assert made.upper is not None
    assert plain.upper is not None
    assert made.interval is not None
    assert made.interval.kind == "cluster-robust"
    assert (np.array(made.upper) >= np.array(plain.upper) - 1e-12).all()
    assert made.checks[3].sentence.endswith("allows for clients that differ, by a second sum.")
    other = estimate(sums, "uniform", "poststratified")
    assert other.interval is not None
    assert other.interval.kind == "finite-sample"


def test_what_it_cannot_be_about() -> None:
    reports = reports_of(0, "open")
    with pytest.raises(Refused, match="need exact sums with counts per class"):
        SecondSum.of(Sums.of(reports_of(0, "closed")), TARGET)
    about = SecondSum.of(Sums.of(reports[:3]), TARGET)
    with pytest.raises(Refused, match="has no counts per class"):
        about.pack(replace(reports[0], class_certified_counts=None))
    with pytest.raises(Refused, match="has no counts per class"):
        SecondSum.of(Sums.of(FIVE.reports(0)), TARGET).pack(replace(FIVE.reports(0)[0], class_correct_counts=None))
    with pytest.raises(Refused, match="than the first sum has: it was not in it"):
        SecondSum.of(Sums.of(reports[:1]), TARGET).pack(max(reports[1:], key=lambda report: report.examples))


@pytest.mark.slow
@pytest.mark.parametrize("effect", [0.0, 0.5])
def test_intervals_cover_when_clients_differ(effect: float) -> None:
    """400 federations of 60 clients whose accuracies move at random on the logit scale; a binomial test against 95%."""
    generator = np.random.default_rng(int(10 * effect))
    runs, covered, plainly = 400, 0, 0
    target = np.array(TARGET)
    world = ordinary(5, generator)
    inside = np.clip(world.accuracy, 1e-6, 1 - 1e-6)
    logit = np.log(inside / (1 - inside))
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    mean = sum(
        w / weights.sum() / (1 + np.exp(-(logit + effect * node))) for node, w in zip(nodes, weights, strict=True)
    )
    truth = float(target @ mean[:, 4])
    for _ in range(runs):
        labels = dirichlet(1.0)(5, generator)[:60]
        reports = []
        for index, row in enumerate(labels):
            own = replace(world, accuracy=1 / (1 + np.exp(-(logit + effect * generator.normal()))))
            cells = own.draw(row, generator)
            reports.append(
                Report(
                    client=f"client {index}", model="simulated", smoothing={"sigma": 0.5}, radii=DEFAULT_RADII,  # type: ignore[arg-type]
                    classes=tuple("abcde"), label_counts=row, certified_counts=cells.sum(axis=0),
                    class_certified_counts=cells,
                )
            )  # fmt: skip
        sums = summed(reports)
        mix = dict(zip(sums.classes, TARGET, strict=True))
        for known, kind in ((sums, "robust"), (Sums.of(reports), "plain")):
            made = estimate(known, mix, "poststratified", interval="asymptotic")
            assert made.lower is not None
            assert made.upper is not None
            hit = made.lower[4] <= truth <= made.upper[4]
            covered, plainly = covered + (hit and kind == "robust"), plainly + (hit and kind == "plain")
    assert stats.binomtest(covered, runs, 0.94, alternative="less").pvalue > 0.001, covered
    if effect:
        assert plainly < 0.8 * runs  # without the second sum it would not cover


@pytest.mark.slow
def test_intervals_of_a_vote_cover_when_clients_differ() -> None:
    """200 federations of 60 clients that make all examples easier or harder; a binomial test against 94%."""
    world, runs, covered, plainly = replace(FIVE, effect=0.5), 200, np.zeros(3, dtype=int), np.zeros(3, dtype=int)
    mix = dict(zip(world.classes, TARGET, strict=True))
    truth = np.array(TARGET) @ world.truth
    for seed in range(runs):
        reports = world.reports(seed)
        for known, hits in ((summed(reports), covered), (Sums.of(reports), plainly)):
            made = estimate(known, mix, "poststratified", interval="asymptotic")
            assert made.lower is not None
            assert made.upper is not None
            hits += (np.array(made.lower) <= truth) & (truth <= np.array(made.upper))
    assert stats.binomtest(int(covered.min()), runs, 0.94, alternative="less").pvalue > 0.001, covered
    assert plainly.max() < 0.8 * runs  # without the second sum it would not cover
