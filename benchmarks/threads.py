"""What default BLAS threads cost: the paper's Table 1 and `fedcert.estimate`, beside the same with one thread.

    python benchmarks/threads.py [--rounds 3] [--out benchmarks/results/threads-cpu.json]

Each is timed in processes of its own, in turn, with the thread variables unset and with all of them at 1.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from machine import describe_machine

ROOT = Path(__file__).parents[1]
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
TIMED = """
import sys, time
sys.path.insert(0, "tests")
{prepare}
began = time.perf_counter()
{work}
print(time.perf_counter() - began)
"""
CASES = {
    "table1": ("from fedcert.cli.main import run", "assert run(['lab', 'paper', 'table1', '--quiet']) == 0"),
    "estimate, 100 clients, 100 classes, by curves": (
        "import fedcert; from factories import drawn_reports; reports = drawn_reports(100, 100, concentration=0.1)",
        "fedcert.estimate(reports)",
    ),
    "estimate, 100 clients, 10 classes, by curves, 10 times": (
        "import fedcert; from factories import drawn_reports; reports = drawn_reports(100, 10)",
        "for _ in range(10): fedcert.estimate(reports)",
    ),
    "estimate, 100 clients, 10 classes, clients differ, 3 times": (
        "import fedcert; from factories import drawn_reports; reports = drawn_reports(100, 10, differ=0.4)",
        "for _ in range(3): fedcert.estimate(reports)",
    ),
}


def seconds(prepare: str, work: str, threads: int | None) -> float:
    """One run in a process of its own; None leaves the number of threads to the libraries."""
    environment = {key: value for key, value in os.environ.items() if key not in VARIABLES}
    environment |= {"PYTHONPATH": str(ROOT / "src")} | (
        {} if threads is None else dict.fromkeys(VARIABLES, str(threads))
    )
    code = TIMED.format(prepare=prepare, work=work)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = {}
    for name, case in CASES.items():
        times: dict[str, list[float]] = {"default": [], "single": []}
        for _ in range(options.rounds):  # in turn, so that both meet the machine's slow minutes
            times["default"].append(seconds(*case, None))
            times["single"].append(seconds(*case, 1))
        default, single = (statistics.median(times[side]) for side in ("default", "single"))
        rows[name] = {
            "default_seconds": round(default, 3),
            "single_seconds": round(single, 3),
            "ratio": round(default / single, 3),
        }
        print(
            f"{name:<60} default {default:6.2f} s   one thread {single:6.2f} s   ratio {default / single:.2f}",
            flush=True,
        )
    if options.out is not None:
        result = {"machine": describe_machine("numpy", "scipy", "threadpoolctl"), "cases": rows}
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
