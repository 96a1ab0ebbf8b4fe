"""Private sums over Flower: messages handed over in this process, and a real simulation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Context, Error, Message
from flwr.supercore.task_identity import TaskIdentity

from fedcert import Report, Request, Smoothing, Sums, certify
from fedcert.certification.seeds import seed_file_of
from fedcert.engines.flower import answer, certify_privately
from fedcert.engines.flower.client import name_of
from fedcert.errors import CallError, QuorumMissed
from fedcert.privacy.keys.identity import Identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.policy import Policy
from fedcert.secagg.participant import ParticipantConfig
from flower_processes import app_in, flower, keys_in, trained_weights
from function_grid import CLASSES, FOUR, RIGHT_ANSWERS, SMOOTHING, FunctionGrid, honest, network

pytestmark = pytest.mark.engine
NAMES = sorted(FOUR)
KEYS = {name: Identity.new(name) for name in NAMES}
COORDINATOR = Identity.new("coordinator")
FEW = Policy(fewest_for_squares=3, fewest_for_moments=3)
RING = Keyring.of([COORDINATOR.card, *(keys.card for keys in KEYS.values())])


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who Flower believes this process to be."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def private(folder: Path) -> Any:
    def handle(message: Message, where: Context) -> Message:
        name = name_of(where)
        return answer(
            message,
            where,
            network(),
            FOUR[name],
            participant=ParticipantConfig(KEYS[name], RING, folder / name, policy=FEW),
        )

    return handle


def round_of(grid: FunctionGrid, **changes: Any) -> Any:
    values: dict[str, Any] = {
        "classes": CLASSES, "smoothing": SMOOTHING, "roster": NAMES, "keys": COORDINATOR, "trusted": RING,
        "seconds": 10.0, "patience": 5.0, "moments": True,
    }  # fmt: skip
    values |= changes
    values.setdefault("threshold", 2 * len(values["roster"]) // 3 + 1)
    return certify_privately(grid, network(), **values)


def again(module: Any, data: tuple[Any, Any], name: str, request: Request) -> Report:
    """What a client reports: its seed is secret, and kept for when it is asked again."""
    kept = seed_file_of(name, request.digest)
    return certify(module, *data, client=name, request=request, class_counts=True, seed_file=kept)


def own_sums(request: Request, names: list[str]) -> Sums:
    reports: list[Report] = []
    for name in names:
        x, y = FOUR[name]
        reports.append(again(network(), (x, y), name, request))
    return Sums.of(reports)


def check_sums(run: Path, names: list[str]) -> None:
    request = Request.from_json(json.loads((run / "request.json").read_text()))
    sums, own = Sums.from_json(json.loads((run / "sums.json").read_text())), own_sums(request, names)
    for field in ("label_counts", "certified_counts", "correct_counts", "by_class", "moments", "contributors"):
        assert getattr(sums, field) == getattr(own, field), field


@pytest.mark.parametrize("smoothing", [SMOOTHING, RIGHT_ANSWERS], ids=["sequential", "population"])
def test_the_sum_is_that_of_the_reports_and_no_report_is_on_the_server(tmp_path: Path, smoothing: Smoothing) -> None:
    run = tmp_path / "run"
    grid = FunctionGrid({100 + number: private(tmp_path) for number in range(4)})
    made = round_of(grid, run=run, smoothing=smoothing)
    assert made.clients == 4
    assert made.weights is None
    check_sums(run, NAMES)
    for file in run.rglob("*.json"):
        assert "fedcert/report" not in file.read_text()
    assert json.loads((run / "estimate.json").read_text())["clients"] == 4


def test_a_second_sum_allows_for_clients_that_differ(tmp_path: Path) -> None:
    grid = FunctionGrid({100 + number: private(tmp_path) for number in range(4)})
    made = round_of(grid, run=tmp_path / "run", spread=True, moments=False, method="poststratified")
    assert made.interval is not None
    assert made.interval.kind == "cluster-robust"
    assert Sums.from_json(json.loads((tmp_path / "run" / "sums.json").read_text())).spread is not None


def test_a_client_that_drops_out_at_each_stage(tmp_path: Path) -> None:
    for stage in range(5):
        folder = tmp_path / str(stage)
        folder.mkdir()
        grid, seen = FunctionGrid({}), []

        def leaves(
            message: Message, where: Context, seen: list[str] = seen, folder: Path = folder, stage: int = stage
        ) -> Message:
            asked = str(message.content.config_records["fedcert"]["ask"])
            if asked == "private":
                seen.append(asked)
                if len(seen) > stage:
                    return Message(Error(code=8, reason="gone"), reply_to=message)
            return private(folder)(message, where)

        grid.nodes = {**{100 + number: private(folder) for number in range(3)}, 103: leaves}
        made = round_of(grid, run=folder / "run")
        # Whoever leaves after its numbers have come is in the sum all the same.
        inside = NAMES if stage > 2 else NAMES[:3]
        check_sums(folder / "run", inside)
        assert set(made.excluded) == set(NAMES) - set(inside)


def leaving(count: int, share: float, stage: int | None) -> dict[str, int]:
    """Who leaves at which stage: a share of all at one stage, or evenly over all five."""
    gone = [f"client-{number}" for number in range(count - int(share * count), count)]
    return {name: number % 5 if stage is None else stage for number, name in enumerate(gone)}


@pytest.mark.parametrize(
    ("count", "stage"),
    [(3, None), *((10, stage) for stage in range(5)), pytest.param(100, None, marks=pytest.mark.slow)],
)
def test_three_tenths_drop_out(tmp_path: Path, count: int, stage: int | None) -> None:
    """The sum is exact whoever leaves, at whichever stage."""
    names = [f"client-{number}" for number in range(count)]
    keys = {name: Identity.new(name) for name in names}
    ring = Keyring.of([COORDINATOR.card, *(one.card for one in keys.values())])
    generator = np.random.default_rng(count)
    data = {name: (generator.random((6, 3), dtype=np.float32), generator.integers(0, 2, 6)) for name in names}
    due = leaving(count, 0.0 if count == 3 else 0.3, stage)

    def handle(message: Message, where: Context) -> Message:
        name, texts = name_of(where), message.content.config_records["fedcert"]
        if texts["ask"] == "private" and stage_of(str(texts.get("step", ""))) >= due.get(name, 5):
            return Message(Error(code=8, reason="gone"), reply_to=message)
        return answer(
            message,
            where,
            network(),
            data[name],
            participant=ParticipantConfig(keys[name], ring, tmp_path / name, policy=FEW),
        )

    grid = FunctionGrid({100 + number: handle for number in range(count)})
    run = tmp_path / "run"
    made = round_of(grid, run=run, roster=names, trusted=ring, seconds=120.0, patience=60.0)
    inside = [name for name in names if due.get(name, 5) > 2]
    request = Request.from_json(json.loads((run / "request.json").read_text()))
    clear = Sums.of([again(network(), data[name], name, request) for name in inside])
    sums = Sums.from_json(json.loads((run / "sums.json").read_text()))
    for field in ("label_counts", "certified_counts", "correct_counts", "by_class", "moments", "contributors"):
        assert getattr(sums, field) == getattr(clear, field), field
    assert set(made.excluded) == set(names) - set(inside)


def stage_of(told: str) -> int:
    """The stage that a message of the server belongs to."""
    kinds = ("private-keys", "private-delivery", "private-survivors", "private-confirmations")
    return next((number for number, kind in enumerate(kinds, 1) if f"fedcert/{kind}/" in told[:200]), 0)


@pytest.mark.parametrize("stage", range(5))
def test_a_site_that_flower_loses_for_a_while_gets_its_message_again(tmp_path: Path, stage: int) -> None:
    seen: list[int] = []

    def flaky(message: Message, where: Context) -> Message:
        texts = message.content.config_records["fedcert"]
        if texts["ask"] == "private" and stage_of(str(texts.get("step", ""))) == stage:
            seen.append(stage)
            if len(seen) == 1:
                return Message(Error(code=5, reason="Node Unavailable"), reply_to=message)
        return private(tmp_path)(message, where)

    grid = FunctionGrid({**{100 + number: private(tmp_path) for number in range(3)}, 103: flaky})
    made = round_of(grid, run=tmp_path / "run")
    assert len(seen) == 2
    assert made.excluded == {}
    check_sums(tmp_path / "run", NAMES)


def test_below_the_threshold_there_is_no_number(tmp_path: Path) -> None:
    grid = FunctionGrid({100: private(tmp_path), 101: private(tmp_path)})
    with pytest.raises(QuorumMissed, match="^2 clients sent their join, but a private sum needs 3; nothing is known"):
        round_of(grid, seconds=3.0)


def test_a_client_that_gives_reports_says_so_and_the_other_way_round(tmp_path: Path) -> None:
    def reporting(message: Message, where: Context) -> Message:
        return answer(message, where, network(), FOUR["client-3"], keys=KEYS["client-3"])

    grid = FunctionGrid({**{100 + number: private(tmp_path) for number in range(3)}, 103: reporting})
    made = round_of(grid)
    assert made.excluded == {"client-3": "this client gives reports, not private sums"}


def test_what_a_client_holds_is_not_in_its_reasons(tmp_path: Path) -> None:
    """A policy that its data does not meet, and a request for many examples: the server learns neither number."""

    def strict(message: Message, where: Context) -> Message:
        name = name_of(where)
        own = ParticipantConfig(
            KEYS[name],
            RING,
            tmp_path / name,
            policy=Policy(fewest_for_squares=3, fewest_for_moments=3, minimum_examples=99),
        )
        return answer(message, where, network(), FOUR[name], participant=own)

    grid = FunctionGrid({**{100 + number: private(tmp_path) for number in range(3)}, 103: strict})
    made = round_of(grid)
    assert made.excluded == {"client-3": "this site does not take part, for reasons that it keeps to itself"}


def test_a_policy_over_flower_holds_for_reports_too() -> None:
    from fedcert.engines.flower import certify_round

    def careful(message: Message, where: Context) -> Message:
        return answer(message, where, network(), FOUR[name_of(where)], policy=Policy(reports=False))

    grid = FunctionGrid({**{100 + number: honest for number in range(3)}, 103: careful})
    made = certify_round(grid, network(), classes=CLASSES, smoothing=SMOOTHING, roster=NAMES, seconds=10.0)
    assert made.excluded["client-3"].startswith("this site's policy lets no report out")


def test_a_folder_of_a_less_private_round_is_not_gone_on_with(tmp_path: Path) -> None:
    grid = FunctionGrid({100 + number: private(tmp_path) for number in range(4)})
    round_of(grid, run=tmp_path / "run")
    with pytest.raises(CallError, match="is of a round with another private; name another folder"):
        round_of(grid, run=tmp_path / "run", fewest_holders=3)


def test_a_coordinator_that_died_goes_on(tmp_path: Path) -> None:
    grid = FunctionGrid({100 + number: private(tmp_path) for number in range(4)})
    pulled = []
    plain = grid.pull_messages

    def dies(numbers: Any) -> Any:
        came = plain(numbers)
        pulled.extend(came)
        if len(pulled) > 14:
            raise KeyboardInterrupt
        return came

    grid.pull_messages = dies  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        round_of(grid, run=tmp_path / "run")
    again = FunctionGrid({100 + number: private(tmp_path) for number in range(4)})
    assert round_of(again, run=tmp_path / "run").clients == 4
    check_sums(tmp_path / "run", NAMES)


LEAVES = '''

def leave_if_due(message, context):
    """Fail for good from a stage on."""
    texts = message.content.config_records["fedcert"]
    kinds = ("private-keys", "private-delivery", "private-survivors", "private-confirmations")
    told = str(texts.get("step", ""))[:200]
    stage = next((number for number, kind in enumerate(kinds, 1) if f"fedcert/{kind}/" in told), 0)
    number = int(context.node_config["partition-id"])
    first = int(context.node_config["num-partitions"]) * 7 // 10
    if texts["ask"] == "private" and number >= first and stage >= (number - first) % 5:
        raise RuntimeError("this client has gone")
'''


def test_in_flowers_simulation_a_hundred_clients_sum_in_secret_while_thirty_leave(tmp_path: Path) -> None:
    weights, app = trained_weights(tmp_path), app_in(tmp_path)
    client = app / "ward" / "client_app.py"
    plain = client.read_text()
    text = plain.replace(
        "    _, test = load_data(context", "    leave_if_due(message, context)\n    _, test = load_data(context"
    )
    assert text != plain
    client.write_text(text + LEAVES)
    names = [f"client-{number}" for number in range(100)]
    with flower(tmp_path) as one:
        said = one.run(app, private_settings(tmp_path, weights, names), nodes=100, timeout=500)
    assert "accuracy at radius 0: " in said, said[-3000:]
    check_simulated(tmp_path, weights, [name for number, name in enumerate(names) if number < 70 or number % 5 > 2])


def test_in_flowers_simulation_ten_clients_sum_right_answers_in_secret(tmp_path: Path) -> None:
    weights = trained_weights(tmp_path)
    names = [f"client-{number}" for number in range(10)]
    settings = private_settings(tmp_path, weights, names) | {"procedure": "population", "n": 32}
    with flower(tmp_path) as one:
        said = one.run(app_in(tmp_path), settings, nodes=10)
    assert "accuracy at radius 0: " in said, said[-3000:]
    check_simulated(tmp_path, weights, names)


def private_settings(folder: Path, weights: Path, names: list[str]) -> dict[str, Any]:
    """Keys for everybody, and the run's configuration."""
    return {
        "rounds": 0, "weights": str(weights), "run": str(folder / "run"), "n": 100, "seconds": 200,
        "keys": str(keys_in(folder, names)), "private": True, "roster": ",".join(names),
    }  # fmt: skip


def check_simulated(folder: Path, weights: Path, inside: list[str]) -> None:
    """The sums are those of the reports of these clients."""
    from safetensors.torch import load_file
    from ward.task import load_data, make_network

    net = make_network().eval()
    net.load_state_dict(load_file(weights))
    request = Request.from_json(json.loads((folder / "run" / "request.json").read_text()))
    own = []
    for number, name in enumerate(request.roster or ()):
        if name in inside:
            _, (x, y) = load_data({"partition-id": number, "num-partitions": len(request.roster or ())})
            own.append(again(net, (x, y), name, request))
    sums, clear = Sums.from_json(json.loads((folder / "run" / "sums.json").read_text())), Sums.of(own)
    assert (sums.label_counts, sums.procedure_counts) == (clear.label_counts, clear.procedure_counts)
    assert sums.contributors == len(inside)
    assert sums.by_class is not None
    assert clear.by_class is not None
    assert sums.by_class.procedure_counts == clear.by_class.procedure_counts
