"""Reports of population certificates, drawn at random: the counterpart of `factories.drawn_reports`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from fedcert.report import Report

SIGMA = 0.5


def drawn_population(
    clients: int = 20,
    classes: int = 10,
    radii: int = 6,
    *,
    seed: int = 0,
    tells: float = 0.0,
    differ: float = 0.0,
    grouped: bool = False,
    unheld: bool = False,
    examples: int = 200,
    concentration: float = 0.3,
    passes: int = 32,
) -> list[Report]:
    """Reports of clients with Dirichlet mixes and Pareto sizes.

    Args:
        clients, classes: how many.
        radii: how many, from 0 to 2 sigma.
        seed: of the draws.
        tells: the share of clients that disclose counts per class.
        differ: how much clients differ besides their class mixes, in logits; 0 is label shift.
        grouped: whether examples come in groups.
        unheld: whether no client has an example of the first class.
        examples: about so many per client.
        concentration: of the mixes.
        passes: noisy passes of each example.
    """
    generator = np.random.default_rng(seed)
    centres = generator.normal(1.0, 1.0, classes)
    reports = []
    for client in range(clients):
        size = int(generator.pareto(2) * examples) + 5
        labels = generator.multinomial(size, generator.dirichlet(np.full(classes, concentration)))
        if unheld:
            labels = np.concatenate([[0], labels[:1] + labels[1], labels[2:]])
        own = differ * generator.normal()
        right = [
            generator.binomial(passes, expit(generator.normal(centre + own, 2.0, count)))
            for centre, count in zip(centres, labels, strict=True)
        ]
        rows = np.array([np.bincount(counts, minlength=passes + 1) for counts in right])
        parts: dict[str, Any] = {}
        if generator.random() < tells:
            parts["class_correct_counts"] = rows.tolist()
        if grouped:
            least = (3**2 + size - 3) / size  # one group of three, and single examples
            parts |= {"design_effect": [least + (3 - least) * generator.random()] * radii, "largest_group": 3}
        reports.append(
            Report(
                client=f"site-{client:05d}", model="demo",
                smoothing={"sigma": SIGMA, "procedure": "population", "n": passes, "votes": 11},
                radii=np.linspace(0, 2 * SIGMA, radii).round(9).tolist(),
                classes=[f"class-{row}" for row in range(classes)], label_counts=labels.tolist(),
                correct_counts=rows.sum(axis=0).tolist(), **parts,
            )
        )  # fmt: skip
    return reports
