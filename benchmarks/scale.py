"""How long `fedcert estimate` takes with many clients, from a Parquet table: reading, estimating, checks, writing.

    python benchmarks/scale.py [--out benchmarks/results/scale.json] [--largest 1000000]

Each size runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet

from fedcert.report import DEFAULT_RADII
from machine import describe_machine

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from factories import ordinary

SIZES = {10: (10_000, 100_000, 300_000, 1_000_000), 100: (1_000, 10_000, 30_000, 100_000)}
_AT_ONCE = 20_000


def write_table(path: Path, clients: int, classes: int) -> None:
    """A made-up federation of so many clients without counts per class, as one Parquet table."""
    generator = np.random.default_rng(0)
    world = ordinary(classes, generator)
    header = {
        "schema": "fedcert/table/1",
        "model": "simulated",
        "radii": list(DEFAULT_RADII),
        "classes": [f"class {index}" for index in range(classes)],
        "smoothing": {"sigma": 0.5},
    }
    counts = arrow.list_(arrow.int64())
    schema = arrow.schema(
        [("client", arrow.string()), ("label_counts", counts), ("certified_counts", counts)],
        metadata={"fedcert": json.dumps(header)},
    )
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, clients, _AT_ONCE):
            rows = min(_AT_ONCE, clients - start)
            mixes = generator.dirichlet(np.full(classes, 0.5), size=rows)
            labels = generator.multinomial(generator.integers(20, 200, size=rows), mixes)
            certified = np.concatenate(
                [world.draw(labels[part : part + 2000], generator).sum(axis=1) for part in range(0, rows, 2000)]
            )
            names = [f"client {start + index:07d}" for index in range(rows)]
            writer.write_table(arrow.table([names, list(labels), list(certified)], schema=schema))


def measure(path: Path) -> dict[str, float]:
    """Seconds of each step, and the peak memory, of this process."""
    from fedcert.estimation.estimate import estimate
    from fedcert.estimation.files import write_estimate
    from fedcert.estimation.methods.registry import estimator
    from fedcert.estimation.prepared import clients_of
    from fedcert.estimation.settings import Settings
    from fedcert.report import load

    start = time.perf_counter()
    gathered = load(path)
    read = time.perf_counter()
    pool = clients_of(gathered)
    pooled = time.perf_counter()
    estimator("auto")(pool, np.full(len(pool.classes), 1 / len(pool.classes)), Settings())
    estimated = time.perf_counter()
    made = estimate(gathered)
    everything = time.perf_counter()
    write_estimate(made, path.with_name("estimate.json"))
    written = time.perf_counter()
    return {
        "reading": read - start,
        "arranging": pooled - read,
        "estimating": estimated - pooled,
        "estimate with checks": everything - estimated,
        "writing": written - everything,
        "memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def command(path: Path) -> dict[str, float]:
    """Seconds and peak memory of the command itself."""
    before = time.perf_counter()
    code = (
        "import resource, sys; from fedcert.cli.main import run; code = run(sys.argv[1:]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, file=sys.stderr); sys.exit(code)"
    )
    arguments = ["estimate", str(path), "--out", str(path.with_name("estimate.json"))]
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    return {"command": time.perf_counter() - before, "command_memory_gb": float(done.stderr.split()[-1])}


def main() -> None:
    """Measure all sizes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure(options.measure)))
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for classes, sizes in SIZES.items():
            for clients in (size for size in sizes if size <= options.largest):
                path = Path(folder) / f"{classes}-{clients}.parquet"
                write_table(path, clients, classes)
                own = subprocess.run(
                    [sys.executable, __file__, "--measure", str(path)], check=True, capture_output=True, text=True
                )
                row = {"classes": classes, "clients": clients, **json.loads(own.stdout), **command(path)}
                rows.append(row)
                path.unlink()
                print(
                    ", ".join(
                        f"{key} {value:.2f}" if isinstance(value, float) else f"{key} {value:,}"
                        for key, value in row.items()
                    ),
                    flush=True,
                )
    if options.out is not None:
        result = {"machine": describe_machine("numpy", "scipy", "pyarrow"), "rows": rows}
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
