"""A memory's files of any other shape end in one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fedcert.engines.in_process import InProcessTransport
from fedcert.errors import FedcertError, FileProblem
from fedcert.privacy.state_store import InMemoryStore
from fedcert.report import Report, Request
from fedcert.report.privacy import PrivacyBudget
from fedcert.report.request import PrivateSum
from fedcert.rounds.private import private_sums
from secure_sums import COORDINATOR, NAMES, RING, private_request, reports, sign, site

SITES = NAMES[:4]
PRIVATE = {
    "plain": PrivateSum(threshold=3),
    "chain": PrivateSum(threshold=3, spread=True, fewest_holders=2),
    "noisy": PrivateSum(threshold=3, budget=PrivacyBudget(epsilon=1.0, delta=1e-6)),
}
STRANGE: tuple[Any, ...] = (None, 0, 1.5, "", "x", "AAAA", [], [1], ["x"], {}, {"x": 1}, True)


def changed(document: Any, depth: int) -> Iterator[Any]:
    """A document with one of its values left out or another one in its place."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield {other: each for other, each in document.items() if other != key}
            yield from ({**document, key: strange} for strange in STRANGE)
            yield from ({**document, key: each} for each in (changed(value, depth - 1) if depth else ()))
    elif isinstance(document, list) and document:
        yield from ([strange, *document[1:]] for strange in STRANGE)


class Overheard(InProcessTransport):
    """Keeps what the first site is sent, with its memory at that time."""

    def __init__(self, own: Mapping[str, Report]) -> None:
        self.memories = {name: InMemoryStore() for name in SITES}
        super().__init__({name: site(name, own[name], self.memories[name]) for name in SITES})
        self.moments: list[tuple[int, str, dict[str, str]]] = []

    def send(self, request: Request, stage: int, messages: Mapping[str, str]) -> None:
        self.moments.append((stage, messages[SITES[0]], dict(self.memories[SITES[0]].texts)))
        super().send(request, stage, messages)


@pytest.mark.parametrize("kind", PRIVATE)
def test_whatever_a_file_of_the_memory_holds_a_site_ends_in_a_sentence(kind: str) -> None:
    request = sign(private_request(SITES, radii=(0.0, 0.25, 0.5), private=PRIVATE[kind]), COORDINATOR)
    own = reports(request)
    if kind == "noisy":
        own = {name: replace(report, seed="sha256:" + "0" * 64) for name, report in own.items()}
    transport = Overheard(own)
    assert private_sums(transport, request, RING, patience=0.0)[0] is not None
    refused = 0
    for stage, message, texts in transport.moments:
        for name, text in texts.items():
            depth = 0 if name.startswith("report") else 1
            for number, document in enumerate(changed(json.loads(text), depth)):
                if kind != "plain" and number % 5:
                    continue
                memory = InMemoryStore()
                memory.texts = {**texts, name: json.dumps(document)}
                try:
                    one = site(SITES[0], own[SITES[0]], memory)(request)
                    one.join() if stage == 0 else one.reply(message)
                except FedcertError:
                    refused += 1
    assert refused > 150


def test_what_is_wrong_with_a_memory_is_named_and_no_secret_shown() -> None:
    request = sign(private_request(SITES, radii=(0.0, 0.25, 0.5), private=PRIVATE["plain"]), COORDINATOR)
    own, memory = reports(request), InMemoryStore()
    site(SITES[0], own[SITES[0]], memory)(request).join()
    name = next(name for name in memory.texts if "secret" in memory.texts[name])
    kept = json.loads(memory.texts[name])
    memory.texts[name] = json.dumps({**kept, "seed": "c3dvcmRmaXNo"})
    with pytest.raises(FileProblem) as caught:
        site(SITES[0], own[SITES[0]], memory)(request)
    assert str(caught.value) == "the memory of this sum is not as fedcert wrote it (seed); ask for a new sum"
