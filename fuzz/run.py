"""Fuzz a parser, guided by coverage: python fuzz/run.py TARGET [--seconds 600]. Needs atheris. All: make fuzz.

What reaches new code is kept in fuzz/found/TARGET; fuzz/keep.py packs it into the corpus (fuzz/corpus/TARGET.zip), and
every test run replays that. What makes a parser fail otherwise than by a sentence is written to fuzz/crashes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import atheris

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from mutating import mutated  # noqa: E402

with atheris.instrument_imports(include=["fedcert"]):
    import targets

JSON = ("report", "request", "sums", "estimate", "what-if", "messages", "lines", *targets.downstream.TARGETS)


def main() -> None:
    """Fuzz."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=sorted(targets.TARGETS))
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--memory", type=int, default=2048, help="megabytes that an input may take")
    options = parser.parse_args()
    found = HERE / "found" / options.target
    found.mkdir(parents=True, exist_ok=True)
    for name, data in targets.kept(options.target):
        (found / name).write_bytes(data)
    (HERE / "crashes").mkdir(exist_ok=True)
    flags = [
        f"-max_total_time={options.seconds}", "-timeout=60", f"-rss_limit_mb={options.memory}", "-max_len=16384",
        f"-artifact_prefix={HERE / 'crashes' / options.target}-",
    ]  # fmt: skip
    mutator = {"custom_mutator": json_mutator} if options.target in JSON else {}
    call = [sys.argv[0], *flags, str(found)]
    atheris.Setup(call, lambda data: targets.tried(options.target, data), **mutator)
    atheris.Fuzz()


def json_mutator(data: bytes, most: int, seed: int) -> bytes:
    """Mostly changes that keep JSON what it is; in a file of lines, to one of them."""
    rows = data.split(b"\n") if data.count(b"\n{") else [data]
    place = seed % len(rows)
    changed = mutated(rows[place], seed) if seed % 8 else None
    if changed is None:
        return bytes(atheris.Mutate(data, most))
    return b"\n".join([*rows[:place], changed, *rows[place + 1 :]])[:most]


if __name__ == "__main__":
    main()
