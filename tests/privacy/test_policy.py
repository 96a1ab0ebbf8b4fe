"""A site's own rules: what they do not allow does not leave, and the reason is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedcert
from factories import reports_of
from fedcert import Report, Request, certify
from fedcert.cli.main import run
from fedcert.engines.client import REPORT, reply_to
from fedcert.errors import InvalidValue, Refused
from fedcert.privacy.policy import Policy, read_policy
from fedcert.report.privacy import PrivacyBudget
from fedcert.report.request import PrivateSum
from right_answers import FIVE
from secure_sums import private_request


@pytest.mark.parametrize(
    ("rules", "class_counts", "why"),
    [
        (
            {"minimum_examples": 50},
            False,
            "this site has 40 test examples, but its policy lets nothing out with fewer than 50",
        ),
        (
            {"reports": False},
            False,
            "this site's policy lets no report out; take part in a private sum: fedcert private join",
        ),
        (
            {"class_counts": "never"},
            True,
            "this site's policy lets counts per class out never; leave --class-counts out",
        ),
        (
            {"class_counts": "in private sums"},
            True,
            "this site's policy lets counts per class out in private sums only; leave --class-counts out",
        ),
        (
            {"fewest_holders": 3},
            False,
            "this site's policy lets a class out only where 3 sites hold it, which a report in the clear cannot wait "
            "for; take part in a private sum: fedcert private join",
        ),
        (
            {"largest_epsilon": 1},
            False,
            "this site's policy lets counts out with noise only; use: fedcert private release",
        ),
    ],
)
def test_reports_in_the_clear(rules: dict[str, Any], class_counts: bool, why: str) -> None:
    with pytest.raises(Refused) as caught:
        Policy(**rules).check_report(40, class_counts)
    assert str(caught.value) == why
    Policy().check_report(40, class_counts)


@pytest.mark.parametrize(
    ("rules", "budget", "why"),
    [
        ({"class_counts": "never"}, None, "lets counts per class out never, and the private sum is over them"),
        (
            {"fewest_clients": 5},
            None,
            "the sum may be over as few as 3 clients, but this site's policy wants at least 5",
        ),
        (
            {"fewest_holders": 3},
            None,
            "this site's policy wants classes summed only where 3 sites hold them, but the request asks for 0; ask the "
            "coordinator for one with --fewest-holders 3",
        ),
        ({"largest_epsilon": 1}, None, "this site's policy wants noise of at most epsilon 1, but none is asked"),
        ({"largest_epsilon": 1}, PrivacyBudget(epsilon=2), "epsilon is 2, but this site's policy allows at most 1"),
        ({"minimum_examples": 10**6}, None, "its policy lets nothing out with fewer than 1000000"),
    ],
)
@pytest.mark.parametrize("reports", [reports_of(0, "open"), FIVE.reports(0)], ids=["certify", "population"])
def test_private_sums(reports: list[Report], rules: dict[str, Any], budget: PrivacyBudget | None, why: str) -> None:
    report = reports[0]
    request = private_request(["a", "b", "c", "d"], private=PrivateSum(threshold=3, budget=budget))
    with pytest.raises(Refused, match=why):
        Policy(**rules).check_private(report, request)
    Policy(largest_epsilon=3 if budget else None).check_private(report, request)
    with pytest.raises(Refused, match="the request asks for no private sum"):
        Policy().check_private(report, private_request(["a", "b", "c"], private=None))


@pytest.mark.parametrize("reports", [reports_of(0, "open"), FIVE.reports(0)], ids=["certify", "population"])
def test_releases_with_noise(reports: list[Report]) -> None:
    report = reports[0]
    with pytest.raises(Refused, match="never, not even with noise"):
        Policy(class_counts="never").check_release(report, PrivacyBudget(epsilon=1))
    with pytest.raises(Refused, match="epsilon is 2, but this site's policy allows at most 1"):
        Policy(largest_epsilon=1).check_release(report, PrivacyBudget(epsilon=2))
    Policy(class_counts="in private sums", largest_epsilon=1).check_release(report, PrivacyBudget(epsilon=1))


def test_a_rule_that_is_misspelt_is_refused(tmp_path: Path) -> None:
    """Elsewhere keys that nobody knows are kept; here the site would believe in a rule that does not hold."""
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"schema": "fedcert/policy/1", "minimum_exampels": 50}))
    with (
        pytest.warns(match="did you mean 'minimum_examples'"),
        pytest.raises(InvalidValue, match="but is 'minimum_exampels'"),
    ):
        read_policy(path)
    assert read_policy(None) == Policy()


def test_a_policy_of_rounding_which_there_no_longer_is_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"schema": "fedcert/policy/1", "rounding": 5}))
    with pytest.raises(InvalidValue, match="policy must be made of minimum_examples, .*, but is 'rounding'"):
        read_policy(path)


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({"reports": False}, "lets no report out; take part in a private sum"),
        ({"class_counts": "in private sums"}, "lets counts per class out in private sums only; noise would do only if"),
        ({"fewest_holders": 3}, "lets a class out only where 3 sites hold it"),
    ],
)
def test_noise_of_any_size_does_not_get_round_other_rules(rules: dict[str, Any], why: str) -> None:
    report = reports_of(0, "open")[0]
    with pytest.raises(Refused, match=why):
        Policy(**rules).check_release(report, PrivacyBudget(epsilon=100))
    Policy(**rules, largest_epsilon=1.0).check_release(report, PrivacyBudget(epsilon=1))
    with pytest.raises(Refused, match="delta is 0.01, but this site's policy allows at most 1e-05"):
        Policy(**rules, largest_epsilon=1.0).check_release(report, PrivacyBudget(epsilon=1, delta=0.01))


@pytest.mark.parametrize("procedure", ["fixed", "population"])
def test_counts_per_class_do_not_leave_over_an_engine_against_the_rules(procedure: str) -> None:
    """Neither certified ones nor right answers; without classes the same report leaves."""
    torch = pytest.importorskip("torch")
    network = torch.nn.Linear(3, 2)
    x = np.random.default_rng(0).random((12, 3), dtype=np.float32)
    y = network(torch.from_numpy(x)).argmax(dim=1).numpy()  # a model that is right
    smoothing = {"sigma": 0.25, "procedure": procedure, "n": 20}
    model = certify(network, x[:1], y[:1], client="a", seed=0, sigma=0.25, procedure="fixed", n=10).model
    asked = Request(model=model, smoothing=smoothing, radii=(0.0, 0.25), classes=("a", "b"), nonce="0f" * 16)  # type: ignore[arg-type]

    def replied(class_counts: bool) -> dict[str, str]:
        return reply_to(
            REPORT, asked.dumps(), None, network, network.state_dict, (x, y), "a", class_counts=class_counts,
            policy=Policy(class_counts="in private sums"), seed=0,
        )  # fmt: skip

    assert replied(True) == {
        "name": "a",
        "trouble": "this site's policy lets counts per class out in private sums only; leave --class-counts out",
    }
    report = Report.from_json(json.loads(replied(False)["report"]))
    assert (report.class_procedure_counts, report.examples) == (None, 12)
    assert len(report.procedure_counts) == (21 if procedure == "population" else 2)


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("rule", ["always", "in private sums", "never"])
def test_counts_per_class_are_given_where_the_request_asks_and_the_policy_allows(asks: bool, rule: str) -> None:
    torch = pytest.importorskip("torch")
    network = torch.nn.Linear(3, 2)
    x = np.random.default_rng(0).random((12, 3), dtype=np.float32)
    y = network(torch.from_numpy(x)).argmax(dim=1).numpy()
    asked = fedcert.request(network, 0.25, ["a", "b"], class_counts=asks)
    reply = reply_to(
        REPORT, asked.dumps(), None, network, network.state_dict, (x, y), "a", policy=Policy(class_counts=rule), seed=0
    )
    report = Report.from_json(json.loads(reply["report"]))
    assert (report.class_procedure_counts is not None) == (asks and rule == "always")


def test_certify_fails_closed_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ward3.py").write_text("def make():\n    return lambda batch: (batch[:, 0] > 0.5).astype(int)\n")
    x = np.random.default_rng(0).random((20, 4), dtype=np.float32)
    np.savez("data.npz", x=x, y=(x[:, 0] > 0.5).astype(int))
    Path("policy.json").write_text(Policy(minimum_examples=21).dumps())
    call = ["certify", "ward3:make", "data.npz", "--model-id", "m", "--client", "a", "--sigma", "0.2", "--n", "100"]
    assert run([*call, "--policy", "policy.json", "--out", "report.json"]) == 1
    told = capsys.readouterr().err
    assert (
        told == "fedcert: error: this site has 20 test examples, but its policy lets nothing out with fewer than 21\n"
    )
    assert not Path("report.json").exists()
    Path("policy.json").write_text(Policy(minimum_examples=20, signed_requests=True).dumps())
    assert run([*call, "--policy", "policy.json", "--out", "report.json"]) == 2
    assert "this site's policy wants signed requests" in capsys.readouterr().err
    Path("policy.json").write_text(Policy(minimum_examples=20, class_counts="never").dumps())
    assert run([*call, "--policy", "policy.json", "--class-counts", "--out", "report.json"]) == 1
    assert run([*call, "--policy", "policy.json", "--out", "report.json"]) == 0
