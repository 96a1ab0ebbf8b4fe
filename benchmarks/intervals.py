"""Intervals: how long they are and how often they cover, beside what is possible; and what they cost.

    python benchmarks/intervals.py [--parts widths worlds times traces methods] [--runs 50]
                                   [--out benchmarks/results/intervals.json]

widths: mean widths at all radii, where the truth is below 0.1, and from 0.1 to 0.9; coverage; for made-up federations
and for real certificates. The oracle is the asymptotic interval's estimate ± 1.96 standard errors, with the true
accuracies in place of estimated ones and its bias taken off; the bound is in `information_bound.py`.
worlds: the same for some of them, with accuracies that fall in other ways.
times: the ends of finite-sample intervals alone, for one target at 21 radii.
traces: coverage and widths for fifty targets on each trace of `traces/`; also writes the table of docs/reproduction.md.
methods: every method beside the interval that people would put around GA, estimate ± 1.96 sqrt(c (1 - c) Σ a²/n):
chance alone, as if the weights reached the target's class mix. Nominal 95%, at each radius; figures at radius 0.2.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.intervals.statement import make_interval
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.settings import Settings
from fedcert.lab.traces.trace import Trace, read_trace
from information_bound import information_by_class, information_of_curves, shortest_expected_length
from machine import describe_machine

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from factories import RADII, World, dirichlet, federation, limited, ordinary, pareto, shifted

ROOT = Path(__file__).parents[1]
KINDS = ("hoeffding", "finite-sample", "asymptotic")
CURVES, CLASSES = "minimax", "poststratified"
BARS = {CLASSES: (0.62, 0.45), CURVES: (0.65, 0.55)}
"""The most that finite-sample widths may be of Hoeffding's: at all radii, and where the truth is below 0.1."""
BOUNDED_RUNS = 10
"""Runs of which the information bound is computed where classes are many."""


@dataclass(frozen=True)
class Case:
    """One federation with a target, and the truth."""

    labels: np.ndarray
    cells: np.ndarray
    target: np.ndarray
    accuracy: np.ndarray


@dataclass(frozen=True)
class Setting:
    """A row of the table of widths: a method, and how its cases are drawn."""

    method: str
    draw: Callable[[np.random.Generator], Case]


FAR_APART = "classes far apart"
WORLDS: dict[str, tuple[float, tuple[float, float], tuple[float, float]]] = {
    "steep": (3.0, (0.35, 0.75), (0.4, 0.95)),
    "gradual": (1.5, (0.2, 0.6), (0.4, 0.95)),
    FAR_APART: (3.0, (0.1, 0.7), (0.6, 1.0)),
}
"""How fast classes' accuracies fall: the power of the radius, and the ranges of its scale and of the accuracy at 0. In
each, the truth is below 0.1 at 30 to 40% of the radii; the variances of examples differ. In the last, which the table
of widths has, the oracle's widths are 0.42 to 0.46 of Hoeffding's with ten classes."""


def falling(classes: int, generator: np.random.Generator, world: str) -> World:
    """Classes of different difficulty, from high accuracies down to nothing."""
    power, scales, tops = WORLDS[world]
    top, scale = generator.uniform(*tops, classes), generator.uniform(*scales, classes)
    return World(top[:, None] * np.exp(-((RADII[None, :] / scale[:, None]) ** power)))


def made_up(
    classes: int, clients: int, beta: float, distance: float | None, world: str = FAR_APART
) -> Callable[[np.random.Generator], Case]:
    """Dirichlet shares; the target is uniform, or at a distance from the pool's mix."""

    def draw(generator: np.random.Generator) -> Case:
        labels = dirichlet(beta)(classes, generator)[:clients]
        labels = labels[labels.sum(axis=1) > 0]
        pool = labels.sum(axis=0) / labels.sum()
        target = np.full(classes, 1 / classes) if distance is None else shifted(pool, distance, generator)
        accuracy = falling(classes, generator, world).accuracy
        return Case(labels, World(accuracy).draw(labels, generator), target, accuracy)

    return draw


def trace_labels(trace: Trace) -> np.ndarray:
    """Label counts of the clients as they were in training."""
    counts = np.zeros((trace.experiment.clients, len(trace.classes)), dtype=int)
    np.add.at(counts, (trace.clients.client, trace.clients.label), 1)
    return counts[counts.sum(axis=1) > 0]


