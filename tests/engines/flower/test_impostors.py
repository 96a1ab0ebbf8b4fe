"""Names are bound to keys: an impostor among the nodes answers for no one else, and keeps no one from answering."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedcert import Report, Sums, Target
from fedcert.engines.flower import answer, certify_privately, certify_round, certifying
from fedcert.engines.flower.client import name_of
from fedcert.errors import QuorumMissed
from fedcert.estimation.result import Estimate
from fedcert.privacy.keys.identity import Identity, write_identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.keys.name_proof import name_proof
from fedcert.privacy.policy import Policy
from fedcert.rounds import RunFolder, reports
from fedcert.rounds import private as private_rounds
from fedcert.secagg.participant import ParticipantConfig
from function_grid import CLASSES, FOUR, RIGHT_ANSWERS, FunctionGrid, Handler, honest, network

pytestmark = pytest.mark.engine
COORDINATOR = Identity.new("coordinator")
KEYS = {name: Identity.new(name) for name in sorted(FOUR)}
RING = Keyring.of([COORDINATOR.card, *(keys.card for keys in KEYS.values())])
NAMES = ["client-0", "client-1", "client-2"]
REAL, IMPOSTOR = 102, 110
"""Nodes: the one of client-2, and one that claims to be."""


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who Flower believes this process to be."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes answer at once here: nothing is gained by pauses."""
    for module in (reports, private_rounds):
        monkeypatch.setattr(module, "_PAUSE", 0.01)


def member(message: Message, where: Context, **changes: Any) -> Message:
    """A site with keys."""
    name = name_of(where)
    given = {"keys": KEYS[name], "trusted": RING, "class_counts": True, **changes}
    return answer(message, where, network(), FOUR[name], **given)


def asks_for(message: Message) -> str:
    return str(message.content.config_records["fedcert"]["ask"])


def lying(message: Message, where: Context, **own: Any) -> Message:
    """Answers in client-2's name, with other data, and does whatever the server asks."""
    given: dict[str, Any] = {"class_counts": True, **own}
    return answer(message, where, network(), FOUR["client-3"], **given)


def without_keys(message: Message, where: Context) -> Message:
    return lying(message, where, client="client-2")


OTHER_KEYS = Identity.new("client-2")


def with_other_keys(message: Message, where: Context) -> Message:
    return lying(message, where, keys=OTHER_KEYS)


def claiming(message: Message, proof: str) -> Message:
    content = RecordDict({"fedcert": ConfigRecord({"name": "client-2", "proof": proof})})
    return Message(content, reply_to=message)


def with_an_earlier_proof(message: Message, where: Context) -> Message:
    if asks_for(message) != "name":
        return without_keys(message, where)
    return claiming(message, name_proof(KEYS["client-2"], "0f" * 16, str(IMPOSTOR)))


def with_a_question_passed_on(message: Message, where: Context) -> Message:
    """What the real site says to the challenge that the impostor was given."""
    if asks_for(message) != "name":
        return without_keys(message, where)
    challenge = str(message.content.config_records["fedcert"]["challenge"])
    return claiming(message, name_proof(KEYS["client-2"], challenge, str(REAL)))


def in_anothers_name(message: Message, where: Context) -> Message:
    """A member, but not this one."""
    if asks_for(message) != "name":
        return without_keys(message, where)
    challenge = str(message.content.config_records["fedcert"]["challenge"])
    return claiming(message, name_proof(KEYS["client-3"], challenge, str(IMPOSTOR)))


IMPOSTORS = [without_keys, with_other_keys, with_an_earlier_proof, with_a_question_passed_on, in_anothers_name]


def round_of(grid: FunctionGrid, **changes: Any) -> Estimate:
    values: dict[str, Any] = {
        "classes": CLASSES, "smoothing": RIGHT_ANSWERS, "seconds": 10.0, "quorum": 1, "roster": NAMES,
        "keys": COORDINATOR, "trusted": RING,
    }  # fmt: skip
    return certify_round(grid, network(), **{**values, **changes})


def joined_late(grid: FunctionGrid, number: int, handler: Handler) -> Handler:
    """A member at whose report another node comes."""

    def first(message: Message, where: Context) -> Message:
        if asks_for(message) != "name":
            grid.nodes[number] = handler
        return member(message, where)

    return first


def kept_reports(run: Path) -> dict[str, Report]:
    with RunFolder(run) as folder:
        return {report.client: report for report in folder.reports()}


