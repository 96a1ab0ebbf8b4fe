"""NVFlare's simulator, for real: the integer reports are those of one process. Needs NVFlare (`make test-engines`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvflare")

import torch
from safetensors.torch import load_file

from fedcert import Request, Smoothing, Sums, certify
from fedcert._files.documents import read_record
from fedcert.certification.models.classifiers import digest_of_module
from fedcert.certification.seeds import seed_file_of
from fedcert.engines.in_process import InProcessTransport
from fedcert.errors import CallError
from fedcert.privacy.keys.identity import Identity, read_identity, write_identity
from fedcert.privacy.keys.keyring import read_keyring
from fedcert.privacy.policy import Policy
from fedcert.privacy.state_store import InMemoryStore
from fedcert.rounds import RunFolder
from fedcert.rounds.private import private_sums
from fedcert.secagg.participant import Participant
from flower_processes import APP, COMPARED, keys_in, trained_weights

pytestmark = pytest.mark.engine
HERE = Path(__file__).parent


_JOB = """
import sys
sys.path[:0] = [{app!r}]
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import FrameworkType, ScriptRunner
{body}
job.simulator_run({workspace!r}, n_clients=3, threads=3, log_config="concise")
"""

_CERTIFICATION = """
from fedcert.engines.nvflare import Certification
job = FedJob(name="certification", min_clients=3)
settings = {settings!r}
job.to_server(Certification("ward.task:make_network", {weights!r}, {run!r}, settings))
job.to_clients(
    ScriptRunner({script!r}, script_args={arguments!r}, framework=FrameworkType.{framework}), tasks=["certify"]
)
"""


def simulated(folder: Path, body: str, **values: Any) -> str:
    """Run a job to its end, in processes of its own, and give what it said."""
    (folder / "job.py").write_text(
        _JOB.format(app=str(APP), body=body.format(**values), workspace=str(folder / "work"))
    )
    path = os.pathsep.join(filter(None, (str(APP), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "job.py"], cwd=folder, timeout=300, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return done.stdout


def certification(folder: Path, framework: str = "RAW", arguments: str = "", **changes: Any) -> str:
    from ward.task import CLASSES

    settings = {"classes": CLASSES, "smoothing": 0.25, "seconds": 120.0, "roster": ["site-1", "site-2", "site-3"]}
    return simulated(
        folder, _CERTIFICATION, settings={**settings, **changes}, weights=str(folder / "model.safetensors"),
        run=str(folder / "run"), script=str(HERE / "site_script.py"), arguments=f"{APP} {arguments}".strip(),
        framework=framework,
    )  # fmt: skip


def signing_in(folder: Path) -> dict[str, Any]:
    """The settings of a round whose request and reports are signed."""
    keys = keys_in(folder, ["site-1", "site-2", "site-3"])
    return {"keys": str(keys / "coordinator.keys.json"), "trusted": str(keys / "ring.json")}


def test_keys_themselves_are_not_put_into_a_job() -> None:
    """A job's settings are stored, and sent to every site."""
    from fedcert.engines.nvflare import Certification

    with pytest.raises(
        CallError, match="^keys must be the path of a file on the server's machine, as text, but is Ident"
    ):
        Certification("ward.task:make_network", "w", "run", {"keys": Identity.new("coordinator")})


@pytest.mark.parametrize(
    ("framework", "arguments", "procedure"), [("RAW", "", "population"), ("PYTORCH", "--stubborn", "sequential")]
)
def test_sites_report_what_one_process_does_and_weights_of_ones_own_are_refused(
    tmp_path: Path, framework: str, arguments: str, procedure: str
) -> None:
    """The first time all is signed, and the second time one site certifies weights of its own, as sites do whose
    parameters were not exchanged."""
    weights, signed = trained_weights(tmp_path), {} if arguments else signing_in(tmp_path)
    script = arguments or f"--sign {tmp_path / 'keys'}"
    said = certification(tmp_path, framework, script, smoothing={"sigma": 0.25, "procedure": procedure}, **signed)
    from ward.task import load_data, make_network

    made = make_network().eval()
    made.load_state_dict(load_file(weights))
    assert (tmp_path / "run" / "estimate.json").exists(), said[-4000:]
    sites = ["site-1", "site-2"] if arguments else ["site-1", "site-2", "site-3"]
    with RunFolder(tmp_path / "run") as folder:
        reports = {report.client: report for report in folder.reports()}
        assert sorted(reports) == sites
        assert {report.correct_counts is None for report in reports.values()} == {procedure != "population"}
        for number, site in enumerate(sites):
            _, (x, y) = load_data({"partition-id": number, "num-partitions": 3})
            kept = seed_file_of(site, folder.request.digest)
            own = certify(made, x, y, client=site, request=folder.request, class_counts=True, seed_file=kept)
            for name in COMPARED:
                assert getattr(reports[site], name) == getattr(own, name), (site, name)
    estimate = json.loads((tmp_path / "run" / "estimate.json").read_text())
    assert estimate["clients"] == len(sites)
    if signed:
        sentences = [check["sentence"] for check in estimate["checks"]]
        assert "All 3 reports are signed by keys that are trusted." in sentences
    if arguments:
        assert "the request asks for the model sha256:" in estimate["excluded"]["site-3"]


