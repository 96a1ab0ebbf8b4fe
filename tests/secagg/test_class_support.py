"""Classes that few sites hold: their counts do not leave, whatever the server says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcert._files.documents import parse
from fedcert._schema.encoding import decoded, encoded
from fedcert.engines.in_process import InProcessTransport
from fedcert.engines.shared_folder import FolderTransport, take_part
from fedcert.errors import InvalidValue, QuorumMissed, Refused
from fedcert.privacy.keys.identity import Identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.keys.signing import sign
from fedcert.privacy.policy import Policy
from fedcert.privacy.state_store import FolderStore, InMemoryStore
from fedcert.report import Report, Request, Sums
from fedcert.report.privacy import PrivacyBudget
from fedcert.report.request import PrivateSum
from fedcert.rounds.private import estimate_from_sums, private_sums
from fedcert.secagg import participant
from fedcert.secagg.binding import common_key, holds, tags_of
from fedcert.secagg.class_support import ClassSupport
from fedcert.secagg.messages import Holders
from fedcert.secagg.participant import Participant
from fedcert.secagg.second_sum import SecondSum
from fedcert.secagg.sum_chain import SumChain
from secure_sums import POPULATION, counts_by_class, private_request

NAMES = tuple(f"site-{number}" for number in range(5))
CLASSES = ("cat", "dog", "yak")
COORDINATOR = Identity.new("coordinator")
FEW = Policy(fewest_for_squares=3, fewest_for_moments=3)
KEYS = {name: Identity.new(name) for name in NAMES}
RING = Keyring.of([COORDINATOR.card, *(keys.card for keys in KEYS.values())])
TOTALS = ("label_counts", "certified_counts", "correct_counts", "by_class", "moments", "contributors")


def asked(fewest: int | None = 3, **changes: Any) -> Request:
    private = PrivateSum(**{"threshold": 3, "fewest_holders": fewest, **changes})
    return sign(private_request(NAMES, radii=(0.0, 0.25), classes=CLASSES, private=private), COORDINATOR)


def asked_for_right_answers(**changes: Any) -> Request:
    private = PrivateSum(threshold=3, fewest_holders=3, **changes)
    settings = {"radii": (0.0, 0.25), "classes": CLASSES, "smoothing": POPULATION}
    return sign(private_request(NAMES, private=private, **settings), COORDINATOR)


def reports(request: Request) -> dict[str, Report]:
    """Five hold cats, three dogs, two yaks."""
    made = {}
    for number, name in enumerate(NAMES):
        labels = (10 + number, 7 if number < 3 else 0, 4 if number > 2 else 0)
        rows = [[count - count // 3, count // 2] for count in labels]
        if request.smoothing.is_population:
            rows = [[count // 3, *[0] * (request.smoothing.n - 1), count - count // 3] for count in labels]
        made[name] = Report(
            client=name, model=request.model, request=request.digest, smoothing=request.smoothing, radii=request.radii,
            classes=CLASSES, label_counts=labels, **counts_by_class(request, np.array(rows)),
        )  # fmt: skip
    return made


def site(name: str, own: Report, memory: Any) -> Callable[[Request], Participant]:
    return lambda request: Participant(request, KEYS[name], RING, memory, lambda: own, policy=FEW)


def transport(own: Mapping[str, Report], kind: type[InProcessTransport] = InProcessTransport) -> InProcessTransport:
    return kind({name: site(name, own[name], InMemoryStore()) for name in NAMES})


def without_yaks(own: Mapping[str, Report]) -> list[Report]:
    held = ClassSupport((5, 3, 2), 3, 5)
    return [held.restricted(report) for report in own.values()]


@pytest.mark.parametrize("moments", [False, True])
@pytest.mark.parametrize("ask", [asked, asked_for_right_answers])
def test_classes_that_few_hold_are_not_in_the_sums(ask: Callable[..., Request], moments: bool) -> None:
    request = ask(moments=moments)
    own = reports(request)
    sums, missing = private_sums(transport(own), request, RING, patience=0.0)
    assert sums is not None
    assert missing == {}
    assert sums.label_counts == (60, 21, 0)
    assert sums.fewest_holders == 3
    clear = Sums.of(without_yaks(own))
    for name in TOTALS if moments else TOTALS[:3]:
        assert getattr(sums, name) == getattr(clear, name), name
    assert sums.by_class is not None
    assert not any(sums.by_class.procedure_counts[2])
    made = estimate_from_sums(sums, request, {}, None, "poststratified")
    check = next(check for check in made.checks if check.name == "class coverage")
    assert check.sentence.startswith("Fewer than 3 clients, if any, have test examples of 'yak'")
    assert Sums.from_json(parse(sums.dumps(), "the sums")) == sums
    assert sums.merged(Sums.of([replace(own["site-0"], client="other")])).fewest_holders == 3


def test_what_enters_the_sum_is_zero_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the server leaves the class out, but each site, before masks."""
    request = asked()
    own = reports(request)
    seen = []

    class Watching(SumChain):
        def counts(self) -> Any:
            counts = super().counts()
            if counts is None:
                return None
            return counts._replace(pack=lambda report: seen.append(counts.pack(report)) or counts.pack(report))

    monkeypatch.setattr(participant, "SumChain", Watching)

    private_sums(
        InProcessTransport(
            {
                name: lambda request, name=name: Participant(
                    request, KEYS[name], RING, InMemoryStore(), lambda: own[name]
                )
                for name in NAMES
            }
        ),
        request,
        RING,
        patience=0.0,
    )
    assert len(seen) == len(NAMES)
    for vector in seen:  # who holds anything, labels of three classes, then a row for each class
        assert vector[3] == 0
        assert not vector[8:10].any()


