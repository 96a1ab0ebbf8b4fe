"""The demo, as a newcomer runs it."""

from __future__ import annotations

import contextlib
import io
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

import fedcert
from fedcert import Estimate, Report, compare, estimate, read_reports
from fedcert.cli.main import run
from fedcert.estimation.clients.readings import own_curve
from fedcert.lab.networks import digits_network
from fedcert.show.tracking import metrics_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's folder, made once."""
    made = tmp_path_factory.mktemp("story") / "demo"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run(["demo", "--out", str(made)]) == 0
    (made.parent / "printed.txt").write_text(printed.getvalue())
    return made


def test_it_writes_everything_it_names(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [
        "curve.png", "data", "estimate.json", "model.safetensors", "page.html", "paper", "reports", "request.json", "truth.json",
    ]  # fmt: skip
    assert sorted(path.name for path in (folder / "paper").iterdir()) == [
        "curve.png", "estimate-ap.json", "estimate-blup.json", "estimate-ga.json", "estimate-poststratified.json", "estimate-vw.json",
        "reports", "reports-without-class-counts", "request.json", "truth.json",
    ]  # fmt: skip
    assert len(list((folder / "paper" / "reports").iterdir())) == 20
    assert len(list((folder / "reports").iterdir())) == len(list((folder / "data").iterdir())) == 20


def test_its_files_are_valid_and_go_together(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paper = folder / "paper"
    assert run(["validate", str(paper / "reports"), str(paper / "request.json"), str(paper / "estimate-ga.json")]) == 0
    assert "22 valid, 0 invalid." in capsys.readouterr().out


def test_its_estimates_can_be_made_again_from_its_reports(folder: Path) -> None:
    recorded = json.loads((folder / "paper" / "estimate-ga.json").read_text())
    again = estimate(
        read_reports([folder / "paper" / "reports-without-class-counts"]),
        recorded["target"]["distribution"],
        "ga",
        **recorded["settings"],
    )
    assert list(again.certified_accuracy) == pytest.approx(recorded["certified_accuracy"], abs=1e-12)


def test_certify_by_the_command_it_suggests_agrees(folder: Path, tmp_path: Path) -> None:
    report = tmp_path / "again.json"
    command = ["certify", "fedcert.lab.networks:digits_network", str(folder / "data" / "office-03.npz")]
    command += ["--weights", str(folder / "model.safetensors"), "--request", str(folder / "request.json")]
    assert run([*command, "--client", "office-03", "--out", str(report), "--device", "cpu"]) == 0
    recorded = Report.from_json(json.loads((folder / "reports" / "office-03.json").read_text()))
    again = Report.from_json(json.loads(report.read_text()))
    assert again.model == recorded.model
    assert (again.label_counts, again.radii) == (recorded.label_counts, recorded.radii)
    assert again.class_correct_counts is not None, "the request asks for counts per class"
    assert own_curve(again) == pytest.approx(own_curve(recorded), abs=0.15), "other noise, the same model"


def test_grouping_beats_the_volume_weighted_mean_on_its_shifted_target(folder: Path) -> None:
    paper = folder / "paper"
    truth = Report.from_json(json.loads((paper / "truth.json").read_text())).certified_accuracy
    error = {
        method: compare(json.loads((paper / f"estimate-{method}.json").read_text())["certified_accuracy"], truth).rmse
        for method in ("vw", "ap", "ga", "blup", "poststratified")
    }
    assert error["ga"] < 0.6 * error["vw"]  # 0.43 to 0.5 times, as the secret noise has it
    assert error["ap"] < error["vw"] / 2
    assert error["blup"] < error["vw"] / 2
    assert error["poststratified"] < error["vw"] / 4


def test_both_kinds_are_of_the_same_clients_and_near_their_truths(folder: Path) -> None:
    votes, singles = (
        [Report.from_json(json.loads(path.read_text())) for path in sorted((place / "reports").iterdir())]
        for place in (folder, folder / "paper")
    )
    for vote, single in zip(votes, singles, strict=True):
        assert (vote.client, vote.model, vote.label_counts) == (single.client, single.model, single.label_counts)
        assert (vote.smoothing.procedure, vote.smoothing.n, vote.radii) == ("population", 32, single.radii)
        assert single.smoothing.procedure == "sequential"
        assert vote.samples == 32 * vote.examples
    made = Estimate.from_json(json.loads((folder / "estimate.json").read_text()))
    again = estimate(read_reports([folder / "reports"]), made.target, "poststratified", seed=0)
    assert again.certified_accuracy == pytest.approx(made.certified_accuracy, abs=1e-12)
    truth = Report.from_json(json.loads((folder / "truth.json").read_text()))
    assert truth.smoothing.n == 100
    assert compare(made.certified_accuracy, own_curve(truth, radii=made.radii)).rmse < 0.05
    # On the same examples the vote is proven to keep more than CERTIFY certifies, at 1.2 sigma.
    certify = Report.from_json(json.loads((folder / "paper" / "truth.json").read_text()))
    place = made.radii.index(0.6)
    assert own_curve(truth)[place] > certify.certified_accuracy[place]


def test_it_prints_both_kinds_side_by_side(folder: Path) -> None:
    printed = " ".join((folder.parent / "printed.txt").read_text().split())
    assert "CERTIFY: of examples one by one" in printed
    assert re.search(r"vote of 11: on average 32 \d+\.\d 0\.\d{3}", printed)
    assert re.search(r"The vote takes \d+ times fewer passes and holds on average", printed)


def margin(made: Estimate) -> float:
    """Half of the interval at the radius that is shown first."""
    answer = made.at(0.25)
    assert answer.lower is not None
    assert answer.upper is not None
    return (answer.upper - answer.lower) / 2


def test_it_ends_in_an_answer_that_one_can_act_on(folder: Path) -> None:
    """The noise is secret, so that the check of label shift warns in one of a hundred demos, as its level says."""
    printed = " ".join((folder.parent / "printed.txt").read_text().split())
    assert "Valid for the smoothed classifier (majority vote of 11 noisy copies" in printed
    made = Estimate.from_json(json.loads((folder / "estimate.json").read_text()))
    assert made.used_method == "poststratified"
    assert {check.verdict for check in made.checks if check.name != "label shift"} == {"ok"}
    assert ("All checks passed." in printed) == (made.verdict == "ok")
    assert margin(made) <= 0.1


def test_nearly_every_demo_ends_so(folder: Path) -> None:
    """With other noise: the verdict is ok, and the margin of error at most 8 points, in all runs but one of ten."""
    network = digits_network()
    network.load_state_dict(load_file(folder / "model.safetensors"))
    clients = {path.stem: np.load(path) for path in sorted((folder / "data").iterdir())}
    request = fedcert.Request.load(folder / "request.json")
    good = 0
    for seed in range(10):
        reports = [
            fedcert.certify(network, data["x"], data["y"], client=name, request=request, seed=seed, progress=False)
            for name, data in clients.items()
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fedcert.FedcertWarning)
            made = estimate(reports, str(folder / "estimate.json"))
        odd = {check.name for check in made.checks if check.verdict != "ok"} - {"secret seeds"}
        good += not odd and margin(made) <= 0.08
    assert good >= 9


def test_the_vote_can_be_watched_over_rounds(folder: Path) -> None:
    """Its settings have no largest radius, and trackers need none."""
    made = Estimate.from_json(json.loads((folder / "estimate.json").read_text()))
    assert made.smoothing.largest_radius is None
    watched = metrics_of(made)
    assert [name for name in watched if name.startswith("certified_accuracy/")] == [
        f"certified_accuracy/radius_{radius:g}" for radius in (0, 0.2, 0.4, 0.6, 0.8, 1)
    ]
    assert watched["certified_accuracy_lower/radius_0.4"] == made.lower[made.radii.index(0.4)]  # type: ignore[index]