def test_a_site_whose_script_fails_and_one_whose_keys_are_others_are_named_at_once(tmp_path: Path) -> None:
    """A site with keys that are not in the keyring, though they are in its name."""
    trained_weights(tmp_path)
    signed = signing_in(tmp_path)
    other = tmp_path / "keys" / "site-2.keys.json"
    other.unlink()
    write_identity(Identity.new("site-2"), other)
    began = time.monotonic()
    said = certification(tmp_path, arguments=f"--failing --sign {tmp_path / 'keys'}", seconds=250.0, quorum=1, **signed)
    assert (tmp_path / "run" / "estimate.json").exists(), said[-4000:]
    excluded = json.loads((tmp_path / "run" / "estimate.json").read_text())["excluded"]
    assert set(excluded) == {"site-2", "site-3"}
    assert excluded["site-2"] == (
        "its answer was refused: the report of 'site-2' is signed with another key than its own: it may be forged"
    )
    assert excluded["site-3"].startswith("NVFlare says that its script failed (")
    assert time.monotonic() - began < 200


def test_below_the_quorum_there_is_no_number(tmp_path: Path) -> None:
    trained_weights(tmp_path)
    roster = ["site-1", "site-7", "site-8", "site-9"]
    said = certification(tmp_path, roster=roster, seconds=40.0)
    assert "1 of the 4 clients that were asked answered, and at least 2 are needed: there is no estimate" in said
    assert not (tmp_path / "run" / "estimate.json").exists()


_TRAINED = """
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.workflows.model_controller import ModelController
sys.path.insert(0, {here!r})
from trained_controller import Trained
job = FedJob(name="trained", min_clients=3)
job.to_server(Trained({run!r}))
job.to_clients(ScriptRunner({script!r}, script_args={arguments!r}, framework=FrameworkType.RAW), tasks=["*"])
"""


def test_what_was_trained_is_certified_not_the_initial_model(tmp_path: Path) -> None:
    said = simulated(
        tmp_path, _TRAINED, here=str(HERE), run=str(tmp_path / "run"), script=str(HERE / "site_script.py"),
        arguments=str(APP),
    )  # fmt: skip
    assert (tmp_path / "run" / "estimate.json").exists(), said[-4000:]
    sys.path.insert(0, str(APP))
    from ward.task import make_network

    estimate = json.loads((tmp_path / "run" / "estimate.json").read_text())
    initial = make_network()
    assert estimate["model"] != digest_of_module(initial)
    with torch.no_grad():
        for weight in initial.parameters():
            weight += 1.0
    assert estimate["model"] == digest_of_module(initial)
    assert Smoothing(**estimate["smoothing"]).sigma == 0.25


_PRIVATE = """
sys.path.insert(0, {here!r})
from private_controller import Private
job = FedJob(name="private", min_clients=3)
job.to_server(Private({weights!r}, {keys!r}, {run!r}))
job.to_clients(ScriptRunner({script!r}, script_args={arguments!r}, framework=FrameworkType.RAW), tasks=["certify"])
"""


def test_a_private_sum_is_that_of_one_process_to_the_integer(tmp_path: Path) -> None:
    """Two secure aggregations, of class support and of right answers; no site's report is at the server."""
    weights, names = trained_weights(tmp_path), ["site-1", "site-2", "site-3"]
    keys = keys_in(tmp_path, names)
    identities = {name: read_identity(keys / f"{name}.keys.json") for name in names}
    ring = read_keyring(keys / "ring.json")
    said = simulated(
        tmp_path, _PRIVATE, here=str(HERE), weights=str(weights), keys=str(keys), run=str(tmp_path / "run"),
        script=str(HERE / "site_script.py"), arguments=f"{APP} --keys {keys}",
    )  # fmt: skip
    assert (tmp_path / "run" / "estimate.json").exists(), said[-4000:]
    request: Request = read_record(tmp_path / "run" / "request.json", Request)
    carried: Sums = read_record(tmp_path / "run" / "sums.json", Sums)
    from ward.task import load_data, make_network

    network = make_network().eval()
    network.load_state_dict(load_file(weights))
    reports = {}
    for number, name in enumerate(names):
        _, (x, y) = load_data({"partition-id": number, "num-partitions": 3})
        kept = seed_file_of(name, request.digest)
        reports[name] = certify(network, x, y, client=name, request=request, class_counts=True, seed_file=kept)

    def participant(name: str, asked: Request) -> Participant:
        rules = Policy(fewest_for_squares=3, fewest_for_moments=3)
        return Participant(asked, identities[name], ring, InMemoryStore(), lambda: reports[name], policy=rules)

    clients = {name: partial(participant, name) for name in names}
    own, missing = private_sums(InProcessTransport(clients), request, ring, patience=0.0)
    assert missing == {}
    assert carried == own
    assert carried.contributors == 3
    assert carried.correct_counts == Sums.of(list(reports.values())).correct_counts  # all sites hold all classes
    for file in (tmp_path / "run").rglob("*.json"):
        assert "fedcert/report" not in file.read_text()
