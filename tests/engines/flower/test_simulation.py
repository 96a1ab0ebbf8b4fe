"""Flower's simulation, for real: the integer reports are those of one process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from fedcert import Report, Request, certify
from fedcert.certification.seeds import seed_file_of
from fedcert.rounds import RunFolder
from flower_processes import COMPARED, Flower, app_in, flower, keys_in, trained_weights

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def simulation(tmp_path_factory: pytest.TempPathFactory) -> Flower:  # type: ignore[misc]
    with flower(tmp_path_factory.mktemp("flower")) as one:
        yield one


def own_reports(request: Request, weights: Path, partitions: int) -> dict[str, Report]:
    """The same work in this process."""
    from safetensors.torch import load_file
    from ward.task import load_data, make_network

    network = make_network().eval()
    network.load_state_dict(load_file(weights))
    reports = {}
    for number in range(partitions):
        _, (x, y) = load_data({"partition-id": number, "num-partitions": partitions})
        client = f"client-{number}"
        kept = seed_file_of(client, request.digest)
        reports[client] = certify(network, x, y, client=client, request=request, class_counts=True, seed_file=kept)
    return reports


def test_ten_clients_report_what_one_process_does(simulation: Flower, tmp_path: Path) -> None:
    """Their histograms of right answers, signed; CERTIFY's counts are compared in `test_round`, and on NVFlare."""
    weights, keys = trained_weights(tmp_path), keys_in(tmp_path, [f"client-{number}" for number in range(10)])
    settings = {
        "rounds": 0, "weights": str(weights), "run": str(tmp_path / "run"), "seconds": 120, "keys": str(keys),
    }  # fmt: skip
    said = simulation.run(app_in(tmp_path), settings | {"procedure": "population", "n": 32}, nodes=10)
    assert "accuracy at radius 0: " in said, said[-3000:]
    with RunFolder(tmp_path / "run") as folder:
        request, reports = folder.request, {report.client: report for report in folder.reports()}
    own = own_reports(request, weights, 10)
    assert reports.keys() == own.keys()
    assert {len(report.correct_counts or ()) for report in reports.values()} == {33}
    for client, report in reports.items():
        for name in COMPARED:
            assert getattr(report, name) == getattr(own[client], name), (client, name)
    estimate = json.loads((tmp_path / "run" / "estimate.json").read_text())
    assert estimate["clients"] == 10
    assert "All 10 reports are signed by keys that are trusted." in [check["sentence"] for check in estimate["checks"]]
    assert estimate["certified_accuracy"][0] > 0.5


@pytest.mark.parametrize("algorithm", ["fedprox", "scaffold"])
def test_the_app_trains_with_noise_and_certifies_on_the_way(simulation: Flower, tmp_path: Path, algorithm: str) -> None:
    settings = {
        "rounds": 4, "algorithm": algorithm, "epochs": 5, "learning-rate": 0.2, "clients": 4, "certify-every": 2,
        "n": 100, "seconds": 120, "run": str(tmp_path / "run"),
    }  # fmt: skip
    said = simulation.run(app_in(tmp_path), settings, nodes=4)
    assert said.count("certified accuracy at 0'") >= 2, said[-3000:]  # twice during training
    estimate = json.loads((tmp_path / "run" / "estimate.json").read_text())
    assert estimate["clients"] == 4
    assert estimate["certified_accuracy"][0] > 0.3  # it learned something


def test_below_the_quorum_the_run_fails_with_one_sentence(simulation: Flower, tmp_path: Path) -> None:
    roster = "client-0,client-1,elsewhere-0,elsewhere-1,elsewhere-2"
    settings = {"rounds": 0, "roster": roster, "n": 100, "seconds": 30, "run": str(tmp_path / "run")}
    said = simulation.run(app_in(tmp_path), settings, nodes=2)
    assert "error: 2 of the 5 clients that were asked answered, and at least 3 are needed: there is no estimate" in said
    assert "'elsewhere-0' (it was never there)" in said
    assert "certified accuracy at" not in said
    assert not (tmp_path / "run" / "estimate.json").exists()
    listed = simulation.call("flwr", "list", "here", "--format", "json")
    assert json.loads(listed[listed.index("{") :])["runs"][0]["status"] == "finished:failed"
