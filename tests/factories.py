"""What tests and benchmarks are made of: documents, requests and answers, reports, simulated federations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from fedcert import Estimate, Report, Request, Smoothing, Sums, WhatIf
from fedcert._schema.record import Record
from fedcert.engines.in_process import Client, InProcessTransport
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.report import DEFAULT_RADII
from fedcert.rounds import CertificationRound, make_request

# Documents: a valid one of each kind, every field filled; the golden files hold the same.

GOLDEN = Path(__file__).parent / "golden"
KINDS: dict[str, type[Record]] = {
    "report": Report,
    "request": Request,
    "sums": Sums,
    "estimate": Estimate,
    "what-if": WhatIf,
}
DOCUMENTS: dict[str, dict[str, Any]] = {name: json.loads((GOLDEN / f"{name}-1.json").read_text()) for name in KINDS}
POPULATION_DOCUMENTS: dict[str, dict[str, Any]] = {
    name: json.loads((GOLDEN / "population" / f"{name}-1.json").read_text()) for name in KINDS
}
"""The same with population certificates: four noisy passes of 20 examples, three votes."""
REMEDIES = {
    "report": "ask the client to run 'fedcert certify' again",
    "request": "ask the coordinator for a new request",
    "sums": "ask whoever added them up to do it again",
    "estimate": "run 'fedcert estimate' again",
    "what-if": "run 'fedcert what-if' again",
}

MODEL = "sha256:" + "ab" * 32


def report_document(**changes: Any) -> dict[str, Any]:
    """A valid report as JSON: 20 examples of two classes, 18 certified at radius 0."""
    document = {
        "schema": "fedcert/report/1",
        "task": "multiclass",
        "client": "site-07",
        "model": MODEL,
        "request": None,
        "smoothing": {
            "noise": "gaussian",
            "norm": "l2",
            "sigma": 0.25,
            "n0": 100,
            "n": 1000,
            "failure_probability": 0.001,
            "procedure": "fixed",
            "precision": "float32",
        },
        "radii": [0.0, 0.25, 0.5],
        "classes": ["cat", "dog"],
        "label_counts": [12, 8],
        "certified_counts": [18, 10, 3],
        "class_certified_counts": [[11, 7, 3], [7, 3, 0]],
        "abstained": 1,
        "design_effect": [1.0, 1.2, 1.1],
        "largest_group": 2,
        "samples": 22000,
        "software": "fedcert 0.1.0",
        "created": "2026-11-15T06:12:00Z",
        "signature": {"key": "A" * 43 + "=", "value": "A" * 86 + "=="},
    }
    return {**document, **changes}


def make_report(client: str, labels: list[int], certified: list[int], **changes: Any) -> Report:
    """A report from a name, label counts and certified counts."""
    values: dict[str, Any] = {
        "client": client,
        "model": MODEL,
        "smoothing": {"sigma": 0.25},
        "radii": [index / 4 for index in range(len(certified))],
        "classes": [f"class {index}" for index in range(len(labels))],
        "label_counts": labels,
        "certified_counts": certified,
    }
    return Report(**{**values, **changes})


def population_document(**changes: Any) -> dict[str, Any]:
    """A valid report of population certificates as JSON: 20 examples of two classes, four noisy passes each."""
    document = json.loads(json.dumps(POPULATION_DOCUMENTS["report"]))
    return {**document, "request": None, "signature": None, "time_budget": None, **changes}


def population_report(client: str, rows: Any, *, discloses: bool = True, **changes: Any) -> Report:
    """A report of population certificates.

    Args:
        client: its name.
        rows: examples by right answers, classes x (n + 1).
        discloses: whether it has counts per class.
        changes: other fields; of `smoothing`, settings beside sigma, procedure and n.
    """
    cells = np.array(rows, dtype=np.int64)
    smoothing = {"sigma": 0.5, "procedure": "population", "n": cells.shape[1] - 1, **changes.pop("smoothing", {})}
    values: dict[str, Any] = {
        "client": client, "model": MODEL, "smoothing": smoothing, "radii": [0.0, 0.25, 0.5, 0.75],
        "classes": [f"class {index}" for index in range(len(cells))], "label_counts": cells.sum(axis=1).tolist(),
        "correct_counts": cells.sum(axis=0).tolist(), "class_correct_counts": cells.tolist() if discloses else None,
    }  # fmt: skip
    return Report(**{**values, **changes})


# A request to three clients, and their answers.

NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)
ROSTER = ("site-a", "site-b", "site-c")


def clock(seconds: float = 0.0) -> datetime:
    return NOW + timedelta(seconds=seconds)


def request(**changes: Any) -> Request:
    values: dict[str, Any] = {"radii": (0.0, 0.25), "roster": ROSTER, "seconds": 60.0, "now": NOW}
    smoothing = changes.pop("smoothing", Smoothing(sigma=0.25))
    return make_request(MODEL, smoothing, ("cat", "dog"), **{**values, **changes})


def answer(asked: Request, client: str = "site-a", **changes: Any) -> Report:
    values: dict[str, Any] = {
        "client": client, "model": asked.model, "request": asked.digest, "smoothing": asked.smoothing,
        "radii": asked.radii, "classes": asked.classes, "label_counts": (30, 20), "certified_counts": (40, 25),
        "class_certified_counts": ((25, 15), (15, 10)), "created": "2026-11-15T12:00:10Z",
    }  # fmt: skip
    return Report(**{**values, **changes})


# Simulated federations: label counts by partition, certified counts by class.

CLIENTS, EXAMPLES, TARGET_EXAMPLES = 100, 10_000, 10_000
RADII = np.array(DEFAULT_RADII)


@dataclass(frozen=True)
class World:
    """Accuracy of each class at each radius, classes x radii, falling with the radius."""

    accuracy: np.ndarray

    def draw(self, labels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Certified counts for label counts of any shape (…, classes) -> (…, classes, radii)."""
        falls = -np.diff(np.column_stack([self.accuracy, np.zeros(len(self.accuracy))]), axis=1)
        bins = np.column_stack([1 - self.accuracy[:, 0], falls])
        bins = np.maximum(bins, 0) / np.maximum(bins, 0).sum(axis=1, keepdims=True)
        counts = generator.multinomial(labels, np.broadcast_to(bins, (*labels.shape, bins.shape[1])))
        return np.flip(np.cumsum(np.flip(counts[..., 1:], -1), -1), -1)


