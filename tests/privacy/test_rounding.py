"""Counts rounded by chance: multiples, right on average, the same again, and intervals that allow for it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedcert import CallError, CannotCombine, Report, Sums, estimate
from fedcert.cli.main import run
from fedcert.errors import InvalidValue, Refused
from fedcert.estimation.clients.aggregated import AggregatedClients
from fedcert.estimation.intervals.statement import make_interval
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.settings import Settings
from fedcert.privacy.dp.mechanism import cells_of, released
from fedcert.privacy.keys.identity import Identity, write_identity
from fedcert.privacy.policy import Policy
from fedcert.privacy.rounding import rounded
from fedcert.report.privacy import ALONE, AddedNoise, PrivacyBudget
from federations import reports_of
from simulation import RADII, ordinary

REPORTS = reports_of(0, "open")
SITE = Identity.new("site")


def cells(sums: Sums) -> np.ndarray:
    assert sums.private is not None
    return np.array(sums.private.cells)


def test_counts_are_multiples_less_than_the_base_off_and_the_same_again() -> None:
    for report in REPORTS[:20]:
        made = rounded(report, 5, SITE)
        off = cells(made) - cells_of(report)
        assert not (cells(made) % 5).any()
        assert (np.abs(off) < 5).all()
        assert not off[cells_of(report) % 5 == 0].any()
        assert rounded(report, 5, SITE) == made
        assert made.noise == "counts that each site rounded by chance to multiples of 5"


def test_they_are_right_on_average_with_at_most_the_stated_variance() -> None:
    """The same counts at 8,000 sites, each with a key of its own."""
    report = REPORTS[0]
    exact = cells_of(report)
    drawn = np.array([cells(rounded(report, 5, Identity.new(f"c{k}"))) for k in range(8000)])
    share = exact % 5 / 5
    deviation = 5 * np.sqrt(share * (1 - share) / len(drawn))
    assert (np.abs(drawn.mean(axis=0) - exact) <= 5 * deviation + 1e-9).all()
    assert np.allclose(drawn.var(axis=0), 25 * share * (1 - share), atol=0.5)
    assert drawn.var(axis=0).max() <= 25 / 4 + 0.5


def report_of(certified: np.ndarray, labels: np.ndarray, client: str) -> Report:
    return Report(
        client=client, model="m", smoothing={"sigma": 0.5}, radii=RADII,  # type: ignore[arg-type]
        classes=[f"c{k}" for k in range(len(labels))], label_counts=labels, certified_counts=certified.sum(axis=0),
        class_certified_counts=certified.tolist(),
    )  # fmt: skip


def test_intervals_allow_for_it() -> None:
    """1,000 replications of 20 sites' counts rounded to tens; a binomial test at 0.001 against 95% (asymptotic: 94%)."""
    generator, runs = np.random.default_rng(5), 1000
    labels = generator.integers(20, 60, (20, 3))
    target = np.array([0.2, 0.5, 0.3])
    world = ordinary(3, generator)
    truth = target @ world.accuracy
    covered = dict.fromkeys(["finite-sample", "asymptotic"], 0)
    keys = [Identity.new(f"s{site}") for site in range(len(labels))]
    for _ in range(runs):
        total: Sums | None = None
        for site, own in enumerate(labels):
            made = rounded(report_of(world.draw(own, generator), own, "s"), 10, keys[site])
            total = made if total is None else total.merged(made)
        assert total is not None
        pool = AggregatedClients(total)
        for interval in covered:
            settings = Settings(interval=interval)
            answer = estimator("poststratified")(pool, target, settings)
            assert answer.uncertainty is not None
            bounds = make_interval(answer.uncertainty, target, pool, settings)
            covered[interval] += int(bounds.lower[4] <= truth[4] + 1e-12 and truth[4] <= bounds.upper[4] + 1e-12)
    for interval, count in covered.items():
        nominal = 0.95 if interval == "finite-sample" else 0.94
        assert stats.binomtest(count, runs, nominal, alternative="less").pvalue > 0.001, (interval, count)


