"""What an engine costs: a certification round of many simulated clients, in this process and in Flower's simulation.

    PYTHONPATH=tests:examples/flower OMP_NUM_THREADS=1 .engines/flower/bin/python benchmarks/engines.py
        [--clients 100] [--n 1000] [--out results.json]

Both sides certify the same weights of the example app (`examples/flower`) on the same partitions of the digits, so the
work is the same, and so are the integer reports, which is checked. In this process the clients work one after the
other, each with one thread; Flower runs one worker for each core. Flower is timed twice in one SuperLink: a run's time
is from its start to its end, and of the round itself from the request to the last report, as the run's log has them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from ward.task import CLASSES, load_data, make_network

from factories import ask_clients
from fedcert import Report, Request, Smoothing, certify
from fedcert.certification.models.classifiers import digest_of_module
from fedcert.rounds import CertificationRound, RunFolder, make_request
from flower_processes import app_in, flower
from machine import describe_machine


def counts(reports: dict[str, Report]) -> dict[str, Any]:
    """What must agree."""
    return {name: (report.label_counts, report.procedure_counts) for name, report in reports.items()}


def in_process(network: Any, clients: int, n: int) -> tuple[float, dict[str, Report]]:
    """Seconds of a round in this process, and its reports."""
    names = [f"client-{number}" for number in range(clients)]
    parts = [load_data({"partition-id": number, "num-partitions": clients})[1] for number in range(clients)]

    def client(number: int, request: Request) -> Report:
        x, y = parts[number]
        return certify(network, x, y, client=names[number], request=request, class_counts=True)

    settings = Smoothing.defaults(0.25, n=n)
    request = make_request(digest_of_module(network), settings, CLASSES, roster=names, seconds=3600)
    one = CertificationRound(request)
    began = time.perf_counter()
    ask_clients(one, {name: lambda asked, number=number: client(number, asked) for number, name in enumerate(names)})  # type: ignore[misc]
    one.conclude()
    return time.perf_counter() - began, one.reports


def in_flower(folder: Path, clients: int, n: int, repeats: int) -> tuple[list[dict[str, float]], dict[str, Report]]:
    """Seconds of each run and of its round, and the last one's reports."""
    found = []
    app = app_in(folder)
    (folder / "flower").mkdir()
    with flower(folder / "flower") as one:
        for number in range(repeats):
            run = folder / f"run-{number}"
            settings = {
                "rounds": 0, "weights": str(folder / "model.safetensors"), "run": str(run), "n": n,
                "clients": clients, "seconds": 1800,
            }  # fmt: skip
            began = time.perf_counter()
            said = one.run(app, settings, nodes=clients, timeout=1800)
            whole = time.perf_counter() - began
            events = [json.loads(line) for line in (run / "log.ndjson").read_text().splitlines()]
            times = {event["event"]: datetime.fromisoformat(event["time"]) for event in events}
            if "estimated" not in times:
                raise RuntimeError(said[-3000:])
            found.append({"run": whole, "round": (times["estimated"] - times["asked"]).total_seconds()})
            with RunFolder(run) as kept:
                reports = {report.client: report for report in kept.reports()}
    return found, reports


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    network = make_network().eval()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        save_file(network.state_dict(), folder / "model.safetensors")
        seconds, own = in_process(network, options.clients, options.n)
        runs, theirs = in_flower(folder, options.clients, options.n, options.repeats)
    same = counts(own) == counts(theirs)
    result = {
        "machine": describe_machine("flwr", "ray", "torch", "numpy"),
        "clients": options.clients, "n": options.n, "in_process_seconds": seconds, "flower": runs, "same_reports": same,
    }  # fmt: skip
    print(f"in this process: {seconds:.1f} s for {options.clients} clients")
    for run in runs:
        print(f"Flower's simulation: {run['run']:.1f} s a run, of which the round {run['round']:.1f} s")
    print("the integer reports are the same" if same else "THE REPORTS DIFFER")
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