def ordinary(classes: int, generator: np.random.Generator) -> World:
    """Classes of different difficulty, as trained networks have them."""
    top, scale = generator.uniform(0.4, 0.95, classes), generator.uniform(0.3, 0.8, classes)
    return World(top[:, None] * np.exp(-((RADII[None, :] / scale[:, None]) ** 1.5)))


def dirichlet(beta: float) -> Callable[[int, np.random.Generator], np.ndarray]:
    """Each class's examples in Dirichlet shares."""

    def partition(classes: int, generator: np.random.Generator) -> np.ndarray:
        shares = generator.dirichlet(np.full(CLIENTS, beta), size=classes)
        return np.stack([generator.multinomial(EXAMPLES // classes, row) for row in shares], axis=1)

    return partition


def pareto(beta: float) -> Callable[[int, np.random.Generator], np.ndarray]:
    """Each class's examples in shares proportional to Pareto draws."""

    def partition(classes: int, generator: np.random.Generator) -> np.ndarray:
        draws = 1 + generator.pareto(beta, size=(classes, CLIENTS))
        shares = draws / draws.sum(axis=1, keepdims=True)
        return np.stack([generator.multinomial(EXAMPLES // classes, row) for row in shares], axis=1)

    return partition


def limited(held: float) -> Callable[[int, np.random.Generator], np.ndarray]:
    """Each client holds a few classes only, with heavy-tailed volumes."""

    def partition(classes: int, generator: np.random.Generator) -> np.ndarray:
        volumes = 1 + generator.pareto(1.5, size=CLIENTS)
        volumes = np.maximum((volumes / volumes.sum() * EXAMPLES).astype(int), 1)
        count = max(2, int(held * classes))
        rows = []
        for volume in volumes:
            mix = np.zeros(classes)
            mix[generator.choice(classes, count, replace=False)] = generator.dirichlet(np.ones(count))
            rows.append(generator.multinomial(volume, mix))
        return np.stack(rows)

    return partition


FAMILIES: dict[str, dict[str, Callable[[int, np.random.Generator], np.ndarray]]] = {
    "Dirichlet": {str(beta): dirichlet(beta) for beta in (0.1, 0.3, 0.5, 1.0, 2.0, 3.0)},
    "Pareto": {str(beta): pareto(beta) for beta in (2.0, 3.0, 4.0, 5.0, 6.0)},
    "class-limited": {str(share): limited(share) for share in (0.2, 0.4)},
}


def shifted(pool: np.ndarray, distance: float, generator: np.random.Generator) -> np.ndarray:
    """A class mix at a given L2 distance from the clients' pool."""
    for concentration in (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01):
        for _ in range(20):
            other = generator.dirichlet(np.full(len(pool), concentration))
            reach = np.linalg.norm(other - pool)
            if reach >= distance:
                return pool + (other - pool) * (distance / reach)
    other = np.eye(len(pool))[generator.integers(len(pool))]
    return pool + (other - pool) * min(1.0, distance / np.linalg.norm(other - pool))


def federation(labels: np.ndarray, cells: np.ndarray, opens: bool) -> ReportedClients:
    """A federation from label counts and certified counts per class (clients x classes x radii)."""
    held = labels.sum(axis=1) > 0
    labels, cells = labels[held], cells[held]
    smoothing = Smoothing(sigma=0.5)
    return ReportedClients(
        clients=tuple(f"client {index}" for index in range(len(labels))),
        classes=tuple(f"class {index}" for index in range(labels.shape[1])),
        radii=DEFAULT_RADII,
        label_counts=labels.astype(float),
        certified_counts=cells.sum(axis=1).astype(float),
        has_class_counts=np.full(len(labels), opens),
        class_rows=cells if opens else cells[:0],
        model="simulated",
        smoothing=smoothing,
        same_settings=True,
        max_radius_range=(smoothing.largest_radius,) * 2,
        excluded={},
    )


def reports_of(seed: int, mode: str, clients: int = 60, **changes: object) -> list[Report]:
    """Reports of simulated clients; in a partly open federation every third discloses counts per class."""
    generator = np.random.default_rng(seed)
    labels = dirichlet(0.5)(5, generator)[:clients]
    cells = ordinary(5, generator).draw(labels, generator)
    opens = {"closed": 0, "open": 1, "partly open": 3}[mode]
    return [
        Report(
            client=f"client {index}",
            model="simulated",
            smoothing={"sigma": 0.5},  # type: ignore[arg-type]
            radii=DEFAULT_RADII,
            classes=tuple("abcde"),
            label_counts=row,
            certified_counts=cell.sum(axis=0),
            class_certified_counts=cell if opens and index % opens == 0 else None,
            seed="sha256:" + "0" * 64,
            **changes,  # type: ignore[arg-type]
        )
        for index, (row, cell) in enumerate(zip(labels, cells, strict=True))
    ]


def drawn_reports(
    clients: int = 20,
    classes: int = 10,
    radii: int = 21,
    *,
    seed: int = 0,
    tells: float = 0.0,
    differ: float = 0.0,
    grouped: bool = False,
    examples: int = 200,
    concentration: float = 0.3,
    names: tuple[str, ...] | None = None,
    **changes: Any,
) -> list[Report]:
    """Reports of clients with Dirichlet mixes and Pareto sizes.

    Args:
        clients, classes, radii: how many.
        seed: of the draws.
        tells: the share of clients that disclose counts per class.
        differ: how much clients differ besides their class mixes; 0 is label shift.
        grouped: whether examples come in groups.
        examples: about so many per client.
        concentration: of the mixes.
        names: of the classes.
        changes: other fields of the reports.
    """
    generator = np.random.default_rng(seed)
    grid = np.linspace(0, 1, radii).round(9)
    accuracy = np.sort(generator.uniform(0, 1, (classes, radii)), axis=1)[:, ::-1]
    made = []
    for client in range(clients):
        size = int(generator.pareto(2) * examples) + 5
        labels = generator.multinomial(size, generator.dirichlet(np.full(classes, concentration)))
        own = np.minimum.accumulate(np.clip(accuracy + differ * generator.normal(), 0, 1), axis=1)
        rows = np.array([(generator.random(count)[:, None] < own[row]).sum(axis=0) for row, count in enumerate(labels)])
        parts: dict[str, Any] = {}
        if generator.random() < tells:
            parts["class_certified_counts"] = rows.tolist()
        if grouped:
            least = (3**2 + size - 3) / size  # one group of three, and single examples
            parts |= {"design_effect": [least + (3 - least) * generator.random()] * radii, "largest_group": 3}
        made.append(
            Report(
                client=f"site-{client:05d}", model="demo", smoothing={"sigma": 1.0}, radii=grid.tolist(),
                classes=names or [f"class-{row}" for row in range(classes)], label_counts=labels.tolist(),
                certified_counts=rows.sum(axis=0).tolist(), **parts, **changes,
            )
        )  # fmt: skip
    return made


def ask_clients(round_: CertificationRound, clients: Mapping[str, Client]) -> None:
    """Ask the clients of a round that has no deadline to wait for; those that have answered are not asked again.

    Args:
        round_: the round.
        clients: what each client does with a request, by name.
    """
    transport = InProcessTransport(clients)
    text = round_.request.dumps()
    transport.send(round_.request, 0, {name: text for name in clients if name not in round_.reports})
    for reply in transport.poll(clients):
        round_.take_reply(reply)


def with_a_bad_client() -> list[Report]:
    """Twelve clients that disclose counts per class, of which one, "bad", has nothing certified."""
    source = drawn_reports(12, 4, 6, seed=5, tells=1.0, examples=300)
    nothing = {"client": "bad", "certified_counts": (0,) * 6, "class_certified_counts": ((0,) * 6,) * 4}
    return [*source[:3], Report(**{**source[3].__dict__, **nothing}), *source[4:]]
