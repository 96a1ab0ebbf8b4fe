"""Whether two clients seem to have certified the same file, by their numbers of examples per class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedcert._arrays import Floats
from fedcert.errors import preview

_SURPRISING = 0.01
"""Expected number of pairs that are equal by chance, above which equality shows nothing."""
_DESIGNED = 0.5
"""Share of the clients that are equal to another one, from which on data was divided like that on purpose."""
_MOST_PAIRS = 3
"""Groups of clients that a sentence names."""

Finding = tuple[float, str]
"""How many clients it is about, and a sentence."""


def equal_histograms(clients: Sequence[str], label_counts: Floats) -> Finding | None:
    """Clients with the same number of examples of every class, where chance hardly explains it; None where none are.

    Two counts with mean m are equal with probability about 1/√(4πm), if they are Poisson. The product over the classes,
    times the number of pairs of clients, is the expected number of pairs that are equal by chance.

    Args:
        clients: their names.
        label_counts: clients x classes.

    Examples:
        >>> counts = np.array([[255, 14, 14, 17], [60, 9, 80, 31], [44, 120, 7, 66], [255, 14, 14, 17], [9, 7, 55, 10]])
        >>> equal_histograms(["a", "b", "c", "d", "e"], counts)[1].split(".")[0]
        "'a' and 'd' have the same number of examples of every class (255, 14, 14, 17)"
        >>> equal_histograms(["a", "b", "c"], np.array([[1, 2], [5, 9], [1, 2]])) is None
        True
    """
    projections = label_counts @ np.random.default_rng(0).random(label_counts.shape[1])
    order = np.argsort(projections, kind="stable")
    same = np.isclose(np.diff(projections[order]), 0.0, rtol=0.0, atol=1e-9 * max(float(projections.max()), 1.0))
    groups: list[list[int]] = []
    for place in np.flatnonzero(same).tolist():
        first, second = int(order[place]), int(order[place + 1])
        if not np.array_equal(label_counts[first], label_counts[second]):
            continue
        if groups and groups[-1][-1] == first:
            groups[-1].append(second)
        else:
            groups.append([first, second])
    pairs = len(clients) * (len(clients) - 1) / 2
    odd = [group for group in groups if pairs * _chance(label_counts[group[0]]) < _SURPRISING]
    count = sum(map(len, odd))
    if not odd or sum(map(len, groups)) >= _DESIGNED * len(clients):
        return None
    named = "; ".join(
        _named([clients[index] for index in sorted(group)], label_counts[group[0]]) for group in odd[:_MOST_PAIRS]
    )
    more = f"; {len(odd) - _MOST_PAIRS} more such groups" if len(odd) > _MOST_PAIRS else ""
    return float(count), f"{named}{more}. If they certified the same file, it counts twice: withdraw all but one."


def _chance(counts: Floats) -> float:
    held = counts[counts > 0]
    return float(np.exp(-0.5 * np.log(4 * np.pi * held).sum()))


def _named(clients: Sequence[str], counts: Floats) -> str:
    listed = ", ".join(map(preview, clients[:-1]))
    shown = ", ".join(f"{count:,.0f}" for count in counts[:10]) + (", …" if len(counts) > 10 else "")
    return f"{listed} and {preview(clients[-1])} have the same number of examples of every class ({shown})"