def check_of(made: Estimate, name: str) -> Any:
    return next((check for check in made.checks if check.name == name), None)


@pytest.mark.parametrize("impostor", IMPOSTORS)
def test_an_impostor_does_not_answer_for_an_absent_site_which_answers_when_it_comes(
    tmp_path: Path, impostor: Handler
) -> None:
    grid = FunctionGrid({IMPOSTOR: impostor, 100: member})
    grid.nodes[101] = joined_late(grid, REAL, member)
    made = round_of(grid, run=tmp_path)
    assert made.excluded == {}
    assert (IMPOSTOR, "report") not in grid.asked
    reports = kept_reports(tmp_path)
    assert sorted(reports) == NAMES
    assert sum(reports["client-2"].label_counts) == 10
    assert reports["client-2"].signature is not None
    assert reports["client-2"].signature.key == KEYS["client-2"].public[0]
    assert check_of(made, "signatures").sentence == "All 3 reports are signed by keys that are trusted."


@pytest.mark.parametrize("impostor", IMPOSTORS)
def test_an_impostor_beside_the_site_is_no_conflict(impostor: Handler) -> None:
    grid = FunctionGrid({100: member, 101: member, REAL: member, IMPOSTOR: impostor})
    made = round_of(grid)
    assert (made.clients, made.excluded) == (3, {})
    assert check_of(made, "contested names") is None
    assert (IMPOSTOR, "report") not in grid.asked


@pytest.mark.parametrize("impostor", [without_keys, with_other_keys])
def test_an_impostor_that_comes_after_the_sites_answer_leaves_no_doubt_about_it(impostor: Handler) -> None:
    """The round waits for another client until the impostor has claimed the name."""

    def late(message: Message, where: Context) -> Message:
        grid.nodes[101] = member
        return impostor(message, where)

    grid = FunctionGrid({101: None, REAL: member})
    grid.nodes[100] = joined_late(grid, IMPOSTOR, late)
    made = round_of(grid)
    assert (made.clients, made.excluded) == (3, {})
    assert (IMPOSTOR, "name") in grid.asked
    assert check_of(made, "contested names") is None


