"""A federation that sums in secret, in one process, for tests to disturb."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedcert.engines.in_process import InProcessTransport
from fedcert.privacy.keys.identity import Identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.keys.signing import sign
from fedcert.privacy.policy import Policy
from fedcert.privacy.state_store import InMemoryStore
from fedcert.report import Report, Request, Smoothing
from fedcert.report.request import PrivateSum
from fedcert.report.sums.algebra import counted
from fedcert.rounds.private import private_sums
from fedcert.secagg.client import SecAggClient
from fedcert.secagg.messages import ClientMessage, ServerMessage
from fedcert.secagg.participant import Participant
from fedcert.secagg.server import SecAggServer

Change = Callable[[Any], Any]


def identities(count: int) -> list[Identity]:
    return [Identity.new(f"site-{number:03d}") for number in range(count)]


def private_request(names: Sequence[str], threshold: int | None = None, **changes: Any) -> Request:
    private = PrivateSum(threshold=threshold or 2 * len(names) // 3 + 1)
    values: dict[str, Any] = {
        "model": "m", "smoothing": {"sigma": 0.5}, "classes": ["a", "b"], "roster": list(names),
        "nonce": secrets.token_hex(16), "private": private,
    }  # fmt: skip
    return Request(**{**values, **changes})


@dataclass
class Party:
    """Sites, their numbers, and a server between them.

    Attributes:
        known: their keys.
        vectors: the numbers of each.
        request: what is asked.
        memories: what each remembers.
    """

    known: list[Identity]
    vectors: Mapping[str, np.ndarray]
    request: Request
    memories: dict[str, InMemoryStore] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ring = Keyring.of([one.card for one in self.known])
        length = len(next(iter(self.vectors.values())))
        self.server = SecAggServer(self.request, self.ring, length)
        self.memories = self.memories or {one.name: InMemoryStore() for one in self.known}

    @classmethod
    def of(cls, count: int, length: int = 5, threshold: int | None = None, seed: int = 0) -> Party:
        known = identities(count)
        generator = np.random.default_rng(seed)
        vectors = {one.name: generator.integers(0, 2**40, length).astype(np.uint64) for one in known}
        return cls(known, vectors, private_request([one.name for one in known], threshold))

    def site(self, name: str) -> SecAggClient:
        """As a process that starts anew at every step: what it knows is in its memory."""
        identity = next(one for one in self.known if one.name == name)
        return SecAggClient(self.request, identity, self.ring, self.memories[name])

    def step(self, name: str, told: ServerMessage | None) -> ClientMessage:
        """What a site answers."""
        site = self.site(name)
        stage = self.server.stage
        if stage == 0:
            return site.join()
        assert told is not None
        told = type(told).from_json(json.loads(told.dumps()))
        if stage == 2:
            return site.mask(told, self.vectors[name])  # type: ignore[arg-type]
        return [None, site.share, None, site.confirm, site.reveal][stage](told)  # type: ignore[misc]

    def stage(self, without: set[str] = frozenset(), changed: Mapping[str, Change] = {}) -> dict[str, ClientMessage]:  # type: ignore[assignment]
        """One stage: everybody who is there answers; what some are told may be changed on the way."""
        answers = {}
        for name in sorted(self.server.asked - without):
            told = self.server.message_for(name)
            answers[name] = self.step(name, changed[name](told) if name in changed else told)
        for message in answers.values():
            self.server.take(type(message).from_json(json.loads(message.dumps())))
        self.server.close()
        return answers

    def run(self, dropping: Sequence[set[str]] = ((),) * 5) -> np.ndarray:  # type: ignore[assignment]
        """All stages; who drops out in one is gone for good."""
        gone: set[str] = set()
        for leaving in dropping:
            gone |= set(leaving)
            self.stage(without=gone)
        assert self.server.total is not None
        return self.server.total

    def expected(self) -> np.ndarray:
        """The sum in the clear."""
        return sum((self.vectors[name] for name in self.server.survivors), np.zeros_like(self.vectors["site-000"]))


NAMES = tuple(f"site-{number}" for number in range(5))
COORDINATOR = Identity.new("coordinator")
FEW = Policy(fewest_for_squares=3, fewest_for_moments=3)
KEYS = {name: Identity.new(name) for name in NAMES}
RING = Keyring.of([COORDINATOR.card, *(keys.card for keys in KEYS.values())])
TOTALS = (
    "label_counts", "certified_counts", "correct_counts", "by_class", "moments", "contributors", "model", "smoothing",
    "radii", "classes",
)  # fmt: skip
POPULATION = Smoothing(sigma=0.5, procedure="population", n=16)
PROCEDURES = {"certify": {}, "population": {"smoothing": POPULATION}}
"""What a request says of each kind of certificates."""


def asked(**changes: Any) -> Request:
    private = PrivateSum(threshold=4, moments=True)
    return sign(private_request(NAMES, radii=(0.0, 0.25, 0.5), private=private, **changes), COORDINATOR)


def reports(request: Request, seed: int = 0, **changes: Any) -> dict[str, Report]:
    generator, made = np.random.default_rng(seed), {}
    for name in request.roster or ():
        labels = generator.integers(0, 60, len(request.classes))
        if request.smoothing.is_population:
            rows = np.array([generator.multinomial(label, chances(request, generator)) for label in labels])
        else:
            rows = np.array([np.sort(generator.integers(0, label + 1, 3))[::-1] for label in labels])
        made[name] = Report(
            client=name, model=request.model, request=request.digest, smoothing=request.smoothing, radii=request.radii,
            classes=request.classes, label_counts=labels, **counts_by_class(request, rows), **changes,
        )  # fmt: skip
    return made


def chances(request: Request, generator: np.random.Generator) -> np.ndarray:
    """Of each number of right answers."""
    return generator.dirichlet(np.ones(request.smoothing.n + 1))


def counts_by_class(request: Request | Report, rows: np.ndarray) -> dict[str, Any]:
    """The fields of a report that hold counts, from one row per class."""
    counts = counted(request.smoothing, rows.sum(axis=0).tolist())
    return counts | {f"class_{name}": rows.tolist() for name in counts}


def site(name: str, own: Report, memory: Any = None) -> Callable[[Request], Participant]:
    held = memory if memory is not None else InMemoryStore()
    return lambda request: Participant(request, KEYS[name], RING, held, lambda: own, policy=FEW)


def in_process(request: Request, own: Mapping[str, Report], without: set[str] = frozenset()) -> Any:  # type: ignore[assignment]
    return private_sums(
        InProcessTransport({name: site(name, own[name]) for name in NAMES if name not in without}),
        request,
        RING,
        patience=0.0,
    )
