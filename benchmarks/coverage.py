"""Coverage of intervals from noisy sums, by more replications than tests have time for.

    python benchmarks/coverage.py [--runs 4000] [--out benchmarks/results/coverage.json]

Classes at the threshold of the noise, 400 and 1,000 of them, at three accuracies: the smaller coverage of the first and
the last radius, and the p-value of a binomial test against 95%.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import product
from pathlib import Path

from scipy import stats

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from noisy_replications import covered_among_held


def main() -> None:
    """Simulate each setting, print it and put it into the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=4_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = {}
    for classes, accuracy in product((400, 1_000), (0.03, 0.5, 0.97)):
        count = covered_among_held(classes, accuracy, options.runs, seed=1)
        p_value = float(stats.binomtest(count, options.runs, 0.95, alternative="less").pvalue)
        rows[f"{classes} classes, accuracy {accuracy}"] = {"coverage": count / options.runs, "p_value": p_value}
        print(f"{classes} classes, accuracy {accuracy}: {count / options.runs:.4f} (p-value {p_value:.3g})", flush=True)
    if options.out:
        record = {"machine": describe_machine("numpy", "scipy"), "runs": options.runs, "settings": rows}
        options.out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