class Lying(InProcessTransport):
    """A server that says of yaks what it likes."""

    change: Callable[[Holders], Holders] = staticmethod(lambda told: told)

    def send(self, request: Request, stage: int, messages: Mapping[str, str]) -> None:
        if stage == len(("join", "shares", "masked", "confirmed", "revealed")):
            messages = {
                name: self.change(Holders.from_json(parse(text, "a message"))).dumps()
                for name, text in messages.items()
            }
        super().send(request, stage, messages)


def _more(told: Holders) -> Holders:
    return replace(told, holders=(*told.holders[:2], 5))


def _other_tags(told: Holders) -> Holders:
    tags = bytearray(decoded(told.tags))
    tags[-1] ^= 1
    return replace(told, tags=encoded(bytes(tags)))


def _swapped(told: Holders) -> Holders:
    numbers = [decoded(told.tags)[8 * place : 8 * place + 8] for place in (0, 2, 1)]
    return replace(told, holders=tuple(told.holders[place] for place in (0, 2, 1)), tags=encoded(b"".join(numbers)))


def _short(told: Holders) -> Holders:
    return replace(told, tags=encoded(decoded(told.tags)[:8]))


@pytest.mark.parametrize("change", [_more, _other_tags, _swapped, _short])
def test_a_server_that_lies_about_holders_gets_no_counts(change: Callable[[Holders], Holders]) -> None:
    request = asked()

    class Liar(Lying):
        pass

    Liar.change = staticmethod(change)  # type: ignore[assignment]
    with pytest.raises(QuorumMissed, match="the server tells another number of holders than the sites have summed"):
        private_sums(transport(reports(request), Liar), request, RING, patience=0.0)


def test_who_leaves_in_between_may_have_been_a_holder() -> None:
    """Three hold dogs; without one site that may be two, and the sum does not end."""
    request = asked()
    own = reports(request)

    class Leaving(InProcessTransport):
        def send(self, request: Request, stage: int, messages: Mapping[str, str]) -> None:
            if stage >= 6:
                messages = {name: text for name, text in messages.items() if name != "site-4"}
            super().send(request, stage, messages)

    with pytest.raises(QuorumMissed, match="1 sites have gone since holders were counted, and a class of 3 holders"):
        private_sums(transport(own, Leaving), request, RING, patience=0.0)
    # Where only cats are summed, four holders are left.
    request = asked(fewest=4)
    own = reports(request)
    sums, missing = private_sums(transport(own, Leaving), request, RING, patience=0.0)
    assert sums is not None
    assert sums.label_counts == (46, 0, 0)
    assert set(missing) == {"site-4"}


