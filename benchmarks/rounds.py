"""Rounds per second of federated training on the CPU, in fedcert's simulator, Flower's and pfl's, in one run.

    python benchmarks/rounds.py [--rounds 15] [--warm-up 3] [--repeats 3] [--out results.json]
        [--clients 100] [--clients-per-round 10] [--images 512] [--epochs 1] [--batch-size 32]

What each side does is in `simulators.py`. Every side runs in processes of its own, in each way it can use the machine:
one thread, one process with all threads, and a process for each core with one thread. fedcert does without processes,
and trains a client for each thread. Flower and pfl are optional: `pip install "flwr[simulation]==1.41.0" pfl==0.6.0`.

A round's time is what passes from the end of the last one to its own: drawing clients, sending them the weights,
training, and averaging are in it. Starting up is not, nor are the rounds of warm-up. Evaluation is off on all sides.
First, all sides do a small piece of work in which nothing is random, and their weights are compared.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from machine import describe_machine
from simulators import PACKAGES, SIMULATORS, Outcome, Work, comparable, network, row

_LIMIT = 900


def ways(side: str, cores: int) -> Iterator[tuple[int, int]]:
    """Processes and threads of each in which a side can use the machine."""
    yield 1, 1
    if cores > 1:
        yield 1, cores
        if side != "fedcert":
            yield cores, 1


def carried_out(side: str, work: Work) -> Outcome:
    """Let a side do its work in processes of its own.

    Raises:
        RuntimeError: one of them failed.
    """
    count = work.processes if side == "pfl" else 1
    with tempfile.TemporaryDirectory() as folder:
        addresses = ",".join(f"127.0.0.1:{port}" for port in free_ports(count))
        started = []
        for number in range(count):
            surroundings = dict(os.environ)
            if count > 1:
                surroundings |= {"PFL_WORKER_ADDRESSES": addresses, "PFL_WORKER_RANK": str(number)}
            command = [sys.executable, __file__, "--worker", side, json.dumps(asdict(work)), f"{folder}/{number}.npz"]
            with Path(folder, f"{number}.log").open("wb") as log:
                started.append(subprocess.Popen(command, env=surroundings, stdout=log, stderr=log))
        try:
            codes = [process.wait(_LIMIT) for process in started]
        finally:
            for process in started:
                process.kill()
        if any(codes):
            failed = next(number for number, code in enumerate(codes) if code)
            raise RuntimeError(f"{side} failed:\n{Path(folder, f'{failed}.log').read_text()[-5000:]}")
        with np.load(Path(folder, "0.npz")) as made:
            return Outcome(made["seconds"], made["weights"])


def free_ports(count: int) -> list[int]:
    """Ports on which nobody listens."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def differences(sides: list[str]) -> dict[str, float]:
    """How far the sides' weights are from fedcert's after the same work, relative to how far training moved them."""
    work = comparable(Work(rounds=1))
    ends = {side: carried_out(side, work).weights for side in sides}
    moved = np.abs(ends["fedcert"] - row(list(network().parameters()))).max()
    return {side: float(np.abs(end - ends["fedcert"]).max() / moved) for side, end in ends.items()}


def measured(sides: list[str], work: Work, warm_up: int, repeats: int) -> list[dict[str, Any]]:
    """Speeds of all sides, one after the other in each repeat, so that a slow spell of the machine hits all of them."""
    cores = os.cpu_count() or 1
    cases = [(side, way) for side in sides for way in ways(side, cores)]
    seconds: dict[tuple[str, tuple[int, int]], list[np.ndarray]] = {case: [] for case in cases}
    for repeat in range(repeats):
        for side, (processes, threads) in cases:
            outcome = carried_out(side, replace(work, processes=processes, threads=threads))
            timed = outcome.seconds[warm_up:]
            seconds[side, (processes, threads)].append(timed)
            print(
                f"{side}, {processes} x {threads} threads, repeat {repeat + 1}: {len(timed) / timed.sum():.3f} "
                f"rounds/s (first round {outcome.seconds[0]:.2f} s)",
                flush=True,
            )
    return [figures(*case, made) for case, made in seconds.items()]


def figures(side: str, way: tuple[int, int], seconds: list[np.ndarray]) -> dict[str, Any]:
    """What is kept of a side's rounds."""
    rates = [len(timed) / timed.sum() for timed in seconds]
    every = np.concatenate(seconds)
    return {
        "side": side, "processes": way[0], "threads": way[1],
        "rounds_per_second": float(np.median(rates)), "seconds_per_round": float(1 / np.median(rates)),
        "rounds_per_second_of_repeats": [float(rate) for rate in rates],
        "fastest_round": float(every.min()), "slowest_round": float(every.max()), "rounds_timed": len(every),
    }  # fmt: skip


def work_in_process(side: str, work: str, out: str) -> None:
    """What a process of `carried_out` does."""
    outcome = SIMULATORS[side](Work(**json.loads(work)))
    np.savez(out, seconds=outcome.seconds, weights=outcome.weights)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="timed")
    parser.add_argument("--warm-up", type=int, default=3, help="rounds before that")
    parser.add_argument("--repeats", type=int, default=3)
    for name in ("clients", "clients_per_round", "images", "epochs", "batch_size"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(Work(1), name))
    parser.add_argument("--sides", nargs="+", choices=SIMULATORS, default=list(SIMULATORS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work_in_process(*options.worker)
        return
    if options.images % options.batch_size:
        parser.error("--images must be a multiple of --batch-size: sides treat what is left over differently")
    missing = {side for side in options.sides if any(not importlib.util.find_spec(name) for name in PACKAGES[side])}
    for side in missing:
        print(f"{side} is not installed and left out", flush=True)
    sides = [side for side in options.sides if side not in missing]
    work = Work(
        rounds=options.warm_up + options.rounds, clients=options.clients, epochs=options.epochs,
        clients_per_round=options.clients_per_round, images=options.images, batch_size=options.batch_size,
    )  # fmt: skip
    packages = [name for side in sides for name in PACKAGES[side]]
    result: dict[str, Any] = {
        "machine": describe_machine("torch", "numpy", *packages), "not_installed": sorted(missing),
        "work": {**asdict(work), "steps_per_round": work.steps * work.clients_per_round},
        "warm_up": options.warm_up, "repeats": options.repeats,
    }  # fmt: skip
    del result["work"]["processes"], result["work"]["threads"]
    result["difference_of_weights"] = differences(sides)
    print("difference of weights after the same work:", result["difference_of_weights"], flush=True)
    result["speeds"] = measured(sides, work, options.warm_up, options.repeats)
    for made in result["speeds"]:
        print(
            f"{made['side']}, {made['processes']} x {made['threads']} threads: {made['rounds_per_second']:.3f} "
            f"rounds/s, {made['seconds_per_round']:.3f} s a round",
            flush=True,
        )
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
