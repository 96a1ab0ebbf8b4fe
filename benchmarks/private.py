"""What a private sum costs a site and the server, in CPU time, message sizes included.

    python benchmarks/private.py [--clients 10 100 300] [--counters 2100] [--dropping 0.0 0.1 0.3] [--out results.json]

All sites run in this process, one after the other; a site's time is that of its five steps, from the text that it is
told to the text that it says. Keys are made before. In a site's first sum with others it works out what their cards
agree on, which later ones need not. The server's time is that of checking all messages and of taking
the masks off.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedcert._schema.encoding import decoded
from fedcert.privacy.keys.identity import Identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.state_store import InMemoryStore
from fedcert.report import Request, Smoothing
from fedcert.report.request import PrivateSum
from fedcert.secagg.client import SecAggClient
from fedcert.secagg.masks import agreed
from fedcert.secagg.messages import CLIENT_MESSAGES, SERVER_MESSAGES, read_message
from fedcert.secagg.server import SecAggServer
from machine import describe_machine


class Clock:
    """Adds up CPU seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def of(self, work: Callable[[], Any]) -> Any:
        """What some work gives; its time is added."""
        began = time.process_time()
        made = work()
        self.seconds += time.process_time() - began
        return made


def step(site: SecAggClient, stage: int, text: str | None, vector: np.ndarray) -> str:
    """A site's step, from text to text."""
    if stage == 0 or text is None:
        return site.join().dumps()
    told = read_message(text, SERVER_MESSAGES, "what the server tells")
    if stage == 2:
        return site.mask(told, vector).dumps()
    return [None, site.share, None, site.confirm, site.reveal][stage](told).dumps()  # type: ignore[misc]


def measured(
    known: list[Identity], memories: list[InMemoryStore], counters: int, dropping: float, seed: int
) -> dict[str, Any]:
    """One private sum; sites that drop out do so at random stages after the first."""
    clients = len(known)
    ring, threshold = Keyring.of([one.card for one in known]), 2 * clients // 3 + 1
    request = Request(
        model="m", smoothing=Smoothing(sigma=0.5), classes=("a", "b"), roster=tuple(one.name for one in known),
        nonce=secrets.token_hex(16), private=PrivateSum(threshold=threshold),
    )  # fmt: skip
    generator, numbers = random.Random(seed), np.random.default_rng(seed)
    leaving = {one.name: generator.randrange(1, 5) for one in generator.sample(known, int(dropping * clients))}
    vectors = {one.name: numbers.integers(0, 2**40, counters).astype(np.uint64) for one in known}
    sites, times, sizes = {}, {one.name: Clock() for one in known}, defaultdict(list)
    for one, memory in zip(known, memories, strict=True):
        memory.texts.pop("survivors", None)  # here other sites drop out every time
        sites[one.name] = times[one.name].of(lambda one=one, memory=memory: SecAggClient(request, one, ring, memory))
    server, own = SecAggServer(request, ring, counters), Clock()
    for stage in range(len(CLIENT_MESSAGES)):
        for name in sorted(server.asked):
            if leaving.get(name, len(CLIENT_MESSAGES)) <= stage:
                continue
            told = own.of(lambda name=name: server.message_for(name))
            text = None if told is None else own.of(told.dumps)
            said = times[name].of(
                lambda name=name, text=text, stage=stage: step(sites[name], stage, text, vectors[name])
            )
            sizes[CLIENT_MESSAGES[stage].__name__].append(len(said))
            own.of(lambda said=said: server.take(read_message(said, CLIENT_MESSAGES, "what a site says")))
        own.of(server.close)
    expected = sum((vectors[name] for name in server.survivors), np.zeros(counters, dtype=np.uint64))
    if server.total is None or (server.total != expected).any():
        raise RuntimeError("the sum is wrong")
    stayed = [1000 * clock.seconds for name, clock in times.items() if name not in leaving]
    return {
        "clients": clients, "counters": counters, "dropped_out": len(leaving), "in_the_sum": len(server.survivors),
        "site_milliseconds": statistics.median(stayed), "site_milliseconds_most": max(stayed),
        "server_seconds": own.seconds,
        "site_bytes": {kind: int(statistics.median(found)) for kind, found in sizes.items()},
    }  # fmt: skip


def yardstick() -> float:
    """CPU microseconds of one X25519 key agreement here: most of what a site does."""
    own, other = Identity.new("a"), Identity.new("b")
    key, public = own.agreement_key, decoded(other.card.agreement)
    clock = Clock()
    clock.of(lambda: [agreed(key, public) for _ in range(1000)])
    return 1000 * clock.seconds


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100, 300])
    parser.add_argument("--counters", type=int, default=2100)
    parser.add_argument("--dropping", type=float, nargs="+", default=[0.0, 0.1, 0.3])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for clients in options.clients:
        for dropping in options.dropping:
            firsts, laters = [], []
            for seed in range(options.repeats):
                known = [Identity.new(f"site-{number}") for number in range(clients)]
                memories = [InMemoryStore() for _ in known]
                for found in (firsts, laters):
                    found.append(measured(known, memories, options.counters, dropping, seed))
            for words, found in (("first sum", firsts), ("later sum", laters)):
                row = sorted(found, key=lambda row: row["site_milliseconds"])[len(found) // 2]
                rows.append({"of": words, **row})
                print(rows[-1], flush=True)
    if options.out is not None:
        result = {
            "machine": describe_machine("cryptography", "numpy"), "repeats": options.repeats,
            "one_key_agreement_microseconds": yardstick(), "sums": rows,
        }  # fmt: skip
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
