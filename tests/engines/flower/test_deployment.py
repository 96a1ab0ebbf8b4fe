"""Flower's deployment, for real: a SuperLink, three SuperNodes with TLS and keys of their own, and an impostor.

The impostor is registered too, and claims the name of the third site with keys that are not in the keyring.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from fedcert import certify
from fedcert.certification.seeds import seed_file_of
from fedcert.privacy.keys.identity import Identity, write_identity
from fedcert.rounds import RunFolder
from flower_processes import BIN, COMPARED, Flower, app_in, flower, keys_in, trained_weights

pytestmark = pytest.mark.engine
SITES = ("site-a", "site-b", "site-c")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flower]:
    """The first two sites, and the impostor; the third comes later."""
    with flower(tmp_path_factory.mktemp("flower"), secure=True) as one:
        trained_weights(one.folder)
        give_rules(app_in(one.folder) / "ward" / "client_app.py")
        keys_in(one.folder, SITES)
        write_identity(Identity.new("site-c"), one.folder / "keys" / "impostor.keys.json")
        from ward.task import load_data

        for number, site in enumerate(SITES):
            (x, y), (test_x, test_y) = load_data({"partition-id": number, "num-partitions": 3})
            # The last site has much to do, so that something can happen to it meanwhile.
            times = 1 if number < 2 else 6
            np.savez(
                one.folder / f"{site}.npz",
                x=np.concatenate([x, np.tile(test_x, (times, 1, 1, 1))])[-int(len(test_y) * times / 0.3) :],
                y=np.concatenate([y, np.tile(test_y, times)])[-int(len(test_y) * times / 0.3) :],
            )
            one.key(site)
        one.key("impostor")
        for node, data in (("impostor", "site-a"), ("site-a", "site-a"), ("site-b", "site-b")):
            start_node(one, node, data)
        one.online(3)
        yield one


def give_rules(client: Path) -> None:
    """The sites here answer signed requests only."""
    text = client.read_text()
    for plain, ruled in (
        ("import answer, participant\n", "import answer, participant\nfrom fedcert.privacy.policy import Policy\n"),
        ("**_keys(context))", "policy=Policy(signed_requests=True), **_keys(context))"),
    ):
        assert plain in text
        text = text.replace(plain, ruled)
    client.write_text(text)


@pytest.fixture
def all_sites(deployment: Flower) -> Flower:
    """All three sites are online, and the impostor."""
    if not any("--auth-supernode-private-key site-c" in " ".join(map(str, each.args)) for each in deployment.started):
        start_node(deployment, "site-c", "site-c")
        deployment.online(4)
    return deployment


def start_node(one: Flower, name: str, data: str) -> subprocess.Popen[bytes]:
    """A node whose site has keys."""
    return one.node(
        name,
        {
            "data": str(one.folder / f"{data}.npz"), "keys": str(one.folder / "keys" / f"{name}.keys.json"),
            "trusted": str(one.folder / "keys" / "ring.json"),
        },
    )  # fmt: skip


def settings(one: Flower, run: Path, **changes: Any) -> dict[str, Any]:
    values = {
        "rounds": 0, "weights": str(one.folder / "model.safetensors"), "roster": ",".join(SITES), "n": 300, "procedure": "sequential",
        "seconds": 120, "run": str(run), "keys": str(one.folder / "keys"),
    }  # fmt: skip
    return values | changes


def begun(one: Flower, config: dict[str, Any]) -> subprocess.Popen[bytes]:
    """A run of the app, under way."""
    return subprocess.Popen(
        [str(BIN / "flwr"), *one.command(config)[1:]], cwd=one.folder / "app", env=one.environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def events(run: Path) -> list[dict[str, Any]]:
    log = run / "log.ndjson"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def answered(run: Path) -> list[str]:
    return sorted(event["client"] for event in events(run) if event["event"] == "answered")


def wait_for(true: Any, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.2)


def test_three_sites_report_what_one_process_does(deployment: Flower, tmp_path: Path) -> None:
    """The third comes late, while the impostor claims its name; in the other tests here it does so beside it.

    They count right answers; in the other tests here they run CERTIFY, which takes its time.
    """
    run = tmp_path / "run"
    process = begun(deployment, settings(deployment, run, procedure="population", n=32))
    wait_for(lambda: answered(run) == ["site-a", "site-b"], 120)
    start_node(deployment, "site-c", "site-c")
    said = process.communicate(timeout=150)[0].decode()
    assert "accuracy at radius 0: " in said, said[-3000:]
    estimate = json.loads((run / "estimate.json").read_text())
    assert estimate["excluded"] == {}
    assert "All 3 reports are signed by keys that are trusted." in [check["sentence"] for check in estimate["checks"]]
    from safetensors.torch import load_file
    from ward.task import load_data, make_network

    network = make_network().eval()
    network.load_state_dict(load_file(deployment.folder / "model.safetensors"))
    with RunFolder(tmp_path / "run") as folder:
        reports = {report.client: report for report in folder.reports()}
        assert sorted(reports) == list(SITES)
        assert {len(report.correct_counts or ()) for report in reports.values()} == {33}
        for site, report in reports.items():
            _, (x, y) = load_data({"data": deployment.folder / f"{site}.npz"})
            kept = seed_file_of(site, folder.request.digest)
            own = certify(network, x, y, client=site, request=folder.request, class_counts=True, seed_file=kept)
            for name in COMPARED:
                assert getattr(report, name) == getattr(own, name), (site, name)


def test_strangers_are_refused(all_sites: Flower) -> None:
    deployment = all_sites
    deployment.key("stranger", register=False)
    unknown = deployment.node("stranger", {"client": "site-a"})
    plain = deployment.node("plaintext", {"client": "site-b"}, secure=False)
    try:
        time.sleep(10)
        said = deployment.call("flwr", "supernode", "list", "here", "--format", "json")
        nodes = json.loads(said[said.index("{") :])["nodes"]
        assert sum(node["status"] == "online" for node in nodes) == 4
    finally:
        for process in (unknown, plain):
            process.kill()
            process.wait()


def test_a_coordinator_that_is_killed_and_started_again_loses_no_reply(all_sites: Flower, tmp_path: Path) -> None:
    deployment, run = all_sites, tmp_path / "run"
    config = settings(deployment, run, n=10_000, seconds=300)
    first = begun(deployment, config)
    try:
        wait_for(lambda: answered(run) == ["site-a", "site-b"], 120)
        kill_coordinator(deployment, run)
    finally:
        first.kill()
        first.communicate()
    assert answered(run) == ["site-a", "site-b"]
    said = deployment.run(deployment.folder / "app", config, timeout=330)
    assert "accuracy at radius 0: " in said, said[-3000:]
    assert answered(run) == list(SITES)  # each once: nobody who had answered was asked again
    assert [event["event"] for event in events(run)].count("resumed") == 1


def kill_coordinator(one: Flower, run: Path) -> None:
    """Kill the process that holds the run's folder."""
    held = str(run / "log.ndjson")
    for number in one.left():
        links = Path(f"/proc/{number}/fd")
        if any(held == str(link.readlink()) for link in links.iterdir() if link.is_symlink()):
            os.kill(number, signal.SIGKILL)
            return
    raise AssertionError("no process holds the folder")


def test_a_node_that_is_killed_is_named_and_nothing_hangs(all_sites: Flower, tmp_path: Path) -> None:
    """Nobody answers for it: the impostor has its name, and not its keys."""
    deployment, run = all_sites, tmp_path / "run"
    seconds = 45
    process = begun(deployment, settings(deployment, run, n=10_000, seconds=seconds))
    wait_for(lambda: answered(run) == ["site-a", "site-b"], 120)
    asked = time.time()
    keyed = "--auth-supernode-private-key site-c"
    victim = next(one for one in deployment.started if keyed in " ".join(map(str, one.args)) and one.poll() is None)
    os.killpg(victim.pid, signal.SIGKILL)
    said = process.communicate(timeout=seconds + 90)[0].decode()
    assert time.time() - asked < seconds + 60
    assert "left out: site-c, because " in said, said[-3000:]
    estimate = json.loads((run / "estimate.json").read_text())
    assert (estimate["clients"], list(estimate["excluded"])) == (2, ["site-c"])
    check = next(check for check in estimate["checks"] if check["name"] == "missing clients")
    assert check["verdict"] == "warning"
    assert "'site-c'" in check["sentence"]
