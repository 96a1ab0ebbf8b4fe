"""Made-up federations whose clients report counts of examples that were really drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcert.report import Report


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
        tells: the share of clients that tell counts per class.
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
            parts |= {"design_effect": (1 + generator.random(radii)).tolist(), "largest_group": 3}
        made.append(
            Report(
                client=f"site-{client:05d}", model="demo", smoothing={"sigma": 1.0}, radii=grid.tolist(),
                classes=names or [f"class-{row}" for row in range(classes)], label_counts=labels.tolist(),
                certified_counts=rows.sum(axis=0).tolist(), **parts, **changes,
            )
        )  # fmt: skip
    return made