def trace_accuracy(trace: Trace) -> np.ndarray:
    """Each class's certified accuracy over all examples of a trace, classes x radii: the population."""
    label = np.concatenate([trace.clients.label, trace.target.label])
    radii = trace.experiment.radii
    certified = np.concatenate([trace.clients.certified(radii), trace.target.certified(radii)])
    return np.stack([certified[label == each].mean(axis=0) for each in range(len(trace.classes))])


def of_trace(trace: Trace, distance: float) -> Callable[[np.random.Generator], Case]:
    """Clients as in training, their examples drawn anew from all certificates of the trace, and a shifted target."""
    labels, accuracy = trace_labels(trace), trace_accuracy(trace)
    pool = labels.sum(axis=0) / labels.sum()

    def draw(generator: np.random.Generator) -> Case:
        target = shifted(pool, distance, generator)
        return Case(labels, World(accuracy).draw(labels, generator), target, accuracy)

    return draw


def settings() -> dict[str, Setting]:
    """The rows of the table of widths; distances are such that Hoeffding's are 0.075 to 0.33 wide."""
    real = of_trace(read_trace(ROOT / "traces" / "resnet18-cifar10-dirichlet0.1-fedavg.parquet"), 0.3)
    return {
        "per class, N = 100, M = 10, Dirichlet 0.1, uniform": Setting(CLASSES, made_up(10, 100, 0.1, None)),
        "per class, N = 20, M = 10, Dirichlet 0.5, shifted": Setting(CLASSES, made_up(10, 20, 0.5, 0.27)),
        "curves, N = 100, M = 10, Dirichlet 0.5, shifted": Setting(CURVES, made_up(10, 100, 0.5, 0.38)),
        "curves, N = 20, M = 10, Dirichlet 0.5, shifted": Setting(CURVES, made_up(10, 20, 0.5, 0.22)),
        "curves, N = M = 100, Dirichlet 0.5, shifted": Setting(CURVES, made_up(100, 100, 0.5, 0.105)),
        "per class, certificates of CIFAR-10, Dirichlet 0.1": Setting(CLASSES, real),
        "curves, certificates of CIFAR-10, Dirichlet 0.1": Setting(CURVES, real),
    }


def other_worlds() -> dict[str, Setting]:
    """Three of the rows in all worlds: what finite-sample widths are of Hoeffding's depends on the accuracies."""
    return {
        f"{name}, {world}": Setting(method, made_up(10, clients, beta, distance, world))
        for world in WORLDS
        for name, method, clients, beta, distance in (
            ("per class, N = 100, uniform", CLASSES, 100, 0.1, None),
            ("per class, N = 20, shifted", CLASSES, 20, 0.5, 0.27),
            ("curves, N = 20, shifted", CURVES, 20, 0.5, 0.22),
        )
    }