@pytest.mark.parametrize(
    ("impostor", "why"),
    [
        (without_keys, "a client calls itself 'client-2' and gives no proof of it: it is an impostor, or the site is"),
        (with_other_keys, "a client calls itself 'client-2', but not with the keys that the keyring has for this name"),
    ],
)
def test_a_site_that_never_comes_is_missing_and_the_estimate_says_what_claimed_its_name(
    impostor: Handler, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = round_of(FunctionGrid({100: member, 101: member, IMPOSTOR: impostor}), seconds=2.0)
    assert made.clients == 2
    assert made.excluded["client-2"].startswith(why)
    assert f"node {IMPOSTOR} does not count: {why}" in caplog.text


def test_an_impostor_is_on_no_roster_of_those_who_are_present() -> None:
    grid = FunctionGrid({100: member, 101: member, IMPOSTOR: without_keys})
    assert round_of(grid, roster=None).excluded == {}
    with pytest.raises(QuorumMissed, match="2 clients were there within 1 s, but 3 are wanted"):
        round_of(FunctionGrid(dict(grid.nodes)), roster=3, seconds=1.0)


def test_a_name_that_no_member_has_needs_no_proof(tmp_path: Path) -> None:
    ring = RING.without(["client-2"])
    made = round_of(FunctionGrid({100: member, 101: member, REAL: honest}), trusted=ring, run=tmp_path, screen=False)
    assert made.clients == 3
    assert kept_reports(tmp_path)["client-2"].signature is None
    assert "1 of 3 reports are not signed by a key that is trusted: 'client-2'" in check_of(made, "signatures").sentence


def test_a_site_that_flower_loses_proves_its_name_anew() -> None:
    """The proof of the earlier question does not do for the new one."""
    from flwr.app import Error

    asked: list[str] = []

    def flaky(message: Message, where: Context) -> Message:
        texts = message.content.config_records["fedcert"]
        if texts["ask"] == "name":
            asked.append(str(texts["challenge"]))
        elif len(asked) == 1:
            return Message(Error(code=5, reason="Node Unavailable"), reply_to=message)
        return member(message, where)

    assert round_of(FunctionGrid({100: member, 101: member, REAL: flaky})).excluded == {}
    assert len(set(asked)) == 2


def private(folder: Path) -> Handler:
    def handle(message: Message, where: Context) -> Message:
        name = name_of(where)
        own = ParticipantConfig(KEYS[name], RING, folder / name)
        return answer(message, where, network(), FOUR[name], participant=own)

    return handle


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("impostor", [without_keys, with_other_keys])
def test_an_impostor_blocks_no_private_sum(tmp_path: Path, impostor: Handler, late: bool) -> None:
    """Whether the site is there beside it, or comes when the others have joined."""
    grid, handle = FunctionGrid({}), private(tmp_path)

    def first(message: Message, where: Context) -> Message:
        if asks_for(message) != "name":
            grid.nodes[REAL] = handle
        return handle(message, where)

    grid.nodes = {IMPOSTOR: impostor, 100: first, 101: handle} | ({} if late else {REAL: handle})
    made = certify_privately(
        grid, network(), classes=CLASSES, smoothing=RIGHT_ANSWERS, roster=NAMES, keys=COORDINATOR, trusted=RING,
        threshold=3, seconds=10.0, patience=5.0, run=tmp_path / "run",
    )  # fmt: skip
    assert (made.clients, made.excluded) == (3, {})
    assert Sums.load(tmp_path / "run" / "sums.json").contributors == 3
    assert (IMPOSTOR, "private") not in grid.asked


POLICY = Policy(signed_requests=True)


@pytest.mark.parametrize(
    ("changes", "own", "why"),
    [
        ({}, {}, None),
        ({"keys": None}, {}, "the request is not signed; ask the coordinator for a signed one, and for its card"),
        (
            {"keys": Identity.new("coordinator")},
            {},
            "the request is signed by a key that is not in the keyring; ask the coordinator for a signed one, and for its card",
        ),
        (
            {},
            {"trusted": None},
            "this client's policy wants requests that a member of its keyring signed, but it was given no keyring (trusted=)",
        ),
    ],
)
def test_a_policy_that_wants_signed_requests(changes: dict[str, Any], own: dict[str, Any], why: str | None) -> None:
    def careful(message: Message, where: Context) -> Message:
        return member(message, where, policy=POLICY, **own)

    def careless(message: Message, where: Context) -> Message:
        return member(message, where, trusted=None)

    made = round_of(FunctionGrid({100: careless, 101: careless, REAL: careful}), **changes)
    assert made.excluded == ({} if why is None else {"client-2": why})


@pytest.mark.parametrize(
    ("own", "name", "why"),
    [
        ({"keys": "none.json"}, "client-2", "there is no file none.json"),
        ({"client": "client-0"}, "client-0", "the keys are those of 'client-2', but this client is 'client-0'; give"),
    ],
)
def test_a_client_that_cannot_use_its_keys_says_so_and_sends_no_report(
    own: dict[str, Any], name: str, why: str
) -> None:
    def broken(message: Message, where: Context) -> Message:
        return member(message, where, **own)

    made = round_of(FunctionGrid({101: member, REAL: broken}), trusted=None, roster=["client-1", name])
    assert list(made.excluded) == [name]
    assert made.excluded[name].startswith(why)


def test_certification_during_training_passes_keys_and_keyring_on(tmp_path: Path) -> None:
    write_identity(COORDINATOR, tmp_path / "coordinator.json")
    (tmp_path / "ring.json").write_text(RING.dumps())
    grid = FunctionGrid({100: member, 101: member, REAL: member, IMPOSTOR: without_keys})
    evaluate = certifying(
        grid, network(), every=1, run=tmp_path / "runs", classes=CLASSES, smoothing=RIGHT_ANSWERS, seconds=10.0,
        roster=NAMES, keys=str(tmp_path / "coordinator.json"), trusted=tmp_path / "ring.json",
        target=Target(name="ward", distribution={"low": 0.5, "high": 0.5}),
    )  # fmt: skip
    assert evaluate(1, ArrayRecord(network().state_dict())) is not None
    assert {report.signature is not None for report in kept_reports(tmp_path / "runs" / "round-1").values()} == {True}
    assert (IMPOSTOR, "report") not in grid.asked


def test_without_a_keyring_a_second_node_is_a_conflict_as_nothing_can_be_proven() -> None:
    claim: Callable[..., Message] = without_keys
    made = round_of(FunctionGrid({100: member, 101: member, REAL: member, IMPOSTOR: claim}), trusted=None, seconds=2.0)
    assert made.excluded == {"client-2": "two nodes call themselves so, and which one is right is unknown"}