def test_what_does_not_go_together() -> None:
    plain, other = rounded(REPORTS[0], 5, SITE), rounded(REPORTS[1], 10, SITE)
    with pytest.raises(CannotCombine, match="rounded alike$"):
        plain.merged(other)
    with pytest.raises(CannotCombine, match="rounded alike$"):
        plain.merged(released(REPORTS[1], PrivacyBudget(epsilon=1, noise=ALONE)))
    with pytest.raises(CallError, match="multiples of 2 or more, but the base is 1"):
        rounded(REPORTS[0], 1, SITE)
    with pytest.raises(Refused, match="has no counts per class"):
        rounded(reports_of(0, "closed")[0], 5, SITE)
    with pytest.raises(InvalidValue, match="there, with rho, unless counts were rounded, but is null"):
        AddedNoise(variance=1.0, cells=((1,),))
    grouped = replace(REPORTS[0], design_effect=(1.5,) * len(REPORTS[0].radii), largest_group=7)
    made = rounded(grouped, 5, SITE)
    assert made.largest_group == 10
    assert made.design_effect == (2.0,) * len(REPORTS[0].radii)  # the next step of a factor of the root of 2


def test_a_policy_of_rounding() -> None:
    policy = Policy(rounding=5)
    with pytest.raises(
        Refused, match="lets counts out in multiples of 5 only; use: fedcert private release --round-to"
    ):
        policy.check_report(100, False)
    for wrong in (None, 3, 2):
        with pytest.raises(Refused, match="lets counts out in multiples of 5; noise would do only if"):
            policy.check_release(REPORTS[0], None, wrong)
    policy.check_release(REPORTS[0], None, 10)
    with pytest.raises(Refused, match="noise would do only if the policy named a largest_epsilon"):
        policy.check_release(REPORTS[0], PrivacyBudget(epsilon=1))
    replace(policy, largest_epsilon=1.0).check_release(REPORTS[0], PrivacyBudget(epsilon=1))


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({"reports": False}, "lets no report out; take part in a private sum"),
        ({"class_counts": "in private sums"}, "lets counts per class out in private sums only; noise would do only if"),
        ({"fewest_holders": 3}, "lets a class out only where 3 sites hold it"),
    ],
)
def test_rounding_and_noise_of_any_size_do_not_get_round_other_rules(rules: dict[str, Any], why: str) -> None:
    for budget, base in ((None, 2), (PrivacyBudget(epsilon=100), None)):
        with pytest.raises(Refused, match=why):
            Policy(**rules).check_release(REPORTS[0], budget, base)
    Policy(**rules, largest_epsilon=1.0).check_release(REPORTS[0], PrivacyBudget(epsilon=1))
    with pytest.raises(Refused, match="delta is 0.01, but this site's policy allows at most 1e-05"):
        Policy(**rules, largest_epsilon=1.0).check_release(REPORTS[0], PrivacyBudget(epsilon=1, delta=0.01))


def test_what_others_know_does_not_tell_how_chance_fell() -> None:
    """Another time, another name, the same counts: the same rounding; another key: another one."""
    again = replace(REPORTS[0], created="2026-11-16T00:00:00Z", samples=7)
    assert cells(rounded(again, 5, SITE)).tolist() == cells(rounded(REPORTS[0], 5, SITE)).tolist()
    others = [cells(rounded(REPORTS[0], 5, Identity.new("site"))).tolist() for _ in range(5)]
    assert len({str(one) for one in others}) > 1


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("policy.json").write_text(json.dumps({"schema": "fedcert/policy/1", "rounding": 5}))
    for index, report in enumerate(REPORTS[:30]):
        Path(f"{index}.json").write_text(report.dumps())
        write_identity(Identity.new(report.client), Path(f"{index}.keys.json"))
        call = ["private", "release", f"{index}.json", "--round-to", "5", "--out", f"{index}.sums.json"]
        assert run([*call, "--keys", f"{index}.keys.json", "--policy", "policy.json"]) == 0
    assert "110 counts are rounded up or down, by chance and right on average, to multiples of 5." in " ".join(
        capsys.readouterr().out.split()
    )
    assert run(["estimate", *(f"{index}.sums.json" for index in range(30)), "--json"]) == 0
    made: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert made["details"]["privacy"] == {"rounding": 5}
    exact = estimate(REPORTS[:30], method="poststratified").certified_accuracy
    assert np.abs(np.subtract(made["certified_accuracy"], exact)).max() < 0.1
    for wrong in ([], ["--epsilon", "1", "--round-to", "5"]):
        assert run(["private", "release", "0.json", *wrong, "--out", "x.json"]) == 2
        assert "give either --epsilon, for noise, or --round-to" in " ".join(capsys.readouterr().err.split())
    assert run(["private", "release", "0.json", "--round-to", "5", "--out", "x.json"]) == 2
    assert "--round-to needs --keys" in " ".join(capsys.readouterr().err.split())
    rounding = ["--round-to", "3", "--keys", "0.keys.json", "--policy", "policy.json"]
    assert run(["private", "release", "0.json", *rounding, "--out", "x.json"]) == 1
    assert not Path("x.json").exists()
