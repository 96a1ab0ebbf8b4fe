"""The engine's two sides, with messages handed over in this process. Needs Flower (`make test-engines`)."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedcert import Smoothing, certify
from fedcert.certification.data.batches import examples_in
from fedcert.certification.seeds import seed_file_of
from fedcert.engines import versions
from fedcert.engines.flower import SUPPORTED, answer, certify_round, certifying, transport
from fedcert.errors import CallError, DataProblem, QuorumMissed
from fedcert.report import Request
from fedcert.rounds import RunFolder
from function_grid import CLASSES, DATA, RIGHT_ANSWERS, SMOOTHING, FunctionGrid, Handler, context, honest, network

pytestmark = pytest.mark.engine


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who Flower believes this process to be."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def round_of(grid: FunctionGrid, **changes: Any) -> Any:
    values: dict[str, Any] = {"classes": CLASSES, "smoothing": SMOOTHING, "seconds": 3.0, "quorum": 1}
    return certify_round(grid, network(), **{**values, **changes})


def all_honest() -> dict[int, Handler | None]:
    return {100: honest, 101: honest, 102: honest}


@pytest.mark.parametrize("smoothing", [SMOOTHING, RIGHT_ANSWERS], ids=["sequential", "population"])
def test_the_reports_are_those_of_certify_in_one_process(tmp_path: Path, smoothing: Smoothing) -> None:
    made = round_of(FunctionGrid(all_honest()), run=tmp_path / "run", smoothing=smoothing)
    assert made.clients == 3
    with RunFolder(tmp_path / "run") as folder:
        reports = {report.client: report for report in folder.reports()}
        request = folder.request
    assert request.roster == tuple(sorted(DATA))
    for client, (x, y) in DATA.items():
        kept = seed_file_of(client, request.digest)  # secret, and the same when the client is asked again
        own = certify(network(), x, y, client=client, request=request, class_counts=True, seed_file=kept)
        for name in (
            "label_counts",
            "certified_counts",
            "class_certified_counts",
            "correct_counts",
            "class_correct_counts",
            "abstained",
            "samples",
            "model",
            "seed",
        ):
            assert getattr(own, name) == getattr(reports[client], name)
    assert json.loads((tmp_path / "run" / "estimate.json").read_text())["clients"] == 3


def test_a_node_that_never_answers_is_missing_and_nothing_hangs() -> None:
    grid = FunctionGrid({**all_honest(), 102: lambda message, where: _after_name(message, where)})
    began = time.monotonic()
    made = round_of(grid, roster=["client-0", "client-1", "client-2", "client-9"])
    assert time.monotonic() - began < 10
    assert made.clients == 2
    assert made.excluded["client-9"] == "it was never there"
    assert "Flower says that its node failed: gone" in made.excluded["client-2"]


def _after_name(message: Message, where: Context) -> Message:
    if message.content.config_records["fedcert"]["ask"] == "name":
        return honest(message, where)
    return Message(Error(code=3, reason="gone"), reply_to=message)


def test_a_node_that_falls_silent_is_missing_at_the_deadline() -> None:
    grid = FunctionGrid(all_honest())

    def silent(message: Message, where: Context) -> Message:
        grid.nodes[102] = None
        return honest(message, where)

    grid.nodes[102] = silent
    made = round_of(grid)
    assert made.clients == 2
    assert made.excluded["client-2"].startswith("it did not answer before the deadline")


def test_a_node_that_comes_late_is_asked() -> None:
    grid = FunctionGrid({100: honest, 101: honest})

    def first(message: Message, where: Context) -> Message:
        grid.nodes[102] = honest
        return honest(message, where)

    grid.nodes[100] = first
    assert round_of(grid, roster=sorted(DATA)).clients == 3


def test_below_the_quorum_there_is_no_number() -> None:
    grid = FunctionGrid({100: honest})
    with pytest.raises(QuorumMissed, match="1 of the 3 clients that were asked answered, and at least 2 are needed"):
        round_of(grid, roster=sorted(DATA), quorum=0.5, seconds=1.0)
    with pytest.raises(QuorumMissed, match="1 clients were there within 1 s, but 3 are wanted"):
        round_of(grid, roster=3, seconds=1.0)
    with pytest.raises(QuorumMissed, match="0 clients were there within 1 s, but some are wanted"):
        round_of(FunctionGrid({}), seconds=1.0)


def test_a_coordinator_that_comes_back_asks_only_who_is_missing(tmp_path: Path) -> None:
    grid = FunctionGrid({100: honest, 101: honest, 102: None})
    with pytest.raises(QuorumMissed):
        round_of(grid, roster=sorted(DATA), run=tmp_path, quorum=3, seconds=1.0)
    # The deadline has passed: what is there is there, and nobody is asked again.
    again = FunctionGrid(all_honest())
    assert round_of(again, run=tmp_path).clients == 2
    assert again.asked == []


def test_before_the_deadline_it_goes_on(tmp_path: Path) -> None:
    first = FunctionGrid(
        {100: honest, 101: honest, 102: lambda message, where: (_ for _ in ()).throw(KeyboardInterrupt)}
    )
    with pytest.raises(KeyboardInterrupt):
        round_of(first, roster=sorted(DATA), run=tmp_path, seconds=60.0)
    with RunFolder(tmp_path) as folder:
        kept = len(folder.reports())
    again = FunctionGrid(all_honest())
    assert round_of(again, run=tmp_path).clients == 3
    assert sum(asked == "report" for _, asked in again.asked) == 3 - kept
    same = np.array(SMOOTHING.default_radii)
    round_of(again, run=tmp_path, radii=same, roster=["client-2", "client-1", "client-0"])
    with pytest.raises(CallError, match="is of a round with another smoothing"):
        round_of(again, run=tmp_path, smoothing=0.5)


def test_other_weights_at_a_client_are_found_out() -> None:
    def stubborn(message: Message, where: Context) -> Message:
        """Certifies a model of its own, as a client with a broken loader does."""
        texts = message.content.config_records["fedcert"]
        if texts["ask"] == "name":
            return honest(message, where)
        request = Request.from_json(json.loads(str(texts["request"])))
        x, y = DATA["client-2"]
        own = nn.Linear(3, 2).eval()
        report = certify(own, x, y, client="client-2", sigma=0.25, n=100).to_json() | {"request": request.digest}
        content = RecordDict({"fedcert": ConfigRecord({"name": "client-2", "report": json.dumps(report)})})
        return Message(content, reply_to=message)

    made = round_of(FunctionGrid({**all_honest(), 102: stubborn}))
    assert "its answer was refused: 'client-2' certified the model sha256:" in made.excluded["client-2"]


def test_what_goes_wrong_at_a_client_reaches_the_server_in_a_sentence() -> None:
    def other(message: Message, where: Context) -> Message:
        return answer(message, where, nn.Linear(5, 2), DATA["client-2"])

    def empty(message: Message, where: Context) -> Message:
        return answer(message, where, network(), [])

    def mute(message: Message, where: Context) -> Message:
        return Message(RecordDict({}), reply_to=message)

    made = round_of(FunctionGrid({100: honest, 101: empty, 102: other, 103: mute}))
    assert made.excluded["client-1"] == "there are no test examples: the data gives none"
    assert made.excluded["client-2"].startswith("the weights do not fit the model: ")
    assert made.clients == 1


def test_a_name_that_two_nodes_claim_counts_for_neither() -> None:
    grid = FunctionGrid({100: honest, 101: honest, 102: lambda message, where: honest(message, context(100))})
    made = round_of(grid)
    assert made.clients == 1
    assert made.excluded["client-0"] == "two nodes call themselves so, and which one is right is unknown"


def test_a_site_that_comes_back_as_another_node_is_asked_again() -> None:
    grid = FunctionGrid({100: honest, 101: honest})

    def dies(message: Message, where: Context) -> Message:
        if message.content.config_records["fedcert"]["ask"] == "report":
            del grid.nodes[102]
            grid.nodes[202] = lambda message, _: honest(message, context(102))
            raise_later.append(message)
            return Message(Error(code=3, reason="gone"), reply_to=message)
        return honest(message, where)

    raise_later: list[Message] = []
    grid.nodes = {102: dies, 100: None, 101: honest}
    made = round_of(grid, roster=["client-0", "client-1", "client-2"], seconds=6.0)
    assert raise_later
    assert "client-2" not in made.excluded


def test_a_site_that_flower_loses_for_a_while_is_asked_again_with_the_same_node() -> None:
    """With registered keys a site keeps its node's number."""
    grid = FunctionGrid({100: honest, 101: honest})
    asked = []

    def flaky(message: Message, where: Context) -> Message:
        if message.content.config_records["fedcert"]["ask"] == "report":
            asked.append(message)
            if len(asked) == 1:
                return Message(Error(code=5, reason="Node Unavailable"), reply_to=message)
        return honest(message, where)

    grid.nodes[102] = flaky
    made = round_of(grid, roster=sorted(DATA), seconds=8.0)
    assert len(asked) == 2
    assert made.clients == 3


