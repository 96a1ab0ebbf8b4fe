"""Screening: liars lose their weight, honest clients keep theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from factories import RADII, TARGET_EXAMPLES, dirichlet, federation, limited, ordinary, pareto, reports_of, shifted
from fedcert import EstimationProblem, Report, Sums, estimate
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.diagnostics.screening import deviations, screen
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.settings import Settings

PARTITIONS = {
    "Dirichlet 0.1": dirichlet(0.1),
    "Dirichlet 1": dirichlet(1.0),
    "Pareto 2": pareto(2.0),
    "Pareto 5": pareto(5.0),
    "class-limited 0.2": limited(0.2),
    "class-limited 0.4": limited(0.4),
}
LIES = {"1": (1, 1), "0": (0, 1), "1, ten-fold": (1, 10), "0, ten-fold": (0, 10)}


def lied(
    labels: np.ndarray, cells: np.ndarray, lie: tuple[int, int], generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts in which every fifth client claims all or nothing, perhaps of ten times its examples; and who they are."""
    claim, volume = lie
    liars = generator.choice(len(labels), len(labels) // 5, replace=False)
    labels, cells = labels.copy(), cells.copy()
    labels[liars] *= volume
    cells[liars] = claim * labels[liars][:, :, None]
    return labels, cells, liars


def lying_reports(seed: int, mode: str, client: str = "client 7") -> list[Report]:
    """Reports of which one claims that everything is certified."""
    reports = reports_of(seed, mode)
    index = next(index for index, report in enumerate(reports) if report.client == client)
    honest = reports[index]
    changes: dict[str, Any] = {"certified_counts": (honest.examples,) * 21}
    if honest.class_certified_counts is not None:
        changes["class_certified_counts"] = tuple((count,) * 21 for count in honest.label_counts)
    reports[index] = Report(**{**{name: getattr(honest, name) for name in Report.field_types()}, **changes})
    return reports


@pytest.mark.parametrize("mode", ["closed", "open", "partly open"])
@pytest.mark.parametrize("method", ["auto", "blup", "minimax", "vw", "ap", "ga"])
def test_a_liar_is_named_and_left_out(mode: str, method: str) -> None:
    reports = lying_reports(1, mode)
    made = estimate(reports, "uniform", method, screen=True)
    assert set(made.excluded) == {"client 7"}
    assert made.excluded["client 7"].startswith("it was screened out: its curve is ")
    assert "standard deviations of chance from what the others predict for its class mix" in made.excluded["client 7"]
    assert (made.weights or {}).get("client 7") is None
    check = {check.name: check for check in made.checks}["screening"]
    assert check.verdict == "warning"
    assert check.sentence.startswith("Screening removed 1 of 60 clients and down-weighted ")
    assert made.clients == 59
    assert made.examples == sum(report.examples for report in reports if report.client != "client 7")
    assert "approximately, because clients were screened by what they report," in made.guarantee
    assert made.settings["screen"] is True


def test_without_liars_nothing_is_left_out_and_nothing_promised_is_lost() -> None:
    reports = reports_of(1, "closed")
    made = estimate(reports, "uniform", screen=True)
    assert made.excluded == {}
    assert {check.name: check.verdict for check in made.checks}["screening"] == "ok"
    assert made.certified_accuracy == pytest.approx(estimate(reports, "uniform").certified_accuracy, abs=0.01)


def test_a_huge_client_is_cut_to_size_and_told_of() -> None:
    reports = reports_of(2, "closed")
    big = reports[3]
    factor = 50
    reports[3] = Report(
        **{
            **{name: getattr(big, name) for name in Report.field_types()},
            "label_counts": tuple(factor * count for count in big.label_counts),
            "certified_counts": tuple(factor * count for count in big.certified_counts),
        }
    )
    screened = screen(ReportedClients.of(reports))
    assert "it has more than 3 times the median client's examples" in screened.reduced[big.client]
    position = screened.federation.clients.index(big.client)
    sizes = np.array([report.examples for report in reports])
    assert screened.federation.sizes[position] <= 3 * np.median(sizes) + 1e-6


def test_sums_cannot_be_screened() -> None:
    with pytest.raises(
        EstimationProblem, match="sums cannot be screened: they tell no client apart; give the clients'"
    ):
        estimate(Sums.of(reports_of(1, "closed")), screen=True)


def test_the_order_of_clients_decides_nothing_and_factors_are_factors() -> None:
    generator = np.random.default_rng(0)
    labels = limited(0.4)(10, generator)
    labels, cells, _ = lied(labels, ordinary(10, generator).draw(labels, generator), (1, 10), generator)
    certified = cells.sum(axis=1).astype(float)
    found = deviations(labels.astype(float), certified)
    order = generator.permutation(len(labels))
    again = deviations(labels[order].astype(float), certified[order])
    assert again.fitting == pytest.approx(found.fitting[order], abs=1e-6)
    assert np.all((found.fitting >= 0) & (found.fitting <= 1) & (found.cap > 0) & (found.cap <= 1))


@pytest.mark.parametrize("clients", [1, 2, 3])
def test_hardly_any_clients(clients: int) -> None:
    labels = np.full((clients, 2), 10.0)
    certified = np.full((clients, 3), 10.0)
    found = deviations(labels, certified)
    assert found.fitting == pytest.approx(np.ones(clients))


def test_clients_that_differ_a_little_are_not_thinned() -> None:
    """A federation without label shift is the label-shift check's business, not screening's."""
    dropped = 0
    for seed in range(5):
        generator = np.random.default_rng(seed)
        labels = dirichlet(1.0)(10, generator)
        accuracy = ordinary(10, generator).accuracy
        logit = np.log((accuracy + 1e-9) / (1 - accuracy + 1e-9))
        certified = np.zeros((len(labels), len(RADII)))
        for index, row in enumerate(labels):
            moved = 1 / (1 + np.exp(-(logit + 0.3 * generator.normal())))
            certified[index] = generator.binomial(row[:, None], moved).sum(axis=0)
        certified = np.minimum.accumulate(certified, axis=1)
        dropped += int(np.sum(deviations(labels.astype(float), certified).fitting < 0.01))
    assert dropped <= 5  # of 500


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("name", PARTITIONS)
def test_20_percent_liars_cost_at_most_half_as_much_again(name: str, lie: str) -> None:
    """RMSE with liars and screening at most 1.5 times that without either; honest clients dropped below 1%."""
    for distance in (None, 0.4):
        squares: dict[str, list[float]] = {
            "clean blup": [],
            "blup": [],
            "clean poststratified": [],
            "poststratified": [],
        }
        dropped = honest = 0
        for seed in range(30):
            generator = np.random.default_rng([seed, int((distance or 0) * 10)])
            world = ordinary(10, generator)
            labels = PARTITIONS[name](10, generator)
            cells = world.draw(labels, generator)
            pool = labels.sum(axis=0) / labels.sum()
            target = np.full(10, 0.1) if distance is None else shifted(pool, distance, generator)
            size = generator.multinomial(TARGET_EXAMPLES, target)
            truth = world.draw(size, generator).sum(axis=0) / TARGET_EXAMPLES
            mix = size / size.sum()
            false_labels, false_cells, liars = lied(labels, cells, LIES[lie], generator)
            for method in ("blup", "poststratified"):
                opens = method == "poststratified"
                run = estimator(method)
                clean = run(federation(labels, cells, opens), mix, Settings()).certified_accuracy
                made = federation(false_labels, false_cells, opens)
                screened = screen(made)
                answer = run(screened.federation, mix, Settings(screen=True)).certified_accuracy
                squares[f"clean {method}"].append(float(np.mean((clean - truth) ** 2)))
                squares[method].append(float(np.mean((answer - truth) ** 2)))
            held = np.flatnonzero(false_labels.sum(axis=1) > 0)
            lying = {f"client {position}" for position, index in enumerate(held) if index in set(liars.tolist())}
            dropped += len(set(screened.dropped) - lying)
            honest += len(held) - len(lying)
        for method in ("blup", "poststratified"):
            rmse, clean_rmse = (np.sqrt(np.mean(squares[key])) for key in (method, f"clean {method}"))
            assert rmse <= 1.5 * clean_rmse, (method, distance, rmse / clean_rmse)
        assert dropped < 0.01 * honest