def ends(clients: ReportedClients, target: np.ndarray, method: str, asked: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Ends within [0, 1], without the allowance for certificates that fail."""
    uncertainty = estimator(method)(clients, target, asked).uncertainty
    return make_interval(uncertainty, target, clients, asked).point_range  # type: ignore[arg-type]


def oracle(case: Case, clients: ReportedClients, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Estimate ± 1.96 standard errors, as the true accuracies have them, without bias."""
    of: Any = estimator(method)(clients, case.target, Settings(interval="asymptotic")).uncertainty
    errors = np.sqrt(np.sum(of.class_variance_weights * case.accuracy * (1 - case.accuracy), axis=0))
    bias = 0.0 if of.mix is None else (of.mix - case.target) @ case.accuracy
    centre = of.centre - bias
    return np.clip(centre - 1.96 * errors, 0, 1), np.clip(centre + 1.96 * errors, 0, 1)


def summary(rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> dict[str, float]:
    """Mean widths by the truth's size, and coverage, over all runs and radii."""
    lower, upper, truth = (np.stack(part) for part in zip(*rows, strict=True))
    width = upper - lower
    low, middle = truth < 0.1, (truth >= 0.1) & (truth <= 0.9)
    inside = (lower <= truth + 1e-12) & (truth <= upper + 1e-12)
    return {
        "width": float(width.mean()),
        "width where the truth is below 0.1": float(width[low].mean()) if low.any() else float("nan"),
        "width where the truth is 0.1 to 0.9": float(width[middle].mean()),
        "coverage": float(inside.mean()),
    }


def measure_widths(setting: Setting, runs: int) -> dict[str, Any]:
    """One row: every kind's widths and coverage, and by how much a finite-sample interval was ever longer."""
    rows: dict[str, list[Any]] = defaultdict(list)
    longest, below = -np.inf, []
    for run in range(runs):
        case = setting.draw(np.random.default_rng(run))
        clients = federation(case.labels, case.cells, setting.method == CLASSES)
        truth = case.target @ case.accuracy
        below.append(float((truth < 0.1).mean()))
        for kind in KINDS:
            rows[kind].append((*ends(clients, case.target, setting.method, Settings(interval=kind)), truth))
        widths = {kind: rows[kind][-1][1] - rows[kind][-1][0] for kind in KINDS}
        longest = max(longest, float(np.max(widths["finite-sample"] - widths["hoeffding"])))
        rows["oracle"].append((*oracle(case, clients, setting.method), truth))
        if len(case.target) > 10 and run >= BOUNDED_RUNS:
            continue
        information = (
            information_by_class(case.labels.sum(axis=0), case.accuracy)
            if setting.method == CLASSES
            else information_of_curves(case.labels, case.accuracy)
        )
        length = shortest_expected_length(information, case.target, case.accuracy)
        rows["bound"].append((truth - length / 2, truth + length / 2, truth))
    result: dict[str, Any] = {kind: summary(each) for kind, each in rows.items()}
    result["bound"].pop("coverage")
    result["share of radii with a truth below 0.1"] = float(np.mean(below))
    names = ("width", "width where the truth is below 0.1")
    result["of Hoeffding's"] = [result["finite-sample"][name] / result["hoeffding"][name] for name in names]
    result["longer than Hoeffding's by at most"] = longest
    return result


def time_intervals(repeats: int = 7) -> dict[str, dict[str, float]]:
    """Seconds that the ends of a finite-sample interval take, for one target at 21 radii and 100 clients."""
    times = {}
    for classes, method in ((10, CLASSES), (100, CLASSES), (10, CURVES), (100, CURVES)):
        case = made_up(classes, 100, 0.5, 0.25)(np.random.default_rng(0))
        clients, asked = federation(case.labels, case.cells, method == CLASSES), Settings()
        uncertainty = estimator(method)(clients, case.target, asked).uncertainty
        taken, busy = [], []
        for _ in range(repeats):
            start, started = time.perf_counter(), time.process_time()
            make_interval(uncertainty, case.target, clients, asked)  # type: ignore[arg-type]
            taken.append(time.perf_counter() - start)
            busy.append(time.process_time() - started)
        times[f"{'per class' if method == CLASSES else 'curves'}, M = {classes}"] = {
            "least": min(taken), "median": float(np.median(taken)), "least CPU time": min(busy),
        }  # fmt: skip
    return times


def measure_traces(targets: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each trace: coverage and widths of both honest kinds, per class and from curves, for so many shifted targets."""
    for path in sorted((ROOT / "traces").glob("*.parquet")):
        draw, rows = of_trace(read_trace(path), 0.4), defaultdict(list)
        for number in range(targets):
            case = draw(np.random.default_rng(number))
            truth = case.target @ case.accuracy
            for method in (CLASSES, CURVES):
                clients = federation(case.labels, case.cells, method == CLASSES)
                for kind in KINDS[:2]:
                    bounds = ends(clients, case.target, method, Settings(interval=kind))
                    rows[f"{method}, {kind}"].append((*bounds, truth))
        yield path.stem, {name: summary(each) for name, each in rows.items()}


def trace_table(found: dict[str, dict[str, Any]]) -> str:
    """The table of docs/reproduction.md."""
    columns = [f"{method}, {kind}" for method in (CLASSES, CURVES) for kind in KINDS[:2]]
    titles = ("per class, Hoeffding", "per class, finite-sample", "curves, Hoeffding", "curves, finite-sample")
    lines = [f"| trace | {' | '.join(titles)} |", "|---" * 5 + "|"]
    for name, row in found.items():
        cells = [f"{row[column]['width']:.4f} ({row[column]['coverage']:.3f})" for column in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


METHODS = ("vw", "ap", "ga", "minimax", "blup", "poststratified")
PARTITIONS = {
    "M = 10, Dirichlet 0.1": (10, dirichlet(0.1)),
    "M = 10, Dirichlet 1": (10, dirichlet(1.0)),
    "M = 10, Pareto 3": (10, pareto(3.0)),
    "M = 10, class-limited": (10, limited(0.2)),
    "M = 100, Dirichlet 0.3": (100, dirichlet(0.3)),
    "M = 100, class-limited": (100, limited(0.2)),
}
RADIUS = 4


def measure_methods(classes: int, partition: object, runs: int) -> dict[str, dict[str, float]]:
    """Method and interval -> coverage and mean width; each run has labels, accuracies and a target of its own."""
    found: dict[str, list[tuple[bool, float]]] = {}
    for run in range(runs):
        generator = np.random.default_rng(run)
        labels = partition(classes, generator)  # type: ignore[operator]
        world = ordinary(classes, generator)
        cells = world.draw(labels, generator)
        target = generator.dirichlet(np.full(classes, 0.7))
        truth = float(target @ world.accuracy[:, RADIUS])
        for method in METHODS:
            made = federation(labels, cells, method == "poststratified")
            for interval in KINDS:
                asked = Settings(interval=interval, seed=run)
                answer = estimator(method)(made, target, asked)
                bounds = make_interval(answer.uncertainty, target, made, asked)  # type: ignore[arg-type]
                low, high = float(bounds.lower[RADIUS]), float(bounds.upper[RADIUS])
                found.setdefault(f"{method}, {interval}", []).append((low <= truth <= high, high - low))
                if method == "ga" and interval == "asymptotic":
                    point = float(answer.certified_accuracy[RADIUS])
                    squares = float(np.sum(np.asarray(answer.weights) ** 2 / made.sizes))
                    half = 1.96 * np.sqrt(point * (1 - point) * squares)
                    found.setdefault("ga, naive", []).append((abs(point - truth) <= half, 2 * half))
    return {
        name: dict(zip(("coverage", "width"), np.mean(rows, axis=0).tolist(), strict=True))
        for name, rows in found.items()
    }


def show_widths(name: str, row: dict[str, Any], method: str) -> None:
    """One row as text, with what misses a bar."""
    print(name, f"(a truth below 0.1 at {row['share of radii with a truth below 0.1']:.0%} of the radii)")
    for kind in ("hoeffding", "finite-sample", "asymptotic", "oracle", "bound"):
        widths = [row[kind][key] for key in row[kind] if key.startswith("width")]
        coverage = f"  coverage {row[kind]['coverage']:.3f}" if "coverage" in row[kind] else ""
        print(f"  {kind:<14}" + " ".join(f"{width:.4f}" for width in widths) + coverage)
    ratios, bars = row["of Hoeffding's"], BARS[method]
    missed = [f"{ratio:.3f} > {bar}" for ratio, bar in zip(ratios, bars, strict=True) if ratio > bar]
    print(f"  of Hoeffding's {ratios[0]:.3f} {ratios[1]:.3f}", *missed, flush=True)


def main() -> None:
    """Measure the parts that are asked for, print them, and put them into the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=["widths", "worlds", "times", "traces", "methods"])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for part, table in (("widths", settings), ("worlds", other_worlds)):
        if part in options.parts:
            rows = {}
            for name, setting in table().items():
                rows[name] = measure_widths(setting, options.runs)
                show_widths(name, rows[name], setting.method)
            found[part] = {"runs": options.runs, "settings": rows}
    if "times" in options.parts:
        found["times"] = time_intervals()
        print(json.dumps(found["times"], indent=1), flush=True)
    if "traces" in options.parts:
        traces = {}
        for name, row in measure_traces(options.runs):
            traces[name] = row
            print(name, {key: (round(each["width"], 4), each["coverage"]) for key, each in row.items()}, flush=True)
        found["traces"] = {"targets": options.runs, "traces": traces}
        if options.out is not None:
            page = ROOT / "docs" / "reproduction.md"
            marks = r"(<!-- intervals -->\n).*?(<!-- end of intervals -->)"
            table = trace_table(traces)
            filled = re.sub(
                marks,
                lambda mark: f"{mark[1]}\n{table}\n\n{mark[2]}",
                page.read_text(encoding="utf-8"),
                flags=re.DOTALL,
            )
            page.write_text(filled, encoding="utf-8")
    if "methods" in options.parts:
        rows = {}
        for name, (classes, partition) in PARTITIONS.items():
            rows[name] = measure_methods(classes, partition, options.runs)
            print(name, flush=True)
            for key, figures in rows[name].items():
                print(f"  {key:<30} coverage {figures['coverage']:.3f}  width {figures['width']:.3f}", flush=True)
        found["methods"] = {"runs": options.runs, "settings": rows}
    if options.out is not None:
        record = json.loads(options.out.read_text()) if options.out.exists() else {}
        machine = describe_machine("numpy", "scipy")
        record |= {name: {"machine": machine, **part} for name, part in found.items()}
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