def test_a_site_that_stays_lost_is_named_with_what_flower_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_PATIENCE", 0.5)
    grid = FunctionGrid({100: honest, 101: honest})

    def dies(message: Message, where: Context) -> Message:
        if message.content.config_records["fedcert"]["ask"] == "report":
            del grid.nodes[102]
            return Message(Error(code=5, reason="Node Unavailable"), reply_to=message)
        return honest(message, where)

    grid.nodes[102] = dies
    began = time.monotonic()
    made = round_of(grid, roster=sorted(DATA), seconds=60.0)
    assert time.monotonic() - began < 30
    assert made.excluded == {"client-2": "Flower says that its node failed: Node Unavailable"}


def test_a_site_that_started_again_counts_once_its_old_node_is_forgotten() -> None:
    grid = FunctionGrid({100: honest, 101: honest, 102: honest})
    looks = []

    def ids() -> list[int]:
        looks.append(1)
        return [100, 101, 102] + ([202] if len(looks) < 5 else [])

    grid.nodes[202] = lambda message, where: honest(message, context(102))
    grid.get_node_ids = ids  # type: ignore[method-assign]
    made = round_of(grid, roster=sorted(DATA), seconds=10.0)
    assert made.excluded == {}


def test_a_name_claimed_after_it_has_answered_is_told() -> None:
    grid = FunctionGrid({100: honest, 101: None})

    def late(message: Message, where: Context) -> Message:
        grid.nodes[101] = honest
        return honest(message, context(100))

    def first(message: Message, where: Context) -> Message:
        if message.content.config_records["fedcert"]["ask"] == "report":
            grid.nodes[103] = late
        return honest(message, where)

    grid.nodes[100] = first
    made = round_of(grid, roster=["client-0", "client-1"], seconds=10.0)
    assert made.clients == 2
    assert [check.name for check in made.checks if check.verdict == "warning"][-1] == "contested names"


