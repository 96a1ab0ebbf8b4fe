"""The demo, as a newcomer runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedcert import Report, compare, estimate, read_reports
from fedcert.cli.main import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's folder, made once."""
    made = tmp_path_factory.mktemp("story") / "demo"
    assert run(["demo", "--out", str(made)]) == 0
    return made


def test_it_writes_everything_it_names(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [
        "curve.png", "data", "estimate-ap.json", "estimate-blup.json", "estimate-ga.json", "estimate-poststratified.json", "estimate-vw.json",
        "model.safetensors", "page.html", "reports", "reports-with-class-counts", "request.json", "truth.json",
    ]  # fmt: skip
    assert len(list((folder / "reports").iterdir())) == len(list((folder / "data").iterdir())) == 20


def test_its_files_are_valid_and_go_together(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["validate", str(folder / "reports"), str(folder / "request.json"), str(folder / "estimate-ga.json")]) == 0
    )
    assert "22 valid, 0 invalid." in capsys.readouterr().out


def test_its_estimates_can_be_made_again_from_its_reports(folder: Path) -> None:
    recorded = json.loads((folder / "estimate-ga.json").read_text())
    again = estimate(
        read_reports([folder / "reports"]), recorded["target"]["distribution"], "ga", **recorded["settings"]
    )
    assert list(again.certified_accuracy) == pytest.approx(recorded["certified_accuracy"], abs=1e-12)


def test_certify_by_the_command_it_suggests_gives_the_same_counts(folder: Path, tmp_path: Path) -> None:
    report = tmp_path / "again.json"
    command = ["certify", "fedcert.lab.networks:digits_network", str(folder / "data" / "client-03.npz")]
    command += ["--weights", str(folder / "model.safetensors"), "--request", str(folder / "request.json")]
    assert run([*command, "--client", "client-03", "--seed", "0", "--out", str(report), "--device", "cpu"]) == 0
    recorded = Report.from_json(json.loads((folder / "reports" / "client-03.json").read_text()))
    again = Report.from_json(json.loads(report.read_text()))
    assert again.model == recorded.model
    assert again.certified_counts == recorded.certified_counts


def test_grouping_beats_the_volume_weighted_mean_on_its_shifted_target(folder: Path) -> None:
    truth = Report.from_json(json.loads((folder / "truth.json").read_text())).certified_accuracy
    error = {
        method: compare(json.loads((folder / f"estimate-{method}.json").read_text())["certified_accuracy"], truth).rmse
        for method in ("vw", "ap", "ga")
    }
    assert error["ga"] < error["vw"] / 2
    assert error["ap"] < error["vw"] / 2
