"""Every numeric field of every seed with every boundary value: python fuzz/sweep.py TARGET [--seconds 60].

What a target does not end in a sentence is written to fuzz/crashes, and the sweep goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import targets  # noqa: E402
from boundaries import dumped, sweep  # noqa: E402

JSON = ("report", "request", "sums", "estimate", "what-if", "messages", "lines", *targets.downstream.TARGETS)
"""Targets that read JSON, one document or one in each line."""


def variants(name: str) -> Iterator[bytes]:
    """The seeds of a target with every boundary value; of a file of lines, the first is changed, or all are alike."""
    for seed, data in targets.kept(name):
        if not seed.startswith("seed-"):
            continue
        lines = data.splitlines() if name in ("lines", "table-rows") else [data]
        for odd in sweep(json.loads(lines[0])):
            first = dumped(odd)
            yield b"\n".join([first, *lines[1:]])
            if len(lines) > 1 and isinstance(odd, dict):  # what all share, so that it goes together
                shared = {key: value for key, value in odd.items() if key != "client"}
                yield b"\n".join(dumped(json.loads(line) | shared) for line in lines)


def failures(name: str, data: list[bytes], seconds: float) -> tuple[int, dict[str, bytes]]:
    """How many inputs were tried in a time, and what ended otherwise than in a sentence: its trace -> an input."""
    end, tried, bad = time.monotonic() + seconds, 0, {}
    for each in data:
        if time.monotonic() > end:
            break
        tried += 1
        try:
            targets.tried(name, each)
        except Exception as error:  # noqa: BLE001
            frames = [f"{frame.filename}:{frame.name}" for frame in traceback.extract_tb(error.__traceback__)[-4:]]
            bad.setdefault(" > ".join([*frames, f"{type(error).__name__}: {str(error)[:200]}"]), each)
    return tried, bad


def main() -> None:
    """Sweep, in an order that does not depend on the time there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=sorted(JSON))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--memory", type=int, default=2048, help="megabytes that an input may take")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (options.memory * 2**20 + 2 * 2**30, resource.RLIM_INFINITY))
    data = list(dict.fromkeys(variants(options.target)))
    random.Random(0).shuffle(data)
    tried, bad = failures(options.target, data, options.seconds)
    (HERE / "crashes").mkdir(exist_ok=True)
    for trace, each in bad.items():
        digest = hashlib.sha256(each).hexdigest()[:16]
        (HERE / "crashes" / f"{options.target}-sweep-{digest}").write_bytes(each)
        print(f"{options.target}-sweep-{digest}: {trace}")
    print(f"{options.target}: {tried} of {len(data)} boundary values tried, {len(bad)} failures")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