def test_a_silent_node_does_not_use_up_the_others_time() -> None:
    began = time.monotonic()
    made = round_of(FunctionGrid({**all_honest(), 103: None}), roster=None, seconds=8.0)
    assert made.clients == 3
    assert time.monotonic() - began < 5


def test_odd_names_and_silent_nodes_do_not_end_the_round_for_everybody() -> None:
    def odd(message: Message, _: Context) -> Message:
        return Message(RecordDict({"fedcert": ConfigRecord({"name": "evil\x1b[2J"})}), reply_to=message)

    assert round_of(FunctionGrid({**all_honest(), 103: odd})).clients == 3
    assert round_of(FunctionGrid({**all_honest(), 103: None})).clients == 3


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"method": "best"}, "method"),
        ({"quorum": 9, "roster": ["client-0"]}, "quorum must be at most the 1 clients"),
        ({"target": "unifrom"}, "unifrom"),
        ({"confidance": 0.9}, "there is no setting 'confidance'"),
        ({"seconds": float("inf")}, "seconds must be a number above 0"),
        ({"roster": "client-0"}, "roster must be a list of names or a number"),
        ({"roster": 0}, "roster must be a list of names or a whole number of 1 or more, but is 0"),
        ({"roster": True}, "roster must be a list of names or a whole number of 1 or more, but is true"),
        ({"roster": 2.0}, "roster must be a list of names or a whole number"),
        ({"seconds": -5}, "seconds must be a number above 0"),
        ({"seconds": float("nan")}, "seconds must be a number above 0"),
        ({"seconds": "600"}, "seconds must be a number above 0"),
        ({"missing_examples": -1}, "the examples of a missing client must be"),
        ({"missing_examples": 5, "screen": True}, "leave screening out"),
        ({"roster": 3, "quorum": 20}, "quorum must be at most the 3 clients"),
    ],
)
def test_settings_are_checked_before_anybody_works(wrong: dict[str, Any], why: str) -> None:
    grid = FunctionGrid(all_honest())
    with pytest.raises(CallError, match=why):
        round_of(grid, **wrong)
    assert "report" not in [asked for _, asked in grid.asked]