def test_nothing_is_summed_where_no_class_is_held_by_enough() -> None:
    request = asked(fewest=6)
    with pytest.raises(Refused, match="no class is held by 6 of the 5 sites or more"):
        private_sums(transport(reports(request)), request, RING, patience=0.0)


@pytest.mark.parametrize("ask", [asked, asked_for_right_answers])
def test_over_files_step_by_step_with_a_second_sum(tmp_path: Path, ask: Callable[..., Request]) -> None:
    request = ask(spread=True)
    own = reports(request)
    folder = tmp_path / "shared"
    folder.mkdir()

    def go(name: str) -> bool:
        memory = FolderStore(tmp_path / name)
        try:
            return take_part(folder, name, lambda: site(name, own[name], memory)(request), once=True)
        finally:
            memory.close()

    def add_up() -> Any:
        return private_sums(FolderTransport(folder), request, RING, folder=tmp_path / "run", once=True)

    for stage in range(15):
        assert add_up()[0] is None
        assert {go(name) for name in NAMES} == {stage == 14}
    sums, missing = add_up()
    assert missing == {}
    restricted = without_yaks(own)
    about = SecondSum.of(Sums.of(restricted), (1 / 3,) * 3)
    assert sums.spread == about.spread(np.sum([about.pack(one) for one in restricted], axis=0, dtype=np.uint64))
    assert add_up()[0] == sums


def test_what_nobody_asked_for_or_comes_too_early_is_refused() -> None:
    plain = asked(fewest=None)
    told = Holders(session="0" * 64, holders=(5, 3, 2), tags=encoded(bytes(24)))
    with pytest.raises(Refused, match="^the request asks for no number of holders$"):
        site("site-0", reports(plain)["site-0"], InMemoryStore())(plain).reply(told.dumps())
    request = asked()
    with pytest.raises(Refused, match="^counts come after the sum of holders, which is not done$"):
        site("site-0", reports(request)["site-0"], InMemoryStore())(request).reply(told.dumps())
    with pytest.raises(Refused, match="no sum of honest answers"):
        ClassSupport.of(request, np.array([9, 0, 0], dtype=np.uint64), 5)
    with pytest.raises(Refused, match="cannot be left out of a report without counts per class"):
        ClassSupport((5, 3, 2), 3, 5).restricted(replace(reports(request)["site-0"], class_certified_counts=None))
    for wrong in ({"budget": PrivacyBudget(epsilon=1)}, {"class_counts": False, "moments": True}):
        with pytest.raises(InvalidValue, match="fewest_holders must be null where sums have noise, or no counts"):
            PrivateSum(threshold=3, fewest_holders=3, **wrong)  # type: ignore[arg-type]


def test_a_total_holds_for_the_right_numbers_sites_and_key_alone() -> None:
    names = [f"s{number}" for number in range(7)]
    key = common_key(bytes(32), {name: name.encode() * 16 for name in names})
    generator = np.random.default_rng(0)
    numbers = {name: generator.integers(0, 2, 11).astype(np.uint64) for name in names}
    claimed = np.sum(list(numbers.values()), axis=0, dtype=np.uint64)
    tags = np.sum([tags_of(numbers[name], key, name) for name in names], axis=0, dtype=np.uint64)
    assert holds(claimed, tags, key, names)
    assert not holds(claimed, tags, key, names[1:])
    assert not holds(claimed, tags[:-1], key, names)
    assert not holds(claimed, tags, common_key(bytes(32), {"s0": b"another"}), names)
    for more in range(1, 2_001):  # whatever number of holders a server invents
        other = claimed.copy()
        other[4] += np.uint64(more)
        assert not holds(other, tags, key, names)
