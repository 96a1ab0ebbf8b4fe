"""Every way in which sites can drop out, for few sites: the sum is exactly over who is left, or there is none."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest

from faulty_calls import ALL, Tally
from fedcert.engines.in_process import InProcessTransport
from fedcert.errors import QuorumMissed, Refused
from fedcert.privacy.keys.keyring import Keyring
from fedcert.report import Report, Request, Sums
from fedcert.report.request import PrivateSum
from fedcert.rounds.private import private_sums
from fedcert.secagg.messages import CLIENT_MESSAGES as STAGES
from fedcert.secagg.participant import Participant
from secure_sums import COORDINATOR, FEW, KEYS, NAMES, Party, private_request, reports, sign


def subsets(names: Any, least: int = 0) -> Iterator[tuple[str, ...]]:
    """All subsets of so many names or more."""
    listed = sorted(names)
    return chain.from_iterable(combinations(listed, size) for size in range(least, len(listed) + 1))


def branch(party: Party) -> Party:
    """The same sites and server, to go on with in another way."""
    other = copy.copy(party)
    other.server = copy.copy(party.server)
    other.server.received = [dict(each) for each in party.server.received]
    other.memories = copy.deepcopy(party.memories)
    return other


def every_end(party: Party) -> Iterator[Party]:
    """The sum after each way of dropping out in each stage, where there is one; where not, the sentence is checked."""
    stage, asked = party.server.stage, party.server.asked
    for leaving in subsets(asked):
        if len(asked) - len(leaving) < party.server.threshold:
            with pytest.raises(QuorumMissed) as caught:
                left_behind(party, set(leaving))
            assert str(caught.value) == (
                f"{len(asked) - len(leaving)} clients sent their {STAGES[stage].NOUN}, but a private sum needs "
                f"{party.server.threshold}; nothing is known of anybody's numbers"
            )
            continue
        following = branch(party)
        following.stage(without=set(leaving))
        if following.server.total is not None:
            yield following
        else:
            yield from every_end(following)


def left_behind(party: Party, leaving: set[str]) -> None:
    """End a stage without so many that there is no sum; what the others would have sent does not matter."""
    server = branch(party).server
    answered = dict.fromkeys(server.asked - leaving)
    server.received[server.stage] = answered  # type: ignore[assignment]
    server.close()


@pytest.mark.parametrize(
    ("count", "threshold", "ends"),
    [
        (3, 3, 1), (4, 4, 1), (4, 3, 21), (5, 5, 1), (5, 4, 26), (5, 3, 276),
    ],
)  # fmt: skip
def test_the_sum_is_over_who_is_left_whoever_drops_out_and_when(count: int, threshold: int, ends: int) -> None:
    """All subsets in all stages: with d of N gone in five stages, N over d times 5^d ends."""
    party = Party.of(count, length=3, threshold=threshold)
    seen = 0
    for end in every_end(party):
        assert (end.server.total == end.expected()).all()
        assert len(end.server.survivors) >= threshold
        seen += 1
    assert seen == ends


class Leaving(InProcessTransport):
    """Sites that drop out, each from a stage on.

    Args:
        clients: as of `InProcessTransport`.
        last: the first stage in which a site is not there, by name.
    """

    def __init__(self, clients: Any, last: Mapping[str, int]) -> None:
        super().__init__(clients)
        self._last = last

    def send(self, request: Request, stage: int, messages: Mapping[str, str]) -> None:
        for name, when in self._last.items():
            if stage >= when:
                self.clients = {other: each for other, each in self.clients.items() if other != name}
        super().send(request, stage, messages)


def held_by_two(own: dict[str, Report]) -> dict[str, Report]:
    """Reports of which class b is in the first two alone."""
    for name in list(own)[2:]:
        fields = dict(own[name].__dict__)
        fields["label_counts"] = (fields["label_counts"][0], 0)
        fields["class_certified_counts"] = (fields["class_certified_counts"][0], (0, 0, 0))
        fields["certified_counts"] = fields["class_certified_counts"][0]
        own[name] = Report(**fields)
    return own


def check_chain(count: int, last: Mapping[str, int], rare: bool) -> None:
    """A sum of class support, one of counts and one of how sites differ: exact, or not there."""
    names = NAMES[:count]
    ring = Keyring.of([COORDINATOR.card, *(KEYS[name].card for name in names)])
    private = PrivateSum(threshold=3, spread=True, fewest_holders=2)
    request = sign(private_request(names, radii=(0.0, 0.25, 0.5), private=private), COORDINATOR)
    own = held_by_two(reports(request)) if rare else reports(request)

    def participant(name: str) -> Any:
        from fedcert.privacy.state_store import InMemoryStore

        return lambda asked: Participant(asked, KEYS[name], ring, InMemoryStore(), lambda: own[name], policy=FEW)

    transport = Leaving({name: participant(name) for name in names}, last)
    counts_sent = 5 + STAGES.index(next(kind for kind in STAGES if kind.NOUN == "masked numbers"))
    left = [name for name in names if last.get(name, 99) > counts_sent]
    try:
        sums, missing = private_sums(transport, request, ring, patience=0.0)
    except (QuorumMissed, Refused):
        # Nothing may be missing that could be there, but for classes that few hold, which sites do not let go.
        assert len([name for name in names if last.get(name, 99) > counts_sent + 2]) < 3 or rare
        return
    assert sums is not None
    assert set(missing) == set(names) - set(left)
    clear = Sums.of([own[name] for name in left])
    assert sums.contributors == len(left)
    for index, labels in enumerate(clear.label_counts):
        assert sums.label_counts[index] in (labels, 0)
        assert sums.label_counts[index] == labels or rare
        assert not sums.label_counts[index] or sum(own[name].label_counts[index] > 0 for name in left) >= 2
    if sums.label_counts == clear.label_counts:
        assert sums.certified_counts == clear.certified_counts
        assert clear.by_class is not None
        assert sums.by_class == replace(clear.by_class, moments=None)
    gone = set(last) & set(left)
    assert (sums.spread is not None) or gone or rare, "the second sum is there where all stay"


@pytest.mark.parametrize("rare", [False, True])
def test_a_chain_of_sums_is_exact_or_not_there_whenever_a_site_leaves(rare: bool) -> None:
    for stage in range(15):
        check_chain(4, {NAMES[stage % 4]: stage}, rare)


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 4, *([5] if ALL else [])])
def test_a_chain_of_sums_is_exact_or_not_there_whoever_leaves_and_when(count: int, tally: Tally) -> None:
    for stage in range(15):
        for leaving in subsets(NAMES[:count], 1):
            check_chain(count, dict.fromkeys(leaving, stage), rare=False)
            tally.faults += 1


@pytest.mark.slow
def test_a_chain_of_sums_is_exact_or_not_there_when_two_leave_at_two_stages(tally: Tally) -> None:
    chance = np.random.default_rng(0)
    for _ in range(2000 if ALL else 60):
        first, second = chance.choice(5, 2, replace=False)
        last = {NAMES[first]: int(chance.integers(15)), NAMES[second]: int(chance.integers(15))}
        check_chain(5, last, rare=bool(chance.integers(2)))
        tally.faults += 1