def test_averaged_counters_do_not_change_the_digest() -> None:
    """Averaging makes float64 of BatchNorm's counters; what is certified is what a module has after loading."""
    state = {name: tensor.numpy() for name, tensor in network().state_dict().items()}
    state["1.num_batches_tracked"] = state["1.num_batches_tracked"] * 0.5 + 0.5
    from flwr.app import Array

    arrays = ArrayRecord({name: Array(np.asarray(array)) for name, array in state.items()})
    made = certify_round(
        FunctionGrid(all_honest()), network(), arrays, classes=CLASSES, smoothing=SMOOTHING, seconds=3.0
    )
    assert made.clients == 3


def test_every_so_many_rounds(tmp_path: Path) -> None:
    grid = FunctionGrid(all_honest())
    evaluate = certifying(
        grid, network(), every=2, run=tmp_path, classes=CLASSES, smoothing=SMOOTHING, seconds=3.0, radii=(0.0, 0.1)
    )
    arrays = ArrayRecord(network().state_dict())
    assert [evaluate(number, arrays) is not None for number in range(5)] == [False, False, True, False, True]
    metrics = evaluate(6, arrays)
    assert metrics is not None
    assert list(metrics) == ["certified accuracy at 0", "certified accuracy at 0.1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["round-2", "round-4", "round-6"]
    grid.nodes = {}
    assert evaluate(8, arrays) is None  # nobody is there: training goes on
    with pytest.raises(CallError, match="every must be 1 or more"):
        certifying(grid, network(), every=0)


def test_data_in_the_shapes_that_apps_have() -> None:
    x, y = torch.rand(6, 3), torch.tensor([0, 1, 0, 1, 1, 0])
    expected = x.numpy(), y.numpy()
    shapes = [
        (x, y),
        (x.numpy(), y.numpy()),
        [(x[:4], y[:4]), (x[4:], y[4:])],
        [{"img": x[:4], "label": y[:4]}, {"img": x[4:], "label": y[4:]}],
        [{"label": y, "img": x}],
        torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4),
    ]
    for data in shapes:
        made = examples_in(data)
        assert np.array_equal(made[0], expected[0])
        assert np.array_equal(made[1], expected[1])
    for wrong in (5, [], [(x,)], [(x, y, y)]):
        with pytest.raises(DataProblem):
            examples_in(wrong)


@pytest.mark.parametrize("release", ["1.40.0", "1.43.0", "2.41.0"])
def test_another_flower_is_named(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr(versions.metadata, "version", lambda _: release)
    said = f"this fedcert works with Flower 1.41 and 1.42, but {release} is installed; install it with: pip install 'flwr>=1.41,<1.43'"
    with pytest.raises(CallError, match=f"^{re.escape(said)}$"):
        versions.check_version("flwr", "Flower", "flower", *SUPPORTED)


@pytest.mark.parametrize("release", ["1.41.0", "1.42.0", "1.42.1"])
def test_tested_flowers_are_taken(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr(versions.metadata, "version", lambda _: release)
    versions.check_version("flwr", "Flower", "flower", *SUPPORTED)
