"""What lies of some clients do to an estimate: errors, verdicts and coverage, with and without screening.

    python benchmarks/lies.py --out benchmarks/results/lies.json

A hundred clients hold 10,000 examples of ten classes in Dirichlet shares (0.5); targets are uniform or at an L2
distance of 0.4 from the clients' pool. A share of the clients lies in concert (tests/lies.py). Errors are root mean
squares over 21 radii and all federations; "unflagged" is over those whose verdict is not "unreliable". "trusted" has
half of the honest clients signed and all others screened. Honest federations, with and without clients that differ (by
0.3 on the logit scale), say what it costs them: how often the verdict is "unreliable".
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from fedcert import Target
from fedcert.estimation.assembly import assemble
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.methods.registry import METHODS
from fedcert.estimation.prepared import PreparedClients
from fedcert.estimation.result import Estimate
from fedcert.estimation.settings import Settings
from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from factories import World, dirichlet, limited, ordinary, pareto, shifted
from lies import LIES, Counts, told

SHARES = (0.01, 0.05, 0.2)
PARTITIONS = {
    "Dirichlet 0.1": dirichlet(0.1),
    "Dirichlet 0.5": dirichlet(0.5),
    "Pareto 2": pareto(2.0),
    "class-limited 0.2": limited(0.2),
}


def estimated(clients: ReportedClients, mix: np.ndarray, settings: Settings) -> Estimate:
    """The automatic estimate with everything that its report says."""
    target = Target(name="target", distribution=dict(zip(clients.classes, mix.tolist(), strict=True)))
    return assemble(PreparedClients.of(clients, settings), METHODS["auto"], target)


def world_of(seed: int, partition: str = "Dirichlet 0.5") -> tuple[np.random.Generator, World, np.ndarray, np.ndarray]:
    """A generator, the classes' accuracies, the clients' labels, and the target's class mix."""
    generator = np.random.default_rng([seed, 1])
    world, labels = ordinary(10, generator), PARTITIONS[partition](10, generator)
    pool = labels.sum(axis=0) / labels.sum()
    return generator, world, labels, np.full(10, 0.1) if seed % 2 else shifted(pool, 0.4, generator)


def lying(name: str, share: float, opens: bool, runs: int) -> dict[str, Any]:
    """A row of the table."""
    squares, flagged, covered = defaultdict(list), defaultdict(list), defaultdict(list)
    for seed in range(runs):
        generator, world, labels, mix = world_of(seed)
        cells, truth = world.draw(labels, generator), mix @ world.accuracy
        honest = Counts(labels, cells, np.ones(len(labels)))
        counts = told(labels, cells, LIES[name], share, generator)
        same = (counts.labels == labels).all(axis=1) & (counts.cells == cells).all(axis=(1, 2)) & (counts.effects == 1)
        clients = counts.clients(opens)
        held = np.flatnonzero(counts.labels.sum(axis=1) > 0)
        vouched = tuple(clients.clients[place] for place, index in enumerate(held) if same[index] and place % 2)
        modes = {"plain": Settings(), "screened": Settings(screen=True)}
        modes["trusted"] = Settings(screen=True, trusted=vouched)
        clean = np.array(estimated(honest.clients(opens), mix, Settings()).certified_accuracy)
        squares["clean"].append(float(np.mean((clean - truth) ** 2)))
        for mode, settings in modes.items():
            made = estimated(clients, mix, settings)
            squares[mode].append(float(np.mean((np.array(made.certified_accuracy) - truth) ** 2)))
            flagged[mode].append(made.verdict == "unreliable")
            lower, upper = np.array(made.lower), np.array(made.upper)
            covered[mode].append(float(np.mean((lower <= truth) & (truth <= upper))))
    row: dict[str, Any] = {"lie": name, "share": share, "class counts": opens}
    row["clean rmse"] = rmse(squares["clean"])
    for mode in ("plain", "screened", "trusted"):
        left = [square for square, bad in zip(squares[mode], flagged[mode], strict=True) if not bad]
        row[mode] = {
            "rmse": rmse(squares[mode]), "times clean": rmse(squares[mode]) / row["clean rmse"],
            "unreliable": float(np.mean(flagged[mode])),
            "unflagged, times clean": rmse(left) / row["clean rmse"] if left else None,
            "coverage": float(np.mean(covered[mode])),
        }  # fmt: skip
    return row


def rmse(squares: list[float]) -> float:
    """The root of the mean."""
    return float(np.sqrt(np.mean(squares)))


def honest_row(partition: str, differ: float, opens: bool, runs: int) -> dict[str, Any]:
    """How often honest federations are called unreliable, and what screening costs them."""
    unreliable, squares = [], defaultdict(list)
    for seed in range(runs):
        generator, world, labels, mix = world_of(seed, partition)
        cells = world.draw(labels, generator) if not differ else np.stack(
            [moved(world, differ * generator.normal()).draw(row[None], generator)[0] for row in labels]
        )  # fmt: skip
        clients = Counts(labels, cells, np.ones(len(labels))).clients(opens)
        truth = mix @ world.accuracy
        for mode, settings in {"plain": Settings(), "screened": Settings(screen=True)}.items():
            made = estimated(clients, mix, settings)
            squares[mode].append(float(np.mean((np.array(made.certified_accuracy) - truth) ** 2)))
            if mode == "plain":
                named = {check.name for check in made.checks if check.verdict == "unreliable"}
                unreliable.append(bool(named & {"single clients", "contradicted class"}))
    return {
        "partition": partition, "clients differ by": differ, "class counts": opens,
        "called unreliable": float(np.mean(unreliable)), "rmse": rmse(squares["plain"]),
        "screened, times that": rmse(squares["screened"]) / rmse(squares["plain"]),
    }  # fmt: skip


def moved(world: World, shift: float) -> World:
    """The accuracies of a client that is better or worse than others at everything."""
    logit = np.log((world.accuracy + 1e-9) / (1 - world.accuracy + 1e-9)) + shift
    return World(np.minimum.accumulate(1 / (1 + np.exp(-logit)), axis=1))


def main() -> None:
    """Make the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    result: dict[str, Any] = {"machine": describe_machine(), "runs": given.runs, "lies": [], "honest": []}
    for opens in (True, False):
        for name in LIES:
            for share in SHARES:
                row = lying(name, share, opens, given.runs)
                result["lies"].append(row)
                print(json.dumps(row), flush=True)
        for partition in PARTITIONS:
            for differ in (0.0, 0.3):
                row = honest_row(partition, differ, opens, given.runs)
                result["honest"].append(row)
                print(json.dumps(row), flush=True)
    if given.out is not None:
        given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
